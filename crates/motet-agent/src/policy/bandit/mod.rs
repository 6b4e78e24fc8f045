//! Bandits: policies that learn which action is best by trying, each task for itself.
//!
//! This module has what they share: candidates, estimates, a budget for probes and the detection of changes. Their [`Rule`] chooses
//! what to try. Estimates are of logarithms of times. They start from the cost model, scaled to the level of the communicator's
//! recent calls, and are reset in all tasks of a communicator when a change is detected in one.
//!
//! - [`rules`]: ε-greedy, Thompson sampling, and a prober in the manner of STAR-MPI;
//! - [`stats`]: estimates, and what is dropped;
//! - [`linucb`]: the same problem by a linear model over all sizes of a communicator.

pub mod linucb;
pub mod rules;
pub mod stats;

use std::collections::BTreeMap;

use motet_runtime::Checksum;

use super::arms::candidates;
use super::budget::Budget;
use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;
use crate::trigger::Cusum;
use stats::Arms;

/// How a bandit chooses what to try.
pub trait Rule: std::fmt::Debug + Send {
    fn name(&self) -> &'static str;
    /// The candidate to run, given the one that is believed to be the best.
    fn pick(&mut self, arms: &Arms, best: usize) -> usize;
    /// Forgets everything, as before the first call.
    fn reset(&mut self);
    /// A number that identifies the state that further picks depend on.
    fn state(&self) -> u64;
}

#[derive(Clone, Debug, Default)]
struct Group {
    cusum: Cusum,
    /// The recent mean logarithm of times relative to the cost model.
    level: f64,
}

/// A bandit with a rule for choosing what to try.
#[derive(Debug)]
pub struct Bandit<R> {
    rule: R,
    tasks: BTreeMap<usize, (usize, Arms)>,
    groups: BTreeMap<usize, Group>,
    budget: Budget,
}

impl<R: Rule> Bandit<R> {
    #[must_use]
    pub fn new(rule: R) -> Self {
        Self { rule, tasks: BTreeMap::new(), groups: BTreeMap::new(), budget: Budget::default() }
    }
}

fn entry<'a>(
    tasks: &'a mut BTreeMap<usize, (usize, Arms)>,
    seen: &Observation,
) -> &'a mut (usize, Arms) {
    tasks.entry(seen.task).or_insert_with(|| {
        let nominal = |it: usize| libm::log(seen.brief.nominal[it].max(1e-6));
        let arms = candidates(&seen.brief).into_iter().map(|it| (it, nominal(it)));
        (seen.group, Arms::new(arms))
    })
}

impl<R: Rule> Policy for Bandit<R> {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let level = self.groups.entry(seen.group).or_default().level;
        let (_, arms) = entry(&mut self.tasks, seen);
        arms.set_level(level);
        let best = arms.best();
        let pick = self.rule.pick(arms, best);
        let probes = pick != best && !arms.is_dropped(pick);
        if probes && self.budget.allows(arms.cost(pick, best) * f64::from(seen.lease)) {
            return Choice::probe(arms.action(pick), arms.action(best));
        }
        Choice::best(arms.action(best))
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        let (_, arms) = entry(&mut self.tasks, seen);
        let best = arms.best();
        let other = choice.exploratory.then(|| arms.micros(best));
        self.budget.book(outcome.time, other, arms.micros(0));
        let Some(at) = arms.position(choice.action) else { return };
        if outcome.fault {
            return;
        }
        let time = libm::log(outcome.time.as_us_f64().max(1e-6));
        let off = arms.is_known(at).then(|| time - arms.mean(at));
        arms.learn(at, time);
        let level = time - arms.nominal(at);
        let group = self.groups.entry(seen.group).or_default();
        let changed = off.is_some_and(|it| group.cusum.step(it / stats::NOISE));
        group.level = if changed { level } else { group.level + 0.1 * (level - group.level) };
        if changed {
            // A change that affects one size affects the others of the communicator too.
            let alike = self.tasks.values_mut().filter(|it| it.0 == seen.group);
            alike.for_each(|it| it.1.forget());
            if let Some((_, arms)) = self.tasks.get_mut(&seen.task) {
                arms.learn(at, time);
            }
        }
    }

    fn reset(&mut self) {
        self.rule.reset();
        self.tasks.clear();
        self.groups.clear();
        self.budget = Budget::default();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = self.rule.state().to_le_bytes().to_vec();
        let mut put = |value: f64| bytes.extend(value.to_bits().to_le_bytes());
        self.budget.parts().into_iter().for_each(&mut put);
        for group in self.groups.values() {
            [group.level, group.cusum.score()].into_iter().for_each(&mut put);
        }
        self.tasks.values().flat_map(|it| it.1.values()).for_each(&mut put);
        Checksum::of(&bytes)
    }
}
