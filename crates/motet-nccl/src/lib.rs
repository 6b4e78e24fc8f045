//! What NCCL would do on a network, and how long that, or any other program, takes when the kernels of
//! NCCL, MSCCL or MSCCL++ run it. No GPU is needed: everything is computed from the network.
//!
//! Plans and `motet bench` compare programs with NCCL by means of this crate. Start with these three:
//!
//! - [`NcclModel`] answers *what NCCL would choose*. It looks at a network as NCCL looks at a machine,
//!   searches rings and trees as NCCL does, fills NCCL's tables of latency and bandwidth and takes
//!   NCCL's decisions. The times in these tables are NCCL's *belief*.
//! - [`kernel`] answers *how long a program takes* that is laid out on thread blocks. It is NCCL's cost
//!   model, generalized from rings and trees to any program.
//! - [`Priced`] runs NCCL's own choices through [`kernel`], so that both sides of a comparison stand
//!   on one model. [`p2p`] does the same for AllToAll, for which NCCL has no model.
//!
//! docs/nccl-model.md says of every term where it comes from and how sure we are.
//!
//! In the order NCCL works in:
//! - [`kinds`], [`constants`], [`options`]: its words, numbers and environment;
//! - `partition`, `topology`, `drawing`, `supplement`, `paths`: a network in its eyes;
//! - `search`, `compute`, [`graph`]: channels inside a server; or a dump of its own;
//! - `double_tree`, [`connect`]: rings and trees over all servers;
//! - [`offer`], [`tuning`], [`model`], [`choice`], `table`: what it offers, costs and decisions; [`shape`]: what
//!   it offers where only the size of a communicator is known;
//! - [`own`], [`nvls`]: what it runs, as programs; `fluid`: the rest, counted;
//! - [`kernel`], [`knobs`], [`priced`]: what programs cost, and NCCL's choices among them;
//! - [`fitted`]: what NCCL's calls take on a machine that was measured;
//! - [`mscclpp`]: what plans of MSCCL++ cost, by terms fitted to measurements; `descent`: how both are fitted;
//! - [`loopback`]: the machine to check all this on.

pub mod choice;
mod compute;
pub mod connect;
pub mod constants;
mod descent;
mod double_tree;
mod drawing;
pub mod fitted;
mod fluid;
pub mod graph;
pub mod kernel;
pub mod kinds;
pub mod knobs;
pub mod loopback;
pub mod model;
pub mod mscclpp;
pub mod nvls;
pub mod offer;
pub mod options;
pub mod own;
pub mod p2p;
mod partition;
mod paths;
pub mod priced;
mod search;
pub mod shape;
mod supplement;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod topology;
pub mod tuning;

pub use choice::Choice;
pub use connect::{Channels, Tree};
pub use constants::{Hardware, NcclVersion};
pub use fitted::NcclTerms;
pub use graph::{Graph, Graphs};
pub use kinds::{Algorithm, Cpu, PathKind, Pattern, Protocol, TunedCollective};
pub use knobs::{KnobError, Knobs};
pub use loopback::Loopback;
pub use model::{CostTable, NcclError, NcclModel};
pub use offer::{NotOffered, Offer};
pub use options::NcclOptions;
pub use p2p::{AllToAll, SendRecvChoice};
pub use priced::{Basis, Priced, Timed};
pub use shape::Shape;
pub use tuning::Communicator;
