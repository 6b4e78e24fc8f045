//! Runs verified programs of collectives between processes, over TCP and shared memory.
//!
//! A [`Group`] is a number of ranks, each a process (or a thread) of its own, that find each other at a
//! store. They [`register`](Group::register) a [`Verified`](motet_collective::Verified) program for a size
//! and an element type, which gives an [`Operation`] with its memory, and call that as often as they like.
//! Any program that the verifier has proved right will do: what `motet synth` makes, MSCCL's or MSCCL++'s.
//!
//! Where to start reading:
//! 1. [`group`] is the front: joining, registering, going on after a loss; [`remote`] is what other threads see of it;
//! 2. [`plan`] is a program as one rank sees it, [`layout`] where its chunks lie and why a program is run in slices, and
//!    [`merged`] which of its copies need not be made;
//! 3. [`flow`] decides what happens next, without sockets or a clock; [`run`] is one call;
//! 4. [`engine`] is the thread that moves data, [`stream`] one connection, [`socket`] what is below it, plain or TLS,
//!    [`pace`] how fast it delivers, [`memory`] what ranks of one host share, [`lending`] when a call works in the
//!    caller's own [`buffers`] instead, which [`uses`] decides;
//! 5. [`store`] (with what it decides in [`meeting`]), [`seat`], [`mesh`], [`reach`], [`handshake`] and [`link`] are how ranks
//!    meet, [`strangers`] what becomes of others who connect, [`tls`] the certificates that they may show; [`wire`] is what goes over the wire;
//! 6. [`element`] and [`reduce`] are types and arithmetic, [`check`] is data to check results by.
//!
//! Nothing here reads a clock of its own: whoever joins a group passes one. There is no async runtime: one
//! thread for each group and rank waits for its sockets. `docs/exec.md` is the user's page.

mod buffers;
pub mod check;
mod descriptors;
pub mod element;
mod engine;
pub mod error;
mod flow;
pub mod group;
mod handshake;
mod inbox;
mod layout;
mod lending;
mod link;
mod meeting;
mod memory;
mod merged;
mod mesh;
pub mod operation;
mod pace;
mod plan;
mod reach;
mod reduce;
mod remote;
#[cfg(unix)]
mod replay;
mod reserve;
mod run;
mod seat;
mod socket;
pub mod store;
mod strangers;
mod stream;
pub mod tls;
mod trial;
mod uses;
pub mod wire;

pub use buffers::{Input, Output};
pub use element::{Element, Reduction};
pub use error::ExecError;
pub use group::{Call, Config, Group};
pub use memory::Memory;
pub use operation::Operation;
pub use reduce::{Misaligned, accumulate, average};
pub use remote::Remote;
#[cfg(unix)]
#[doc(hidden)]
pub use replay::replay;
pub use store::{Note, SharedClock, Store};
pub use tls::{Tls, TlsFiles};
