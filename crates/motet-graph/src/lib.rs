//! Graph algorithms on plain numbers, each written once for the whole workspace.
//!
//! Bounds, synthesis, the verifier and the readers of network files all ask the same few questions
//! of a graph: how much can flow into a node, what is the shortest way, what hangs together, in
//! which order can things happen. This crate answers them for nodes and arcs that are mere
//! numbers; it knows nothing of networks, ranks or programs, does no IO and has no dependency.
//! All arithmetic is on whole numbers, except where the caller asks for shortest paths with float
//! lengths.
//!
//! Where to start:
//! - [`MaxFlow`]: maximum flow with its least cut, reused for one sink after another (Dinic);
//! - [`Dijkstra`]: shortest paths for any kind of [`Length`];
//! - [`FewLengths`]: distances alone, faster, where arcs have few different lengths;
//! - [`DisjointSets`]: what hangs together (union–find);
//! - [`Followers`]: who waits for whom, and an order in which all can happen;
//! - [`LeastFirst`]: a queue of numbered happenings by time, for event loops;
//! - [`Rows`]: a list of lists in two vectors (compressed rows), which the others are made of;
//! - [`gcd`] and [`lcm`].
//!
//! Why not petgraph: its flow gives neither the cut nor supplies at many nodes and starts from
//! nothing at every sink, and its k-shortest-path search gives lengths without paths. The bounds
//! ask for thousands of flows on one graph, each of which touches only a corner of it.
//!
//! Some searches stay where they are used, because they are not these:
//! - `motet-net`'s shortest paths (cost is a sum plus a maximum, so that a node needs several labels) and
//!   its disjoint paths (Bellman–Ford, as links given up again count −1);
//! - the growing of trees in `motet-synth` (Prim's method with conditions of its own: a fee for depth in
//!   `packing`, cuts and what trees to come still need in `forest`);
//! - its search for a rank's partners in `greedy` (equals are ordered by use and differently for each
//!   rank, and ranks are entered several times);
//! - its walk over flow in `exchange` (depth first, which finds the cycles themselves).

// Small methods that inner loops of other crates call, and that are not generic, are marked `#[inline]`: the
// release build has no link-time optimization, without which they would be calls there.

mod arcs;
mod few_lengths;
mod flow;
mod followers;
mod least_first;
mod number;
mod rows;
mod sets;
mod shortest;

pub use arcs::{Arcs, PairedArcs};
pub use few_lengths::FewLengths;
pub use flow::{Capacity, MaxFlow};
pub use followers::Followers;
pub use least_first::LeastFirst;
pub use number::{gcd, lcm};
pub use rows::Rows;
pub use sets::DisjointSets;
pub use shortest::{Dijkstra, Hop, Length, NO_ARC};
