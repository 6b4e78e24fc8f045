//! Least distances from a set of nodes, for any lengths of the arcs.
//!
//! Latency ([`latency`](super::latency)) and the length functions that bound all-to-all traffic
//! ([`lengths`](super::lengths)) are the same question with other lengths. Most of a bound's time is
//! spent here: real networks have a handful of latencies, for which [`FewLengths`] is several times as
//! fast as a heap.

use motet_graph::{Dijkstra, FewLengths, Hop, Length};

use super::graph::BoundGraph;

/// Distance of a node that is not reached.
pub(super) const FAR: u64 = u64::FAR;

/// Length of an arc that stands for no link: impassable.
pub(super) const NO_LINK: u64 = u64::MAX;

/// Most different lengths for which each has a queue of its own; from about here on a heap is faster.
const MOST_QUEUES: usize = 12;

/// The kind of an arc that stands for no link.
const NO_KIND: u8 = u8::MAX;

/// One length per arc, and which of them are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ArcLengths {
    pub(super) of_arc: Vec<u64>,
    /// The different lengths, and for each arc which of them it has; empty if there are too many.
    different: Vec<u64>,
    kind: Vec<u8>,
}

impl ArcLengths {
    pub(super) fn new(of_arc: Vec<u64>) -> Self {
        let mut different = Vec::new();
        let mut kind = Vec::with_capacity(of_arc.len());
        for length in &of_arc {
            if *length == NO_LINK {
                kind.push(NO_KIND);
                continue;
            }
            let at = different.iter().position(|it| it == length).unwrap_or(different.len());
            if at == MOST_QUEUES {
                return Self { of_arc, different: Vec::new(), kind: Vec::new() };
            }
            if at == different.len() {
                different.push(*length);
            }
            kind.push(at as u8);
        }
        Self { of_arc, different, kind }
    }

    /// The same lengths for arcs in another order: the first gets that of arc `order[0]`.
    pub(super) fn permuted(&self, order: &[u32]) -> Self {
        let from = |it: &u32| self.of_arc[*it as usize];
        let kind = |it: &u32| self.kind[*it as usize];
        Self {
            of_arc: order.iter().map(from).collect(),
            different: self.different.clone(),
            kind: if self.kind.is_empty() { Vec::new() } else { order.iter().map(kind).collect() },
        }
    }
}

/// A search on one graph with one set of lengths, reused for many starts.
#[derive(Clone, Debug)]
pub(super) struct Search<'g> {
    graph: &'g BoundGraph,
    lengths: &'g ArcLengths,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Queues(FewLengths),
    Heap(Dijkstra<u64>),
}

impl<'g> Search<'g> {
    pub(super) fn new(graph: &'g BoundGraph, lengths: &'g ArcLengths) -> Self {
        let method = if lengths.kind.is_empty() {
            Method::Heap(Dijkstra::new(graph.nodes()))
        } else {
            Method::Queues(FewLengths::new(graph.nodes(), &lengths.different))
        };
        Self { graph, lengths, method }
    }

    /// The least distance to every node from the nearest of `starts`, each with a distance to begin
    /// with.
    pub(super) fn from(&mut self, starts: impl IntoIterator<Item = (usize, u64)>) -> &[u64] {
        let starts = starts.into_iter().map(|(node, distance)| (node as u32, distance));
        let (graph, lengths) = (self.graph, self.lengths);
        match &mut self.method {
            Method::Queues(search) => search.search(starts, |node| {
                let arcs = graph.arcs_of(node as usize);
                let heads = graph.heads(arcs.clone()).iter().copied();
                heads.zip(lengths.kind[arcs].iter().copied())
            }),
            Method::Heap(search) => {
                search.search(starts, |node| {
                    let arcs = graph.arcs_of(node as usize);
                    let passable = arcs.filter(|it| lengths.of_arc[*it] != NO_LINK);
                    passable.map(|arc| Hop {
                        arc: arc as u32,
                        to: graph.head(arc) as u32,
                        length: lengths.of_arc[arc],
                    })
                });
                search.distances()
            }
        }
    }
}

/// The least distances of one search.
pub(super) fn distances(
    graph: &BoundGraph,
    lengths: &ArcLengths,
    starts: impl IntoIterator<Item = (usize, u64)>,
) -> Vec<u64> {
    Search::new(graph, lengths).from(starts).to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bound::tests::brute_force::small_network;

    proptest! {
        /// However the distances are found, they are the same: from every rank, on networks whose lengths
        /// are few, and on the transposed graph.
        #[test]
        fn queues_and_heap_agree(network in small_network(), lengths in 1u64..9) {
            let graph = BoundGraph::new(&network, network.ranks());
            let of = |arc: usize| {
                if graph.capacity(arc) > 0 { (arc as u64 * 7) % lengths * 100 } else { NO_LINK }
            };
            let few = ArcLengths::new((0..graph.arcs()).map(of).collect());
            let many = ArcLengths { of_arc: few.of_arc.clone(), ..ArcLengths::default() };
            prop_assert!(!few.kind.is_empty() && many.kind.is_empty());
            for rank in &graph.ranks {
                let start = [(*rank as usize, 0)];
                prop_assert_eq!(distances(&graph, &few, start), distances(&graph, &many, start));
            }
            let turned = graph.transposed();
            for arc in 0..graph.arcs() {
                prop_assert_eq!(turned.latency(arc), graph.latency(graph.opposite(arc)));
            }
            let plain = ArcLengths {
                of_arc: turned.latencies().of_arc.clone(),
                ..ArcLengths::default()
            };
            let start = [(graph.ranks[0] as usize, 5)];
            prop_assert_eq!(
                distances(&turned, turned.latencies(), start),
                distances(&turned, &plain, start)
            );
        }
    }
}
