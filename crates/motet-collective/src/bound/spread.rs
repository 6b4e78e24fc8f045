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
//!
//! **With latency** ([`delay`](super::delay)) the tightest cut is not always the slowest, so others are
//! measured too: the slowest server, rack and so on, and the borders of what lies within some latency
//! of the rank that is farthest from another. What may be asked of a cut, for each receiver t outside:
//! - AllGather, Gather: t needs the part of every rank inside. Broadcast: t needs the root's data.
//! - The mirrors: a program must work whatever the data is. If all ranks but t contribute zeros, a
//!   ReduceScatter delivers n different parts of t's data, as a scatter from t would; a Reduce delivers
//!   all of it to the root.
//! - AllReduce: likewise, if all contribute zeros but one rank s inside, t gets the data of s. This holds
//!   for any s and t on the two sides, so those that are farthest from the border may be taken.

use motet_units::Rank;
use rayon::prelude::*;

use super::around::cuts_around;
use super::delay::{Delays, Receivers};
use super::distance::{FAR, distances};
use super::graph::{BothWays, BoundGraph};
use super::partition::Partition;
use super::ratio::Ratio;
use super::tightest::{Seams, Spread, Tightest, measure, tightest};
use crate::collective::{Collective, CollectiveKind};

/// Arcs that a thread should look at, at least: it takes as long to wake one as to look at some thousands.
const MIN_ARCS: usize = 1 << 14;

/// The cut that takes longest, as it lies in the network.
#[derive(Clone, Debug)]
pub(super) struct Slowest {
    pub(super) sending: Vec<bool>,
    pub(super) capacity: u128,
    pub(super) share: Ratio,
    /// Of this cut and of others, one of which may take longer with latency.
    pub(super) delays: Vec<Delays>,
}

/// The slowest cut of any collective but those between pairs. `farthest` are the two ranks with the
/// most latency between them.
pub(super) fn slowest(
    both: BothWays<'_>,
    collective: &Collective,
    partitions: &[Partition],
    farthest: (Rank, Rank),
) -> Option<Slowest> {
    let ranks = collective.ranks() as usize;
    let root = collective.root().map_or(0, Rank::index);
    let everyone = || Spread { weight: vec![1; ranks], sinks: (0..ranks).collect() };
    let at_root = || Spread { sinks: vec![root], ..everyone() };
    let from_root = || Spread {
        weight: (0..ranks).map(|it| u32::from(it == root)).collect(),
        sinks: (0..ranks).filter(|it| *it != root).collect(),
    };
    let from_any = collective.kind() == CollectiveKind::AllReduce;
    let run = |spread: Spread, parts: usize, mirrored: bool| {
        let far = if mirrored { farthest.0 } else { farthest.1 }.index();
        let problem = Problem { spread, parts: parts as u128, from_any, far };
        if mirrored {
            problem.solve_mirrored(both, partitions)
        } else {
            problem.solve(both, partitions)
        }
    };
    match collective.kind() {
        CollectiveKind::AllGather => run(everyone(), ranks, false),
        CollectiveKind::ReduceScatter => run(everyone(), ranks, true),
        CollectiveKind::Gather => run(at_root(), ranks, false),
        CollectiveKind::Scatter => run(at_root(), ranks, true),
        CollectiveKind::Broadcast => run(from_root(), 1, false),
        CollectiveKind::Reduce => run(from_root(), 1, true),
        CollectiveKind::AllReduce => {
            let mut there = run(from_root(), 1, false)?;
            let mut back = run(from_root(), 1, true)?;
            if back.capacity < there.capacity {
                std::mem::swap(&mut there, &mut back);
            }
            there.delays.append(&mut back.delays);
            Some(there)
        }
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV | CollectiveKind::SendRecv => None,
    }
}

struct Problem {
    spread: Spread,
    /// Parts that make up the size.
    parts: u128,
    /// Whether the data may be taken to start at any one rank inside a cut, not only where `spread`
    /// says: AllReduce.
    from_any: bool,
    /// A rank that is far from others, to be looked at as a sink.
    far: usize,
}

impl Problem {
    /// On the transposed graph.
    fn solve_mirrored(
        &self,
        (graph, turned): BothWays<'_>,
        partitions: &[Partition],
    ) -> Option<Slowest> {
        let mut found = self.solve((turned, graph), partitions)?;
        // What sends in the mirror receives in the network.
        for (node, sends) in found.sending.iter_mut().enumerate() {
            *sends = graph.usable[node] && !*sends;
        }
        Some(found)
    }

    fn solve(&self, both: BothWays<'_>, partitions: &[Partition]) -> Option<Slowest> {
        let (graph, turned) = both;
        let seams = Seams::new(graph, &self.spread, partitions);
        let found = tightest(graph, &self.spread, &seams)?;
        let mut cuts = vec![found.clone()];
        for cut in seams.slowest_of_each(graph, &self.spread) {
            // A server may be a rack, and the tightest cut is mostly one of these.
            if cuts.iter().all(|it| it.sending != cut.sending) {
                cuts.push(cut);
            }
        }
        let receivers: Vec<usize> =
            self.spread.sinks.iter().map(|it| graph.ranks[*it] as usize).collect();
        let of = |it: &Tightest| self.delays(both, it, Receivers::Each(&receivers));
        let at_once = MIN_ARCS.div_ceil(graph.arcs().max(1));
        let mut delays: Vec<Option<Delays>> =
            cuts.par_iter().with_min_len(at_once).map(of).collect();
        if self.from_any || self.spread.sinks.contains(&self.far) {
            let far = graph.ranks[self.far] as usize;
            let rest = distances(turned, turned.latencies(), [(far, 0)]);
            let of = |sending: Vec<bool>| {
                let cut = measure(graph, &self.spread, sending);
                self.delays(both, &cut, Receivers::At(&rest))
            };
            let around = cuts_around(graph, &rest).into_par_iter();
            delays.par_extend(around.with_min_len(at_once).map(of));
        }
        Some(Slowest {
            share: Ratio::new(found.weight, self.parts)?,
            capacity: found.capacity,
            sending: found.sending,
            delays: delays.into_iter().flatten().collect(),
        })
    }

    /// What latency adds to a cut.
    fn delays(
        &self,
        both: BothWays<'_>,
        cut: &Tightest,
        receivers: Receivers<'_>,
    ) -> Option<Delays> {
        let (graph, turned) = both;
        let inside = |node: &usize| cut.sending[*node];
        let nodes = || graph.ranks.iter().map(|it| *it as usize);
        let (senders, weight): (Vec<usize>, u128) = if self.from_any {
            (deepest(turned, &cut.sending, nodes().filter(inside)).into_iter().collect(), 1)
        } else {
            let has_data = nodes().zip(&self.spread.weight).filter(|(_, weight)| **weight > 0);
            (has_data.map(|it| it.0).filter(inside).collect(), cut.weight)
        };
        // The node around which a cut is made is never inside.
        let nobody = match receivers {
            Receivers::Each(nodes) | Receivers::Nearest(nodes) => nodes.iter().all(inside),
            Receivers::At(_) => false,
        };
        if senders.is_empty() || nobody {
            return None;
        }
        let share = Ratio::new(weight, self.parts)?;
        Delays::of_cut(both, (&cut.sending, share), senders.into_iter(), receivers)
    }
}

/// Of these ranks inside a cut the one whose data takes longest to leave it.
fn deepest(
    turned: &BoundGraph,
    sending: &[bool],
    ranks: impl Iterator<Item = usize>,
) -> Option<usize> {
    let outside = (0..turned.nodes()).filter(|it| turned.usable[*it] && !sending[*it]);
    let way_out = distances(turned, turned.latencies(), outside.map(|it| (it, 0)));
    let leaves = ranks.filter(|it| way_out[*it] != FAR);
    leaves.max_by_key(|it| (way_out[*it], std::cmp::Reverse(*it)))
}
