//! [`Trial`]: whether asking ahead makes this job's iterations shorter.
//!
//! Mostly it does. But circuits that are asked for early may be taken from a group that would have used them once more,
//! and first come, first served then serves another order: in a few jobs iterations get longer (`motet-rails` finds such). So a
//! shim first measures iterations without asking ahead, then with it, and leaves it when they are slower for several measurements
//! in a row: one alone may be slower because calls come in an order that is being learned. After that it measures without and tries
//! again, for a job may have changed; each time after eight times as many iterations, so that trying costs less and less.

use motet_units::{Duration, Instant};

/// Iterations before the measured ones: the order of calls is learned, and the job gets used to a change.
const SETTLING: u32 = 3;
/// Iterations that are measured together.
const MEASURED: u32 = 2;
/// So many measurements in a row that are slower, and it is left.
const SLOWER: u32 = 3;
/// How much longer it is left each time.
const LONGER: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Without,
    With {
        /// The time of the measured iterations without it.
        without: Duration,
        /// How many measurements in a row took longer.
        slower: u32,
        /// The last one did not.
        pays: bool,
    },
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    state: State,
    /// How often it was left.
    left: u32,
    /// Iterations since the state began, or the last measurement was begun; and when that was.
    iterations: u32,
    from: Instant,
}

impl Default for Trial {
    fn default() -> Self {
        Self { state: State::Without, left: 0, iterations: 0, from: Instant::START }
    }
}

impl Trial {
    /// Whether to ask ahead now.
    pub(super) const fn asks_ahead(&self) -> bool {
        matches!(self.state, State::With { .. })
    }

    /// Whether it is known for now if it pays: it does, or it was left and the job is used to that.
    pub(super) const fn is_settled(&self) -> bool {
        match self.state {
            State::Without => self.left > 0 && self.iterations >= SETTLING,
            State::With { pays, .. } => pays,
        }
    }

    /// An iteration has ended, or the job has done as much as in many.
    pub(super) fn iteration(&mut self, now: Instant) {
        self.iterations = self.iterations.saturating_add(1);
        let settling = match self.state {
            State::Without => SETTLING.saturating_mul(LONGER.saturating_pow(self.left)),
            State::With { .. } => SETTLING,
        };
        if self.iterations == settling {
            self.from = now;
        }
        if self.iterations < settling.saturating_add(MEASURED) {
            return;
        }
        let taken = now.since(self.from);
        (self.state, self.iterations) = match self.state {
            State::Without => (State::With { without: taken, slower: 0, pays: false }, 0),
            State::With { slower, without, .. } if taken > without && slower + 1 >= SLOWER => {
                self.left = self.left.saturating_add(1);
                (State::Without, 0)
            }
            State::With { without, slower, .. } => {
                self.from = now;
                let pays = taken <= without;
                let slower = if pays { 0 } else { slower + 1 };
                (State::With { without, slower, pays }, SETTLING)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs so many iterations, each of which takes what is said of its number and of whether it asks ahead. Which of them did.
    fn run(iterations: u32, time: impl Fn(u32, bool) -> u64) -> (Vec<bool>, Trial) {
        let mut trial = Trial::default();
        let mut now = Instant::START;
        let mut asked = Vec::new();
        for number in 0..iterations {
            asked.push(trial.asks_ahead());
            now += Duration::from_us(time(number, trial.asks_ahead()));
            trial.iteration(now);
        }
        (asked, trial)
    }

    #[test]
    fn what_is_faster_stays() {
        for with in [80, 100] {
            let (asked, trial) = run(1000, |_, ahead| if ahead { with } else { 100 });
            assert!(trial.is_settled());
            assert!(asked[..5].iter().all(|it| !it) && asked[5..].iter().all(|it| *it));
        }
    }

    #[test]
    fn what_is_slower_is_left_and_tried_ever_less() {
        let (asked, trial) = run(3000, |_, ahead| if ahead { 101 } else { 100 });
        assert!(trial.is_settled());
        // Four times nine of three thousand.
        assert_eq!(asked.iter().filter(|it| **it).count(), 4 * 9);
        assert_eq!(asked.iter().rposition(|it| *it), Some(1798));
    }

    #[test]
    fn a_bad_beginning_is_forgiven() {
        let slow_at_first =
            |number, ahead| if ahead && number >= 11 { 80 } else { 100 + u64::from(ahead) };
        let (asked, trial) = run(200, slow_at_first);
        assert!(trial.is_settled() && asked[5..].iter().all(|it| *it));
    }

    #[test]
    fn a_job_that_has_changed_is_measured_again() {
        // All iterations are longer from the hundredth on, and asking ahead still pays.
        let time =
            |number: u32, ahead: bool| if number < 100 { 100 } else { 200 } - 10 * u64::from(ahead);
        let (asked, trial) = run(400, time);
        assert!(trial.is_settled() && asked[140..].iter().all(|it| *it), "{asked:?}");
    }
}
