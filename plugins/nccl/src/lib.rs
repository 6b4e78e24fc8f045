//! NCCL's tuner and profiler plugins in one library, `libmotet_nccl.so`: a job decides by a Motet plan, and says how
//! long its collectives took. Thin over `motet-runtime`, which has the lookup, the formats and the rules.
//!
//! Where to start: [`tuner`], which NCCL asks before every collective, and [`plan`], what it decides by; then [`profiler`],
//! which NCCL tells what happened.
//!
//! | where | what |
//! | --- | --- |
//! | [`abi`] | NCCL's types and numbers, as its plugin headers have them |
//! | [`border`] | what every function that NCCL calls does first and last |
//! | [`log`] | NCCL's log |
//! | [`plan`] | reading `MOTET_PLAN`, and which communicators a plan is for |
//! | [`shared`] | mapping `MOTET_CONTROL` |
//! | [`tuner`] | a decision; `tuner/exports.rs` has the symbols, v2 to v6 |
//! | [`profiler`] | events to times; `profiler/exports.rs` has the symbols, v1 to v7 |
//! | [`worker`] | the thread that writes traces and metrics, so that NCCL's threads never do |
//! | [`agent`] | `MOTET_AGENT`: ranks that switch together to better tables |
//! | [`registry`] | which tuner and which profiler are of one communicator |
//!
//! Three rules. **Nothing fails**: NCCL hands a plugin's error to the job, so every function returns success, and
//! what cannot be done is left to NCCL and said in its log. **Every rank decides the same**: a decision depends on
//! the call, the plan and the control file, never on what this rank measured. **No waiting**: on the call path no
//! lock, no allocation, no IO; but where ranks switch tables at this very call and the verdict is late, it waits for it. docs/nccl-plugin.md is for users.

// NCCL is for 64-bit Linux; elsewhere the library is empty.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod abi;
mod agent;
mod border;
mod log;
mod plan;
mod profiler;
mod registry;
mod shared;
mod tuner;
mod worker;
