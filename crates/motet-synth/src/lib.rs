//! Synthesis: a program for any collective on any network, as close to the physical limit as can
//! be.
//!
//! A [`Task`] says what is asked. A method answers with a [`Program`](motet_collective::Program);
//! whether it is right is the verifier's to say, and how fast the simulator's. What methods share:
//!
//! - [`task`]: what is asked: [`Task`], [`Goal`], and why nothing may come of it: [`SynthError`].
//! - [`auto`]: a program by one method or the best of all; `prove`: verified, simulated, and held
//!   against the bound; [`method`]: every method by name.
//! - [`classic`]: the algorithms everyone knows, and NCCL's own.
//! - [`exact`]: small networks: the best there is in steps and rounds, with proof.
//! - [`exchange`]: AllToAll, AllToAllV, SendRecv, Gather, Scatter.
//! - [`fabric`]: the network as synthesis sees it: links that may be used now, either way round.
//! - [`mod@forest`]: spanning trees packed at the best throughput there is: AllGather,
//!   ReduceScatter, Broadcast, Reduce.
//! - [`greedy`]: links take chunks as they become free; any collective, any network.
//! - [`symmetric`]: one pattern moved to every rank of a torus, ring, hypercube or clique.
//! - [`mod@grid`]: whether ranks stand on a grid, and where.
//! - [`tree`]: spanning trees over ranks, with weights: what most methods find.
//! - [`lower`]: trees into programs, cut into slices that follow each other.
//! - [`sketch`]: which links may be used.
//! - [`packing`]: AllReduce up and down packed trees.
//! - [`repair`]: a good program for a network that has changed, in milliseconds.
//! - [`mod@order`]: in which order links should carry what a program sends (list scheduling).

pub mod auto;
pub mod classic;
pub mod exact;
pub mod exchange;
pub mod fabric;
pub mod forest;
pub mod greedy;
pub mod grid;
pub mod lower;
pub mod method;
pub mod order;
pub mod packing;
mod prove;
pub mod repair;
pub mod schedule;
pub mod sketch;
pub mod symmetric;
pub mod task;
pub mod tree;

pub use auto::{Draft, Effort, Synthesis, Tried, synthesize};
pub use fabric::{Fabric, Path};
pub use lower::{Lowered, Lowering, Trees};
pub use method::Method;
pub use order::order;
pub use repair::Repairer;
pub use sketch::Sketch;
pub use task::{Goal, SynthError, Task};
pub use tree::{Edge, Forest, PairForest, PathTable, Tree, TreePair};
