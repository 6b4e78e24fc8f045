//! When a hand may move ([`Trigger`]), and what a move costs ([`Costs`]).
//!
//! A threshold compares moving averages of times, which are statistics and in floating point; the
//! times of collectives and moves themselves are counted in picoseconds.

use motet_units::Duration;

/// When one hand moves, and what that costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hand {
    pub trigger: Trigger,
    pub costs: Costs,
}

/// When a hand moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Every this many collectives, starting with the first; at least 1.
    Cadence(u32),
    /// When collectives take more than `above` times their best time; and not again until they have
    /// been below `below` times that.
    Threshold { above: f64, below: f64 },
    /// When a move now is predicted to save more than it costs by the next look, `every`
    /// collectives later.
    Gain { every: u32 },
}

pub use motet_control::hand::Costs;

/// A trigger and its state.
#[derive(Clone, Debug)]
pub struct Watch {
    trigger: Trigger,
    /// Collectives so far.
    seen: u32,
    /// Moving averages in microseconds: of the recent times, and the best that those have reached.
    recent: f64,
    at_best: f64,
    /// Whether times have been below the lower threshold since the last move, so that the trigger may fire again.
    armed: bool,
}

/// The answer of a trigger before a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stay,
    Move,
    /// Move if that saves more over `horizon` collectives than it costs.
    MoveIfWorth {
        horizon: u32,
    },
}

/// Weight of a new time in the moving average.
const SMOOTHING: f64 = 0.2;

/// The best time is trusted only after this many collectives.
const SETTLING: u32 = 5;

/// How fast the best time is forgotten, so that a network that has become slower for good does not
/// trigger forever.
const FORGETTING: f64 = 0.01;

impl Watch {
    #[must_use]
    pub const fn new(trigger: Trigger) -> Self {
        Self { trigger, seen: 0, recent: 0.0, at_best: 0.0, armed: false }
    }

    /// Asked before collective `index`.
    #[must_use]
    pub fn ask(&self, index: u32) -> Verdict {
        match self.trigger {
            Trigger::Cadence(every) if index.is_multiple_of(every.max(1)) => Verdict::Move,
            Trigger::Gain { every } if index.is_multiple_of(every.max(1)) => {
                Verdict::MoveIfWorth { horizon: every.max(1) }
            }
            Trigger::Cadence(_) | Trigger::Gain { .. } => Verdict::Stay,
            Trigger::Threshold { above, .. } => {
                let worse = self.armed && self.recent > above * self.at_best;
                if self.seen == 0 || worse { Verdict::Move } else { Verdict::Stay }
            }
        }
    }

    /// Records how long a collective took, and whether the hand had moved before it.
    pub fn tell(&mut self, time: Duration, moved: bool) {
        let Trigger::Threshold { below, .. } = self.trigger else { return };
        let time = time.as_us_f64();
        if self.seen == 0 {
            (self.recent, self.at_best) = (time, time);
        }
        self.seen = self.seen.saturating_add(1);
        self.armed &= !moved;
        self.recent += SMOOTHING * (time - self.recent);
        if self.recent < self.at_best {
            self.at_best = self.recent;
        } else {
            self.at_best += FORGETTING * (self.recent - self.at_best);
        }
        self.armed |= self.seen >= SETTLING && self.recent < below * self.at_best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cadence_counts_collectives() {
        let watch = Watch::new(Trigger::Cadence(3));
        let moves: Vec<bool> = (0..7).map(|it| watch.ask(it) == Verdict::Move).collect();
        assert_eq!(moves, [true, false, false, true, false, false, true]);
    }

    /// Records up to `count` collectives of so many microseconds each; returns the number of the one after
    /// which the hand would move.
    fn moves_after(watch: &mut Watch, count: u32, us: u64) -> Option<u32> {
        (0..count).find(|_| {
            watch.tell(Duration::from_us(us), false);
            watch.ask(1) == Verdict::Move
        })
    }

    #[test]
    fn a_threshold_waits_until_things_were_good_again() {
        let mut watch = Watch::new(Trigger::Threshold { above: 1.5, below: 1.1 });
        assert_eq!(watch.ask(0), Verdict::Move);
        assert_eq!(moves_after(&mut watch, 20, 100), None);
        assert!(moves_after(&mut watch, 10, 200).is_some());
        watch.tell(Duration::from_us(200), true);
        // It has not been good since the move, so moving again would be flapping.
        assert_eq!(moves_after(&mut watch, 10, 200), None);
        assert_eq!(moves_after(&mut watch, 20, 100), None);
        assert!(moves_after(&mut watch, 10, 200).is_some());
    }

    #[test]
    fn what_has_become_slower_for_good_is_the_new_measure() {
        let mut watch = Watch::new(Trigger::Threshold { above: 1.5, below: 1.1 });
        assert_eq!(moves_after(&mut watch, 20, 100), None);
        assert!(moves_after(&mut watch, 10, 200).is_some());
        watch.tell(Duration::from_us(200), true);
        assert_eq!(moves_after(&mut watch, 500, 200), None);
        assert!(moves_after(&mut watch, 10, 400).is_some());
    }
}
