//! [`Infer`]: infers the present load on the network, and chooses the action that the cost model holds to be best under it.
//!
//! A bandit has to try actions again after every change. But the cost model already predicts how each action responds to each kind
//! of load; unknown are only the load and the model's error. Both are inferred from the calls that the job makes anyway, of
//! all sizes of a communicator together:
//!
//! - [`loads`]: a probability for each of a grid of loads, which may change at every call;
//! - [`errors`]: the model's error for each algorithm and protocol, and for each task beyond that.
//!
//! An action is taken for the best only when its error is known about as well as that of NCCL's default; until then it is
//! probed, if that is worth it and the [`Budget`] allows. So after an abrupt change the next best action is found
//! without trying the others, and a probe of one size serves all sizes of its communicator.

mod errors;
mod loads;

use std::collections::BTreeMap;

use motet_runtime::Checksum;

use super::budget::Budget;
use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;
use errors::Errors;
use loads::{Arm, Loads, Task};

/// The number of calls over which the expected gain of a probe is counted.
const HORIZON: f64 = 60.0;
/// By how many standard deviations an action must be better than NCCL's default to replace it.
const RISK: f64 = 0.7;
/// The least expected gain for which a probe is made, as a share of a call.
const WORTH: f64 = 0.002;
/// By how much an action's estimate must be better than NCCL's default to replace it.
const MARGIN: f64 = 0.005;

/// The inferred state of one communicator.
#[derive(Clone, Debug)]
struct Group {
    loads: Loads,
    errors: Errors,
    tasks: BTreeMap<usize, Task>,
}

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct Infer {
    groups: BTreeMap<usize, Group>,
    budget: Budget,
}

/// The estimated time of an arm in the next call.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The logarithm of its time in µs.
    mean: f64,
    /// The variance from the arm's own unknown error.
    own: f64,
    /// The variance from load that slows it differently than NCCL's default.
    load: f64,
}

impl Estimate {
    /// The standard deviation of its difference from NCCL's default.
    fn apart(&self, default: &Self) -> f64 {
        libm::sqrt(self.own + default.own + self.load)
    }
}

impl Group {
    fn new(seen: &Observation) -> Self {
        Self { loads: Loads::new(seen), errors: Errors::default(), tasks: BTreeMap::new() }
    }

    fn task(&mut self, seen: &Observation) -> &Task {
        let loads = &self.loads;
        self.tasks.entry(seen.task).or_insert_with(|| loads.task(seen))
    }

    fn estimates(&self, number: usize, task: &Task) -> Vec<Estimate> {
        let Some(default) = task.arms.first() else { return Vec::new() };
        let of = |arm: &Arm| {
            let (slower, load) = self.loads.slowdown(arm, default);
            let error = self.errors.of(number, arm);
            // A kernel's error may have changed if the load differs from that under which it was last measured.
            let moved = loads::RESPONSE * (slower - error.seen_under);
            let own = error.all() + moved * moved;
            Estimate { mean: arm.nominal + slower + error.mean, own, load }
        };
        task.arms.iter().map(of).collect()
    }
}

/// The best arm among those that are better than NCCL's default with enough confidence.
fn exploit(estimates: &[Estimate]) -> usize {
    let mut best = 0;
    for (at, it) in estimates.iter().enumerate().skip(1) {
        let worst = it.mean + RISK * it.apart(&estimates[0]);
        let better = worst < estimates[0].mean - MARGIN;
        if better && it.mean < estimates[best].mean {
            best = at;
        }
    }
    best
}

/// The density and the distribution function of a standard normal variable.
fn normal(u: f64) -> (f64, f64) {
    let density = libm::exp(-u * u / 2.0) / libm::sqrt(2.0 * std::f64::consts::PI);
    (density, 0.5 * libm::erfc(-u / std::f64::consts::SQRT_2))
}

/// The arm that is most worth a probe, and the probe's cost as a share of the best's time.
fn probe(estimates: &[Estimate], best: usize) -> Option<(usize, f64)> {
    let mut found: Option<(usize, f64, f64)> = None;
    for (at, it) in estimates.iter().enumerate() {
        // If the default is in use and its error is less certain than the arm's, the default is measured
        // first, which needs no probe.
        if at == best || (best == 0 && it.own < estimates[0].own) {
            continue;
        }
        let unsure = libm::sqrt(it.own + it.load);
        let u = (estimates[best].mean - it.mean) / unsure;
        let (density, below) = normal(u);
        let gain = unsure * (density + u * below);
        let cost = unsure * (density - u * (1.0 - below));
        let worth = gain * HORIZON - cost;
        if worth > 0.0 && gain > WORTH && found.is_none_or(|it| worth > it.1) {
            found = Some((at, worth, cost));
        }
    }
    found.map(|it| (it.0, it.2))
}

impl Policy for Infer {
    fn name(&self) -> &'static str {
        "infer"
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let group = self.groups.entry(seen.group).or_insert_with(|| Group::new(seen));
        group.task(seen);
        let Some(task) = group.tasks.get(&seen.task) else { return Choice::DEFAULT };
        let estimates = group.estimates(seen.task, task);
        if estimates.is_empty() {
            return Choice::DEFAULT;
        }
        let best = exploit(&estimates);
        if let Some((at, cost)) = probe(&estimates, best)
            && self.budget.allows(cost * libm::exp(estimates[best].mean) * f64::from(seen.lease))
        {
            return Choice::probe(task.arms[at].action, task.arms[best].action);
        }
        Choice::best(task.arms[best].action)
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        let group = self.groups.entry(seen.group).or_insert_with(|| Group::new(seen));
        group.task(seen);
        let Some(task) = group.tasks.get(&seen.task) else { return };
        let estimates = group.estimates(seen.task, task);
        let Some(arm) = task.arms.iter().find(|it| it.action == choice.action) else { return };
        let best = exploit(&estimates);
        let micros = |at: usize| estimates.get(at).map_or(0.0, |it| libm::exp(it.mean));
        let other = choice.exploratory.then(|| micros(best));
        self.budget.book(outcome.time, other, micros(0));
        if outcome.fault {
            // It tells nothing about later calls.
            return;
        }
        let seen_log = libm::log(outcome.time.as_us_f64().max(1e-6));
        let error = group.errors.of(seen.task, arm);
        group.loads.update(arm, seen_log - arm.nominal - error.mean, error.all());
        let (slower, unsure) = group.loads.slowdown(arm, arm);
        group.errors.grow_older(group.loads.calm());
        group.errors.update(seen.task, arm, seen_log - arm.nominal, slower, unsure);
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = Vec::new();
        let mut put = |value: f64| bytes.extend(value.to_bits().to_le_bytes());
        self.budget.parts().into_iter().for_each(&mut put);
        for group in self.groups.values() {
            group.loads.weights().iter().copied().for_each(&mut put);
            group.errors.values().for_each(&mut put);
        }
        Checksum::of(&bytes)
    }
}
