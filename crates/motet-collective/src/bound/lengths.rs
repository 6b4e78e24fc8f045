//! [`Lengths`]: the bound that any lengths of links give on traffic between pairs.
//!
//! Give each link a length ℓ ≥ 0. A byte from s to d travels at least the distance between them,
//! and in time T the links carry at most T·Σ ℓ·b of byte-lengths, so
//!
//! > T ≥ Σ demand·distance ÷ Σ ℓ·b.
//!
//! By duality the best lengths give exactly the time of the best fractional routing, so this is
//! as sharp as a bandwidth bound can be. A cut is the special case of length 1 on its links; equal
//! lengths on all links count hops. [`concurrent`](super::concurrent) looks for good lengths; here
//! they are made small whole numbers and the bound they give is worked out exactly. Copying or
//! reducing in switches does not help traffic whose every byte is wanted once.

use rayon::prelude::*;

use super::delay::{Delays, nearest_ranks};
use super::demand::Demands;
use super::distance::{ArcLengths, FAR, NO_LINK, Search};
use super::graph::{BothWays, BoundGraph};
use super::ratio::Ratio;

/// The largest lengths tried: coarse ones find round answers exactly, fine ones come close.
const GRIDS: [u64; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 256, 65_536];

/// Whole lengths of arcs and the time they prove, in chunks per unit of bandwidth.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    pub(super) time: Ratio,
    /// [`NO_LINK`] where there is no link.
    pub(super) lengths: ArcLengths,
}

impl Lengths {
    /// What these lengths prove; `None` if nothing, or if the numbers are beyond 128 bits.
    pub(super) fn new(graph: &BoundGraph, demands: &Demands<'_>, of_arc: Vec<u64>) -> Option<Self> {
        let total = graph.links().try_fold(0u128, |sum, (.., arc)| {
            sum.checked_add(graph.capacity(arc).checked_mul(u128::from(of_arc[arc]))?)
        })?;
        let lengths = ArcLengths::new(of_arc);
        let from = |search: &mut Search<'_>, from: usize| -> Option<u128> {
            let least = search.from([(graph.ranks[from] as usize, 0)]);
            demands.from(from).try_fold(0u128, |sum, (to, chunks)| {
                let far = least[graph.ranks[to] as usize];
                // Not reached, or so far that the distance was cut off: proves nothing.
                let far = Some(far).filter(|it| *it < FAR - 1)?;
                sum.checked_add(u128::from(chunks) * u128::from(far))
            })
        };
        let travelled = (0..demands.ranks())
            .into_par_iter()
            .map_init(|| Search::new(graph, &lengths), from)
            .try_reduce(|| 0, u128::checked_add)?;
        Some(Self { time: Ratio::new(travelled, total)?, lengths })
    }

    /// What latency adds: of `chunks` that make up the size, all those due must travel their distance over
    /// links that each serve only between the first sending and the last receiving that may use them.
    pub(super) fn delays(&self, both: BothWays<'_>, chunks: u128) -> Option<Delays> {
        let graph = both.0;
        let weighted: Vec<((usize, usize, usize), u128)> = graph
            .links()
            .map(|it| {
                Some((it, graph.capacity(it.2).checked_mul(u128::from(self.lengths.of_arc[it.2]))?))
            })
            .collect::<Option<_>>()?;
        let total = weighted.iter().try_fold(0u128, |sum, it| sum.checked_add(it.1))?;
        let travelled = self.time.times(total)?;
        let bits = travelled.checked_mul(Ratio::new(8, chunks)?)?;
        let (ready, rest) = nearest_ranks(both);
        Delays::new(graph, bits, &ready, &rest, weighted.into_iter())
    }

    /// The best of these real lengths rounded to whole numbers, on at most `tries` grids.
    pub(super) fn rounded(
        graph: &BoundGraph,
        demands: &Demands<'_>,
        real: &[f64],
        tries: usize,
    ) -> Option<Self> {
        let mut best: Option<Self> = None;
        for grid in GRIDS.iter().rev().take(tries) {
            let found = Self::new(graph, demands, whole(graph, real, *grid));
            best =
                best.into_iter().chain(found).reduce(|a, b| if b.time >= a.time { b } else { a });
        }
        best
    }
}

/// Real lengths as whole numbers, the longest of which is `longest`.
pub(super) fn whole(graph: &BoundGraph, real: &[f64], longest: u64) -> Vec<u64> {
    let most = graph.links().map(|(.., arc)| real[arc]).fold(0.0, f64::max);
    let scale = longest as f64 / most;
    let mut whole = vec![NO_LINK; graph.arcs()];
    for (.., arc) in graph.links() {
        whole[arc] = (real[arc] * scale).round() as u64;
    }
    whole
}
