//! The bound on traffic between pairs: AllToAll, AllToAllV and SendRecv.
//!
//! First cuts ([`demand_cuts`](super::demand_cuts)), which are quick and can be shown; then
//! lengths ([`lengths`](super::lengths)), which can be sharper. The cut is preferred where the two
//! prove the same time.

use rayon::prelude::*;

use super::concurrent;
use super::delay::Delays;
use super::demand::Demands;
use super::demand_cuts::{DemandCut, best_of_balls, best_of_each_partition, best_of_partitions};
use super::distance::NO_LINK;
use super::graph::{BothWays, BoundGraph};
use super::lengths::{Lengths, whole};
use super::partition::Partition;
use super::tightest::{Seams, Spread, tightest};

/// Work for a search of lengths and for rounding what it finds, in visits of an arc: about a
/// second each.
const SEARCH_BUDGET: usize = 100_000_000;
const MAX_ROUNDS: usize = 2_000;
const ROUNDING_BUDGET: usize = 60_000_000;

/// A cut this close to a routing is as good as proved to be the optimum, but for rounding.
const OPTIMAL: f64 = 1.000_001;

/// Steps of the lengths around which cuts are looked for.
const FINE: u64 = 65_536;

/// What bounds the traffic.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub(super) set_by: Slowest,
    /// A time that some fractional routing takes over the time proved; `None` if none was made.
    pub(super) reached: Option<f64>,
    /// What latency adds to this bound and to others, one of which may take longer with it.
    pub(super) delays: Vec<Delays>,
}

#[derive(Clone, Debug)]
pub(super) enum Slowest {
    Cut(DemandCut),
    Lengths(Lengths),
}

/// The best bound found; `None` if nothing moves. `chunks` make up the size, and `farthest` are the two ranks
/// with the most latency between them of those that exchange data.
pub(super) fn pairs(
    both: BothWays<'_>,
    demands: &Demands<'_>,
    chunks: u128,
    partitions: &[Partition],
    farthest: (usize, usize),
) -> Option<Pairs> {
    let graph = both.0;
    let mut cut = best_of_partitions(graph, demands, partitions)?;
    for sending in other_cuts(both, demands, partitions) {
        cut = slower(cut, DemandCut::new(graph, demands, sending));
    }
    let visits = (graph.arcs() * demands.ranks()).max(1);
    if visits > SEARCH_BUDGET {
        let delays = delays(both, demands, chunks, (&cut, None), partitions, farthest);
        return Some(Pairs { set_by: Slowest::Cut(cut), reached: None, delays });
    }
    let mut best = Lengths::new(graph, demands, equal_lengths(graph));
    let known = best.as_ref().map_or(cut.time(), |it| it.time.max(cut.time())).to_f64();
    let rounds = MAX_ROUNDS.min(SEARCH_BUDGET / visits);
    let found = concurrent::search(graph, demands, known, rounds);
    if found.reached > cut.time().to_f64() * OPTIMAL {
        let tries = (ROUNDING_BUDGET / visits).max(1);
        for real in &found.lengths {
            let rounded = Lengths::rounded(graph, demands, real, tries);
            best =
                best.into_iter().chain(rounded).reduce(|a, b| if b.time > a.time { b } else { a });
            let balls = best_of_balls(graph, demands, whole(graph, real, FINE));
            cut = balls.into_iter().fold(cut, slower);
        }
    }
    let delays = delays(both, demands, chunks, (&cut, best.as_ref()), partitions, farthest);
    let set_by = match best {
        Some(lengths) if lengths.time > cut.time() => Slowest::Lengths(lengths),
        _ => Slowest::Cut(cut),
    };
    let proved = match &set_by {
        Slowest::Cut(cut) => cut.time(),
        Slowest::Lengths(lengths) => lengths.time,
    };
    Some(Pairs { set_by, reached: Some((found.reached / proved.to_f64()).max(1.0)), delays })
}

/// What latency adds to the best cut and the best lengths, and to cuts that take less without it but may
/// take more with it: along the seams of each partition, and around the two ranks that are farthest apart.
fn delays(
    both: BothWays<'_>,
    demands: &Demands<'_>,
    chunks: u128,
    (cut, lengths): (&DemandCut, Option<&Lengths>),
    partitions: &[Partition],
    farthest: (usize, usize),
) -> Vec<Delays> {
    let graph = both.0;
    let mut cuts = best_of_each_partition(graph, demands, partitions);
    let alone = |rank: usize, sends: bool| -> Vec<bool> {
        let is_it = |node: usize| node == graph.ranks[rank] as usize;
        (0..graph.nodes()).map(|it| graph.usable[it] && is_it(it) == sends).collect()
    };
    for sending in [alone(farthest.0, true), alone(farthest.1, false)] {
        cuts.push(DemandCut::new(graph, demands, sending));
    }
    cuts.push(cut.clone());
    let of_cut = |it: &DemandCut| it.delays(both, demands, chunks);
    let of_lengths = lengths.and_then(|it| it.delays(both, chunks));
    cuts.par_iter().filter_map(of_cut).chain(of_lengths).collect()
}

fn slower(a: DemandCut, b: DemandCut) -> DemandCut {
    if b.time() > a.time() { b } else { a }
}

fn equal_lengths(graph: &BoundGraph) -> Vec<u64> {
    (0..graph.arcs()).map(|it| if graph.capacity(it) > 0 { 1 } else { NO_LINK }).collect()
}

/// The tightest cuts of other collectives: of AllGather and ReduceScatter, and between each two
/// ranks of a SendRecv (which for one pair alone is the exact bound).
fn other_cuts(
    (graph, turned): BothWays<'_>,
    demands: &Demands<'_>,
    partitions: &[Partition],
) -> Vec<Vec<bool>> {
    let ranks = demands.ranks();
    let mut spreads = vec![Spread { weight: vec![1; ranks], sinks: (0..ranks).collect() }];
    if let Demands::Pairs { .. } = demands {
        for from in 0..ranks {
            for (to, _) in demands.from(from) {
                let mut weight = vec![0; ranks];
                weight[from] = 1;
                spreads.push(Spread { weight, sinks: vec![to] });
            }
        }
    }
    let of = |graph: &BoundGraph, spread: &Spread| {
        tightest(graph, spread, &Seams::new(graph, spread, partitions))
    };
    let mut cuts: Vec<Vec<bool>> =
        spreads.iter().filter_map(|it| of(graph, it)).map(|it| it.sending).collect();
    if let Some(cut) = of(turned, &spreads[0]) {
        let outside = |(node, inside): (usize, &bool)| graph.usable[node] && !inside;
        cuts.push(cut.sending.iter().enumerate().map(outside).collect());
    }
    cuts
}
