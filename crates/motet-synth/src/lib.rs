//! Synthesis: a program for any collective on any network, as close to the physical limit as can
//! be.
//!
//! A [`Task`] says what is asked. A method answers with a [`Program`](motet_collective::Program);
//! whether it is right is the verifier's to say, and how fast the simulator's. What methods share:
//!
//! - [`task`]: what is asked: [`Task`], [`Goal`], and why nothing may come of it: [`SynthError`].
//! - [`fabric`]: the network as synthesis sees it: links that may be used now, either way round.
//! - [`tree`]: spanning trees over ranks, with weights: what most methods find.
//! - [`lower`]: trees into programs, cut into slices that follow each other.
//! - [`sketch`]: which links may be used.
//! - [`order`]: in which order links should carry what a program sends (list scheduling).

pub mod fabric;
pub mod lower;
pub mod order;
pub mod schedule;
pub mod sketch;
pub mod task;
pub mod tree;

pub use fabric::{Fabric, Path};
pub use lower::{Lowered, Lowering, Trees};
pub use order::order;
pub use sketch::Sketch;
pub use task::{Goal, SynthError, Task};
pub use tree::{Edge, Forest, PairForest, PathTable, Tree, TreePair};
