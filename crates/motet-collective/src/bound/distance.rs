//! Least distances from a set of nodes, for any lengths of the arcs.
//!
//! Latency ([`latency`](super::latency)) and the length functions that bound all-to-all traffic
//! ([`lengths`](super::lengths)) are the same question with other lengths.

use motet_graph::{Dijkstra, Hop, Length};

use super::graph::{BoundGraph, NO_LINK};

/// Distance of a node that is not reached.
pub(super) const FAR: u64 = u64::FAR;

/// The least distance to every node from the nearest of `starts`, each with a distance to begin
/// with. `lengths` has one length per arc; [`NO_LINK`] is impassable.
pub(super) fn distances(
    graph: &BoundGraph,
    lengths: &[u64],
    starts: impl IntoIterator<Item = (usize, u64)>,
) -> Vec<u64> {
    let mut search = Dijkstra::new(graph.nodes());
    let starts = starts.into_iter().map(|(node, distance)| (node as u32, distance));
    search.search(starts, |node| {
        let passable = graph.arcs_of(node as usize).filter(|it| lengths[*it] != NO_LINK);
        passable.map(|arc| Hop {
            arc: arc as u32,
            to: graph.head(arc) as u32,
            length: lengths[arc],
        })
    });
    search.into_distances()
}
