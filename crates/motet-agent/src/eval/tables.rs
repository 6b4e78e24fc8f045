//! [`Tables`]: the tables that a leader publishes, and how a policy's choices get into them.
//!
//! A policy that decides call by call may be wrong for one call, but an entry of a table stays in use until the next table,
//! without any check. So tables have leases, as in a live job ([`pilot`](crate::pilot)): whatever a policy wants to probe
//! (an audit of NCCL's default included) is used for a few calls, after which the standing choice is used again. What the policy
//! believes to be the best is first tried in the same way, and becomes the standing choice of the next table if it was faster. Only
//! NCCL's default needs no trial.

use std::collections::BTreeMap;

use super::run::Pace;
use crate::policy::Choice;
use crate::reward::Outcome;

/// A table's entry for one task.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The action that is used when no lease is active.
    standing: usize,
    /// Trials that are used first, one after the other, each with its remaining number of calls.
    leases: Vec<(Choice, u32)>,
    /// Whether the policy was asked for this epoch.
    asked: bool,
    /// The logarithms of times in this epoch, by action; `before` has those of the previous epoch in which the task was called.
    times: BTreeMap<usize, Vec<f64>>,
    before: BTreeMap<usize, Vec<f64>>,
}

impl Entry {
    /// Whether an action was faster than the standing one in the last epoch.
    fn has_won(&self, action: usize) -> bool {
        let median = |it: usize| self.before.get(&it).and_then(|it| median(it));
        match (median(action), median(self.standing)) {
            (Some(tried), Some(stood)) => tried < stood,
            _ => false,
        }
    }

    /// Takes a policy's choice for the epoch into the table.
    fn publish(&mut self, choice: Choice, pace: Pace) {
        self.leases.clear();
        if choice.exploratory {
            self.leases.push((choice, pace.lease.max(1)));
        }
        let wanted = choice.best;
        // With an epoch of one call every choice is a trial already.
        if pace.epoch <= 1 || wanted == 0 || self.has_won(wanted) {
            self.standing = wanted;
        } else if wanted != self.standing {
            self.leases.push((Choice::best(wanted), pace.lease.max(1)));
        }
    }
}

/// The median; of an even number of values the lower of the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// The published table entries of all tasks.
#[derive(Clone, Debug)]
pub struct Tables {
    pace: Pace,
    entries: Vec<Entry>,
}

impl Tables {
    /// Tables for so many tasks, with NCCL's default as the standing choice of each.
    #[must_use]
    pub fn new(pace: Pace, tasks: usize) -> Self {
        Self { pace, entries: vec![Entry::default(); tasks] }
    }

    /// The choice for the next call of a task. The policy is asked once per epoch.
    pub fn next(&mut self, task: usize, ask: impl FnOnce() -> Choice) -> Choice {
        let Some(entry) = self.entries.get_mut(task) else { return Choice::DEFAULT };
        if !std::mem::replace(&mut entry.asked, true) {
            entry.publish(ask(), self.pace);
        }
        let lease = entry.leases.iter_mut().find(|it| it.1 > 0);
        lease.map_or(Choice::best(entry.standing), |(choice, left)| {
            *left -= 1;
            *choice
        })
    }

    /// Records the outcome of a call.
    pub fn note(&mut self, task: usize, choice: &Choice, outcome: &Outcome) {
        if let Some(entry) = self.entries.get_mut(task).filter(|_| !outcome.fault) {
            let time = libm::log(outcome.time.as_us_f64().max(1e-6));
            entry.times.entry(choice.action).or_default().push(time);
        }
    }

    /// Ends the epoch.
    pub fn end(&mut self) {
        for entry in self.entries.iter_mut().filter(|it| it.asked) {
            entry.asked = false;
            entry.before = std::mem::take(&mut entry.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use motet_units::{Bytes, Duration, Seed};

    use super::*;
    use crate::env::testing::scenario;
    use crate::env::{Environment, Timeline};

    /// One epoch of a task's calls, in which the policy chooses `says` and actions take the times that
    /// `micros` gives; returns the actions that ran.
    fn epoch(
        tables: &mut Tables,
        calls: u64,
        says: Choice,
        micros: impl Fn(usize) -> u64,
    ) -> Vec<usize> {
        let scenario = scenario(&[Bytes::kib(64)], 1, Timeline::default(), Seed::new(1));
        let outcome = Environment::new(scenario).unwrap().step(Choice::DEFAULT).unwrap().outcome;
        let mut ran = Vec::new();
        for _ in 0..calls {
            let choice = tables.next(0, || says);
            let time = Duration::from_us(micros(choice.action));
            tables.note(0, &choice, &Outcome { time, ..outcome });
            ran.push(choice.action);
        }
        tables.end();
        ran
    }

    #[test]
    fn what_is_tried_gives_way_to_what_stands() {
        let mut tables = Tables::new(Pace { epoch: 6, lease: 2 }, 1);
        let flat = |_| 100;
        assert_eq!(epoch(&mut tables, 6, Choice::probe(5, 0), flat), [5, 5, 0, 0, 0, 0]);
        assert_eq!(epoch(&mut tables, 6, Choice::DEFAULT, flat), [0; 6]);
        // An audit and a trial of what is held to be the best, one after the other.
        assert_eq!(epoch(&mut tables, 6, Choice::probe(0, 3), flat), [0, 0, 3, 3, 0, 0]);
    }

    #[test]
    fn what_has_won_its_trial_stands_and_what_has_lost_does_not() {
        let mut tables = Tables::new(Pace { epoch: 4, lease: 1 }, 1);
        let slow = |action| if action == 3 { 120 } else { 100 };
        for _ in 0..3 {
            assert_eq!(epoch(&mut tables, 4, Choice::best(3), slow), [3, 0, 0, 0]);
        }
        let fast = |action| if action == 3 { 80 } else { 100 };
        assert_eq!(epoch(&mut tables, 4, Choice::best(3), fast), [3, 0, 0, 0]);
        assert_eq!(epoch(&mut tables, 4, Choice::best(3), slow), [3; 4], "it has won");
        // Back to the default at once: that is never worse than without an agent.
        assert_eq!(epoch(&mut tables, 4, Choice::DEFAULT, fast), [0; 4]);
        // An epoch without a call of the task does not make the last one forgotten.
        assert_eq!(epoch(&mut tables, 4, Choice::best(3), fast), [3, 0, 0, 0]);
        epoch(&mut tables, 0, Choice::DEFAULT, fast);
        assert_eq!(epoch(&mut tables, 4, Choice::best(3), fast), [3; 4]);
    }

    #[test]
    fn call_by_call_a_policy_has_its_way() {
        let mut tables = Tables::new(Pace::default(), 1);
        for action in [3, 0, 7] {
            assert_eq!(epoch(&mut tables, 1, Choice::best(action), |_| 100), [action]);
            assert_eq!(epoch(&mut tables, 1, Choice::probe(9, action), |_| 100), [9]);
        }
        assert_eq!(tables.next(8, || Choice::best(1)), Choice::DEFAULT, "no such task");
    }
}
