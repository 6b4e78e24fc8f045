//! Motet's executor for C, and for everything that calls C: `libmotet_capi.so` and `include/motet.h`.
//!
//! [`Communicator`] is `motet-exec`'s [`Group`](motet_exec::Group) in the form that other libraries' users know: buffers
//! are the caller's, a call returns at once, and nothing has to be registered. Behind it operations are registered when
//! they are first called, and kept for the next call of the same sort.
//!
//! | where | what |
//! | --- | --- |
//! | [`communicator`] | the front: calls, and going on after a loss |
//! | [`options`] | what a rank says when it joins |
//! | [`call`] | one call: what is asked, and how much memory it takes |
//! | [`completion`] | how a call ends, and who waits for that |
//! | [`programs`] | which program serves a call |
//! | [`starter`], [`cache`] | the thread that starts calls, and the operations that it has registered |
//! | [`standing`] | what other threads know of the group: who is gone, and that it is left |
//! | [`finisher`] | the thread that sees them end |
//! | [`signals`] | why a broken connection does not end a C program |
//! | [`error`] | what can go wrong |
//! | [`exports`] | the functions of `include/motet.h` |
//!
//! **Order.** All ranks make the same calls in the same order; which operation serves a call follows from that order
//! alone, never from what has ended when, so that all ranks choose alike.
//!
//! **Copies.** The engine works in the caller's buffers where it can (`motet-exec`'s [`Operation::start_on`](motet_exec::Operation::start_on)).
//! An operation has memory of its own where ranks of one host read each other's; then data is copied in before a call and
//! out after it, by these two threads. [`call`] chooses the form of a program by which less is copied.
//!
//! The clock is read here, and the cluster file: this is a program's whole in a library. docs/torch.md is for users.

mod cache;
pub mod call;
pub mod communicator;
pub mod completion;
pub mod error;
pub mod exports;
mod finisher;
pub mod options;
mod programs;
mod signals;
mod standing;
mod starter;

pub use call::{Call, Kind};
pub use communicator::Communicator;
pub use completion::Handle;
pub use error::{CommError, Status};
pub use motet_exec::{Input, Output};
pub use options::Options;
