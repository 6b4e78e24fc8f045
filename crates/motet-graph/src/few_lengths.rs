//! [`FewLengths`]: distances where arcs have only a few different lengths.
//!
//! Links of real networks come in a handful of latencies, and then shortest paths need no heap. A
//! search settles nodes in the order of their distance, so what it appends to the queue of one length
//! is appended in order, too: with one first-in-first-out queue per length the nearest node is at the
//! head of one of them. A step costs as many comparisons as there are lengths; with a single length
//! this is breadth-first search. It gives the distances of [`Dijkstra`](crate::Dijkstra), and nothing
//! else: no paths, no order.

use crate::shortest::Length;

/// The search, made for one graph and one list of lengths and used for many starts.
#[derive(Clone, Debug)]
pub struct FewLengths {
    lengths: Vec<u64>,
    distance: Vec<u64>,
    /// One queue per length, and the last for the starts.
    queues: Vec<Queue>,
}

/// Nodes in the order of the distance at which they were seen.
#[derive(Clone, Debug, Default)]
struct Queue {
    seen: Vec<(u64, u32)>,
    next: usize,
}

impl FewLengths {
    /// For a graph with nodes `0..nodes` whose arcs each have one of these lengths.
    #[must_use]
    pub fn new(nodes: usize, lengths: &[u64]) -> Self {
        Self {
            lengths: lengths.to_vec(),
            distance: vec![u64::FAR; nodes],
            queues: vec![Queue::default(); lengths.len() + 1],
        }
    }

    /// The least distance to every node from the nearest of `starts`, each with a distance to begin
    /// with; [`Length::FAR`] where there is no way. `hops` gives the arcs out of a node: where each
    /// leads, and which of the lengths it has. Numbers that are out of range are passed over.
    pub fn search<S, H>(&mut self, starts: S, mut hops: impl FnMut(u32) -> H) -> &[u64]
    where
        S: IntoIterator<Item = (u32, u64)>,
        H: IntoIterator<Item = (u32, u8)>,
    {
        self.distance.fill(u64::FAR);
        for queue in &mut self.queues {
            queue.seen.clear();
            queue.next = 0;
        }
        let starting = self.lengths.len();
        for (node, distance) in starts {
            self.see(starting, node, distance);
        }
        self.queues[starting].seen.sort_unstable();
        while let Some((distance, node)) = self.nearest() {
            if distance != self.distance[node as usize] {
                continue; // a shorter way was found since
            }
            for (to, length) in hops(node) {
                if let Some(more) = self.lengths.get(usize::from(length)) {
                    self.see(usize::from(length), to, distance.plus(*more));
                }
            }
        }
        &self.distance
    }

    #[inline]
    fn see(&mut self, queue: usize, node: u32, distance: u64) {
        if let Some(known) = self.distance.get_mut(node as usize)
            && distance < *known
        {
            *known = distance;
            self.queues[queue].seen.push((distance, node));
        }
    }

    /// Takes the nearest node that waits in any queue.
    #[inline]
    fn nearest(&mut self) -> Option<(u64, u32)> {
        let mut least = (u64::MAX, 0, usize::MAX);
        for (index, queue) in self.queues.iter().enumerate() {
            if let Some((distance, node)) = queue.seen.get(queue.next)
                && *distance < least.0
            {
                least = (*distance, *node, index);
            }
        }
        let (distance, node, queue) = least;
        self.queues.get_mut(queue)?.next += 1;
        Some((distance, node))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shortest::{Dijkstra, Hop};

    const NODES: u32 = 9;

    proptest! {
        #[test]
        fn agrees_with_dijkstra(
            lengths in prop::collection::vec(prop_oneof![0u64..5, Just(u64::MAX - 1)], 1..4),
            arcs in prop::collection::vec((0..NODES, 0..NODES, 0usize..4), 0..40),
            starts in prop::collection::vec((0..NODES, 0u64..9), 1..4),
        ) {
            let of = |class: usize| lengths[class % lengths.len()];
            let mut plain = Dijkstra::new(NODES as usize);
            let mut few = FewLengths::new(NODES as usize, &lengths);
            // Twice: nothing of the first search may be left for the second.
            for starts in [&starts[..1], &starts[..]] {
                plain.search(starts.iter().copied(), |node| {
                    let out = (0u32..).zip(&arcs).filter(move |(_, it)| it.0 == node);
                    out.map(|(arc, it)| Hop { arc, to: it.1, length: of(it.2) }).collect::<Vec<_>>()
                });
                let found = few.search(starts.iter().copied(), |node| {
                    let out = arcs.iter().filter(move |it| it.0 == node);
                    out.map(|it| (it.1, (it.2 % lengths.len()) as u8)).collect::<Vec<_>>()
                });
                prop_assert_eq!(found, plain.distances());
            }
        }
    }
}
