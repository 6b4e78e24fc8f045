//! Least distances from a set of nodes, for any lengths of the arcs: Dijkstra's algorithm.
//!
//! Latency ([`latency`](super::latency)) and the length functions that bound all-to-all traffic
//! ([`lengths`](super::lengths)) are the same question with other lengths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{Graph, NO_LINK};

/// Distance of a node that is not reached.
pub(super) const FAR: u64 = u64::MAX;

/// The least distance to every node from the nearest of `starts`, each with a distance to begin
/// with. `lengths` has one length per arc; [`NO_LINK`] is impassable.
pub(super) fn distances(
    graph: &Graph,
    lengths: &[u64],
    starts: impl IntoIterator<Item = (usize, u64)>,
) -> Vec<u64> {
    let mut least = vec![FAR; graph.nodes()];
    let mut queue = BinaryHeap::new();
    for (node, distance) in starts {
        if distance < least[node] {
            least[node] = distance;
            queue.push(Reverse((distance, node as u32)));
        }
    }
    while let Some(Reverse((distance, node))) = queue.pop() {
        let node = node as usize;
        if distance > least[node] {
            continue;
        }
        for arc in graph.arcs_of(node) {
            if lengths[arc] == NO_LINK {
                continue;
            }
            // Saturating below FAR: a reached node stays reached however long the way.
            let through = distance.saturating_add(lengths[arc]).min(FAR - 1);
            let to = graph.head(arc);
            if through < least[to] {
                least[to] = through;
                queue.push(Reverse((through, to as u32)));
            }
        }
    }
    least
}
