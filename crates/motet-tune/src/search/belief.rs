//! [`Belief`]: the surrogate model of a search. It predicts the times of all points of a space from those that
//! were run, by a [`Gaussian`] process over the logarithms of times.
//!
//! Iterations of a point are alike, so the number of its runs only determines the variance of its mean, and
//! profiles of any length go into one model. Logarithms well above the best are compressed, because it does not
//! matter how bad bad points are. Points that cannot run say nothing about times, but they say which other points
//! may not run either ([`chances`]).

use super::Ledger;
use super::gaussian::{Gaussian, Kernel, Observation, expected_excess};
use crate::space::Space;

/// How far above the best, as a logarithm, values are compressed by half.
const COMPRESSION: f64 = 0.3;
/// With this many observations the model is too slow to be used: its time grows with their square, times the points
/// of the space.
pub(super) const MOST_OBSERVED: usize = 400;

/// A value as the model has it, from a logarithm relative to the best.
pub(super) fn compressed(logarithm: f64) -> f64 {
    COMPRESSION * libm::log1p(logarithm.max(0.0) / COMPRESSION) + logarithm.min(0.0)
}

/// The slope of [`compressed`]: what noise is multiplied by.
fn slope(logarithm: f64) -> f64 {
    1.0 / (1.0 + logarithm.max(0.0) / COMPRESSION)
}

/// The time, relative to the best, of a compressed value.
pub(super) fn time(value: f64) -> f64 {
    libm::exp((COMPRESSION * libm::expm1(value.clamp(0.0, 2.0) / COMPRESSION)).min(6.0))
}

/// The observation of a mean over some iterations. Its value is the logarithm, not compressed yet.
pub(super) fn observation(point: usize, mean: f64, iterations: u32, reference: f64) -> Observation {
    let value = libm::log(mean.max(1.0));
    let variance = slope(value - reference).powi(2) / f64::from(iterations.max(1));
    Observation { point, value, variance }
}

/// The profiled points that run, and the logarithm of the best of their means; `None` if there are none.
pub(super) fn running(ledger: &Ledger) -> Option<(Vec<usize>, f64)> {
    let runs = |it: &usize| !ledger.record(*it).impossible;
    let running: Vec<usize> = ledger.profiled().iter().copied().filter(runs).collect();
    let means = running.iter().filter_map(|it| ledger.record(*it).mean());
    let best = means.map(|it| libm::log(it.max(1.0))).fold(f64::INFINITY, f64::min);
    best.is_finite().then_some((running, best))
}

/// All results in the ledger, as one observation per point.
pub(super) fn pooled(ledger: &Ledger, reference: f64) -> Vec<Observation> {
    let pooled = ledger.profiled().iter().filter_map(|it| {
        let record = ledger.record(*it);
        Some(observation(*it, record.mean()?, record.iterations, reference))
    });
    pooled.collect()
}

/// A Gaussian process conditioned on these observations.
pub(super) fn conditioned(space: &Space, kernel: &Kernel, observed: &[Observation]) -> Gaussian {
    let mut gaussian = Gaussian::new(space, kernel.clone());
    observed.iter().for_each(|it| gaussian.observe(space, *it));
    gaussian
}

/// Moves a kernel's parameters to where the observations are likelier.
pub(super) fn fit(
    kernel: &mut Kernel,
    space: &Space,
    observed: &[Observation],
    reference: f64,
    sweeps: u32,
) {
    let value = |it: &Observation| Observation { value: compressed(it.value - reference), ..*it };
    let values: Vec<Observation> = observed.iter().map(value).collect();
    kernel.fit(space, &values, sweeps);
}

/// The estimated chance that each point can run, from how like it is to points that ran and to points that could not.
/// `None` if all profiled points ran.
pub(super) fn chances(space: &Space, ledger: &Ledger, kernel: &Kernel) -> Option<Vec<f64>> {
    let profiled = ledger.profiled().iter().copied();
    let (not, run): (Vec<usize>, Vec<usize>) =
        profiled.partition(|it| ledger.record(*it).impossible);
    if not.is_empty() {
        return None;
    }
    let (not, run) = (kernel.likeness(space, &not), kernel.likeness(space, &run));
    let chance = |(not, run): (&f64, &f64)| ((0.5 + run) / (0.5 + run + not)).powi(3);
    Some(not.iter().zip(&run).map(chance).collect())
}

/// The surrogate model: predictions with uncertainty for all points.
pub(super) struct Belief {
    gaussian: Gaussian,
    mean: Vec<f64>,
    /// The lowest mean of a profiled point.
    least: f64,
    chances: Option<Vec<f64>>,
}

impl Belief {
    /// The model of all results so far, with a kernel that was fitted; `None` if no point has run.
    pub(super) fn new(space: &Space, ledger: &Ledger, kernel: &Kernel) -> Option<Self> {
        let (running, reference) = running(ledger)?;
        let gaussian = conditioned(space, kernel, &pooled(ledger, reference));
        let mean = gaussian.mean(|it| compressed(it.value - reference));
        let least = running.iter().map(|it| mean[*it]).fold(f64::INFINITY, f64::min);
        let chances = chances(space, ledger, kernel);
        Some(Self { gaussian, mean, least, chances })
    }

    /// The acquisition function: the expected improvement of a point over the best so far, times the chance that the
    /// point can run.
    pub(super) fn gain(&self, it: usize) -> f64 {
        let deviation = self.gaussian.variance()[it].sqrt();
        let chance = self.chances.as_ref().map_or(1.0, |chances| chances[it]);
        expected_excess(self.least - self.mean[it], deviation) * chance
    }

    /// Takes it that `point` is run once, before its result is known. The predictions near it become more certain, so
    /// that points that would tell the same are worth less; this lets a batch of points be chosen at once.
    pub(super) fn suppose(&mut self, space: &Space, point: usize) {
        self.gaussian.observe(space, Observation { point, value: 0.0, variance: 1.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::ledger::Trial;
    use crate::space::Dimension;

    /// What is thought of ten settings of one knob after some ran once: their times in µs, `None` if they cannot run.
    fn belief(space: &Space, times: &[(usize, Option<u64>)]) -> Option<Belief> {
        let mut ledger = Ledger::new(space.len());
        let trial = |(point, us): &(usize, Option<u64>)| Trial {
            request: ledger.more(*point, 1),
            total_ps: us.map(|it| it * 1_000_000),
        };
        let batch = times.iter().map(trial).collect();
        ledger.enter(space, batch);
        Belief::new(space, &ledger, &Kernel::new(space, true))
    }

    fn space() -> Space {
        Space::new(vec![Dimension::logarithmic("channels", 1..=10)], |_| true).unwrap()
    }

    #[test]
    fn neighbours_of_the_best_are_worth_most_until_they_are_tried() {
        let space = space();
        let mut belief = belief(&space, &[(0, Some(400)), (4, Some(100)), (9, Some(400))]).unwrap();
        let before = belief.gain(5);
        assert!(before > belief.gain(8), "nearer to the best of the two that are between 4 and 9");
        belief.suppose(&space, 5);
        assert!(belief.gain(5) < before);
    }

    #[test]
    fn neighbours_of_what_cannot_run_are_worth_less() {
        let space = space();
        let runs = belief(&space, &[(4, Some(100))]).unwrap();
        let not = belief(&space, &[(4, Some(100)), (9, None)]).unwrap();
        assert!(not.gain(8) < runs.gain(8));
        assert!(not.gain(8) / runs.gain(8) < not.gain(3) / runs.gain(3));
        assert!(belief(&space, &[(9, None)]).is_none());
    }
}
