//! [`Master`]: how much data each pair of trees should carry, by linear programming with column
//! generation.
//!
//! > maximize x, so that the pairs carry x together and no row carries more than its capacity
//!
//! (A row is a link, or a link and its opposite: see [`super::roads`].)
//!
//! There are far too many trees to list. A first set comes from multiplicative weights, as in
//! `motet_collective`'s bounds for AllToAll: data is routed round after round over the cheapest
//! trees, while loaded rows become longer. Then the linear program over the trees known so far is
//! solved, its dual prices are taken as the lengths of rows, and the cheapest trees for those
//! lengths are added, until the packing is close to the bound that the prices prove.
//!
//! If there are more rows than the simplex method can handle, the answer of the routing rounds
//! stays.

use super::pool::Pool;
use super::pricing::{Cheapest, Pricer, with_lateness};
use super::roads::Roads;
use super::round::{Fractions, Rounded, round};
use super::simplex::Simplex;
use crate::tree::PairForest;
use crate::watch::Watch;

/// How hard to look for the best packing.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackingEffort {
    /// Rounds of routing before the first linear program is solved.
    pub(super) rounds: usize,
    /// How many times trees may be added and the program solved again.
    pub(super) turns: usize,
    /// How many of these turns in a row may gain nothing before the search ends.
    pub(super) idle: usize,
}

/// A packing this close to the proved bound is good enough.
const GAP: f64 = 0.003;

/// Penalties per step of depth that are tried, as multiples of the mean path length.
const FEES: [f64; 3] = [0.5, 0.2, 0.07];

/// A shallow tree is preferred if it gains at least this share of what the cheapest would.
const WORTH: f64 = 0.3;

/// A tiny cost per unit that any tree carries; it breaks ties between equal solutions.
const FEE: f64 = 1e-6;

/// An improvement below this share counts as none.
const GAINED: f64 = 1e-4;

/// From this many rows of links on, no linear program is solved.
const MANY_ROWS: usize = 700;

/// One unit of work stands for this many entries of the simplex tableau.
const PER_WORK: u64 = 32;

/// How much longer a row becomes when one round fills it.
const STEP: f64 = 0.12;

/// A packing, in bits per second.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    /// What all columns carry together.
    pub(super) value: f64,
    /// Upper bound: no packing carries more.
    pub(super) bound: f64,
    /// What each pair carries; pairs added later carry nothing.
    pub(super) weights: Vec<f64>,
}

/// The packing problem of a network, and everything found so far.
#[derive(Clone, Debug)]
pub(super) struct Master {
    roads: Roads,
    pool: Pool,
    pricer: Pricer,
    /// The bandwidth that is 1 in the linear program, to keep its numbers near 1.
    unit: f64,
    bound: f64,
}

impl Master {
    pub(super) fn new(roads: Roads) -> Self {
        let unit = roads.capacities().iter().fold(1.0_f64, |most, it| most.max(*it));
        let (pool, pricer) = (Pool::default(), Pricer::default());
        Self { roads, pool, pricer, unit, bound: f64::INFINITY }
    }

    /// Integer weights for a packing: see [`mod@super::round`].
    pub(super) fn round(&self, packed: &Packed) -> Option<Rounded> {
        let fractions = Fractions {
            columns: &self.pool.columns,
            weights: &packed.weights,
            capacities: self.roads.capacities(),
        };
        round(fractions, packed.value)
    }

    pub(super) fn pairs(&self, rounded: &Rounded) -> PairForest {
        self.pool.pairs(&rounded.counts)
    }

    /// The best packing within the effort and the allowed work; `None` if some rank cannot be
    /// reached.
    pub(super) fn solve(&mut self, effort: PackingEffort, watch: Watch<'_>) -> Option<Packed> {
        let routed = self.route(effort.rounds, watch)?;
        if self.roads.rows() >= MANY_ROWS {
            return Some(routed);
        }
        self.generate(effort, watch)
    }

    /// The linear program without trees. Its last row says that the trees carry x together; column
    /// 0 is x, and column c + 1 will be tree c.
    fn program(&self) -> Simplex {
        let rows = self.roads.capacities().iter().map(|it| it / self.unit);
        let rhs: Vec<f64> = rows.chain([0.0]).collect();
        let mut program = Simplex::new(&rhs);
        program.add(1.0, &[(self.roads.rows() as u32, 1.0)]);
        program
    }

    /// Adds the trees that the program does not contain yet.
    fn join(&self, program: &mut Simplex) {
        let demand = self.roads.rows() as u32;
        let mut entries = Vec::new();
        for column in &self.pool.columns[program.columns() - 1..] {
            entries.clear();
            entries.extend_from_slice(&column.loads);
            entries.push((demand, -1.0));
            // Costs too small to matter, no two alike, so that no two bases tie.
            let odd = (program.columns() as f64 * 0.618_033_988_749_895).fract();
            program.add(-FEE * (1.0 + odd), &entries);
        }
    }

    /// Solves the program and adds trees, in turn.
    fn generate(&mut self, effort: PackingEffort, watch: Watch<'_>) -> Option<Packed> {
        let rows = self.roads.rows();
        let mut program = self.program();
        let mut prices = Vec::new();
        let mut late = Vec::new();
        let mut value: f64 = 0.0;
        let mut idle = 0;
        let pivot_work = (rows * rows) as u64 / PER_WORK;
        let turn_work = self.pricing_work();
        for _ in 0..effort.turns {
            if value > 0.0 && !watch.affords(turn_work) {
                break;
            }
            self.join(&mut program);
            let pivots = program.primal(20 * (rows + 1)) as u64;
            watch.spend(turn_work + pivots * pivot_work);
            idle = if program.value(0) > value * (1.0 + GAINED) { 0 } else { idle + 1 };
            value = program.value(0);
            prices.clear();
            prices.extend((0..rows).map(|it| program.dual_of(it)));
            let paid = program.dual_of(rows);
            with_lateness(&self.roads, &prices, &mut late);
            let found = self.pricer.price(&self.roads, &late, &mut self.pool)?;
            self.prove(&late, &found);
            if value * self.unit >= self.bound * (1.0 - GAP) || idle > effort.idle {
                break;
            }
            self.prefer_low(&late, paid, paid - found.cost);
            if self.pool.columns.len() < program.columns() {
                // No new tree was found: the rest of the gap is rounding error.
                break;
            }
        }
        let weights = (1..program.columns()).map(|it| program.value(it) * self.unit).collect();
        Some(Packed { value: value * self.unit, bound: self.bound, weights })
    }

    /// The cost of one search for the cheapest trees, in units of work: about one visit of every
    /// row per rank.
    fn pricing_work(&self) -> u64 {
        (self.roads.rows() * self.roads.fabric.rank_count()) as u64 / 2
    }

    /// Adds shallower trees, used in both directions, that gain almost as much as the cheapest.
    fn prefer_low(&mut self, lengths: &[f64], paid: f64, gain: f64) {
        if gain <= 0.0 {
            return;
        }
        for fee in FEES {
            let found = self.pricer.low(&self.roads, lengths, fee, &mut self.pool);
            if found.is_some_and(|(cost, _)| paid - cost >= WORTH * gain) {
                break;
            }
        }
    }

    /// Tightens the upper bound: row lengths together with the cost of the cheapest trees prove
    /// one.
    fn prove(&mut self, lengths: &[f64], found: &Cheapest) {
        if !found.exact {
            return;
        }
        let total: f64 = lengths.iter().zip(self.roads.capacities()).map(|(l, b)| l * b).sum();
        if found.cost > 0.0 {
            self.bound = self.bound.min(total / found.cost);
        }
    }

    /// Routes round after round over the cheapest trees, while loaded rows become longer.
    fn route(&mut self, rounds: usize, watch: Watch<'_>) -> Option<Packed> {
        let capacities = self.roads.capacities().to_vec();
        let mut lengths: Vec<f64> = capacities.iter().map(|it| self.unit / it).collect();
        let mut counts: Vec<f64> = Vec::new();
        let mut loads = vec![0.0; capacities.len()];
        let mut best = Packed::default();
        let mut since = 0;
        let turn_work = self.pricing_work();
        for round in 1..=rounds {
            // Any consecutive rounds form a packing, so the first, less balanced ones are dropped
            // now and then.
            if round.is_power_of_two() {
                counts.fill(0.0);
                loads.fill(0.0);
                since = round - 1;
            }
            if best.value > 0.0 && !watch.affords(turn_work) {
                break;
            }
            watch.spend(turn_work);
            let cheapest = self.pricer.price(&self.roads, &lengths, &mut self.pool)?;
            self.prove(&lengths, &cheapest);
            let total: f64 = lengths.iter().zip(&capacities).map(|(l, b)| l * b).sum();
            let reachable = total / cheapest.cost;
            let fee = FEES[round % FEES.len()];
            let low = self.pricer.low(&self.roads, &lengths, fee, &mut self.pool);
            let column = low.map_or(cheapest.column, |(_, column)| column);
            counts.resize(self.pool.columns.len(), 0.0);
            counts[column] += 1.0;
            for (row, times) in &self.pool.columns[column].loads {
                let row = *row as usize;
                loads[row] += times;
                lengths[row] *= 1.0 + STEP * times * reachable / capacities[row];
            }
            let total: f64 = lengths.iter().zip(&capacities).map(|(l, b)| l * b).sum();
            lengths.iter_mut().for_each(|it| *it *= self.unit / total);
            let full = loads.iter().zip(&capacities).map(|(load, capacity)| load / capacity);
            let fullest = full.fold(0.0, f64::max);
            let value = (round - since) as f64 / fullest;
            if value > best.value {
                best.value = value;
                best.weights = counts.iter().map(|it| it / fullest).collect();
            }
        }
        best.bound = self.bound;
        Some(best)
    }
}
