//! Which ranks have direct links in both directions, in compressed rows (one row of neighbours per
//! rank).

use crate::fabric::Fabric;

#[derive(Debug)]
pub(super) struct Neighbours {
    start: Vec<u32>,
    ranks: Vec<u32>,
    /// Bandwidth (bits per second, parallel links together) and latency to each neighbour.
    costs: Vec<(u64, u64)>,
}

impl Neighbours {
    /// `None` if some rank has no neighbour, or a link in one direction only.
    pub(super) fn new(fabric: &Fabric) -> Option<Self> {
        let mut start = vec![0u32];
        let mut ranks: Vec<u32> = Vec::new();
        let mut costs: Vec<(u64, u64)> = Vec::new();
        let mut row: Vec<(u32, u64, u64)> = Vec::new();
        for rank in fabric.ranks() {
            row.clear();
            for link in fabric.outgoing(fabric.node(rank)) {
                if let Some(to) = fabric.rank(fabric.to(*link)).filter(|it| *it != rank) {
                    let latency = fabric.latency(*link).as_ps();
                    row.push((to.0, fabric.bits_per_s(*link), latency));
                }
            }
            row.sort_unstable();
            for (to, bits, latency) in &row {
                let first = ranks.len() == start[rank.index()] as usize;
                match (first, ranks.last(), costs.last_mut()) {
                    (false, Some(last), Some(cost)) if last == to => {
                        *cost = (cost.0.saturating_add(*bits), cost.1.max(*latency));
                    }
                    _ => {
                        ranks.push(*to);
                        costs.push((*bits, *latency));
                    }
                }
            }
            start.push(u32::try_from(ranks.len()).ok()?);
        }
        let it = Self { start, ranks, costs };
        let both_ways = |a: usize| it.of(a).iter().all(|b| it.joined(*b as usize, a as u32));
        let sound = (0..it.count()).all(|a| !it.of(a).is_empty() && both_ways(a));
        sound.then_some(it)
    }

    pub(super) fn count(&self) -> usize {
        self.start.len() - 1
    }

    /// The neighbours of a rank, ascending.
    pub(super) fn of(&self, rank: usize) -> &[u32] {
        &self.ranks[self.start[rank] as usize..self.start[rank + 1] as usize]
    }

    /// The index of the first entry of a rank's row.
    pub(super) fn row(&self, rank: usize) -> usize {
        self.start[rank] as usize
    }

    /// The index of the entry for `to` in the row of `from`.
    pub(super) fn entry(&self, from: usize, to: u32) -> Option<usize> {
        self.of(from).binary_search(&to).ok().map(|it| self.row(from) + it)
    }

    pub(super) fn entries(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn joined(&self, a: usize, b: u32) -> bool {
        self.of(a).binary_search(&b).is_ok()
    }

    pub(super) fn cost(&self, from: usize, to: u32) -> Option<(u64, u64)> {
        self.entry(from, to).map(|it| self.costs[it])
    }

    /// A rank other than `besides` that is a neighbour of both.
    pub(super) fn common(&self, a: usize, b: usize, besides: u32) -> Option<u32> {
        let other = self.of(b);
        let mut at = 0;
        self.of(a).iter().copied().find(|it| {
            while at < other.len() && other[at] < *it {
                at += 1;
            }
            at < other.len() && other[at] == *it && *it != besides
        })
    }
}
