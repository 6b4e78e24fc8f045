//! [`Pricer`]: the cheapest pair of trees for given lengths of rows.
//!
//! This is the subproblem of column generation. Each answer also proves a bound: with lengths y, no
//! packing is larger than Σ capacity·y ÷ the cost of the cheapest pair.

use motet_units::Rank;

use super::arborescence::Arborist;
use super::pool::Pool;
use super::roads::Roads;
use super::spanning::{Found, Spanner, recentred};

/// With more ranks than this and unequal links, only some roots are tried.
const ALL_ROOTS: usize = 48;

/// The weight of a link's latency beside its length.
const LATENESS: f64 = 2e-3;

/// The searches for trees, with their buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Pricer {
    lengths: Vec<f64>,
    trips: Vec<f64>,
    spanner: Spanner,
    out: Arborist,
    back: Arborist,
    turn: usize,
}

/// The cheapest pair found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cheapest {
    pub(super) cost: f64,
    pub(super) column: usize,
    /// Whether it is proved that no pair is cheaper.
    pub(super) exact: bool,
}

impl Pricer {
    /// Finds the cheapest pair and adds it to the pool; `None` if there is none.
    pub(super) fn price(
        &mut self,
        roads: &Roads,
        of_row: &[f64],
        pool: &mut Pool,
    ) -> Option<Cheapest> {
        roads.lengths(of_row, &mut self.lengths);
        if !roads.is_both_ways() {
            return self.pair(roads, pool);
        }
        let (cost, column) = self.mirrored(roads, 0.0, pool)?;
        Some(Cheapest { cost, column, exact: true })
    }

    /// Adds a shallow tree, used in both directions, found with a penalty for depth. Returns its
    /// cost and its column.
    pub(super) fn low(
        &mut self,
        roads: &Roads,
        of_row: &[f64],
        fee: f64,
        pool: &mut Pool,
    ) -> Option<(f64, usize)> {
        roads.lengths(of_row, &mut self.lengths);
        self.mirrored(roads, fee, pool)
    }

    fn mirrored(&mut self, roads: &Roads, fee: f64, pool: &mut Pool) -> Option<(f64, usize)> {
        roads.round_trips(&self.lengths, &mut self.trips);
        self.spanner.survey(roads, &self.trips);
        self.turn += 1;
        let root = roads.centres.get(self.turn % roads.centres.len().max(1)).copied()?;
        let found = self.spanner.tree(roads, root, fee)?;
        let found = recentred(found, roads);
        Some((found.cost, pool.add_mirrored(roads, &found)))
    }

    fn pair(&mut self, roads: &Roads, pool: &mut Pool) -> Option<Cheapest> {
        self.out.survey(roads, &self.lengths, false);
        self.back.survey(roads, &self.lengths, true);
        let ranks = roads.fabric.rank_count();
        let step = ranks.div_ceil(ALL_ROOTS).max(1);
        self.turn += 1;
        let mut best: Option<(f64, Found, Found)> = None;
        for root in (self.turn % step..ranks).step_by(step).map(Rank::from_index) {
            let spread = self.out.cost(root)?;
            let collect = self.back.cost(root)?;
            if best.as_ref().is_some_and(|(least, ..)| spread + collect >= *least * (1.0 - 1e-9)) {
                continue;
            }
            let spread = self.out.tree(&roads.fabric, root, spread);
            let collect = self.back.tree(&roads.fabric, root, collect);
            best = Some((spread.cost + collect.cost, collect, spread));
        }
        let (cost, collect, spread) = best?;
        let column = pool.add_pair(roads, &collect, &spread);
        Some(Cheapest { cost, column, exact: step == 1 })
    }
}

/// Row lengths plus a little of the links' latencies, so that among paths of equal cost the one
/// with less latency is taken.
pub(super) fn with_lateness(roads: &Roads, of_row: &[f64], late: &mut Vec<f64>) {
    let fabric = &roads.fabric;
    let longest = fabric.links().iter().map(|it| fabric.latency(*it).as_ps()).max().unwrap_or(0);
    let mean = of_row.iter().sum::<f64>() / of_row.len().max(1) as f64;
    late.clear();
    late.extend_from_slice(of_row);
    for link in fabric.links() {
        let row = roads.row(*link);
        let share = 0.1 + fabric.latency(*link).as_ps() as f64 / longest.max(1) as f64;
        late[row] = of_row[row] + mean * LATENESS * share;
    }
}
