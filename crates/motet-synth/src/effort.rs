//! [`Effort`]: how hard synthesis may try, and whom it tells how it gets on ([`Progress`]).
//!
//! Work is counted and time is asked of the caller's clock: [`crate::watch`] says why there are two
//! limits.

use motet_units::{Duration, Seed};

use crate::method::Method;

/// Most transfers of a program unless told otherwise, or the network is so large that it needs more.
pub const MOST_TRANSFERS: u64 = 1 << 21;

/// The same with normal effort: to verify so many takes about as long as to make them.
pub const NORMAL_TRANSFERS: u64 = 1 << 19;

/// The work of [`Effort::normal`] for a task of up to [`SMALL`] ranks: a few seconds on one core.
pub const NORMAL_WORK: u64 = 15_000_000;

/// Up to so many ranks the work does not depend on their number; beyond, it grows with its square, as
/// the transfers of most programs do.
const SMALL: u64 = 64;

/// How hard to try.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// Where every random choice comes from.
    pub seed: Seed,
    /// Most transfers that a program should have, where the method can choose.
    pub most_transfers: u64,
    /// How much work may be done for a task of up to 64 ranks, in units of some 0.3 µs; larger tasks get
    /// more. Without a limit every method is tried to its end.
    pub work: Option<u64>,
    /// The caller's clock. Once it says that time is up, the best so far is taken. It makes the result
    /// depend on the machine.
    pub out_of_time: &'a (dyn Fn() -> bool + Sync),
    /// Told what is being tried and how good the best is so far.
    pub progress: &'a (dyn Fn(&Progress) + Sync),
}

impl std::fmt::Debug for Effort<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Effort");
        shown.field("seed", &self.seed).field("work", &self.work).finish_non_exhaustive()
    }
}

impl Effort<'_> {
    /// Every method to its end, however long that takes.
    #[must_use]
    pub const fn unlimited(seed: Seed) -> Self {
        Self {
            seed,
            most_transfers: MOST_TRANSFERS,
            work: None,
            out_of_time: &|| false,
            progress: &|_| {},
        }
    }

    /// As long as more effort is likely to pay: a few seconds for up to 64 ranks.
    #[must_use]
    pub fn normal(seed: Seed) -> Self {
        Self::times_normal(seed, 1.0)
    }

    /// So many times as much work as normal.
    #[must_use]
    pub fn times_normal(seed: Seed, times: f64) -> Self {
        let most_transfers = if times > 1.0 { MOST_TRANSFERS } else { NORMAL_TRANSFERS };
        let work = Some((NORMAL_WORK as f64 * times) as u64);
        Self { most_transfers, work, ..Self::unlimited(seed) }
    }

    /// The work that may be done for a task of so many ranks.
    pub(crate) fn allowance(&self, ranks: u32) -> Option<u64> {
        let ranks = u64::from(ranks).max(SMALL);
        let times = |work: u64| work.saturating_mul(ranks * ranks / (SMALL * SMALL));
        self.work.map(times)
    }
}

/// What synthesis is doing, for those who wait.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The method that begins now.
    pub method: Method,
    /// The best so far: its method and how long its schedule says it takes.
    pub best: Option<(Method, Duration)>,
    /// No program takes less.
    pub least: Duration,
}
