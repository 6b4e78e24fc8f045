//! How likely each value of a knob is among some given points, one knob at a time (Parzen estimates), and how far two such
//! estimates are apart.
//!
//! A mixture with one kernel per given point and a uniform one beside them, so that nothing has density zero. On a
//! categorical dimension a kernel has most of its weight on the point's own value and the rest evenly on all
//! (Aitchison and Aitken); on an ordinal one it is a Gaussian over value indices, cut off at the ends and summing to one.

use crate::space::{Dimension, Kind, Space};

/// The narrowest Gaussian, in indices.
const LEAST_WIDTH: f64 = 0.8;

/// The density of each dimension by itself.
pub(super) fn marginals(space: &Space, points: &[usize]) -> Vec<Vec<f64>> {
    let dimensions = space.dimensions();
    let of = |(at, dimension): (usize, &Dimension)| {
        let centres: Vec<u16> = points.iter().map(|it| space.point(*it)[at]).collect();
        let values = dimension.values();
        let kernels = match &dimension.kind {
            Kind::Categorical { .. } => categorical(values, centres.len()),
            Kind::Ordinal { .. } => {
                let along: Vec<f64> = centres.iter().map(|it| f64::from(*it)).collect();
                ordinal(values, width(&along, dimensions.len()))
            }
        };
        let parts = (centres.len() + 1) as f64;
        let mut marginal = vec![1.0 / (values as f64 * parts); values];
        for centre in &centres {
            for (sum, it) in marginal.iter_mut().zip(&kernels[usize::from(*centre)]) {
                *sum += it / parts;
            }
        }
        marginal
    };
    dimensions.iter().enumerate().map(of).collect()
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

/// The width of the Gaussians of an ordinal dimension, by Scott's rule.
fn width(along: &[f64], dimensions: usize) -> f64 {
    let count = along.len().max(1) as f64;
    let mean = along.iter().sum::<f64>() / count;
    let variance = along.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
    (variance.sqrt() * libm::pow(count, -1.0 / (dimensions as f64 + 4.0))).max(LEAST_WIDTH)
}

/// The Kullback–Leibler divergence between two products of independent densities.
pub(super) fn divergence(of: &[Vec<f64>], from: &[Vec<f64>]) -> f64 {
    let terms = of.iter().flatten().zip(from.iter().flatten());
    terms.map(|(p, q)| if *p > 0.0 { p * libm::log(p / q) } else { 0.0 }).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(sizes: &[usize]) -> Space {
        let dimensions = sizes.iter().enumerate().map(|(at, values)| match at % 2 {
            0 => Dimension::categorical("a", *values),
            _ => Dimension::logarithmic("b", 1..=*values as u64),
        });
        Space::new(dimensions.collect(), |_| true).unwrap()
    }

    #[test]
    fn values_of_the_given_points_and_their_neighbours_are_likely() {
        let space = space(&[3, 9]);
        let given = [[0, 1], [0, 2]].map(|it| space.number(&it).unwrap());
        let marginals = marginals(&space, &given);
        assert!(marginals[0][0] > 2.0 * marginals[0][1]);
        assert!((marginals[0][1] - marginals[0][2]).abs() < 1e-12);
        assert!(marginals[1][1] > marginals[1][3] && marginals[1][3] > marginals[1][7]);
    }

    proptest! {
        #[test]
        fn densities_sum_to_one(
            sizes in prop::collection::vec(1_usize..6, 1..4),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let space = space(&sizes);
            let points: Vec<usize> = picks.iter().map(|it| it.index(space.len())).collect();
            let of_points = marginals(&space, &points);
            for marginal in &of_points {
                prop_assert!((marginal.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!(marginal.iter().all(|it| *it > 0.0));
            }
            prop_assert_eq!(divergence(&of_points, &of_points), 0.0);
            prop_assert!(divergence(&of_points, &marginals(&space, &[])) >= -1e-12);
        }
    }
}
