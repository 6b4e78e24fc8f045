//! [`Trial`]: measures whether asking for circuits ahead of time makes this job's iterations shorter.
//!
//! Mostly it does. But circuits that are asked for early may be taken from a group that would have used them once more, and the
//! controller, which serves groups in the order of asking, then serves them in another order: in a few jobs iterations get
//! longer (`motet-rails` finds such). So a shim first times iterations without asking ahead, then with it, and gives it
//! up when several measurements in a row are slower; a single one may be slower because calls come in an order that is still being
//! learned. Because the job may change, it later measures and tries again, each time after eight times as many iterations, so that
//! trying costs less and less.

use motet_units::{Duration, Instant};

/// Iterations that are not measured after a change, in which the order of calls is learned.
const SETTLING: u32 = 3;
/// Iterations per measurement.
const MEASURED: u32 = 2;
/// After this many slower measurements in a row asking ahead is given up.
const SLOWER: u32 = 3;
/// The pause before the next try grows by this factor each time.
const LONGER: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Without,
    With {
        /// The time of the measured iterations without asking ahead.
        without: Duration,
        /// How many measurements in a row were slower.
        slower: u32,
        /// Whether the last measurement was not slower.
        pays: bool,
    },
}

/// The state of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    state: State,
    /// How often asking ahead was given up.
    left: u32,
    /// Iterations since the present state or measurement began.
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

    /// Whether there is a result for now: asking ahead pays, or it was given up and the job has settled since.
    pub(super) const fn is_settled(&self) -> bool {
        match self.state {
            State::Without => self.left > 0 && self.iterations >= SETTLING,
            State::With { pays, .. } => pays,
        }
    }

    /// An iteration has ended, or the job has made as many calls as count as one.
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

    /// Runs iterations whose time is a function of their number and of whether circuits are asked for ahead.
    /// Returns which of them asked ahead.
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
