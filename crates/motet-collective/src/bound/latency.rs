//! The latency bound: some data must go from one rank to another, and no way there is shorter
//! than the least sum of latencies.
//!
//! The greatest such distance over all pairs that a collective joins bounds its time whatever the
//! size. It assumes nothing of the devices on the way: GPUs that store and forward, switches that
//! copy or reduce, all take at least Σα. (For a reduction the data is a rank's contribution to
//! another's result.)

use motet_units::{Duration, Rank};
use rayon::prelude::*;

use super::demand::Demands;
use super::distance::{FAR, Search};
use super::graph::BothWays;

/// Most ranks from which all others are measured. Above it, ranks at even steps stand for the
/// rest: a maximum over fewer pairs is still a bound.
const MAX_SOURCES: usize = 4096;

/// Fewest searches that are handed to another thread: it takes as long to wake it as to do some.
const MIN_SEARCHES: usize = 16;

/// The two ranks that are farthest apart, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Farthest {
    pub(super) latency: Duration,
    pub(super) pair: (Rank, Rank),
}

/// The farthest pair that the demands join: the first of them in rank order, if several are.
pub(super) fn farthest(
    (graph, turned_graph): BothWays<'_>,
    demands: &Demands<'_>,
) -> Option<Farthest> {
    if let Demands::ToRoot { ranks, root } = *demands {
        let turned = Demands::FromRoot { ranks, root };
        let found = farthest((turned_graph, graph), &turned)?;
        return Some(Farthest { pair: (found.pair.1, found.pair.0), ..found });
    }
    let step = demands.ranks().div_ceil(MAX_SOURCES).max(1);
    let sources: Vec<usize> = (0..demands.ranks()).step_by(step).collect();
    let of_source = |search: &mut Search<'_>, from: &usize| {
        demands.from(*from).next()?;
        let start = [(graph.ranks[*from] as usize, 0)];
        let least = search.from(start);
        let to = |it: usize| least[graph.ranks[it] as usize];
        let reached = demands.from(*from).map(|(it, _)| (to(it), *from, it));
        reached.filter(|it| it.0 != FAR).max_by_key(|it| (it.0, std::cmp::Reverse(it.2)))
    };
    let found: Vec<_> = sources
        .par_iter()
        .with_min_len(MIN_SEARCHES)
        .map_init(|| Search::new(graph, graph.latencies()), of_source)
        .flatten()
        .collect();
    let (latency, from, to) = found.into_iter().max_by_key(|it| (it.0, std::cmp::Reverse(it.1)))?;
    Some(Farthest {
        latency: Duration::from_ps(latency),
        pair: (Rank::from_index(from), Rank::from_index(to)),
    })
}
