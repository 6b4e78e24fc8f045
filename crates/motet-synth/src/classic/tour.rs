//! A short closed tour through all ranks: nearest neighbour first, then improved by reversing
//! stretches (2-opt) and by moving short stretches elsewhere (Or-opt).
//!
//! A step costs Σ(α + L/b) over its path, so a tour stays inside a server as long as it can and
//! prefers fast links.

/// With more ranks than this, the tour is in numeric order: the matrix of all pairs would be too
/// large.
pub(super) const MOST_RANKS: usize = 2048;

/// Most passes over a tour in search of improvements.
const ROUNDS: usize = 24;

/// The cost of a step between every two ranks, both directions together.
#[derive(Debug)]
pub(super) struct Costs {
    ranks: usize,
    both: Vec<u64>,
}

impl Costs {
    /// `rows[a][b]` is what the step from a to b costs.
    pub(super) fn new(rows: &[Vec<u64>]) -> Self {
        let ranks = rows.len();
        let mut both = Vec::with_capacity(ranks * ranks);
        for (from, row) in rows.iter().enumerate() {
            // Divided by four, so that a sum of four costs cannot overflow.
            let sum = |(to, cost): (usize, &u64)| cost.saturating_add(rows[to][from]) >> 2;
            both.extend(row.iter().enumerate().map(sum));
        }
        Self { ranks, both }
    }

    fn of(&self, a: u32, b: u32) -> u64 {
        self.both[a as usize * self.ranks + b as usize]
    }
}

/// A short closed tour, beginning with rank 0.
pub(super) fn tour(costs: &Costs) -> Vec<u32> {
    let mut tour = nearest(costs);
    for _ in 0..ROUNDS {
        let turned = turn_stretches(&mut tour, costs);
        let moved = move_stretches(&mut tour, costs);
        if !turned && !moved {
            break;
        }
    }
    let start = tour.iter().position(|it| *it == 0).unwrap_or(0);
    tour.rotate_left(start);
    tour
}

fn nearest(costs: &Costs) -> Vec<u32> {
    let mut left: Vec<u32> = (1..costs.ranks as u32).collect();
    let mut tour = Vec::with_capacity(costs.ranks);
    tour.extend((costs.ranks > 0).then_some(0));
    while let Some(last) = tour.last().copied() {
        let next = (0..left.len()).min_by_key(|it| (costs.of(last, left[*it]), left[*it]));
        let Some(next) = next else { break };
        tour.push(left.remove(next));
    }
    tour
}

/// 2-opt: where replacing two steps by two cheaper ones shortens the tour, the stretch between them
/// is reversed.
fn turn_stretches(tour: &mut [u32], costs: &Costs) -> bool {
    let count = tour.len();
    let mut better = false;
    for a in 0..count.saturating_sub(2) {
        for b in a + 2..count {
            let (from, next) = (tour[a], tour[a + 1]);
            let (last, after) = (tour[b], tour[(b + 1) % count]);
            if from == after {
                continue;
            }
            let old = costs.of(from, next).saturating_add(costs.of(last, after));
            if costs.of(from, last).saturating_add(costs.of(next, after)) < old {
                tour[a + 1..=b].reverse();
                better = true;
            }
        }
    }
    better
}

/// Or-opt: moves a stretch of up to three ranks to a cheaper position.
fn move_stretches(tour: &mut [u32], costs: &Costs) -> bool {
    let count = tour.len();
    let mut better = false;
    for length in 1..=3usize {
        if count < length + 3 {
            break;
        }
        for start in 0..count {
            // The stretch is rotated to the front; the rest is a path into which it is inserted.
            tour.rotate_left(start % count);
            let (first, last) = (tour[0], tour[length - 1]);
            let (before, after) = (tour[count - 1], tour[length]);
            let out = costs.of(before, first).saturating_add(costs.of(last, after));
            let closed = costs.of(before, after);
            let place = (length..count - 1).find(|it| {
                let (a, b) = (tour[*it], tour[*it + 1]);
                let joined = costs.of(a, first).saturating_add(costs.of(last, b));
                joined.saturating_add(closed) < out.saturating_add(costs.of(a, b))
            });
            if let Some(place) = place {
                tour[..=place].rotate_left(length);
                better = true;
            }
        }
    }
    better
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(tour: &[u32], costs: &Costs) -> u64 {
        let next = tour.iter().cycle().skip(1);
        tour.iter().zip(next).map(|(a, b)| costs.of(*a, *b)).sum()
    }

    /// Points on a circle, numbered at random, are visited in their order.
    #[test]
    fn circle() {
        let place = [0u64, 5, 2, 9, 7, 3, 1, 8, 6, 4];
        let apart = |a: u64, b: u64| 4 * a.abs_diff(b).min(10 - a.abs_diff(b));
        let rows: Vec<Vec<u64>> =
            place.iter().map(|a| place.iter().map(|b| apart(*a, *b)).collect()).collect();
        let costs = Costs::new(&rows);
        assert_eq!(length(&tour(&costs), &costs), 20);
    }

    proptest! {
        /// Every rank once, and no worse than nearest neighbour.
        #[test]
        fn visits_all(ranks in 1usize..24, seed in prop::collection::vec(1u64..1000, 576)) {
            let rows: Vec<Vec<u64>> =
                (0..ranks).map(|a| (0..ranks).map(|b| seed[a * 24 + b]).collect()).collect();
            let costs = Costs::new(&rows);
            let found = tour(&costs);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..ranks as u32).collect::<Vec<_>>());
            prop_assert!(length(&found, &costs) <= length(&nearest(&costs), &costs));
        }
    }
}
