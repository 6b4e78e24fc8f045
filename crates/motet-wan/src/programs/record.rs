//! [`Record`]: how a program compares with the base program, in states in which both were timed.
//!
//! Differences within the same state (in microseconds; floating point, since they are statistics)
//! say far more than two means whose states may differ. A program is not better because it was
//! lucky a few times, so the record keeps the mean difference and its standard error, and a choice
//! goes by the pessimistic end, [`cautious`](Record::cautious).

/// About how many of the latest states count; older ones fade, so that the record follows a network that
/// drifts.
const MEMORY: u32 = 100;

/// Before anything is known, differences are taken to vary by this part of the base's time.
const PRIOR: f64 = 0.2;

/// How many standard errors are added to the mean difference. Many programs are compared, and the luckiest of
/// them would otherwise look better than it is.
const CAUTION: f64 = 2.0;

/// Differences of one program from the base, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    seen: u32,
    mean: f64,
    variance: f64,
}

impl Record {
    /// Adds one state, by the times of the program and of the base in it, in microseconds.
    pub(super) fn learn(&mut self, time: f64, base: f64) {
        let difference = time - base;
        if self.seen == 0 {
            self.variance = (PRIOR * base) * (PRIOR * base);
        }
        self.seen = (self.seen + 1).min(MEMORY);
        let part = 1.0 / f64::from(self.seen);
        let before = difference - self.mean;
        self.mean += part * before;
        // The prior counts as one state more.
        let part = 1.0 / f64::from(self.seen + 1);
        self.variance += part * (before * (difference - self.mean) - self.variance);
    }

    /// The mean difference.
    pub(super) const fn mean(&self) -> f64 {
        self.mean
    }

    /// The pessimistic end of the difference: the mean plus [`CAUTION`] standard errors, since a positive
    /// difference means slower than the base. Infinite before the first state.
    pub(super) fn cautious(&self) -> f64 {
        match self.seen {
            0 => f64::INFINITY,
            seen => self.mean + CAUTION * (self.variance / f64::from(seen)).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_difference_counts_at_once_and_a_small_one_when_it_is_sure() {
        let mut fast = Record::default();
        fast.learn(20.0, 100.0);
        assert!(fast.cautious() < 0.0);
        let mut close = Record::default();
        close.learn(98.0, 100.0);
        assert!(close.cautious() > 0.0);
        for _ in 0..100 {
            close.learn(98.0, 100.0);
        }
        assert!((close.mean() + 2.0).abs() < 1e-9);
        assert!(close.cautious() < 0.0, "{}", close.cautious());
    }

    #[test]
    fn luck_is_not_taken_for_skill() {
        let mut noise = Record::default();
        for state in 0..200 {
            noise.learn(if state % 2 == 0 { 60.0 } else { 141.0 }, 100.0);
        }
        assert!(noise.mean().abs() < 1.0, "{}", noise.mean());
        assert!(noise.cautious() > 5.0);
    }

    #[test]
    fn a_record_follows_a_network_that_drifts() {
        let mut record = Record::default();
        for _ in 0..1000 {
            record.learn(150.0, 100.0);
        }
        for _ in 0..1000 {
            record.learn(50.0, 100.0);
        }
        assert!(record.cautious() < -40.0, "{}", record.cautious());
    }
}
