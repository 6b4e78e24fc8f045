//! Routes demands so that the load of the busiest link is minimal: a multi-commodity flow with one commodity
//! for each sender.
//!
//! Every link has a price. The traffic of one sender after the other is routed over the cheapest paths, and
//! the links used become dearer (the multiplicative-weights method, as in the bound of such traffic,
//! `motet_collective::bound`). The mean over rounds is a routing; the prices prove a time that no routing
//! beats. The search ends when the two are close. Traffic is split among paths that are equally cheap: on
//! symmetric networks the first round is already optimal.
//!
//! With a [`Horizon`] latency counts too. [`router`] does one round.

mod router;

use super::demand::Demands;
use super::ways::Ways;
use crate::watch::Watch;
use router::{Router, STEP};

/// The search ends when the routing takes at most this multiple of the proven lower bound.
const GAP: f64 = 1.002;

/// From this round on prices move less and less.
const STEADY_ROUNDS: usize = 128;

/// Most rounds.
const MAX_ROUNDS: usize = 16_384;
/// From this round on the search ends when doubling the rounds does not shorten the time by [`SETTLING`].
const SETTLED: usize = 128;
/// With fewer senders than this, [`SETTLED`] is raised in proportion: a round is cheaper then.
const FEW_SENDERS: usize = 32;
const SETTLING: f64 = 1.001;

/// Up to this round the guessed time of the [`Horizon`] is corrected at every power of two.
const GUESSING: usize = 64;

/// This many visits of an arc are a unit of work.
const VISITS_PER_WORK: u64 = 4;

/// A fractional routing.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) senders: Vec<u32>,
    /// Chunks over each arc, one row for each sender.
    amounts: Vec<f64>,
    arcs: usize,
    /// How long the busiest link transmits, in picoseconds per byte of a chunk. With a [`Horizon`], how long it
    /// takes until everything has arrived, if each route sends evenly for as long as its latency leaves time.
    pub(super) time: f64,
}

/// The time in which everything should be done, for routings that count latency.
///
/// To be done at time T, a route of latency l must have sent everything by T − l. So it needs T ÷ (T − l) times
/// the bandwidth that it would need without latency: a detour may relieve a link and still take longer than it
/// saves.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    /// That time, in picoseconds per byte of a chunk; a guess at first.
    pub(super) time: f64,
    /// The latency of each arc, in the same unit.
    pub(super) latency: Vec<f64>,
}

impl Flow {
    /// How many chunks the `nth` sender sends over each arc.
    pub(super) fn row(&self, nth: usize) -> &[f64] {
        &self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }

    pub(super) fn row_mut(&mut self, nth: usize) -> &mut [f64] {
        &mut self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }
}

/// A routing close to the best, found with about `budget` visits of an arc and within the watch's limits.
/// `least` is a time that no routing beats. Every receiver must be reachable.
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
        // The mean over any consecutive rounds is a routing, so the poor first ones are dropped now and then.
        if round.is_power_of_two() {
            let before = best.time;
            router.keep_best(&mut best, counted);
            if guessed && round <= GUESSING {
                // Times found under another horizon cannot be compared.
                router.guess_again(best.time);
                best.time = f64::INFINITY;
                proved = least;
            }
            router.forget();
            counted = 0;
            // Routings are mostly optimal long before the prices prove it.
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
