//! NCCL as it is: what it would choose on a network, and how long it thinks that takes.
//!
//! The baseline of every comparison. [`NcclModel`] is the way in: it looks at a network as NCCL
//! looks at a machine, searches rings and trees as NCCL does, fills NCCL's tables and takes
//! NCCL's decisions. None of it says how fast NCCL *is*: [`knobs`] has what is known of that, and
//! docs/nccl-model.md says of every term where it comes from and how sure we are.
//!
//! In the order NCCL works in:
//! - [`kinds`], [`constants`], [`options`]: its words, numbers and environment;
//! - `partition`, `topology`, `drawing`, `supplement`, `paths`: a network in its eyes;
//! - `search`, `compute`, [`graph`]: channels inside a server; or a dump of its own;
//! - `double_tree`, [`connect`]: rings and trees over all servers;
//! - [`tuning`], [`model`], [`choice`], `table`: costs and decisions;
//! - [`knobs`]: what its run-time knobs do to a program that is not its own;
//! - [`loopback`]: the machine to check all this on.

pub mod choice;
mod compute;
pub mod connect;
pub mod constants;
mod double_tree;
mod drawing;
mod fluid;
pub mod graph;
pub mod kernel;
pub mod kinds;
pub mod knobbed;
pub mod knobs;
pub mod loopback;
pub mod model;
pub mod nvls;
pub mod options;
pub mod own;
mod partition;
mod paths;
pub mod priced;
#[cfg(test)]
#[path = "../../motet-collective/tests/support/programs.rs"]
mod programs;
mod search;
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
pub use graph::{Graph, Graphs};
pub use kinds::{Algorithm, Cpu, PathKind, Pattern, Protocol, Tuned};
pub use knobbed::{KnobError, KnobOutcome, Knobbed};
pub use knobs::{KnobModel, Knobs, Terms, TermsError};
pub use loopback::Loopback;
pub use model::{CostTable, NcclError, NcclModel};
pub use options::NcclOptions;
pub use priced::{Basis, Priced, Timed};
pub use tuning::Communicator;
