//! The trigger agent: detects performance changes, after which the policy may act; while nothing changes, the table suffices.
//!
//! A policy sees three signals over a communicator's calls ([`Anomaly`]), each 0 if nothing is unusual: a
//! [`Cusum`] of how far times deviate from the expectation, the prediction error over recent calls relative
//! to its usual size, and how much longer calls take than nominal. The expected time of a call is a moving
//! average of earlier calls of its task with its action; the first two calls with an action raise no alarm.
//!
//! Thresholds are set by simulation: with the scenarios' noise there is one false alarm in about a thousand calls, and calls
//! that take half as long again are noticed at the second or third. Tests check both.

pub mod cusum;
pub mod gated;

use std::collections::BTreeMap;

use crate::env::Observation;
use crate::reward::Outcome;
use crate::state::Anomaly;

pub use cusum::Cusum;
pub use gated::Gated;

/// The usual noise of a measurement: the standard deviation of its logarithm.
pub const NOISE: f64 = 0.05;
/// The weight of a new call in an expected time.
const FOLLOW: f64 = 0.1;
/// The weight of a new call in the signals.
const FADE: f64 = 0.2;

/// The trigger of one communicator.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    cusum: Cusum,
    /// The expected time by task and action: the logarithm of µs, and how many calls it is made of.
    expected: BTreeMap<(usize, usize), (f64, u32)>,
    error: f64,
    congestion: f64,
    alarms: u64,
}

impl Trigger {
    /// Processes a call; returns `true` for an alarm.
    pub fn step(&mut self, seen: &Observation, action: usize, outcome: &Outcome) -> bool {
        let time = libm::log(outcome.time.as_us_f64().max(1e-6));
        let should = libm::log(seen.brief.nominal.get(action).copied().unwrap_or(1.0).max(1e-6));
        let longer = libm::exp(time - should) - 1.0;
        self.congestion += FADE * (longer.max(0.0) - self.congestion);
        let slot = self.expected.entry((seen.task, action)).or_insert((time, 0));
        let off = time - slot.0;
        slot.1 = slot.1.saturating_add(1);
        // The first calls count alike.
        slot.0 += off * FOLLOW.max(1.0 / f64::from(slot.1));
        if slot.1 <= 2 {
            return false;
        }
        let error = (off / NOISE).abs().min(20.0);
        self.error += FADE * (error - self.error);
        let alarm = outcome.fault || self.cusum.step(off / NOISE);
        if alarm {
            self.alarms += 1;
            // The old expectations no longer hold.
            self.expected.clear();
        }
        alarm
    }

    /// The signals.
    #[must_use]
    pub const fn anomaly(&self) -> Anomaly {
        Anomaly {
            cusum: self.cusum.score(),
            reconstruction: self.error,
            congestion: self.congestion,
        }
    }

    /// How many alarms there were.
    #[must_use]
    pub const fn alarms(&self) -> u64 {
        self.alarms
    }
}

#[cfg(test)]
mod tests {
    use motet_units::{Bytes, Seed};

    use super::*;
    use crate::env::testing::scenario;
    use crate::env::{Environment, Episode, Load, Pattern, Timeline};
    use crate::policy::Choice;

    /// The calls at which there were alarms.
    fn alarms(timeline: Timeline, calls: u64, seed: u64) -> Vec<u64> {
        let sizes = [Bytes::kib(8), Bytes::kib(256), Bytes::mib(4)];
        let mut env = Environment::new(scenario(&sizes, calls, timeline, Seed::new(seed))).unwrap();
        let mut trigger = Trigger::default();
        let mut found = Vec::new();
        while !env.is_over() {
            let seen = env.observe();
            let step = env.step(Choice::DEFAULT).unwrap();
            if trigger.step(&seen, 0, &step.outcome) {
                found.push(seen.call);
            }
        }
        found
    }

    /// The stated rate: at most one in a thousand calls.
    #[test]
    fn false_alarms_are_as_rare_as_stated() {
        let found: usize =
            (0..10).map(|seed| alarms(Timeline::default(), 10_000, seed).len()).sum();
        assert!(found <= 100, "{found} in 100000 calls");
    }

    /// The stated delay: calls that take half as long again, or less time, are noticed within six calls.
    #[test]
    fn changes_are_noticed_within_a_few_calls() {
        let mut delays: Vec<u64> = Vec::new();
        for seed in 0..40 {
            let load = Load { share: 0.5, delay: 1.6, ..Load::NONE };
            let episode = Episode { calls: (600, 1200), pattern: Pattern::Abrupt, load };
            let found = alarms(Timeline { episodes: vec![episode] }, 1500, seed);
            for change in [600, 1200] {
                let next = found.iter().find(|it| **it >= change).copied();
                delays.push(next.map_or(u64::MAX, |it| it - change));
            }
        }
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        assert!(median <= 3, "{delays:?}");
        assert!(delays[delays.len() * 95 / 100] <= 8, "{delays:?}");
    }

    #[test]
    fn signals_rise_with_what_happens_and_fade() {
        let load = Load { share: 0.1, delay: 10.0, ..Load::NONE };
        let episode = Episode { calls: (100, 200), pattern: Pattern::Abrupt, load };
        let timeline = Timeline { episodes: vec![episode] };
        let sizes = [Bytes::kib(8)];
        let mut env = Environment::new(scenario(&sizes, 400, timeline, Seed::new(1))).unwrap();
        let mut trigger = Trigger::default();
        let mut congestion = Vec::new();
        while !env.is_over() {
            let seen = env.observe();
            let step = env.step(Choice::DEFAULT).unwrap();
            trigger.step(&seen, 0, &step.outcome);
            congestion.push(trigger.anomaly().congestion);
        }
        assert!(congestion[99] < 0.2 && congestion[199] > 1.0 && congestion[399] < 0.2);
    }
}
