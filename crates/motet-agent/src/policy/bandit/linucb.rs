//! [`LinUcb`]: a contextual bandit: a linear model of each action's time relative to the cost model, for all sizes of a communicator
//! together, with optimism where it is uncertain. Each communicator has a model of its own, and old calls are discounted.
//!
//! Features of an action in a task: one for its algorithm and protocol, a constant, the shares of its time
//! without load that hops and data take, and its channels. So congestion that lengthens hops shows in all
//! actions with many hops, whatever their size. [`Infer`](crate::policy::infer) knows the same from the cost
//! model without learning it.

use std::collections::BTreeMap;

use motet_nccl::{Algorithm, Protocol};
use motet_runtime::Checksum;

use crate::env::Observation;
use crate::policy::arms::candidates;
use crate::policy::budget::Budget;
use crate::policy::{Choice, Policy};
use crate::reward::Outcome;

const KERNELS: usize = Algorithm::COUNT * Protocol::COUNT;
const FEATURES: usize = KERNELS + 4;
/// The optimism, in standard deviations.
const ALPHA: f64 = 1.0;
/// The factor by which old evidence is discounted at each call.
const MEMORY: f64 = 0.97;
/// The precision of the prior of each coefficient (ridge regression).
const RIDGE: f64 = 1.0;
/// The noise of a measurement: the standard deviation of its logarithm.
const NOISE: f64 = 0.06;

type Features = [f64; FEATURES];

fn features(seen: &Observation, action: usize) -> Features {
    let mut row = [0.0; FEATURES];
    let (algorithm, protocol) = seen.brief.kernels[action];
    // The model's errors per kernel are smaller than the effect of load; a smaller feature value means a
    // narrower prior.
    row[algorithm.index() * Protocol::COUNT + protocol.index()] = 0.3;
    let (counts, terms) = (seen.brief.counts(action), &seen.terms);
    let all = terms.micros(counts).max(1e-9);
    let at = protocol.index();
    let hops =
        counts.hops_inside * terms.hop_inside[at] + counts.hops_between * terms.hop_between[at];
    let data = (counts.bytes_inside / terms.inside).max(counts.bytes_between / terms.between) / 1e3;
    row[KERNELS..].copy_from_slice(&[0.3, hops / all, data / all, counts.channels / 32.0]);
    row
}

/// The discounted Gram matrix, and the sums of features times targets.
#[derive(Clone, Debug)]
struct Model {
    gram: Box<[[f64; FEATURES]; FEATURES]>,
    answers: Features,
    /// The coefficients and the inverse of the matrix, solved anew after each call.
    inverse: Box<[[f64; FEATURES]; FEATURES]>,
    weights: Features,
}

impl Model {
    fn new() -> Self {
        let mut identity = Box::new([[0.0; FEATURES]; FEATURES]);
        (0..FEATURES).for_each(|it| identity[it][it] = 1.0 / RIDGE);
        let zero = Box::new([[0.0; FEATURES]; FEATURES]);
        Self { gram: zero, answers: [0.0; FEATURES], inverse: identity, weights: [0.0; FEATURES] }
    }

    /// The expected answer, and its standard deviation.
    fn predict(&self, row: &Features) -> (f64, f64) {
        let dot = |a: &Features, b: &Features| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let spread: f64 = (0..FEATURES)
            .filter(|it| row[*it] != 0.0)
            .map(|it| row[it] * dot(&self.inverse[it], row))
            .sum();
        (dot(&self.weights, row), libm::sqrt(spread.max(0.0)))
    }

    fn learn(&mut self, row: &Features, answer: f64) {
        let scale = 1.0 / (NOISE * NOISE);
        for i in 0..FEATURES {
            self.answers[i] = MEMORY * self.answers[i] + scale * row[i] * answer;
            for j in 0..FEATURES {
                self.gram[i][j] = MEMORY * self.gram[i][j] + scale * row[i] * row[j];
            }
        }
        self.solve();
    }

    /// Gauss–Jordan: the matrix is symmetric and has at least the ridge on its diagonal, so that no pivot is 0.
    fn solve(&mut self) {
        let mut left = self.gram.clone();
        let mut right = Box::new([[0.0; FEATURES]; FEATURES]);
        for i in 0..FEATURES {
            left[i][i] += RIDGE;
            right[i][i] = 1.0;
        }
        for i in 0..FEATURES {
            let pivot = 1.0 / left[i][i];
            for j in 0..FEATURES {
                left[i][j] *= pivot;
                right[i][j] *= pivot;
            }
            let (row_left, row_right) = (left[i], right[i]);
            for k in (0..FEATURES).filter(|it| *it != i) {
                let factor = left[k][i];
                if factor == 0.0 {
                    continue;
                }
                for j in 0..FEATURES {
                    left[k][j] -= factor * row_left[j];
                    right[k][j] -= factor * row_right[j];
                }
            }
        }
        for i in 0..FEATURES {
            self.weights[i] = right[i].iter().zip(&self.answers).map(|(a, b)| a * b).sum();
        }
        self.inverse = right;
    }
}

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct LinUcb {
    groups: BTreeMap<usize, Model>,
    tasks: BTreeMap<usize, Vec<(usize, Features)>>,
    budget: Budget,
}

/// The estimated logarithm of a time in µs, and its optimistic lower bound.
fn estimate(model: &Model, seen: &Observation, arm: &(usize, Features)) -> (f64, f64, f64) {
    let nominal = libm::log(seen.brief.nominal[arm.0].max(1e-6));
    let (off, spread) = model.predict(&arm.1);
    (nominal + off, nominal + off - ALPHA * spread, spread)
}

impl LinUcb {
    /// The best arm among those that are known well enough, the most promising one, and the default, each with its estimated time in µs.
    fn weigh(&mut self, seen: &Observation) -> [(usize, f64); 3] {
        let model = self.groups.entry(seen.group).or_insert_with(Model::new);
        let arms = self.tasks.entry(seen.task).or_insert_with(|| {
            candidates(&seen.brief).into_iter().map(|it| (it, features(seen, it))).collect()
        });
        let estimates: Vec<_> = arms.iter().map(|it| estimate(model, seen, it)).collect();
        let (mut best, mut hope) = (0, 0);
        for at in 1..estimates.len() {
            let sure = estimates[at].2 + estimates[0].2 < 0.15;
            if sure && estimates[at].0 < estimates[best].0 - 0.01 {
                best = at;
            }
            if estimates[at].1 < estimates[hope].1 {
                hope = at;
            }
        }
        [best, hope, 0].map(|it| (arms[it].0, libm::exp(estimates[it].0)))
    }
}

impl Policy for LinUcb {
    fn name(&self) -> &'static str {
        "linucb"
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let [best, hope, _] = self.weigh(seen);
        let cost = (hope.1 - best.1).max(0.05 * best.1);
        if hope.0 != best.0 && self.budget.allows(cost * f64::from(seen.lease)) {
            return Choice::probe(hope.0, best.0);
        }
        Choice::best(best.0)
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        let [best, _, default] = self.weigh(seen);
        self.budget.book(outcome.time, choice.exploratory.then_some(best.1), default.1);
        if outcome.fault {
            return;
        }
        let model = self.groups.entry(seen.group).or_insert_with(Model::new);
        let nominal = seen.brief.nominal[choice.action].max(1e-6);
        let off = libm::log(outcome.time.as_us_f64().max(1e-6) / nominal);
        model.learn(&features(seen, choice.action), off);
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = Vec::new();
        let mut put = |value: f64| bytes.extend(value.to_bits().to_le_bytes());
        self.budget.parts().into_iter().for_each(&mut put);
        for model in self.groups.values() {
            model.answers.iter().chain(model.gram.iter().flatten()).copied().for_each(&mut put);
        }
        Checksum::of(&bytes)
    }
}
