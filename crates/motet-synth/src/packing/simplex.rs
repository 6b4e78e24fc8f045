//! [`Simplex`]: a small linear program to which columns can be added.
//!
//! > maximize c·v subject to A·v ≤ b, v ≥ 0
//!
//! The revised simplex method with an explicit, dense inverse of the basis: the programs of
//! [`super::master`] have tens to a few hundred rows. A new column leaves the basis feasible, so
//! the method continues from it.
//!
//! Right-hand sides are raised by tiny, different amounts, so that no two bases tie and the method
//! cannot cycle. The result is therefore exact to about six digits only.

/// Reduced costs and pivots smaller than this count as zero.
const SMALL: f64 = 1e-9;

/// How far below zero a basic variable may be because of rounding.
const BELOW: f64 = 1e-9;

/// After this many pivots the inverse is computed from scratch, to shed rounding errors.
const FRESH: usize = 200;

/// Relative size of the amounts added to right-hand sides.
const RAISE: f64 = 1e-6;

const OUTSIDE: u32 = u32::MAX;

/// See the module's documentation. Variables are numbered: first one slack per row, then the
/// columns.
#[derive(Clone, Debug)]
pub(super) struct Simplex {
    rows: usize,
    rhs: Vec<f64>,
    start: Vec<u32>,
    entries: Vec<(u32, f64)>,
    cost: Vec<f64>,
    /// The variable of each row of the basis.
    basis: Vec<u32>,
    /// The row of each variable in the basis.
    place: Vec<u32>,
    /// The inverse of the basis, column by column.
    inverse: Vec<f64>,
    /// The values of the basic variables.
    values: Vec<f64>,
    duals: Vec<f64>,
    pivots: usize,
    /// The entering column times the inverse.
    step: Vec<f64>,
}

impl Simplex {
    /// A program without columns; every right-hand side must be at least 0.
    pub(super) fn new(rhs: &[f64]) -> Self {
        let rows = rhs.len();
        let largest = rhs.iter().fold(0.0_f64, |most, it| most.max(*it));
        let raised = |(row, value): (usize, &f64)| {
            // Any numbers without a pattern will do; these are the fractions of multiples of the
            // golden ratio.
            let odd = (row as f64 + 1.0) * 0.618_033_988_749_895;
            value + largest * RAISE * (0.5 + 0.5 * odd.fract())
        };
        let mut made = Self {
            rows,
            rhs: rhs.iter().enumerate().map(raised).collect(),
            start: vec![0],
            entries: Vec::new(),
            cost: Vec::new(),
            basis: Vec::new(),
            place: vec![OUTSIDE; rows],
            inverse: vec![0.0; rows * rows],
            values: vec![0.0; rows],
            duals: vec![0.0; rows],
            pivots: 0,
            step: vec![0.0; rows],
        };
        made.restart();
        made
    }

    pub(super) fn columns(&self) -> usize {
        self.cost.len()
    }

    /// Adds a column that is not in the basis.
    pub(super) fn add(&mut self, cost: f64, entries: &[(u32, f64)]) {
        self.entries.extend_from_slice(entries);
        self.start.push(self.entries.len() as u32);
        self.cost.push(cost);
        self.place.push(OUTSIDE);
    }

    /// The value of a column's variable.
    pub(super) fn value(&self, column: usize) -> f64 {
        match self.place[self.rows + column] {
            OUTSIDE => 0.0,
            place => self.values[place as usize].max(0.0),
        }
    }

    /// The dual price: what one more unit of this right-hand side would gain.
    pub(super) fn dual_of(&self, row: usize) -> f64 {
        self.duals[row].max(0.0)
    }

    /// Pivots to the optimum, at most `most` times. Returns the number of pivots.
    pub(super) fn primal(&mut self, most: usize) -> usize {
        self.find_duals();
        for pivots in 0..most {
            let Some(entering) = self.best_entering() else { return pivots };
            self.find_step(entering);
            let Some(row) = self.leaving() else { return pivots };
            self.pivot(entering, row);
            self.find_duals();
        }
        most
    }

    fn column(&self, column: usize) -> &[(u32, f64)] {
        &self.entries[self.start[column] as usize..self.start[column + 1] as usize]
    }

    fn cost_of(&self, variable: usize) -> f64 {
        if variable < self.rows { 0.0 } else { self.cost[variable - self.rows] }
    }

    fn reduced(&self, variable: usize) -> f64 {
        if variable < self.rows {
            return -self.duals[variable];
        }
        let column = variable - self.rows;
        let paid: f64 =
            self.column(column).iter().map(|(row, it)| self.duals[*row as usize] * it).sum();
        self.cost[column] - paid
    }

    fn best_entering(&self) -> Option<usize> {
        let mut best = (SMALL, None);
        for variable in 0..self.place.len() {
            if self.place[variable] != OUTSIDE {
                continue;
            }
            let gain = self.reduced(variable);
            if gain > best.0 {
                best = (gain, Some(variable));
            }
        }
        best.1
    }

    /// The ratio test: the row whose variable first falls to zero; among equals, the largest pivot.
    fn leaving(&self) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for row in 0..self.rows {
            if self.step[row] <= SMALL {
                continue;
            }
            let ratio = self.values[row].max(0.0) / self.step[row];
            let better = match best {
                None => true,
                Some((least, at)) => {
                    ratio < least - 1e-12
                        || (ratio <= least + 1e-12 && self.step[row] > self.step[at])
                }
            };
            if better {
                best = Some((ratio, row));
            }
        }
        best.map(|it| it.1)
    }

    fn find_step(&mut self, variable: usize) {
        let rows = self.rows;
        if variable < rows {
            self.step.copy_from_slice(&self.inverse[variable * rows..(variable + 1) * rows]);
            return;
        }
        self.step.fill(0.0);
        let column = variable - rows;
        let range = self.start[column] as usize..self.start[column + 1] as usize;
        for (row, times) in &self.entries[range] {
            let start = *row as usize * rows;
            for (sum, it) in self.step.iter_mut().zip(&self.inverse[start..start + rows]) {
                *sum += times * it;
            }
        }
    }

    fn pivot(&mut self, entering: usize, row: usize) {
        let amount = self.values[row] / self.step[row];
        for (value, step) in self.values.iter_mut().zip(&self.step) {
            *value -= amount * step;
        }
        self.values[row] = amount;
        self.place[self.basis[row] as usize] = OUTSIDE;
        self.place[entering] = row as u32;
        self.replace(entering as u32, row);
        self.pivots += 1;
        if self.pivots >= FRESH.max(self.rows) {
            self.refresh();
        }
    }

    fn find_duals(&mut self) {
        let rows = self.rows;
        self.duals.fill(0.0);
        for (place, variable) in self.basis.iter().enumerate() {
            let cost = self.cost_of(*variable as usize);
            if cost == 0.0 {
                continue;
            }
            for (row, dual) in self.duals.iter_mut().enumerate() {
                *dual += cost * self.inverse[row * rows + place];
            }
        }
    }

    fn find_values(&mut self) {
        self.values.fill(0.0);
        for (row, rhs) in self.rhs.iter().enumerate() {
            if *rhs == 0.0 {
                continue;
            }
            let start = row * self.rows;
            for (value, it) in self.values.iter_mut().zip(&self.inverse[start..start + self.rows]) {
                *value += rhs * it;
            }
        }
    }

    /// Computes the inverse of the basis by Gauss–Jordan elimination. If rounding has made the
    /// basis singular, starts again from the basis of slacks.
    fn refresh(&mut self) {
        self.pivots = 0;
        let old = std::mem::take(&mut self.basis);
        let rows = self.rows;
        self.basis = (0..rows as u32).collect();
        self.inverse.fill(0.0);
        for row in 0..rows {
            self.inverse[row * rows + row] = 1.0;
        }
        let mut open = vec![true; rows];
        // Slacks need no elimination, and the columns then only meet the remaining rows.
        for variable in old.iter().filter(|it| (**it as usize) < rows) {
            open[*variable as usize] = false;
        }
        let mut lost = false;
        for variable in old.iter().filter(|it| **it as usize >= rows) {
            self.find_step(*variable as usize);
            let rows_left = (0..rows).filter(|it| open[*it]);
            let row = rows_left.max_by(|a, b| self.step[*a].abs().total_cmp(&self.step[*b].abs()));
            match row.filter(|it| self.step[*it].abs() > SMALL) {
                Some(row) => {
                    open[row] = false;
                    self.replace(*variable, row);
                }
                None => lost = true,
            }
        }
        self.place.fill(OUTSIDE);
        for (place, variable) in self.basis.iter().enumerate() {
            self.place[*variable as usize] = place as u32;
        }
        self.find_values();
        if lost && self.values.iter().any(|it| *it < -BELOW) {
            self.restart();
        }
    }

    /// Puts a variable into the basis at `row`; changes the inverse only.
    fn replace(&mut self, variable: u32, row: usize) {
        let pivot = self.step[row];
        for column in self.inverse.chunks_exact_mut(self.rows) {
            let factor = column[row] / pivot;
            if factor == 0.0 {
                continue;
            }
            for (it, step) in column.iter_mut().zip(&self.step) {
                *it -= factor * step;
            }
            column[row] = factor;
        }
        self.basis[row] = variable;
    }

    /// Back to the basis of slacks, which is always feasible.
    fn restart(&mut self) {
        let rows = self.rows;
        self.pivots = 0;
        self.basis = (0..rows as u32).collect();
        self.place.fill(OUTSIDE);
        self.inverse.fill(0.0);
        for row in 0..rows {
            self.place[row] = row as u32;
            self.inverse[row * rows + row] = 1.0;
        }
        self.find_values();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two products, three limits: the textbook's 36 at (2, 6).
    fn textbook() -> Simplex {
        let mut lp = Simplex::new(&[4.0, 12.0, 18.0]);
        lp.add(3.0, &[(0, 1.0), (2, 3.0)]);
        lp.add(5.0, &[(1, 2.0), (2, 2.0)]);
        lp
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3, "{a} is not {b}");
    }

    #[test]
    fn the_textbook_example_and_its_duals() {
        let mut lp = textbook();
        lp.primal(100);
        near(lp.value(0), 2.0);
        near(lp.value(1), 6.0);
        near(lp.dual_of(0), 0.0);
        near(lp.dual_of(1), 1.5);
        near(lp.dual_of(2), 1.0);
    }

    #[test]
    fn goes_on_after_a_column_joins() {
        let mut lp = textbook();
        lp.primal(100);
        lp.add(4.0, &[(2, 1.0)]);
        lp.primal(100);
        near(lp.value(0), 0.0);
        near(lp.value(1), 0.0);
        near(lp.value(2), 18.0);
        near(lp.dual_of(2), 4.0);
    }

    #[test]
    fn a_fresh_inverse_changes_nothing() {
        let mut lp = textbook();
        lp.primal(100);
        let before = (lp.value(0), lp.value(1));
        lp.refresh();
        near(lp.value(0), before.0);
        near(lp.value(1), before.1);
        lp.restart();
        lp.primal(100);
        near(lp.value(1), 6.0);
    }
}
