//! [`Gated`]: a policy that is active only for a while after each alarm of the trigger. In between, its last decisions are used as a
//! fixed table, so that nothing is probed while nothing changes.

use std::collections::BTreeMap;

use motet_runtime::Checksum;

use super::Trigger;
use crate::env::Observation;
use crate::policy::{Choice, Policy};
use crate::reward::Outcome;

/// Calls of a communicator for which the policy acts at the beginning and after each alarm.
const ACTS: u64 = 400;

#[derive(Clone, Debug, Default)]
struct Group {
    trigger: Trigger,
    /// Calls since the last alarm.
    quiet: u64,
}

/// A policy gated by the trigger.
#[derive(Debug)]
pub struct Gated<P> {
    inner: P,
    name: &'static str,
    groups: BTreeMap<usize, Group>,
    table: BTreeMap<usize, usize>,
    /// Whether alarms activate the policy.
    hears: bool,
}

impl<P: Policy> Gated<P> {
    #[must_use]
    pub const fn new(inner: P, name: &'static str) -> Self {
        Self { inner, name, groups: BTreeMap::new(), table: BTreeMap::new(), hears: true }
    }

    /// A policy that is active at the beginning only and ignores alarms, to measure what alarms cost and gain.
    #[must_use]
    pub const fn deaf(inner: P, name: &'static str) -> Self {
        Self { inner, name, groups: BTreeMap::new(), table: BTreeMap::new(), hears: false }
    }

    /// How many alarms there were, of all communicators.
    #[must_use]
    pub fn alarms(&self) -> u64 {
        self.groups.values().map(|it| it.trigger.alarms()).sum()
    }
}

impl<P: Policy> Policy for Gated<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let acts = self.groups.get(&seen.group).is_none_or(|it| it.quiet < ACTS);
        if let Some(action) = self.table.get(&seen.task)
            && !acts
        {
            return Choice::best(*action);
        }
        let choice = self.inner.choose(seen);
        if !choice.exploratory {
            self.table.insert(seen.task, choice.action);
        }
        choice
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        let group = self.groups.entry(seen.group).or_default();
        let alarm = group.trigger.step(seen, choice.action, outcome);
        group.quiet = if alarm && self.hears { 0 } else { group.quiet + 1 };
        self.inner.learn(seen, choice, outcome);
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.groups.clear();
        self.table.clear();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = format!("{:?}{:?}", self.inner.checksum(), self.table).into_bytes();
        for group in self.groups.values() {
            bytes.extend(group.quiet.to_le_bytes());
            let signals = group.trigger.anomaly();
            for it in [signals.cusum, signals.reconstruction, signals.congestion] {
                bytes.extend(it.to_bits().to_le_bytes());
            }
        }
        Checksum::of(&bytes)
    }
}
