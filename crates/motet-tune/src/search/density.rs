//! [`Density`]: how likely each point of a space is among some given ones (a Parzen estimate).
//!
//! A mixture with one kernel per given point and a uniform one beside them, so that nothing has
//! density zero. A kernel is a product over dimensions: for a categorical one, most of its
//! weight on the point's own value and the rest evenly on all (Aitchison and Aitken); for an
//! ordinal one, a Gaussian over value indices, cut off at the ends and summing to one. Kernels being
//! products rather than the density, the estimate sees which values go together.

use crate::space::{Kind, Space};

/// The narrowest Gaussian, in indices.
const LEAST_WIDTH: f64 = 0.8;

pub(super) struct Density {
    /// By dimension: one row per value that a kernel may stand on.
    tables: Vec<Vec<Vec<f64>>>,
    centres: Vec<Vec<u16>>,
    /// Of the uniform kernel.
    uniform: f64,
}

impl Density {
    pub(super) fn new(space: &Space, points: &[usize]) -> Self {
        let centres: Vec<Vec<u16>> = points.iter().map(|it| space.point(*it).to_vec()).collect();
        let dimensions = space.dimensions();
        let tables = dimensions.iter().enumerate().map(|(at, dimension)| {
            let values = dimension.values();
            match &dimension.kind {
                Kind::Categorical { .. } => categorical(values, centres.len()),
                Kind::Ordinal { .. } => {
                    let along: Vec<f64> = centres.iter().map(|it| f64::from(it[at])).collect();
                    ordinal(values, width(&along, dimensions.len()))
                }
            }
        });
        let tables = tables.collect();
        let codes: f64 = dimensions.iter().map(|it| it.values() as f64).product();
        Self { tables, centres, uniform: 1.0 / codes }
    }

    fn kernel(&self, centre: &[u16], point: &[u16]) -> f64 {
        let values = self.tables.iter().zip(centre.iter().zip(point));
        values.map(|(table, (on, at))| table[usize::from(*on)][usize::from(*at)]).product()
    }

    /// The density at a point.
    pub(super) fn at(&self, point: &[u16]) -> f64 {
        let kernels: f64 = self.centres.iter().map(|it| self.kernel(it, point)).sum();
        (kernels + self.uniform) / (self.centres.len() + 1) as f64
    }

    /// The density of each dimension by itself.
    pub(super) fn marginals(&self) -> Vec<Vec<f64>> {
        let of = |(at, table): (usize, &Vec<Vec<f64>>)| {
            let parts = (self.centres.len() + 1) as f64;
            let mut marginal = vec![1.0 / (table.len() as f64 * parts); table.len()];
            for centre in &self.centres {
                for (sum, it) in marginal.iter_mut().zip(&table[usize::from(centre[at])]) {
                    *sum += it / parts;
                }
            }
            marginal
        };
        self.tables.iter().enumerate().map(of).collect()
    }
}

fn categorical(values: usize, centres: usize) -> Vec<Vec<f64>> {
    let spread = 1.0 / (1.0 + (centres as f64).sqrt());
    let row = |on: usize| {
        let at = |it: usize| spread / values as f64 + if it == on { 1.0 - spread } else { 0.0 };
        (0..values).map(at).collect()
    };
    (0..values).map(row).collect()
}

fn ordinal(values: usize, width: f64) -> Vec<Vec<f64>> {
    let row = |on: usize| {
        let gauss = |it: usize| libm::exp(-0.5 * (it.abs_diff(on) as f64 / width).powi(2));
        let row: Vec<f64> = (0..values).map(gauss).collect();
        let sum: f64 = row.iter().sum();
        row.into_iter().map(|it| it / sum).collect()
    };
    (0..values).map(row).collect()
}

/// Scott's rule.
fn width(along: &[f64], dimensions: usize) -> f64 {
    let count = along.len().max(1) as f64;
    let mean = along.iter().sum::<f64>() / count;
    let variance = along.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
    (variance.sqrt() * libm::pow(count, -1.0 / (dimensions as f64 + 4.0))).max(LEAST_WIDTH)
}

/// Kullback–Leibler divergence of products of independent densities.
pub(super) fn divergence(of: &[Vec<f64>], from: &[Vec<f64>]) -> f64 {
    let terms = of.iter().flatten().zip(from.iter().flatten());
    terms.map(|(p, q)| if *p > 0.0 { p * libm::log(p / q) } else { 0.0 }).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::space::Dimension;

    fn space(sizes: &[usize]) -> Space {
        let dimensions = sizes.iter().enumerate().map(|(at, values)| match at % 2 {
            0 => Dimension::categorical("a", *values),
            _ => Dimension::logarithmic("b", 1..=*values as u64),
        });
        Space::new(dimensions.collect(), |_| true).unwrap()
    }

    #[test]
    fn values_that_go_together() {
        let space = space(&[2, 9]);
        let number = |a, b| space.number(&[a, b]).unwrap();
        let density =
            Density::new(&space, &[number(0, 1), number(0, 2), number(1, 7), number(1, 8)]);
        assert!(density.at(&[0, 1]) > 2.0 * density.at(&[1, 1]));
        assert!(density.at(&[1, 8]) > 2.0 * density.at(&[0, 8]));
    }

    proptest! {
        #[test]
        fn densities_sum_to_one(
            sizes in prop::collection::vec(1_usize..6, 1..4),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let space = space(&sizes);
            let points: Vec<usize> = picks.iter().map(|it| it.index(space.len())).collect();
            let density = Density::new(&space, &points);
            let sum: f64 = (0..space.len()).map(|it| density.at(space.point(it))).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9, "{}", sum);
            let marginals = density.marginals();
            for (at, marginal) in marginals.iter().enumerate() {
                prop_assert!((marginal.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                let first = (0..space.len()).filter(|it| space.point(*it)[at] == 0);
                let first: f64 = first.map(|it| density.at(space.point(it))).sum();
                prop_assert!((first - marginal[0]).abs() < 1e-9);
            }
            prop_assert_eq!(divergence(&marginals, &marginals), 0.0);
            let other = Density::new(&space, &[]).marginals();
            prop_assert!(divergence(&marginals, &other) >= -1e-12);
        }
    }
}
