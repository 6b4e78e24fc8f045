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
//! - [`shim`]: one per rank. Sees every collective call, learns the order in which they come back in every iteration,
//!   and says ahead of time which group will be next.
//! - [`manager`]: one per scale-up domain (a server, a rack of NVLinked GPUs). Chooses the network for each call and speaks
//!   for all its ranks, so that all rails switch together. It is a *member* of communication groups.
//! - [`controller`]: one per cluster. Sets the circuits of a group when all its members have asked for it and nobody
//!   sends over the circuits that must go.
//!
//! Apart from these, [`hand`] is the one interface of all four of Motet's hands, of which circuits are one.
//! [`wire`] is how shims in other processes reach their manager.
//!
//! Start with [`protocol`], which says what they tell one another and why messages may be lost, late or doubled.

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
