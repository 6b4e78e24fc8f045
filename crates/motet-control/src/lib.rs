//! Who may send over which optical circuits, and when: the control plane of Opus (*Photonic Rails in ML Datacenters*,
//! §4) as state machines that do no IO and read no clock. A service runs them on real messages, simulations and tests
//! run the very same ones on made-up messages.
//!
//! ```text
//!  collective calls      calls, phases        asks, reports           orders
//!  of one rank  ──► Shim ──────────► Manager ────────────► Controller ──────► optical switches
//!               ◄──      ◄──────────         ◄────────────            ◄──────
//!                 go         go                grants, recalls          answers
//! ```
//!
//! - [`shim`]: one per rank. Sees every collective call, learns their order from earlier iterations, and announces ahead of time
//!   which group will be used next.
//! - [`manager`]: one per scale-up domain (a server, or a rack of GPUs joined by NVLink). Chooses the network for each call and
//!   asks for circuits on behalf of all its ranks, so that all rails switch together. To the controller it is a *member* of
//!   communication groups.
//! - [`controller`]: one per cluster. Sets the circuits of a group when all its members have asked for them and no one sends
//!   over the circuits that must be taken down for it.
//!
//! Apart from these, [`hand`] is the common interface of everything that may change how a job's collectives
//! run, not only of circuits. [`wire`] is the protocol by which shims in other processes talk to their
//! manager.
//!
//! Start with [`protocol`], which defines the messages between members and controller, and says why they may be lost, late or
//! doubled.

pub mod circuit;
pub mod controller;
pub mod hand;
pub mod journal;
pub mod manager;
pub mod protocol;
pub mod seat;
pub mod shim;
pub mod wire;

pub use circuit::{Circuit, Port, SwitchId};
pub use controller::{Controller, Input, Output, Timer};
pub use manager::Manager;
pub use protocol::{GroupId, JobId, Member};
pub use shim::Shim;
