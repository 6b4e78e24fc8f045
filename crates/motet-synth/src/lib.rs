//! Synthesis makes programs: given a collective, a size and a network, it decides which chunk of data
//! goes where, when, and over which links, as close to the physical limit as it can.
//!
//! Start reading at [`Task`] (what is asked), then [`synthesize`] (who answers: one [`Method`], or the
//! best of all), then [`mod@forest`], the method that most programs come from. What a method returns is
//! only a [`Draft`]: the verifier decides whether it is right and the simulator how long it takes
//! ([`Draft::prove`]), so a bug in a method can cost time but cannot give out a wrong program.
//!
//! Most methods work in two halves. The first finds *trees*: which rank hands data to which, and what
//! share of the data each tree carries. The second, [`lower`], cuts that share into slices that follow
//! each other like a pipeline, and lets [`schedule`] decide in which order links carry them.
//!
//! What is asked, and who answers:
//! - [`task`]: [`Task`], [`Goal`], and why there may be no program: [`SynthError`].
//! - [`auto`]: one method, or the best of those worth trying; [`method`]: all of them by name.
//! - [`mod@for_sockets`]: the one to run between processes, which between datacenters may be one of `gateways`.
//! - [`effort`], [`watch`]: how hard to try, and how methods notice that they should stop.
//! - `prove`: a draft is verified, simulated and compared with the bound.
//!
//! Methods:
//! - [`mod@forest`]: spanning trees packed at the highest throughput the network allows: AllGather,
//!   ReduceScatter, Broadcast, Reduce; AllReduce as one after the other.
//! - [`packing`]: AllReduce up and down packed pairs of trees.
//! - [`greedy`]: whenever a link is free it takes a chunk that somebody still needs; any collective.
//! - [`symmetric`]: one rank's pattern, repeated for every rank of a torus, ring, hypercube or clique.
//! - [`exchange`]: data from one rank to one other: AllToAll, AllToAllV, SendRecv, Gather, Scatter.
//! - `in_switch`: copies and sums in switches that do so for programs (NVLS, SHARP).
//! - [`classic`]: the textbook algorithms, and what NCCL itself would build.
//! - [`one_sided`]: straight to everyone, laid out for runtimes that write into other GPUs' memory.
//! - [`repair`]: the trees of a known program, adapted within milliseconds to a network that changed.
//!
//! What methods share:
//! - [`fabric`]: the links and ranks that a program may use, in the network's direction or reversed.
//! - [`tree`]: spanning trees over ranks, with weights.
//! - [`lower`], [`schedule`], [`mod@order`]: from trees (or any transfers) to a program in a good order.
//! - [`mod@grid`]: whether the ranks form a mesh or torus, and where each stands.
//! - [`mod@one_sum`]: whether all ranks end with the same bits.
//! - [`limits`]: what no program may exceed.

pub mod auto;
pub mod classic;
pub mod effort;
pub mod exchange;
pub mod fabric;
pub mod for_sockets;
pub mod forest;
mod gateways;
pub mod greedy;
pub mod grid;
mod in_switch;
pub mod limits;
pub mod lower;
pub mod method;
pub mod one_sided;
pub mod one_sum;
pub mod order;
pub mod packing;
mod prove;
mod recipe;
pub mod repair;
pub mod schedule;
pub mod symmetric;
pub mod task;
pub mod tree;
pub mod watch;

pub use auto::{Draft, Synthesis, Tried, synthesize};
pub use effort::{Effort, Progress};
pub use fabric::{Fabric, Path};
pub use for_sockets::{for_sockets, unknown_network};
pub use lower::{Lowered, Lowering, Trees};
pub use method::Method;
pub use order::order;
pub use repair::Repairer;
pub use task::{Goal, SynthError, Task};
pub use tree::{Edge, Forest, PairForest, PathTable, Tree, TreePair};
pub use watch::Watch;
