//! [`Master`]: how much each tree should carry, by linear programming with column generation.
//!
//! > maximize x, so that the trees of each group carry x together and no row more than it can
//!
//! The trees are far too many to list. A first handful comes from routing round after round while
//! crowded rows grow longer (multiplicative weights, as in `motet_collective`'s bounds for
//! AllToAll). Then the linear program over the trees known so far is solved, its prices of rows
//! are taken as lengths, and the cheapest trees for those join, until the packing is within a
//! given share of what the prices prove.
//!
//! Programs with more rows than the simplex method can bear stay with the routing's answer.

use motet_units::LinkId;

use super::pool::Pool;
use super::pricing::{Pricer, Prices, Shape, with_lateness};
use super::roads::Roads;
use super::round::{Fractions, Rounded, round};
use super::simplex::{End, Simplex};
use super::spanning::{Branch, Found};
use crate::fabric::Path;
use crate::tree::{Edge, Forest, PairForest, Tree};

/// How hard to look for the best packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Stop when the packing is within this share of what is proved.
    pub(crate) gap: f64,
    /// Rounds of routing before the first linear program.
    pub(crate) rounds: usize,
    /// Most times that columns are added, and how often in a row that may gain nothing.
    pub(crate) turns: usize,
    pub(crate) idle: usize,
}

/// Fees for depth that are tried, in mean ways per step.
const FEES: [f64; 3] = [0.5, 0.2, 0.07];

/// A tree that is low is preferred if it gains at least this share of what the cheapest would.
const WORTH: f64 = 0.3;

/// What a unit over any tree costs, about.
const FEE: f64 = 1e-6;

/// Less than this share is no gain.
const GAINED: f64 = 1e-4;

/// With more rows there is no linear program.
const MOST_ROWS: usize = 700;

/// With more trees than this, those that carry nothing are forgotten.
const MOST_TREES: usize = 4000;

/// How much a row that one round fills grows longer.
const STEP: f64 = 0.12;

/// A packing: how much each column carries, in bits per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    /// The sum over each group.
    pub(crate) value: f64,
    /// No packing is larger.
    pub(crate) bound: f64,
    pub(crate) weights: Vec<f64>,
    /// Whether its rows are links and their opposites together.
    pub(crate) both_ways: bool,
}

/// The packing problem of a network, with all that is known about it.
#[derive(Clone, Debug)]
pub(crate) struct Master {
    roads: Roads,
    shape: Shape,
    pool: Pool,
    pricer: Pricer,
    program: Option<Simplex>,
    /// The bandwidth that counts as 1 in the linear program.
    unit: f64,
    bound: f64,
}

impl Master {
    pub(crate) fn new(roads: Roads, shape: Shape) -> Self {
        let unit = roads.capacities().iter().fold(1.0_f64, |most, it| most.max(*it));
        let (pool, pricer) = (Pool::default(), Pricer::default());
        Self { roads, shape, pool, pricer, program: None, unit, bound: f64::INFINITY }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Adds a tree, or the two halves of a pair (the one that spreads first), with the paths that
    /// their edges number; not if it needs a link that may not be used or a root that has no part.
    pub(crate) fn learn(&mut self, halves: &[(&Tree, &Vec<Path>)]) {
        let found = |(tree, paths): &(&Tree, &Vec<Path>)| -> Option<Found> {
            let branch = |it: &Edge| {
                let links = paths.get(it.path as usize)?;
                let known = links.iter().all(|it| self.roads.row(*it).is_some());
                known.then(|| Branch { from: it.from, to: it.to, links: links.clone() })
            };
            let branches = tree.edges.iter().map(branch).collect::<Option<Vec<_>>>()?;
            Some(Found { cost: 0.0, root: tree.root, branches })
        };
        let halves: Vec<Found> = halves.iter().filter_map(found).collect();
        match (&self.shape, halves.as_slice()) {
            (Shape::Spread(roots) | Shape::Collect(roots), [tree]) => {
                if let Some(group) = roots.iter().position(|it| *it == tree.root) {
                    let collects = matches!(self.shape, Shape::Collect(_));
                    self.pool.add_tree(&self.roads, group as u32, tree, collects);
                }
            }
            (Shape::Both, [spread, _]) if self.roads.is_both_ways() => {
                // Going up the way it comes down is never worse where links are equal both ways.
                self.pool.add_mirrored(&self.roads, spread);
            }
            (Shape::Both, [spread, collect]) => {
                self.pool.add_pair(&self.roads, collect, spread);
            }
            _ => {}
        }
    }

    /// Adds all pairs that another packing of the same task knows.
    pub(crate) fn learn_all(&mut self, other: &Self) {
        let pairs = other.pool.pairs(&vec![1; other.pool.columns.len()]);
        for pair in &pairs.pairs {
            self.learn(&[(&pair.spread, &pairs.paths), (&pair.collect, &pairs.paths)]);
        }
    }

    /// Whether these bandwidths are the same both ways, for links that are rows both ways.
    pub(crate) fn is_equal_both_ways(&self, bits_per_s: impl Fn(LinkId) -> u64) -> bool {
        self.roads.fabric.links().iter().all(|link| {
            let back = self.roads.opposite(*link);
            back.is_some_and(|back| bits_per_s(back) == bits_per_s(*link))
        })
    }

    /// Whole weights for a packing: see [`mod@super::round`].
    pub(crate) fn round(&self, packed: &Packed, most: u32, loss: f64) -> Option<Rounded> {
        let fractions = Fractions {
            columns: &self.pool.columns,
            weights: &packed.weights,
            capacities: self.roads.capacities(),
            groups: self.shape.groups(),
        };
        round(fractions, packed.value, most, loss)
    }

    pub(crate) fn forest(&self, rounded: &Rounded) -> Forest {
        self.pool.forest(&rounded.counts)
    }

    pub(crate) fn pairs(&self, rounded: &Rounded) -> PairForest {
        self.pool.pairs(&rounded.counts)
    }

    /// The best packing that the effort allows; `None` if some rank cannot be reached.
    pub(crate) fn solve(&mut self, effort: Effort) -> Option<Packed> {
        self.bound = f64::INFINITY;
        let routed = self.route(effort.rounds)?;
        if self.roads.rows() + self.shape.groups() > MOST_ROWS {
            return Some(Packed { bound: self.bound, ..routed });
        }
        self.program();
        self.generate(effort)
    }

    /// The best packing with other capacities, from what is known.
    pub(crate) fn resolve(
        &mut self,
        bits_per_s: impl Fn(LinkId) -> u64,
        effort: Effort,
    ) -> Option<Packed> {
        self.roads.set_capacities(bits_per_s);
        self.bound = f64::INFINITY;
        if self.roads.rows() + self.shape.groups() > MOST_ROWS {
            let routed = self.route(effort.rounds)?;
            return Some(Packed { bound: self.bound, ..routed });
        }
        if self.pool.columns.len() > MOST_TREES {
            self.forget();
        }
        let rhs = self.rhs();
        let program = self.program();
        // Trees that joined last may not have been weighed yet; the dual method wants an optimum.
        program.primal(4 * rhs.len());
        program.set_rhs(&rhs);
        if program.dual(2 * rhs.len()) == End::Stopped {
            program.restart();
        }
        self.generate(effort)
    }

    /// Forgets all trees that carry nothing.
    fn forget(&mut self) {
        let used: Vec<u32> = self.weights().into_iter().map(|it| u32::from(it > 0.0)).collect();
        let pool = std::mem::take(&mut self.pool);
        self.program = None;
        if self.shape == Shape::Both {
            let pairs = pool.pairs(&used);
            for it in &pairs.pairs {
                self.learn(&[(&it.spread, &pairs.paths), (&it.collect, &pairs.paths)]);
            }
        } else {
            let forest = pool.forest(&used);
            for tree in &forest.trees {
                self.learn(&[(tree, &forest.paths)]);
            }
        }
    }

    fn rhs(&self) -> Vec<f64> {
        let rows = self.roads.capacities().iter().map(|it| it / self.unit);
        rows.chain(std::iter::repeat_n(0.0, self.shape.groups())).collect()
    }

    /// The linear program over all trees known. Its column 0 is x; column c + 1 is tree c.
    fn program(&mut self) -> &mut Simplex {
        let rows = self.roads.rows() as u32;
        let rhs = self.rhs();
        let groups = self.shape.groups() as u32;
        let program = self.program.get_or_insert_with(|| {
            let mut made = Simplex::new(&rhs);
            let demands: Vec<(u32, f64)> = (0..groups).map(|it| (rows + it, 1.0)).collect();
            made.add(1.0, &demands);
            made
        });
        let mut entries = Vec::new();
        for column in &self.pool.columns[program.columns() - 1..] {
            entries.clear();
            entries.extend_from_slice(&column.loads);
            entries.push((rows + column.group, -1.0));
            // Fees too small to matter, no two alike, keep bases from tying.
            let odd = (program.columns() as f64 * 0.618_033_988_749_895).fract();
            program.add(-FEE * (1.0 + odd), &entries);
        }
        program
    }

    /// Solves and adds columns in turn.
    fn generate(&mut self, effort: Effort) -> Option<Packed> {
        let (rows, groups) = (self.roads.rows(), self.shape.groups());
        let mut prices = Vec::new();
        let mut late = Vec::new();
        let mut value: f64 = 0.0;
        let mut idle = 0;
        for _ in 0..effort.turns.max(1) {
            let program = self.program();
            program.primal(20 * (rows + groups));
            idle = if program.value(0) > value * (1.0 + GAINED) { 0 } else { idle + 1 };
            value = program.value(0);
            prices.clear();
            prices.extend((0..rows).map(|it| program.dual_of(it)));
            let paid: Vec<f64> = (0..groups).map(|it| program.dual_of(rows + it)).collect();
            with_lateness(&self.roads, &prices, &mut late);
            let found = self.pricer.price(&self.roads, &self.shape, &late, &mut self.pool)?;
            self.prove(&late, &found);
            if value * self.unit >= self.bound * (1.0 - effort.gap) || idle > effort.idle {
                break;
            }
            let gains = paid.iter().zip(&found.of_group).map(|(z, (cost, _))| z - cost);
            let gain = gains.fold(f64::NEG_INFINITY, f64::max);
            self.prefer_low(&late, &paid, gain);
            let known = self.program.as_ref().map_or(0, Simplex::columns);
            if self.pool.columns.len() < known {
                // No tree is new: what is left of the gap is rounding.
                break;
            }
        }
        Some(Packed {
            value: value * self.unit,
            bound: self.bound,
            weights: self.weights(),
            both_ways: self.roads.is_both_ways(),
        })
    }

    /// For an AllReduce over one tree both ways: lower trees that gain almost as much.
    fn prefer_low(&mut self, lengths: &[f64], paid: &[f64], gain: f64) {
        if self.shape != Shape::Both || gain <= 0.0 {
            return;
        }
        for fee in FEES {
            let found = self.pricer.low(&self.roads, lengths, fee, &mut self.pool);
            if found.is_some_and(|(cost, _)| paid[0] - cost >= WORTH * gain) {
                break;
            }
        }
    }

    fn weights(&self) -> Vec<f64> {
        let Some(program) = &self.program else { return Vec::new() };
        let known = program.columns() - 1;
        let weight = |it| if it < known { program.value(it + 1) * self.unit } else { 0.0 };
        (0..self.pool.columns.len()).map(weight).collect()
    }

    /// Lengths of rows and the costs of cheapest trees prove a bound.
    fn prove(&mut self, lengths: &[f64], prices: &Prices) {
        if !prices.exact {
            return;
        }
        let cost: f64 = prices.of_group.iter().map(|it| it.0).sum();
        let total: f64 = lengths.iter().zip(self.roads.capacities()).map(|(l, b)| l * b).sum();
        if cost > 0.0 {
            self.bound = self.bound.min(total / cost);
        }
    }

    /// Routes round after round over cheapest trees, crowded rows growing longer.
    fn route(&mut self, rounds: usize) -> Option<Packed> {
        let capacities = self.roads.capacities().to_vec();
        let open = |row: &usize| capacities[*row] > 0.0;
        let mut lengths: Vec<f64> =
            capacities.iter().map(|it| if *it > 0.0 { self.unit / it } else { 0.0 }).collect();
        let mut counts: Vec<f64> = Vec::new();
        let mut loads = vec![0.0; capacities.len()];
        let mut best = Packed::default();
        let mut since = 0;
        for round in 1..=rounds.max(1) {
            // Any run of rounds is a packing: forget the clumsy first ones now and then.
            if round.is_power_of_two() {
                counts.fill(0.0);
                loads.fill(0.0);
                since = round - 1;
            }
            let exact = self.pricer.price(&self.roads, &self.shape, &lengths, &mut self.pool)?;
            self.prove(&lengths, &exact);
            let cost: f64 = exact.of_group.iter().map(|it| it.0).sum();
            let total: f64 = lengths.iter().zip(&capacities).map(|(l, b)| l * b).sum();
            let reachable = total / cost;
            let mut chosen = exact.of_group;
            if self.shape == Shape::Both {
                let fee = FEES[round % FEES.len()];
                let low = self.pricer.low(&self.roads, &lengths, fee, &mut self.pool);
                chosen = low.map_or(chosen, |it| vec![it]);
            }
            counts.resize(self.pool.columns.len(), 0.0);
            for (_, column) in chosen {
                counts[column] += 1.0;
                for (row, times) in &self.pool.columns[column].loads {
                    let row = *row as usize;
                    loads[row] += times;
                    lengths[row] *= 1.0 + STEP * times * reachable / capacities[row];
                }
            }
            let total: f64 = lengths.iter().zip(&capacities).map(|(l, b)| l * b).sum();
            lengths.iter_mut().for_each(|it| *it *= self.unit / total);
            let rows = (0..loads.len()).filter(open);
            let fullest = rows.map(|it| loads[it] / capacities[it]).fold(0.0, f64::max);
            let value = (round - since) as f64 / fullest;
            if value > best.value {
                let weights = counts.iter().map(|it| it / fullest).collect();
                let both_ways = self.roads.is_both_ways();
                best = Packed { value, bound: self.bound, weights, both_ways };
            }
        }
        best.weights.resize(self.pool.columns.len(), 0.0);
        Some(best)
    }
}
