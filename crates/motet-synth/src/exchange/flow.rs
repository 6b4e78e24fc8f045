//! Routes demands so that the load of the busiest link is minimal: a multi-commodity flow with one commodity for each
//! sender.
//!
//! The traffic of one sender after the other is routed over ways that are shortest under prices
//! of links, and links that were used become dearer (the multiplicative-weights method, as in the
//! bound of such traffic, `motet_collective::bound`). The mean over rounds is a routing; the
//! prices prove a time that no routing beats. The search ends when the two are close. Where ways
//! are equally short, traffic is split among them: on symmetric networks the first round is the
//! optimum already.
//!
//! With a [`Horizon`] latency counts too. [`router`] does one round.

mod router;

use super::demand::Demands;
use super::ways::Ways;
use crate::watch::Watch;
use router::{Router, STEP};

/// The search ends when the routing takes at most this multiple of the proven lower bound.
const GAP: f64 = 1.002;

/// After so many rounds prices move less and less.
const STEADY_ROUNDS: usize = 128;

/// Most rounds; and after so many (more for few senders), a doubling that saves less than this
/// ends the search.
const MAX_ROUNDS: usize = 16_384;
const SETTLED: usize = 128;
const FEW_SENDERS: usize = 32;
const SETTLING: f64 = 1.001;

/// For so many rounds the horizon is guessed anew now and then.
const GUESSING: usize = 64;

/// So many visits of an arc are a unit of work.
const VISITS_PER_WORK: u64 = 4;

/// A fractional routing.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) senders: Vec<u32>,
    /// Chunks over each arc, one row for each sender.
    amounts: Vec<f64>,
    arcs: usize,
    /// How long the busiest link is busy, in picoseconds per byte of a chunk; with a [`Horizon`], how long it
    /// takes until everything has arrived, if every route is used evenly for as long as it can be.
    pub(super) time: f64,
}

/// Data on a route of latency l can be under way for l less than the whole time T, so that it needs T ÷ (T − l)
/// times the rate that it would need without latency: a long way round may relieve a link and still take longer
/// than it saves.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    /// The time in which everything should be done, in picoseconds per byte of a chunk, and a guess at first.
    pub(super) time: f64,
    /// The latency of each arc, in the same unit.
    pub(super) latency: Vec<f64>,
}

impl Flow {
    /// What the `nth` sender sends over each arc.
    pub(super) fn row(&self, nth: usize) -> &[f64] {
        &self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }

    pub(super) fn row_mut(&mut self, nth: usize) -> &mut [f64] {
        &mut self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }
}

/// A routing close to the best, within about `budget` visits of an arc and what the watch allows, where
/// no routing takes less than `least`. Every demand must be reachable.
pub(super) fn spread(
    ways: &Ways,
    demands: &Demands,
    least: f64,
    horizon: Option<Horizon>,
    budget: u64,
    watch: Watch<'_>,
) -> Flow {
    let guessed = horizon.is_some();
    let mut router = Router::new(ways, demands, horizon);
    let visits = (ways.arcs() as u64 * router.senders.len() as u64).max(1);
    let rounds = usize::try_from(budget / visits).unwrap_or(usize::MAX).clamp(16, MAX_ROUNDS);
    router.round(0.0, false);
    let mut best = router.snapshot(1);
    let mut proved = least.max(router.proved());
    let settled = SETTLED * (FEW_SENDERS / router.senders.len().max(1)).max(1);
    let mut counted = 0;
    for round in 1..=rounds {
        if best.time <= proved * GAP || !watch.affords(visits / VISITS_PER_WORK) {
            break;
        }
        watch.spend(visits / VISITS_PER_WORK);
        // The average over any range of rounds is a routing, so drop the poor first rounds now and then.
        if round.is_power_of_two() {
            let before = best.time;
            router.keep_best(&mut best, counted);
            if guessed && round <= GUESSING {
                // Under another horizon times mean something else.
                router.guess_again(best.time);
                best.time = f64::INFINITY;
                proved = least;
            }
            router.forget();
            counted = 0;
            // The proof of optimality comes late; the routing itself is mostly optimal long before.
            if round >= settled && best.time * SETTLING > before {
                break;
            }
        }
        router.step = STEP * STEADY_ROUNDS as f64 / round.max(STEADY_ROUNDS) as f64;
        router.round(proved, true);
        proved = proved.max(router.proved());
        router.normalize();
        counted += 1;
        if router.time() / f64::from(counted) <= proved * GAP {
            break;
        }
    }
    router.keep_best(&mut best, counted);
    best
}
