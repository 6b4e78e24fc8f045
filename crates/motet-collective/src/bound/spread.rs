//! The collectives that [`tightest`](super::tightest) bounds: what starts where and must get
//! where, forwards or on the transposed graph.
//!
//! - AllGather: one part at each rank, all of them due at each rank. ReduceScatter is its mirror:
//!   each rank's part of the result needs something from each rank.
//! - Gather: the same with the root as the only sink; Scatter is its mirror.
//! - Broadcast: everything starts at the root and is due at all others; Reduce is its mirror.
//! - AllReduce: everything must get from any rank to any other, in part sums. A cut with ranks on
//!   both sides has the first rank on one of them, so the cuts of a broadcast from it and of a
//!   reduction to it are all there are.

use motet_units::Rank;

use super::delay::{Delays, Receiver};
use super::graph::BoundGraph;
use super::partition::Partition;
use super::ratio::Ratio;
use super::tightest::{Spread, tightest};
use crate::collective::{Collective, CollectiveKind};

/// The cut that takes longest, as it lies in the network.
#[derive(Clone, Debug)]
pub(super) struct Slowest {
    pub(super) sending: Vec<bool>,
    pub(super) capacity: u128,
    pub(super) share: Ratio,
    pub(super) delays: Delays,
}

/// The slowest cut of any collective but those between pairs.
pub(super) fn slowest(
    graph: &BoundGraph,
    collective: &Collective,
    partitions: &[Partition],
) -> Option<Slowest> {
    let ranks = collective.ranks() as usize;
    let root = collective.root().map_or(0, Rank::index);
    let everyone = || Spread { weight: vec![1; ranks], sinks: (0..ranks).collect() };
    let at_root = || Spread { sinks: vec![root], ..everyone() };
    let from_root = || Spread {
        weight: (0..ranks).map(|it| u32::from(it == root)).collect(),
        sinks: (0..ranks).filter(|it| *it != root).collect(),
    };
    let run = |spread: Spread, parts: usize, mirrored: bool| {
        Problem { spread, parts: parts as u128, mirrored }.solve(graph, partitions)
    };
    match collective.kind() {
        CollectiveKind::AllGather => run(everyone(), ranks, false),
        CollectiveKind::ReduceScatter => run(everyone(), ranks, true),
        CollectiveKind::Gather => run(at_root(), ranks, false),
        CollectiveKind::Scatter => run(at_root(), ranks, true),
        CollectiveKind::Broadcast => run(from_root(), 1, false),
        CollectiveKind::Reduce => run(from_root(), 1, true),
        CollectiveKind::AllReduce => {
            let there = run(from_root(), 1, false)?;
            let back = run(from_root(), 1, true)?;
            Some(if back.capacity < there.capacity { back } else { there })
        }
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV | CollectiveKind::SendRecv => None,
    }
}

struct Problem {
    spread: Spread,
    /// Parts that make up the size.
    parts: u128,
    /// Whether to solve it on the transposed graph.
    mirrored: bool,
}

impl Problem {
    fn solve(&self, graph: &BoundGraph, partitions: &[Partition]) -> Option<Slowest> {
        if !self.mirrored {
            return self.solve_on(graph, partitions);
        }
        let mut found = self.solve_on(&graph.transposed(), partitions)?;
        // What sends in the mirror receives in the network.
        for (node, sends) in found.sending.iter_mut().enumerate() {
            *sends = graph.usable[node] && !*sends;
        }
        Some(found)
    }

    fn solve_on(&self, graph: &BoundGraph, partitions: &[Partition]) -> Option<Slowest> {
        let found = tightest(graph, &self.spread, partitions)?;
        let node = |rank: usize| graph.ranks[rank] as usize;
        let with_data = (0..graph.ranks.len()).filter(|it| self.spread.weight[*it] > 0).map(node);
        let receivers: Vec<usize> = self.spread.sinks.iter().map(|it| node(*it)).collect();
        let delays = Delays::new(graph, &found.sending, with_data, &receivers, Receiver::Each);
        Some(Slowest {
            share: Ratio::new(found.weight, self.parts)?,
            capacity: found.capacity,
            sending: found.sending,
            delays,
        })
    }
}
