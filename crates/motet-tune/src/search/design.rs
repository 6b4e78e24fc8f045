//! [`design`]: the first points of a search that knows nothing yet.
//!
//! Some communicators, far from each other; under each of them, every combination of categorical
//! values at a few settings. So every category is seen in several places, for few restarts.

use motet_units::Stream;
use rand::RngExt;

use crate::space::{Dimension, Kind, Space};

/// How many communicators are used, and how many points under each for every combination of categories.
const GROUPS: usize = 5;
const PER_GROUP: usize = 2;

/// A point with its restart group and its categories.
type Placed = (u32, Vec<u16>, usize);

/// The first points of a search, all different, in no particular order.
pub(super) fn design(space: &Space, stream: &mut Stream) -> Vec<usize> {
    let mut placed: Vec<Placed> =
        (0..space.len()).map(|it| (space.group(it), categories(space, it), it)).collect();
    placed.sort_unstable();
    let groups: Vec<&[Placed]> = placed.chunk_by(|a, b| a.0 == b.0).collect();
    let rounds = groups.len().min(GROUPS);
    let each = PER_GROUP * GROUPS.div_ceil(rounds.max(1));
    let mut chosen = Vec::new();
    let mut far = vec![1.0_f64; groups.len()];
    for _ in 0..rounds {
        // Far from those chosen, and with many categories that run there.
        let kinds = |group: &[Placed]| group.chunk_by(|a, b| a.1 == b.1).count() as f64;
        let weights = groups.iter().zip(&far).map(|(group, far)| (far * kinds(group)).powi(2));
        let Some(group) = pick(stream, &weights.collect::<Vec<f64>>()) else { break };
        for alike in groups[group].chunk_by(|a, b| a.1 == b.1) {
            let (count, first) = (each.min(alike.len()), stream.random_range(0..alike.len()));
            let at = |it: usize| alike[(first + it * alike.len() / count) % alike.len()].2;
            chosen.extend((0..count).map(at));
        }
        let from = groups[group][0].2;
        for (far, other) in far.iter_mut().zip(&groups) {
            *far = far.min(distance(space, from, other[0].2));
        }
    }
    chosen
}

/// Draws an index with chances proportional to `weights`; `None` if all are 0.
fn pick(stream: &mut Stream, weights: &[f64]) -> Option<usize> {
    let mut left = stream.random::<f64>() * weights.iter().sum::<f64>();
    let mut last = None;
    for (at, weight) in weights.iter().enumerate().filter(|it| *it.1 > 0.0) {
        last = Some(at);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// The categorical values of a point.
pub(super) fn categories(space: &Space, number: usize) -> Vec<u16> {
    let values = space.dimensions().iter().zip(space.point(number));
    let values = values.filter(|(it, _)| matches!(it.kind, Kind::Categorical { .. }));
    values.map(|(_, value)| *value).collect()
}

/// The squared distance between the communicators of two points: over the dimensions that restart.
fn distance(space: &Space, a: usize, b: usize) -> f64 {
    let values = space.dimensions().iter().zip(space.point(a).iter().zip(space.point(b)));
    let part = |(dimension, (a, b)): (&Dimension, (&u16, &u16))| match &dimension.kind {
        Kind::Categorical { .. } => f64::from(u8::from(a != b)),
        Kind::Ordinal { positions } => {
            (positions[usize::from(*a)] - positions[usize::from(*b)]).powi(2)
        }
    };
    values.filter(|(it, _)| it.restarts).map(part).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use motet_units::Seed;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_category_is_seen_for_few_restarts(seed: u64, restarts: bool) {
            let threads = Dimension::logarithmic("threads", 1..=20);
            let threads = if restarts { threads.with_restarts() } else { threads };
            let dimensions =
                vec![Dimension::categorical("kind", 4), Dimension::logarithmic("n", [1, 2, 4]), threads];
            let space = Space::new(dimensions, |it| it[2] > 2 || it[0] < 2).unwrap();
            let chosen = design(&space, &mut Seed::new(seed).stream("test"));
            let points: BTreeSet<usize> = chosen.iter().copied().collect();
            prop_assert_eq!(points.len(), chosen.len());
            let groups: BTreeSet<u32> = chosen.iter().map(|it| space.group(*it)).collect();
            prop_assert_eq!(groups.len(), if restarts { GROUPS } else { 1 });
            let kinds: BTreeSet<Vec<u16>> = chosen.iter().map(|it| categories(&space, *it)).collect();
            prop_assert_eq!(kinds.len(), 4);
            prop_assert!(chosen.len() > GROUPS * PER_GROUP * 2 && chosen.len() <= GROUPS * PER_GROUP * 4);
        }
    }
}
