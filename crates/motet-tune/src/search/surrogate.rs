//! Search by a surrogate: a Gaussian process learns how long all points take, and every step
//! profiles what teaches most for its price.
//!
//! Iterations of a point are alike, so how often it is run only says how sure its mean is: one
//! model takes profiles of any length, and the length is part of the choice. What a profile of r
//! iterations is worth is how much better than the present best the best is expected to be once
//! it is known; its price is the time of its iterations, a little for the trial itself, and a
//! restart if it needs another communicator. After the first, a step takes up other points of
//! the same communicator that are worth nearly as much.
//!
//! - **Beginning.** Points from all over the space ([`design`](super::design)), once each.
//! - **Values.** Compressed logarithms of times ([`belief`]).
//! - **End.** When no point is expected to improve by more than 0.2% any more, every combination
//!   of categories gets a few last chances, at what may be its best point: few data may have made
//!   the model too sure of what it has not seen. Then the best is run up to full length; if it is
//!   still the best after that, that is it.

use std::collections::BTreeMap;

use motet_units::{Seed, Stream};

use super::belief::{self, MOST_OBSERVED, compressed, observation, time};
use super::design::{categories, design};
use super::gaussian::{Gaussian, Kernel, expected_excess};
use super::{Ledger, Settings, Strategy, random};
use crate::profile::Request;
use crate::space::Space;

/// The search is about to end when no point has a larger expected improvement than this; then it gives every
/// combination of categories this many last chances.
const LEAST_GAIN: f64 = 0.002;
const LOOKS: u32 = 3;
/// What a trial costs by itself, in iterations of the best point.
const OVERHEAD: f64 = 2.0;
/// The most points of one step.
const TOGETHER: usize = 4;

pub(super) struct Surrogate {
    most: u32,
    least_trials: u32,
    /// How long a new communicator takes, in picoseconds.
    restart: f64,
    stream: Stream,
    kernel: Kernel,
    model: Option<Model>,
    /// The number of observations at which the kernel is fitted again.
    next_fit: usize,
    /// How many rounds of last chances there were since the model last expected an improvement.
    looks: u32,
}

/// The surrogate model: predictions for all points.
struct Model {
    gaussian: Gaussian,
    /// The logarithm of the best mean so far, which values are relative to.
    reference: f64,
    /// By point: the predicted value, compressed.
    mean: Vec<f64>,
    /// The two points of least predicted mean among those profiled that run.
    best: usize,
    second: Option<usize>,
}

impl Surrogate {
    pub(super) fn new(space: &Space, settings: &Settings) -> Self {
        Self {
            most: settings.most_iterations.max(1),
            least_trials: settings.least_trials,
            restart: settings.restart.as_ps() as f64,
            stream: Seed::new(settings.seed).stream("surrogate"),
            kernel: Kernel::new(space, settings.most_iterations > 1),
            model: None,
            next_fit: 0,
            looks: 0,
        }
    }

    /// The model from scratch, one observation per point.
    fn rebuild(&mut self, space: &Space, ledger: &Ledger, reference: f64) -> Gaussian {
        let observed = belief::pooled(ledger, reference);
        let sweeps = if self.model.is_none() { 3 } else { 1 };
        belief::fit(&mut self.kernel, space, &observed, reference, sweeps);
        belief::conditioned(space, &self.kernel, &observed)
    }

    /// What to profile next, and the largest expected improvement of any point.
    fn choose(&self, space: &Space, ledger: &Ledger, model: &Model) -> (Vec<Request>, f64) {
        let chances = belief::chances(space, ledger, &self.kernel);
        let chance = |it: usize| chances.as_ref().map_or(1.0, |chances| chances[it]);
        let noise = self.kernel.noise().powi(2);
        let variance = model.gaussian.variance();
        // The best's own profile pays if it shows that the second is better.
        let second = model.second.map_or(f64::INFINITY, |it| model.mean[it]);
        let gap = |it: usize| {
            let against = if it == model.best { second } else { model.mean[it] };
            model.mean[model.best] - against
        };
        let worth = |it: usize, iterations: u32| {
            let learnt = variance[it] / (variance[it] + noise / f64::from(iterations)).sqrt();
            expected_excess(gap(it), learnt) * chance(it)
        };
        let restart = self.restart / libm::exp(model.reference);
        let price = |it: usize, iterations: u32| {
            let again = ledger.group() != Some(space.group(it));
            let restart = if again { restart } else { 0.0 };
            f64::from(iterations) * time(model.mean[it]) + OVERHEAD + restart
        };
        let left = |it: usize| {
            let record = ledger.record(it);
            if record.impossible { 0 } else { self.most.saturating_sub(record.iterations) }
        };
        let mut most_gain = 0.0_f64;
        let mut best: Option<(f64, usize, u32)> = None;
        for it in (0..space.len()).filter(|it| left(*it) > 0) {
            if it != model.best {
                most_gain =
                    most_gain.max(expected_excess(gap(it), variance[it].sqrt()) * chance(it));
            }
            let mut iterations = 1;
            while iterations <= self.most {
                let fitting = iterations.min(left(it));
                let value = worth(it, fitting) / price(it, fitting);
                if best.is_none_or(|best| value > best.0) {
                    best = Some((value, it, fitting));
                }
                iterations *= 3;
            }
        }
        let Some((_, first, iterations)) = best else { return (Vec::new(), most_gain) };
        let group = space.group(first);
        let least = worth(first, iterations) / 2.0;
        let beside = (0..space.len())
            .filter(|it| *it != first && space.group(*it) == group && left(*it) > 0);
        let mut beside: Vec<(f64, usize)> = beside.map(|it| (worth(it, iterations), it)).collect();
        beside.retain(|it| it.0 >= least && it.0 > 0.0);
        beside.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let others = beside.iter().take(TOGETHER - 1).map(|it| it.1);
        let request = |it: usize| ledger.more(it, iterations.min(left(it)));
        (std::iter::once(first).chain(others).map(request).collect(), most_gain)
    }
}

/// For every combination of categories, the unprofiled point that may be the best: with the least predicted mean less
/// two standard deviations.
fn last_chances(space: &Space, ledger: &Ledger, model: &Model) -> Vec<usize> {
    let variance = model.gaussian.variance();
    let hoped = |it: usize| model.mean[it] - 2.0 * variance[it].sqrt();
    let mut best: BTreeMap<Vec<u16>, usize> = BTreeMap::new();
    for it in (0..space.len()).filter(|it| ledger.is_new(*it)) {
        let of_kind = best.entry(categories(space, it)).or_insert(it);
        if hoped(it) < hoped(*of_kind) {
            *of_kind = it;
        }
    }
    best.into_values().collect()
}

impl Strategy for Surrogate {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        if ledger.profiled().is_empty() {
            return design(space, &mut self.stream)
                .into_iter()
                .map(|it| ledger.more(it, 1))
                .collect();
        }
        let Some(model) = &self.model else {
            // Nothing has run so far.
            let drawn = random::draw(&mut self.stream, ledger, space, TOGETHER);
            return drawn.into_iter().map(|it| ledger.more(it, 1)).collect();
        };
        let (requests, gain) = self.choose(space, ledger, model);
        let full = model.gaussian.len() >= MOST_OBSERVED || requests.is_empty();
        let enough = ledger.cost().trials >= self.least_trials;
        if !full && (gain >= LEAST_GAIN || !enough) {
            self.looks = 0;
            return requests;
        }
        if !full && self.looks < LOOKS {
            self.looks += 1;
            let chances = last_chances(space, ledger, model);
            let iterations = self.most.min(3);
            return chances.into_iter().map(|it| ledger.more(it, iterations)).collect();
        }
        ledger.up_to(model.best, self.most).into_iter().collect()
    }

    fn tell(&mut self, space: &Space, ledger: &Ledger) {
        let Some((running, reference)) = belief::running(ledger) else { return };
        let gaussian = match self.model.take() {
            Some(mut model) if model.gaussian.len() + ledger.last().len() < self.next_fit => {
                for trial in ledger.last() {
                    if let Some(mean) = trial.mean() {
                        let Request { point, iterations, .. } = trial.request;
                        let observed = observation(point, mean, iterations, reference);
                        model.gaussian.observe(space, observed);
                    }
                }
                model.gaussian
            }
            earlier => {
                self.model = earlier;
                let gaussian = self.rebuild(space, ledger, reference);
                self.next_fit = gaussian.len() + gaussian.len() / 8 + 4;
                gaussian
            }
        };
        let mean = gaussian.mean(|it| compressed(it.value - reference));
        let mut ranked = running;
        ranked.sort_by(|a, b| mean[*a].total_cmp(&mean[*b]).then(a.cmp(b)));
        let (best, second) = (ranked[0], ranked.get(1).copied());
        self.model = Some(Model { gaussian, reference, mean, best, second });
    }

    fn recommend(&self, ledger: &Ledger) -> Option<usize> {
        self.model.as_ref().map(|it| it.best).or_else(|| ledger.incumbent())
    }
}
