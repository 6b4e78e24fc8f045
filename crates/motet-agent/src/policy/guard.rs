//! [`Guarded`]: any policy, held to what was seen: an action that was slower than NCCL's default when both were last
//! run is not taken for the best, whatever the policy believes.
//!
//! Estimates can be wrong: the model may not know what happens, or a change may go unnoticed because it came slowly. So
//! the default is run now and then (an *audit*), and times are compared as they are. It costs what is saved in one
//! call of an audit's period, and bounds what a wrong belief can cost.

use std::collections::BTreeMap;

use motet_runtime::Checksum;

use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;

/// Calls of a task from one audit to the next: first so many, twice as many after each that changed nothing,
const FIRST: u32 = 16;
/// and at most so many.
const MOST: u32 = 40;
/// By how much times must differ to count, in the logarithm.
const NOISE: f64 = 0.045;
/// A surprise of more than this makes audits frequent again.
const SURPRISE: f64 = 0.25;
/// Calls of a task after which what was seen of an action is too old to speak against it.
const LAPSE: u32 = 64;

/// What was seen of an action: the logarithms of its last two times, and in which call of the task.
#[derive(Clone, Copy, Debug)]
struct Last {
    times: [f64; 2],
    at: u32,
}

#[derive(Clone, Debug, Default)]
struct Task {
    calls: u32,
    period: u32,
    /// When the default was last run.
    audited: u32,
    last: BTreeMap<usize, Last>,
}

impl Task {
    /// Whether an action was slower than the default both of the last times it was run, by more than noise.
    fn is_seen_worse(&self, action: usize) -> bool {
        let (Some(it), Some(default)) = (self.last.get(&action), self.last.get(&0)) else {
            return false;
        };
        let [a, b] = it.times;
        let fresh = self.calls.saturating_sub(it.at) < LAPSE;
        fresh && a.min(b) > default.times[0].max(default.times[1]) + NOISE
    }

    fn note(&mut self, action: usize, time: f64) {
        self.calls += 1;
        let before = self.last.get(&action).map(|it| it.times[0]);
        // A change of the action in use, or of what an audit finds, is a reason to look more often.
        let surprised = before.is_some_and(|it| (time - it).abs() > SURPRISE);
        if surprised || self.period == 0 {
            self.period = FIRST;
        } else if action == 0 && self.calls.saturating_sub(self.audited) > 1 {
            self.period = (2 * self.period).min(MOST);
        }
        if action == 0 {
            self.audited = self.calls;
        }
        let times = [time, before.unwrap_or(f64::NEG_INFINITY)];
        self.last.insert(action, Last { times, at: self.calls });
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Guarded<P> {
    inner: P,
    tasks: BTreeMap<usize, Task>,
}

impl<P: Policy> Guarded<P> {
    #[must_use]
    pub const fn new(inner: P) -> Self {
        Self { inner, tasks: BTreeMap::new() }
    }
}

impl<P: Policy> Policy for Guarded<P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let choice = self.inner.choose(seen);
        let task = self.tasks.entry(seen.task).or_default();
        if choice.exploratory || choice.action == 0 {
            return choice;
        }
        if task.calls.saturating_sub(task.audited) >= task.period.max(1) {
            return Choice::probe(0);
        }
        if task.is_seen_worse(choice.action) { Choice::DEFAULT } else { choice }
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        self.inner.learn(seen, choice, outcome);
        if !outcome.fault {
            let time = libm::log(outcome.time.as_us_f64().max(1e-6));
            self.tasks.entry(seen.task).or_default().note(choice.action, time);
        }
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.tasks.clear();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = format!("{:?}", self.inner.checksum()).into_bytes();
        for task in self.tasks.values() {
            for it in [task.calls, task.period, task.audited] {
                bytes.extend(it.to_le_bytes());
            }
            for (action, last) in &task.last {
                bytes.extend(action.to_le_bytes());
                bytes.extend(last.at.to_le_bytes());
                last.times.iter().for_each(|it| bytes.extend(it.to_bits().to_le_bytes()));
            }
        }
        Checksum::of(&bytes)
    }

    fn told(&mut self, means: &[f64]) {
        self.inner.told(means);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_to_be_slower_twice_is_refused() {
        let mut task = Task::default();
        [2.0, 2.0].into_iter().for_each(|it| task.note(0, it));
        task.note(3, 2.5);
        assert!(!task.is_seen_worse(3), "one time may be an outlier");
        task.note(3, 2.5);
        assert!(task.is_seen_worse(3) && !task.is_seen_worse(4));
        // The default got slower: it is no longer known to be better.
        task.note(0, 2.6);
        assert!(!task.is_seen_worse(3));
        let mut task = Task::default();
        [(0, 2.0), (0, 2.0), (3, 2.5), (3, 2.5)].into_iter().for_each(|it| task.note(it.0, it.1));
        (0..LAPSE).for_each(|_| task.note(0, 2.0));
        assert!(!task.is_seen_worse(3), "too long ago");
    }

    #[test]
    fn audits_become_rarer_until_something_surprises() {
        let mut task = Task::default();
        task.note(0, 2.0);
        assert_eq!(task.period, FIRST);
        for _ in 0..3 {
            (0..20).for_each(|_| task.note(3, 1.8));
            task.note(0, 2.0);
        }
        assert_eq!(task.period, MOST);
        task.note(3, 2.4);
        assert_eq!(task.period, FIRST);
    }
}
