//! [`Gaussian`]: a Gaussian process over all points of a space, for some hundred observations.
//!
//! The kernel is a product: a correlation between different values of a categorical dimension,
//! Matérn 5/2 over positions of an ordinal one. A constant of unknown height lies under it.
//! Points being enumerated, the process keeps its conditional mean and variance at all of them
//! and takes one observation at a time: with L the Cholesky factor of the observations'
//! covariance and V = L⁻¹ K(observed, all), the new row of L is the new point's column of V.
//! That is linear in points × observations, which is what makes looking at every point cheap.

use crate::space::{Kind, Space};

/// A standard deviation that every observation has beside its noise, for what neighbouring points do not explain:
/// surfaces have small steps.
const RUGGED: f64 = 0.002;
/// The noise of an iteration (standard deviation) before it is fitted.
const NOISE: f64 = 0.05;
/// The variance of the constant that lies under the process.
const CONSTANT: f64 = 4.0;

/// An observed value. `variance` is the variance of its noise as a fraction of that of one iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) point: usize,
    pub(super) value: f64,
    pub(super) variance: f64,
}

/// The kernel's parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kernel {
    /// Standard deviation of the process.
    amplitude: f64,
    /// Standard deviation of the noise of one iteration.
    noise: f64,
    /// By dimension: the correlation of different values (categorical) or a length (ordinal).
    scales: Vec<f64>,
}

/// A kernel evaluated for all pairs of values of each dimension.
struct Tables {
    variance: f64,
    /// By dimension: how many values, and the correlation of every pair.
    pairs: Vec<(usize, Vec<f64>)>,
}

impl Tables {
    fn at(&self, a: &[u16], b: &[u16]) -> f64 {
        let pairs = self.pairs.iter().zip(a.iter().zip(b));
        let product = pairs.fold(self.variance, |product, ((values, pairs), (a, b))| {
            product * pairs[usize::from(*a) * values + usize::from(*b)]
        });
        product + CONSTANT
    }
}

impl Kernel {
    /// The kernel before it is fitted; `noisy` unless all iterations of a point are known to take the same time.
    pub(super) fn new(space: &Space, noisy: bool) -> Self {
        let noise = if noisy { NOISE } else { 0.0 };
        Self { amplitude: 0.5, noise, scales: vec![0.5; space.dimensions().len()] }
    }

    /// The standard deviation of one iteration.
    pub(super) const fn noise(&self) -> f64 {
        self.noise
    }

    fn tables(&self, space: &Space) -> Tables {
        let of = |(dimension, scale): (&crate::space::Dimension, &f64)| {
            let values = dimension.values();
            let pair = |at: usize| {
                let (a, b) = (at / values, at % values);
                match &dimension.kind {
                    Kind::Categorical { .. } => {
                        if a == b {
                            1.0
                        } else {
                            *scale
                        }
                    }
                    Kind::Ordinal { positions } => {
                        matern((positions[a] - positions[b]).abs() / scale)
                    }
                }
            };
            (values, (0..values * values).map(pair).collect())
        };
        let pairs = space.dimensions().iter().zip(&self.scales).map(of).collect();
        Tables { variance: self.amplitude.powi(2), pairs }
    }

    /// How alike every point is to some others: the sum of its correlations with them, each to
    /// the eighth power, so that near ones count.
    pub(super) fn likeness(&self, space: &Space, others: &[usize]) -> Vec<f64> {
        let tables = self.tables(space);
        let to = |it: usize, other: &usize| {
            let covariance = tables.at(space.point(it), space.point(*other)) - CONSTANT;
            (covariance / tables.variance).powi(8)
        };
        (0..space.len()).map(|it| others.iter().map(|other| to(it, other)).sum()).collect()
    }

    /// Fits the parameters to observations by coordinate descent on the posterior probability under mild priors,
    /// `sweeps` times through all parameters.
    pub(super) fn fit(&mut self, space: &Space, observed: &[Observation], sweeps: u32) {
        let mut least = self.surprise(space, observed);
        for _ in 0..sweeps {
            for parameter in 0..self.scales.len() + 2 {
                for up in [false, true] {
                    let mut other = self.clone();
                    other.nudge(space, parameter, up);
                    let surprise = other.surprise(space, observed);
                    if surprise < least {
                        (least, *self) = (surprise, other);
                    }
                }
            }
        }
    }

    fn nudge(&mut self, space: &Space, parameter: usize, up: bool) {
        let factor = if up { 1.0 / 0.6 } else { 0.6 };
        match parameter {
            0 => self.amplitude *= factor,
            1 => self.noise *= factor,
            _ => {
                let at = parameter - 2;
                let scale = &mut self.scales[at];
                match space.dimensions()[at].kind {
                    Kind::Categorical { .. } => {
                        let odds = *scale / (1.0 - *scale) * if up { 2.0 } else { 0.5 };
                        *scale = (odds / (1.0 + odds)).clamp(0.01, 0.99);
                    }
                    Kind::Ordinal { .. } => *scale *= factor,
                }
            }
        }
    }

    /// The negative logarithm of likelihood times prior, up to a constant: what [`fit`](Self::fit) minimizes.
    fn surprise(&self, space: &Space, observed: &[Observation]) -> f64 {
        let tables = self.tables(space);
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(observed.len());
        let mut surprise = self.prior(space);
        let mut solved: Vec<f64> = Vec::with_capacity(observed.len());
        for (at, it) in observed.iter().enumerate() {
            let point = space.point(it.point);
            let mut row = Vec::with_capacity(at + 1);
            for (other, earlier) in observed[..at].iter().zip(&rows) {
                let covariance = tables.at(point, space.point(other.point));
                let last = row.len();
                row.push((covariance - dot(&row, earlier)) / earlier[last]);
            }
            let own = tables.at(point, point) + self.variance(it) - dot(&row, &row);
            let root = own.max(1e-12).sqrt();
            let value = (it.value - dot(&row, &solved)) / root;
            surprise += 0.5 * value * value + libm::log(root);
            solved.push(value);
            row.push(root);
            rows.push(row);
        }
        surprise
    }

    fn prior(&self, space: &Space) -> f64 {
        let normal = |value: f64, width: f64| 0.5 * (value / width).powi(2);
        let scales = space.dimensions().iter().zip(&self.scales).map(|(it, scale)| match it.kind {
            Kind::Categorical { .. } => normal(libm::log(scale / (1.0 - scale)), 1.5),
            Kind::Ordinal { .. } => normal(libm::log(scale / 0.6), 0.8),
        });
        let scales: f64 = scales.sum();
        let noise = if self.noise > 0.0 { normal(libm::log(self.noise / NOISE), 0.7) } else { 0.0 };
        scales + normal(libm::log(self.amplitude / 0.4), 0.8) + noise
    }

    fn variance(&self, of: &Observation) -> f64 {
        self.noise.powi(2) * of.variance + RUGGED * RUGGED
    }
}

/// The dot product, up to the length of the shorter.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn matern(distance: f64) -> f64 {
    let it = 5.0_f64.sqrt() * distance;
    (1.0 + it + it * it / 3.0) * libm::exp(-it)
}

/// The process, conditioned on what has been observed.
pub(super) struct Gaussian {
    kernel: Kernel,
    tables: Tables,
    /// The diagonal of L, and the rows of V.
    roots: Vec<f64>,
    rows: Vec<Vec<f64>>,
    observed: Vec<Observation>,
    variance: Vec<f64>,
}

impl Gaussian {
    pub(super) fn new(space: &Space, kernel: Kernel) -> Self {
        let tables = kernel.tables(space);
        let variance = vec![tables.variance + CONSTANT; space.len()];
        Self { kernel, tables, roots: Vec::new(), rows: Vec::new(), observed: Vec::new(), variance }
    }

    pub(super) fn len(&self) -> usize {
        self.observed.len()
    }

    /// Takes one more observation.
    pub(super) fn observe(&mut self, space: &Space, it: Observation) {
        let point = space.point(it.point);
        let mut row: Vec<f64> =
            (0..space.len()).map(|at| self.tables.at(point, space.point(at))).collect();
        for earlier in &self.rows {
            let factor = earlier[it.point];
            for (value, earlier) in row.iter_mut().zip(earlier) {
                *value -= factor * earlier;
            }
        }
        let root = (self.variance[it.point] + self.kernel.variance(&it)).max(1e-12).sqrt();
        for (value, variance) in row.iter_mut().zip(&mut self.variance) {
            *value /= root;
            *variance = (*variance - *value * *value).max(0.0);
        }
        self.roots.push(root);
        self.rows.push(row);
        self.observed.push(it);
    }

    /// The mean at every point, with the values of the observations replaced by `value` of them.
    pub(super) fn mean(&self, value: impl Fn(&Observation) -> f64) -> Vec<f64> {
        let mut mean = vec![0.0; self.variance.len()];
        for ((it, row), root) in self.observed.iter().zip(&self.rows).zip(&self.roots) {
            // What the earlier ones make of this one is the mean so far.
            let solved = (value(it) - mean[it.point]) / root;
            for (mean, row) in mean.iter_mut().zip(row) {
                *mean += solved * row;
            }
        }
        mean
    }

    /// The variance at every point.
    pub(super) fn variance(&self) -> &[f64] {
        &self.variance
    }
}

/// The expected value of max(0, x) for a normally distributed x; with x as the gain over the best so far, this is the
/// expected improvement.
pub(super) fn expected_excess(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = libm::exp(-0.5 * z * z) * 0.398_942_280_401_432_7;
    deviation * (density + z * below(z, density))
}

/// The normal distribution function (Abramowitz and Stegun, 26.2.17), given the density there.
fn below(z: f64, density: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let factors = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let tail = density * factors.iter().rev().fold(0.0, |sum, it| (sum + it) * t);
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Dimension;

    fn space() -> Space {
        let dimensions = vec![
            Dimension::categorical("a", 2),
            Dimension::logarithmic("b", (0..12).map(|it| 1 << it)),
        ];
        Space::new(dimensions, |_| true).unwrap()
    }

    fn seen(point: usize, value: f64) -> Observation {
        Observation { point, value, variance: 1.0 / 81.0 }
    }

    /// Against the formulas with the inverse written out, for two observations.
    #[test]
    fn two_observations_by_hand() {
        let (space, kernel) = (space(), Kernel::new(&space(), true));
        let observed = [seen(2, 0.3), seen(7, -0.1)];
        let mut gaussian = Gaussian::new(&space, kernel.clone());
        observed.iter().for_each(|it| gaussian.observe(&space, *it));
        let tables = kernel.tables(&space);
        let k = |a: usize, b: usize| tables.at(space.point(a), space.point(b));
        let noise = kernel.variance(&observed[0]);
        let (a, b, d) = (k(2, 2) + noise, k(2, 7), k(7, 7) + noise);
        let determinant = a * d - b * b;
        let weights =
            |x: f64, y: f64| ((d * x - b * y) / determinant, (a * y - b * x) / determinant);
        let (mean, alpha) = (gaussian.mean(|it| it.value), weights(0.3, -0.1));
        for (at, mean) in mean.into_iter().enumerate() {
            let (x, y) = (k(2, at), k(7, at));
            assert!((mean - (alpha.0 * x + alpha.1 * y)).abs() < 1e-9);
            let (u, v) = weights(x, y);
            let variance = k(at, at) - u * x - v * y;
            assert!((gaussian.variance()[at] - variance).abs() < 1e-9);
        }
    }

    #[test]
    fn fitting_learns_what_matters() {
        let space = space();
        // The category makes no difference, the line does.
        let value = |point: usize| (f64::from(space.point(point)[1]) * 0.9).sin();
        let observed: Vec<Observation> = (0..space.len()).map(|it| seen(it, value(it))).collect();
        let mut kernel = Kernel::new(&space, true);
        let before = kernel.surprise(&space, &observed);
        kernel.fit(&space, &observed, 6);
        assert!(kernel.surprise(&space, &observed) < before);
        assert!(kernel.scales[0] > 0.9, "{kernel:?}");
        assert!(kernel.scales[1] < 0.5, "{kernel:?}");
        let mut same = Kernel::new(&space, true);
        same.fit(&space, &observed, 6);
        assert_eq!(same, kernel);
    }

    #[test]
    fn excess() {
        assert!((expected_excess(0.0, 1.0) - 0.398_942_28).abs() < 1e-7);
        assert!((expected_excess(3.0, 1e-9) - 3.0).abs() < 1e-6);
        assert!((expected_excess(-1.0, 1.0) - 0.083_315_47).abs() < 1e-6);
        assert_eq!((expected_excess(-1.0, 0.0), expected_excess(2.0, 0.0)), (0.0, 2.0));
        assert!(expected_excess(-9.0, 1.0) < 1e-15);
    }
}
