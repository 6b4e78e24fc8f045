//! [`Loads`]: a probability for each of a grid of possible loads on a communicator.
//!
//! The grid is geometric in the bandwidth left and the delay per hop, with a few values for neighbours on the GPU; the load
//! is between servers for communicators of several servers, inside for those of one. Before every call the load may change
//! ([`HAZARD`]); after it, each load is weighted by how well it explains the measured time (a Bayesian filter). Outliers have a
//! likelihood of their own, so that one strange time changes little.

use crate::env::{Load, Observation, Where};
use crate::policy::arms::candidates_under_load;

/// The probability that the load changes before a call.
const HAZARD: f64 = 0.004;
/// The exponent by which earlier evidence is tempered at every call: a kernel's error under a load is the same in every call, so
/// several calls are not independent evidence.
const MEMORY: f64 = 0.9;
/// The noise of measurements, as the standard deviation of the logarithm.
pub(super) const NOISE: f64 = 0.045;
/// The probability that a measurement is an outlier.
const OUTLIERS: f64 = 0.01;
/// The standard deviation of outliers, in the logarithm.
const OUTLIER: f64 = 0.7;
/// How much actions respond to load differently than modelled, as a share of the logarithm of the slowdown.
pub(super) const RESPONSE: f64 = 0.1;
/// The prior probability of no load.
const CALM: f64 = 0.5;

/// A candidate of a task, with its modelled time under every load.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) action: usize,
    /// Algorithm and protocol, numbered.
    pub(super) kernel: usize,
    pub(super) channels: u32,
    /// The logarithm of its time without load, in µs, by the model.
    pub(super) nominal: f64,
    /// The logarithm of the slowdown under each load.
    slower: Vec<f64>,
}

/// The candidates of a task; the first is NCCL's default.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) arms: Vec<Arm>,
}

/// The load filter of one communicator.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    grid: Vec<Load>,
    prior: Vec<f64>,
    weights: Vec<f64>,
}

impl Loads {
    pub(super) fn new(seen: &Observation) -> Self {
        let inside = seen.state.topology.worst_tier().is_some_and(|it| it.get() <= 1);
        let at = if inside { Where::Inside } else { Where::Between };
        let mut grid = vec![Load::NONE];
        let geometric = |first: f64, last: f64, steps: u32| {
            (0..=steps)
                .map(move |it| first * libm::pow(last / first, f64::from(it) / f64::from(steps)))
        };
        for share in geometric(1.0, 0.07, 9) {
            for delay in geometric(1.0, 20.0, 9) {
                grid.push(Load { at, share, delay, ..Load::NONE });
            }
        }
        for neighbour in [0.25, 0.5, 0.75, 1.0, 1.25, 1.5] {
            grid.push(Load { neighbour, ..Load::NONE });
        }
        grid.dedup();
        let rest = (1.0 - CALM) / (grid.len() - 1) as f64;
        let mut prior = vec![rest; grid.len()];
        prior[0] = CALM;
        Self { weights: prior.clone(), prior, grid }
    }

    /// The candidates of a task under every load.
    pub(super) fn task(&self, seen: &Observation) -> Task {
        let (brief, nominal) = (&seen.brief, &seen.terms);
        let loaded: Vec<_> = self.grid.iter().map(|it| it.terms(nominal)).collect();
        let arms = candidates_under_load(seen).into_iter().map(|action| {
            let (algorithm, protocol) = brief.kernels[action];
            let counts = brief.counts(action);
            let slowdown = self.grid.iter().zip(&loaded);
            Arm {
                action,
                kernel: algorithm.index() * motet_nccl::Protocol::COUNT + protocol.index(),
                channels: brief.channels[action],
                nominal: libm::log(brief.nominal[action].max(1e-6)),
                slower: slowdown
                    .map(|(load, terms)| libm::log(load.slowdown(nominal, terms, counts)))
                    .collect(),
            }
        });
        Task { arms: arms.collect() }
    }

    /// The expected logarithm of an arm's slowdown, and the variance of its difference from another's (of the slowdown itself
    /// where both are the same arm).
    pub(super) fn slowdown(&self, arm: &Arm, other: &Arm) -> (f64, f64) {
        let same = std::ptr::eq(arm, other);
        let (mut mean, mut difference, mut square) = (0.0, 0.0, 0.0);
        for ((weight, slower), against) in self.weights.iter().zip(&arm.slower).zip(&other.slower) {
            mean += weight * slower;
            let apart = if same { *slower } else { slower - against };
            difference += weight * apart;
            square += weight * apart * apart;
        }
        (mean, (square - difference * difference).max(0.0))
    }

    /// Updates the probabilities by a call: `slower` is how far the logarithm of its time lies above the expected one, with this
    /// variance.
    pub(super) fn update(&mut self, arm: &Arm, slower: f64, variance: f64) {
        let mut sum = 0.0;
        let all = self.weights.iter_mut().zip(&self.prior).zip(&arm.slower);
        for ((weight, prior), expected) in all {
            let structure = RESPONSE * expected;
            let spread = libm::sqrt(NOISE * NOISE + variance + structure * structure);
            let off = (slower - expected) / spread;
            let usual = libm::exp(-off * off / 2.0) / spread;
            let far = (slower - expected) / OUTLIER;
            let strange = libm::exp(-far * far / 2.0) / OUTLIER;
            let likelihood = (1.0 - OUTLIERS) * usual + OUTLIERS * strange;
            let before = libm::pow(*weight, MEMORY);
            *weight = ((1.0 - HAZARD) * before + HAZARD * prior) * likelihood;
            sum += *weight;
        }
        if sum > 1e-300 {
            self.weights.iter_mut().for_each(|it| *it /= sum);
        } else {
            self.weights.clone_from(&self.prior);
        }
    }

    /// The probability of no load.
    pub(super) fn calm(&self) -> f64 {
        self.weights.first().copied().unwrap_or(1.0)
    }

    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }
}
