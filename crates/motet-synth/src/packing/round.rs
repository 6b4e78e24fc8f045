//! [`round`]: integer weights for a packing.
//!
//! A program cuts data into equal chunks, so weights must become integers that add up to some K. K
//! should be small, because every slice then consists of K chunks. For each K in turn the weights
//! are rounded (largest remainder first) and improved: one unit at a time moves from a tree over
//! the most loaded row to a tree that avoids it.

use super::pool::Column;

/// The largest K.
const MOST_UNITS: u32 = 1024;

/// The share of bandwidth that rounding may lose.
const LOSS: f64 = 0.003;

/// Weights below this share of the packing are rounding noise.
const NOISE: f64 = 1e-5;

/// Most units moved for one K.
const MOST_MOVES: usize = 400;

/// Up to twice this K every number is tried; above, steps grow in proportion to K.
const STRIDE: u32 = 64;

/// Integer weights, and the bandwidth they reach.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounded {
    /// Per column.
    pub(super) counts: Vec<u32>,
    /// In the unit of the capacities.
    pub(super) value: f64,
}

/// What is rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fractions<'a> {
    pub(super) columns: &'a [Column],
    pub(super) weights: &'a [f64],
    pub(super) capacities: &'a [f64],
}

/// The weights for the first K that loses little enough of `value`, or else the best of all.
pub(super) fn round(of: Fractions<'_>, value: f64) -> Option<Rounded> {
    let mut rounding = Rounding::new(of);
    if rounding.sum <= 0.0 {
        return None;
    }
    let mut best = Rounded::default();
    let mut next = 1;
    while next <= MOST_UNITS {
        let units = next;
        next += (units / STRIDE).max(1);
        rounding.spread(units);
        if rounding.value(units) < best.value * 0.9 {
            continue;
        }
        rounding.mend();
        let reached = rounding.value(units);
        if reached > best.value * (1.0 + 1e-9) {
            best = Rounded { counts: rounding.counts_of_all(), value: reached };
        }
        if best.value >= value * (1.0 - LOSS) {
            break;
        }
    }
    (best.value > 0.0).then_some(best)
}

struct Rounding<'a> {
    of: Fractions<'a>,
    /// The pairs that carry anything, and what they carry together.
    used: Vec<u32>,
    sum: f64,
    counts: Vec<u32>,
    loads: Vec<f64>,
    order: Vec<(f64, u32)>,
}

impl<'a> Rounding<'a> {
    fn new(of: Fractions<'a>) -> Self {
        let total: f64 = of.weights.iter().sum();
        let used: Vec<u32> = (0..of.weights.len() as u32)
            .filter(|it| of.weights[*it as usize] > total * NOISE)
            .collect();
        let sum = used.iter().map(|it| of.weights[*it as usize]).sum();
        let (counts, loads) = (vec![0; used.len()], vec![0.0; of.capacities.len()]);
        Self { of, used, sum, counts, loads, order: Vec::new() }
    }

    /// Rounds to `units` in sum, by largest remainder.
    fn spread(&mut self, units: u32) {
        self.loads.fill(0.0);
        let mut left = units;
        self.order.clear();
        for (at, column) in self.used.iter().enumerate() {
            let share = self.of.weights[*column as usize] / self.sum * f64::from(units);
            let whole = (share + 1e-6).floor().min(f64::from(left));
            self.counts[at] = whole as u32;
            left -= whole as u32;
            self.order.push((whole - share, at as u32));
        }
        self.order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, at) in self.order.iter().cycle().take(left as usize) {
            self.counts[*at as usize] += 1;
        }
        for at in 0..self.used.len() {
            self.load(at, f64::from(self.counts[at]));
        }
    }

    fn load(&mut self, at: usize, units: f64) {
        for (row, times) in &self.of.columns[self.used[at] as usize].loads {
            self.loads[*row as usize] += times * units;
        }
    }

    fn fullest(&self) -> (f64, usize) {
        let mut fullest = (0.0, 0);
        for (row, (load, capacity)) in self.loads.iter().zip(self.of.capacities).enumerate() {
            if load / capacity > fullest.0 {
                fullest = (load / capacity, row);
            }
        }
        fullest
    }

    fn value(&self, units: u32) -> f64 {
        f64::from(units) / self.fullest().0
    }

    /// Moves units away from the most loaded row as long as no other row becomes as loaded.
    fn mend(&mut self) {
        for _ in 0..MOST_MOVES {
            let (full, row) = self.fullest();
            let Some((from, to)) = self.find_move(full, row as u32) else { return };
            self.counts[from] -= 1;
            self.counts[to] += 1;
            self.load(from, -1.0);
            self.load(to, 1.0);
        }
    }

    fn uses(&self, at: usize, row: u32) -> bool {
        self.of.columns[self.used[at] as usize].loads.iter().any(|it| it.0 == row)
    }

    fn find_move(&mut self, full: f64, row: u32) -> Option<(usize, usize)> {
        let limit = full * (1.0 - 1e-9);
        for from in 0..self.used.len() {
            if self.counts[from] == 0 || !self.uses(from, row) {
                continue;
            }
            self.load(from, -1.0);
            let fits = |to: usize| {
                self.of.columns[self.used[to] as usize].loads.iter().all(|(row, times)| {
                    let row = *row as usize;
                    (self.loads[row] + times) / self.of.capacities[row] < limit
                })
            };
            let found = (0..self.used.len()).find(|it| *it != from && fits(*it));
            self.load(from, 1.0);
            if let Some(to) = found {
                return Some((from, to));
            }
        }
        None
    }

    fn counts_of_all(&self) -> Vec<u32> {
        let mut counts = vec![0; self.of.columns.len()];
        for (column, count) in self.used.iter().zip(&self.counts) {
            counts[*column as usize] = *count;
        }
        counts
    }
}
