//! [`Trial`]: whether asking ahead makes this job's iterations shorter.
//!
//! Mostly it does. But circuits that are asked for early may be taken from a group that would have used them once more,
//! and first come, first served then serves another order: in a few jobs iterations get longer (`motet-rails` finds such). So a
//! shim first measures iterations without asking ahead, then with it, and stays with what was faster.

use motet_units::{Duration, Instant};

/// Iterations before the measured ones: the order of calls is learned, and the job gets used to a change.
const SETTLING: u32 = 3;
/// Iterations that are measured.
const MEASURED: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Without,
    /// The time of the measured iterations without it.
    With(Duration),
    Decided(bool),
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    state: State,
    /// Iterations since the state began, and when the measured ones began.
    iterations: u32,
    from: Instant,
}

impl Default for Trial {
    fn default() -> Self {
        Self { state: State::Without, iterations: 0, from: Instant::START }
    }
}

impl Trial {
    /// Whether to ask ahead now.
    pub(super) const fn asks_ahead(&self) -> bool {
        matches!(self.state, State::With(_) | State::Decided(true))
    }

    /// An iteration has ended, or the job has done as much as in many.
    pub(super) fn iteration(&mut self, now: Instant) {
        self.iterations = self.iterations.saturating_add(1);
        if self.iterations == SETTLING {
            self.from = now;
        }
        if self.iterations < SETTLING + MEASURED {
            return;
        }
        let taken = now.since(self.from);
        self.state = match self.state {
            State::Without => State::With(taken),
            State::With(without) => State::Decided(taken <= without),
            decided @ State::Decided(_) => decided,
        };
        self.iterations = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs iterations which take the one time without and the other with asking ahead.
    fn decided(without: u64, with: u64) -> bool {
        let mut trial = Trial::default();
        let mut now = Instant::START;
        for _ in 0..2 * (SETTLING + MEASURED) {
            now += Duration::from_us(if trial.asks_ahead() { with } else { without });
            trial.iteration(now);
        }
        assert!(matches!(trial.state, State::Decided(_)));
        trial.asks_ahead()
    }

    #[test]
    fn what_is_faster_stays() {
        assert!(decided(100, 80) && decided(100, 100));
        assert!(!decided(100, 101));
    }
}
