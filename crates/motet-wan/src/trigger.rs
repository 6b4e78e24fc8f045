//! When a hand moves ([`Trigger`]), and what that costs ([`Costs`]).

use motet_units::Duration;

/// One hand's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hand {
    pub trigger: Trigger,
    pub costs: Costs,
}

/// When a hand moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Before every so many collectives, the first one included; at least 1.
    Cadence(u32),
    /// When collectives have come to take more than `above` times what they took right after the
    /// last move; and then not again before they have been below `below` times that.
    Threshold { above: f64, below: f64 },
    /// When moving now is predicted to save more, until the next look `every` collectives later,
    /// than it costs.
    Gain { every: u32 },
}

/// What one move costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// From the decision until the new routes or program are known; collectives go on meanwhile
    /// with the old ones.
    pub compute: Duration,
    /// Telling everyone: nothing is sent meanwhile.
    pub distribute: Duration,
    /// Until what was in flight has drained and the new routes are in force everywhere: added to
    /// the first collective that uses them.
    pub converge: Duration,
}

impl Costs {
    /// What a move takes away from the collectives themselves.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_ps(self.distribute.as_ps().saturating_add(self.converge.as_ps()))
    }
}

/// A trigger with its memory.
#[derive(Clone, Debug)]
pub struct Watch {
    trigger: Trigger,
    /// Collectives since the last look.
    since: u32,
    /// What a collective took right after the last move, smoothed.
    settled: Option<f64>,
    armed: bool,
    recent: f64,
}

/// What a trigger says before a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stay,
    Move,
    /// Move if that saves more over `horizon` collectives than it costs.
    MoveIfWorth {
        horizon: u32,
    },
}

/// How much of a new time goes into the smoothed one.
const SMOOTHING: f64 = 0.2;

impl Watch {
    #[must_use]
    pub const fn new(trigger: Trigger) -> Self {
        Self { trigger, since: 0, settled: None, armed: true, recent: 0.0 }
    }

    /// Asked before collective `index`.
    pub fn ask(&mut self, index: u32) -> Verdict {
        match self.trigger {
            Trigger::Cadence(every) if index.is_multiple_of(every.max(1)) => Verdict::Move,
            Trigger::Cadence(_) => Verdict::Stay,
            Trigger::Gain { every } if index.is_multiple_of(every.max(1)) => {
                Verdict::MoveIfWorth { horizon: every.max(1) }
            }
            Trigger::Gain { .. } => Verdict::Stay,
            Trigger::Threshold { above, .. } => match self.settled {
                None => Verdict::Move,
                Some(settled) if self.armed && self.since > 0 && self.recent > above * settled => {
                    Verdict::Move
                }
                Some(_) => Verdict::Stay,
            },
        }
    }

    /// Told how long a collective took, and whether the hand had moved before it.
    pub fn tell(&mut self, time: Duration, moved: bool) {
        let time = time.as_us_f64();
        if moved || self.settled.is_none() {
            (self.settled, self.recent, self.since, self.armed) = (Some(time), time, 0, false);
            return;
        }
        self.since += 1;
        self.recent += SMOOTHING * (time - self.recent);
        if let (Trigger::Threshold { below, .. }, Some(settled)) = (self.trigger, self.settled)
            && self.recent < below * settled
        {
            self.armed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cadence_counts_collectives() {
        let mut watch = Watch::new(Trigger::Cadence(3));
        let moves: Vec<bool> = (0..7).map(|it| watch.ask(it) == Verdict::Move).collect();
        assert_eq!(moves, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn a_threshold_waits_until_things_were_good_again() {
        let mut watch = Watch::new(Trigger::Threshold { above: 1.5, below: 1.1 });
        let us = Duration::from_us;
        assert_eq!(watch.ask(0), Verdict::Move);
        watch.tell(us(100), true);
        for _ in 0..50 {
            watch.tell(us(200), false);
        }
        // It has not been good since the move, so moving again would be flapping.
        assert_eq!(watch.ask(51), Verdict::Stay);
        for _ in 0..50 {
            watch.tell(us(100), false);
        }
        assert_eq!(watch.ask(101), Verdict::Stay);
        for _ in 0..50 {
            watch.tell(us(200), false);
        }
        assert_eq!(watch.ask(151), Verdict::Move);
    }
}
