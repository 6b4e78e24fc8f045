//! [`Dijkstra`]: shortest paths from one or several nodes, for any kind of length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The arc by which a node was reached, where there is none: of a start, or a node out of reach.
pub const NO_ARC: u32 = u32::MAX;

/// What a path can be long in. Lengths are never below [`ZERO`](Self::ZERO).
pub trait Length: Copy + PartialOrd {
    /// What the queue is sorted by; ordered as lengths are.
    type Key: Copy + Ord;

    /// The length of no way at all.
    const ZERO: Self;

    /// Longer than every way: the distance of a node out of reach.
    const FAR: Self;

    fn key(self) -> Self::Key;

    /// The length of two ways together, always less than [`FAR`](Self::FAR): a node reached stays
    /// reached, however long the way.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

impl Length for u64 {
    type Key = Self;

    const ZERO: Self = 0;
    const FAR: Self = Self::MAX;

    fn key(self) -> Self {
        self
    }

    fn plus(self, other: Self) -> Self {
        self.saturating_add(other).min(Self::FAR - 1)
    }
}

impl Length for f64 {
    /// Floats that are not negative sort like their bits.
    type Key = u64;

    const ZERO: Self = 0.0;
    const FAR: Self = Self::INFINITY;

    fn key(self) -> u64 {
        self.to_bits()
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// Lengths of which the first counts, and the second only where the first is equal.
impl Length for (u64, u64) {
    type Key = Self;

    const ZERO: Self = (0, 0);
    const FAR: Self = (u64::MAX, u64::MAX);

    fn key(self) -> Self {
        self
    }

    fn plus(self, other: Self) -> Self {
        (self.0.plus(other.0), self.1.plus(other.1))
    }
}

/// One arc out of a node, as a search sees it.
#[derive(Clone, Copy, Debug)]
pub struct Hop<L> {
    /// The arc's number, which the search only hands back ([`Dijkstra::last_arcs`]).
    pub arc: u32,
    /// The node it leads to.
    pub to: u32,
    pub length: L,
}

/// Dijkstra's algorithm. One is made for a graph and used for many searches: between searches only
/// what the last one reached is cleared.
///
/// Of several shortest ways to a node the first one found stays, and nodes that are equally far are
/// visited by number, so that the result depends on nothing but the graph.
#[derive(Clone, Debug)]
pub struct Dijkstra<L: Length> {
    distance: Vec<L>,
    last: Vec<u32>,
    order: Vec<u32>,
    queue: BinaryHeap<Reverse<(L::Key, u32)>>,
}

impl<L: Length> Default for Dijkstra<L> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<L: Length> Dijkstra<L> {
    /// For a graph with nodes `0..nodes`.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self {
            distance: vec![L::FAR; nodes],
            last: vec![NO_ARC; nodes],
            order: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// How many nodes the graph has.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.distance.len()
    }

    /// Finds the shortest ways to all nodes from the nearest of `starts`, each with a distance to
    /// begin with. `hops` gives the arcs out of a node by which ways may go on.
    pub fn search<S, H>(&mut self, starts: S, hops: impl FnMut(u32) -> H)
    where
        S: IntoIterator<Item = (u32, L)>,
        H: IntoIterator<Item = Hop<L>>,
    {
        self.run(starts, None, hops);
    }

    /// The same, but stops as soon as the way to `goal` is known; whether there is one. Distances of
    /// nodes farther than the goal mean nothing.
    pub fn search_to<S, H>(&mut self, goal: u32, starts: S, hops: impl FnMut(u32) -> H) -> bool
    where
        S: IntoIterator<Item = (u32, L)>,
        H: IntoIterator<Item = Hop<L>>,
    {
        self.run(starts, Some(goal), hops);
        self.is_reached(goal)
    }

    fn run<S, H>(&mut self, starts: S, goal: Option<u32>, mut hops: impl FnMut(u32) -> H)
    where
        S: IntoIterator<Item = (u32, L)>,
        H: IntoIterator<Item = Hop<L>>,
    {
        self.clear();
        for (node, distance) in starts {
            if distance < self.distance[node as usize] {
                self.distance[node as usize] = distance;
                self.queue.push(Reverse((distance.key(), node)));
            }
        }
        while let Some(Reverse((key, node))) = self.queue.pop() {
            let distance = self.distance[node as usize];
            if key != distance.key() {
                continue;
            }
            self.order.push(node);
            if goal == Some(node) {
                return;
            }
            for hop in hops(node) {
                let through = distance.plus(hop.length);
                let to = hop.to as usize;
                if through < self.distance[to] {
                    self.distance[to] = through;
                    self.last[to] = hop.arc;
                    self.queue.push(Reverse((through.key(), hop.to)));
                }
            }
        }
    }

    /// What was reached was visited, or waits in the queue where the search stopped early.
    fn clear(&mut self) {
        let waiting = self.queue.drain().map(|Reverse((_, node))| node);
        for node in self.order.drain(..).chain(waiting) {
            self.distance[node as usize] = L::FAR;
            self.last[node as usize] = NO_ARC;
        }
    }

    /// The distance of every node; [`Length::FAR`] where there is no way.
    #[must_use]
    pub fn distances(&self) -> &[L] {
        &self.distance
    }

    /// The distances alone, where the search is used only once.
    #[must_use]
    pub fn into_distances(self) -> Vec<L> {
        self.distance
    }

    #[must_use]
    pub fn distance(&self, node: u32) -> L {
        self.distance[node as usize]
    }

    #[must_use]
    pub fn is_reached(&self, node: u32) -> bool {
        self.distance[node as usize] < L::FAR
    }

    /// The last arc of the shortest way to every node; [`NO_ARC`] at starts and out of reach.
    #[must_use]
    pub fn last_arcs(&self) -> &[u32] {
        &self.last
    }

    /// The last arc of the shortest way to a node; `None` if it is a start or out of reach.
    #[must_use]
    pub fn last_arc(&self, node: u32) -> Option<u32> {
        Some(self.last[node as usize]).filter(|it| *it != NO_ARC)
    }

    /// The nodes reached, nearest first: each after the node before it on its shortest way.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: u32 = 8;

    fn hops(arcs: &[(u32, u32, u64)], node: u32) -> Vec<Hop<u64>> {
        let out = (0u32..).zip(arcs).filter(|(_, it)| it.0 == node);
        out.map(|(arc, it)| Hop { arc, to: it.1, length: it.2 }).collect()
    }

    fn bellman_ford(arcs: &[(u32, u32, u64)], starts: &[(u32, u64)]) -> Vec<u64> {
        let mut least = vec![u64::MAX; NODES as usize];
        for (node, distance) in starts {
            least[*node as usize] = least[*node as usize].min(*distance);
        }
        for _ in 0..NODES {
            for (from, to, length) in arcs {
                let through = least[*from as usize].saturating_add(*length);
                least[*to as usize] = least[*to as usize].min(through);
            }
        }
        least
    }

    proptest! {
        #[test]
        fn agrees_with_bellman_ford(
            arcs in prop::collection::vec((0..NODES, 0..NODES, 0u64..9), 0..30),
            starts in prop::collection::vec((0..NODES, 0u64..5), 1..3),
            goal in 0..NODES,
        ) {
            let expected = bellman_ford(&arcs, &starts);
            let mut search = Dijkstra::new(NODES as usize);
            // A search that stops early must leave nothing behind for the next.
            let found = search.search_to(goal, starts.iter().copied(), |it| hops(&arcs, it));
            prop_assert_eq!(found, expected[goal as usize] < u64::MAX);
            if found {
                prop_assert_eq!(search.distance(goal), expected[goal as usize]);
            }
            search.search(starts.iter().copied(), |it| hops(&arcs, it));
            prop_assert_eq!(search.distances(), expected.as_slice());
            for (at, node) in search.order().iter().enumerate() {
                if let Some(arc) = search.last_arc(*node) {
                    let (from, to, length) = arcs[arc as usize];
                    prop_assert_eq!(to, *node);
                    prop_assert_eq!(search.distance(from) + length, search.distance(to));
                    prop_assert!(search.order()[..at].contains(&from));
                }
            }
            let reached = expected.iter().filter(|it| **it < u64::MAX).count();
            prop_assert_eq!(search.order().len(), reached);
        }

        #[test]
        fn floats_and_pairs_give_the_same_ways(
            arcs in prop::collection::vec((0..NODES, 0..NODES, 0u64..9), 0..30),
        ) {
            let mut whole = Dijkstra::new(NODES as usize);
            whole.search([(0, 0)], |it| hops(&arcs, it));
            let mut float = Dijkstra::new(NODES as usize);
            let as_float = |it: Hop<u64>| Hop { arc: it.arc, to: it.to, length: it.length as f64 };
            float.search([(0, 0.0)], |it| hops(&arcs, it).into_iter().map(as_float));
            let mut pair = Dijkstra::new(NODES as usize);
            let as_pair = |it: Hop<u64>| Hop { arc: it.arc, to: it.to, length: (it.length, 0) };
            pair.search([(0, (0, 0))], |it| hops(&arcs, it).into_iter().map(as_pair));
            prop_assert_eq!(float.last_arcs(), whole.last_arcs());
            prop_assert_eq!(pair.last_arcs(), whole.last_arcs());
            prop_assert_eq!(float.order(), whole.order());
        }
    }

    #[test]
    fn a_node_behind_an_endless_arc_is_reached() {
        let arcs = [(0, 1, u64::MAX), (1, 2, u64::MAX)];
        let mut search = Dijkstra::new(3);
        search.search([(0, 5)], |it| hops(&arcs, it));
        assert!(search.is_reached(2));
    }
}
