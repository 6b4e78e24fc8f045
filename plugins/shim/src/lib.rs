//! `libmotet_shim.so`, a library to preload: a job calls NCCL's functions here first, its collectives wait for their optical circuits, and
//! are passed on to the real NCCL.
//!
//! Where to start: [`exports`], where a job's calls arrive, and [`calls`], what becomes of each; then [`worker`], which talks to the
//! manager meanwhile.
//!
//! | where | what |
//! | --- | --- |
//! | [`exports`] | NCCL's functions |
//! | [`abi`] | NCCL's types |
//! | [`real`] | the NCCL behind us |
//! | [`calls`] | what is put on a call's stream before and after it |
//! | [`flags`] | the words by which stream and host tell each other |
//! | [`cuda`] | the driver's functions that set and read them |
//! | [`state`] | this process' job, rank and communicators |
//! | [`job`] | the job file |
//! | [`shared`], [`worker`] | the thread beside the job: `motet_control::Shim` with eyes and hands |
//! | [`link`] | the manager |
//! | [`recorder`] | the trace |
//! | [`log`] | stderr |
//!
//! Two rules. **A job is never broken**: NCCL's own status is returned, whatever happens here; without manager, controller, CUDA or job file
//! calls just pass. **The job's threads never wait**: it is the stream that waits for circuits, as it waits for the network. docs/controller.md is
//! for users.

// NCCL is for 64-bit Linux; elsewhere the library is empty.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod abi;
mod calls;
mod cuda;
mod exports;
mod flags;
mod job;
mod link;
mod log;
mod real;
mod recorder;
mod shared;
mod state;
mod worker;
