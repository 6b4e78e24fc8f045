//! [`Budget`]: how much exploring may cost, so that a job is never made worse than NCCL alone by more than a stated share.
//!
//! A probe spends its time beyond that of the best known action. The budget is a share of all time so far, plus a few calls to
//! begin with, plus a part of what was saved against NCCL's default.

use motet_units::Duration;

/// Savings are an estimate and may be wrong, so they count only up to this share of all time.
const MOST_WON: f64 = 0.012;

/// The budget for probes of one communicator. Times are in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The share of all time so far that may be spent.
    pub share: f64,
    /// How many calls of mean length may be spent to begin with.
    pub calls: f64,
    /// The share of the savings that may be spent.
    pub of_saved: f64,
    total: f64,
    count: f64,
    spent: f64,
    saved: f64,
}

impl Budget {
    #[must_use]
    pub const fn new(share: f64, calls: f64, of_saved: f64) -> Self {
        Self { share, calls, of_saved, total: 0.0, count: 0.0, spent: 0.0, saved: 0.0 }
    }

    /// Whether the budget allows a probe that costs so much.
    #[must_use]
    pub fn allows(&self, cost: f64) -> bool {
        if self.count < 1.0 {
            return false;
        }
        let first = self.calls * self.total / self.count;
        let most = self.share * self.total + first.min(self.total / 4.0);
        let won = (self.of_saved * self.saved.max(0.0)).min(MOST_WON * self.total);
        self.spent + cost <= most + won
    }

    /// Books a call's time. For a probe, `best` is what the best known action would have taken; `default` is what NCCL's default
    /// would have taken.
    pub fn book(&mut self, time: Duration, best: Option<f64>, default: f64) {
        let took = time.as_us_f64();
        self.total += took;
        self.count += 1.0;
        match best {
            Some(best) => self.spent += (took - best).max(0.0),
            None => self.saved += default - took,
        }
    }

    /// The parts of it that change, for checksums.
    #[must_use]
    pub const fn parts(&self) -> [f64; 4] {
        [self.total, self.count, self.spent, self.saved]
    }
}

impl Default for Budget {
    /// Stays within the 2% that a policy may lose to NCCL's default, with a margin for the unforeseen.
    fn default() -> Self {
        Self::new(0.005, 6.0, 0.3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_spent_that_was_not_earned() {
        let mut budget = Budget::new(0.01, 0.0, 0.5);
        assert!(!budget.allows(0.0), "before the first call");
        (0..100).for_each(|_| budget.book(Duration::from_us(100), None, 100.0));
        // A hundredth of 10,000 µs.
        assert!(budget.allows(99.0) && !budget.allows(101.0));
        budget.book(Duration::from_us(160), Some(100.0), 100.0);
        assert!(budget.allows(40.0) && !budget.allows(43.0));
        // Half of what is saved counts, up to a share of all time.
        budget.book(Duration::from_us(80), None, 100.0);
        assert!(budget.allows(50.0));
        budget.book(Duration::from_us(100), None, 1e9);
        assert!(!budget.allows(100.0 + MOST_WON * 10_400.0));
    }
}
