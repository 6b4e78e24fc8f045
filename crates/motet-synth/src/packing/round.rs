//! [`round`]: whole numbers for the weights of a packing.
//!
//! A program cuts data into equal chunks, so that weights must become whole numbers, K for each
//! group, with K as small as will do: K chunks are what every slice costs. For K after K the
//! weights are rounded (largest remainders first) and then mended: one unit after the other moves
//! from a tree over the fullest row to one that avoids it.

use super::pool::Column;

/// Weights smaller than this share of the packing are noise.
const NOISE: f64 = 1e-5;

/// Most units that are moved for one K.
const MOST_MOVES: usize = 400;

/// Beyond so many units not every number of them is tried.
const STRIDE: u32 = 64;

/// Whole weights, and what they reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounded {
    /// Per column.
    pub(super) counts: Vec<u32>,
    /// In the units of the capacities.
    pub(super) value: f64,
}

/// What is rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fractions<'a> {
    pub(super) columns: &'a [Column],
    pub(super) weights: &'a [f64],
    pub(super) capacities: &'a [f64],
    pub(super) groups: usize,
}

/// The first K up to `most` that loses at most `loss` of `value`, or else the best of all.
pub(super) fn round(of: Fractions<'_>, value: f64, most: u32, loss: f64) -> Option<Rounded> {
    let mut rounding = Rounding::new(of);
    if rounding.sums.iter().any(|it| *it <= 0.0) {
        return None;
    }
    let mut best = Rounded::default();
    let mut next = 1;
    while next <= most {
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
        if best.value >= value * (1.0 - loss) {
            break;
        }
    }
    (best.value > 0.0).then_some(best)
}

struct Rounding<'a> {
    of: Fractions<'a>,
    /// The columns that carry something, group by group.
    used: Vec<u32>,
    start: Vec<usize>,
    sums: Vec<f64>,
    counts: Vec<u32>,
    loads: Vec<f64>,
    order: Vec<(f64, u32)>,
}

impl<'a> Rounding<'a> {
    fn new(of: Fractions<'a>) -> Self {
        let mut sums = vec![0.0; of.groups];
        let total: f64 = of.weights.iter().sum();
        let open = |it: &Column| it.loads.iter().all(|it| of.capacities[it.0 as usize] > 0.0);
        let mut used: Vec<u32> = (0..of.weights.len() as u32)
            .filter(|it| of.weights[*it as usize] > total / of.groups as f64 * NOISE)
            .filter(|it| open(&of.columns[*it as usize]))
            .collect();
        used.sort_by_key(|it| of.columns[*it as usize].group);
        for column in &used {
            let column = *column as usize;
            sums[of.columns[column].group as usize] += of.weights[column];
        }
        let mut start = vec![0; of.groups + 1];
        for column in &used {
            start[of.columns[*column as usize].group as usize + 1] += 1;
        }
        for group in 0..of.groups {
            start[group + 1] += start[group];
        }
        let (counts, loads) = (vec![0; used.len()], vec![0.0; of.capacities.len()]);
        Self { of, used, start, sums, counts, loads, order: Vec::new() }
    }

    /// `units` for each group, by largest remainders.
    fn spread(&mut self, units: u32) {
        self.loads.fill(0.0);
        for group in 0..self.of.groups {
            let range = self.start[group]..self.start[group + 1];
            let mut left = units;
            self.order.clear();
            for at in range {
                let weight = self.of.weights[self.used[at] as usize];
                let share = weight / self.sums[group] * f64::from(units);
                let whole = (share + 1e-6).floor().min(f64::from(left));
                self.counts[at] = whole as u32;
                left -= whole as u32;
                self.order.push((whole - share, at as u32));
            }
            self.order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for at in 0..left as usize {
                let (_, column) = self.order[at % self.order.len()];
                self.counts[column as usize] += 1;
            }
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
            if *load > 0.0 && load / capacity > fullest.0 {
                fullest = (load / capacity, row);
            }
        }
        fullest
    }

    fn value(&self, units: u32) -> f64 {
        f64::from(units) / self.fullest().0
    }

    /// Moves units away from the fullest row as long as that fills no other as much.
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
            let group = self.of.columns[self.used[from] as usize].group as usize;
            self.load(from, -1.0);
            let fits = |to: usize| {
                self.of.columns[self.used[to] as usize].loads.iter().all(|(row, times)| {
                    let row = *row as usize;
                    (self.loads[row] + times) / self.of.capacities[row] < limit
                })
            };
            let mut others = self.start[group]..self.start[group + 1];
            let found = others.find(|it| *it != from && fits(*it));
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
