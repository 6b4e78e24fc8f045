//! [`Pricer`]: the cheapest tree of each group for given lengths of rows.
//!
//! That is what column generation asks for, and it proves something every time: with lengths y,
//! no packing is larger than Σ capacity·y ÷ Σ cost of the cheapest trees.

use motet_units::Rank;

use super::arborescence::Arborist;
use super::pool::Pool;
use super::roads::Roads;
use super::spanning::{Found, Spanner, recentred};

/// What is packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Trees out of these roots, as many out of each.
    Spread(Vec<Rank>),
    /// Trees into these roots.
    Collect(Vec<Rank>),
    /// Pairs of a tree into a root and one out of it, whatever the root.
    Both,
}

impl Shape {
    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Spread(roots) | Self::Collect(roots) => roots.len(),
            Self::Both => 1,
        }
    }
}

/// With more ranks than this, pairs over unequal links are looked for at some roots only.
const ALL_ROOTS: usize = 48;

/// How much the time data takes on a link counts beside its length.
const LATENESS: f64 = 2e-3;

/// Searches, with their memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Pricer {
    lengths: Vec<f64>,
    trips: Vec<f64>,
    spanner: Spanner,
    out: Arborist,
    back: Arborist,
    turn: usize,
}

/// What the cheapest trees cost.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// Per group: the cost of its cheapest tree, and the column it is.
    pub(super) of_group: Vec<(f64, usize)>,
    /// Whether there is no cheaper one.
    pub(super) exact: bool,
}

impl Pricer {
    /// Adds the cheapest tree of each group to the pool. `None` if a group has none.
    pub(super) fn price(
        &mut self,
        roads: &Roads,
        shape: &Shape,
        of_row: &[f64],
        pool: &mut Pool,
    ) -> Option<Prices> {
        roads.lengths(of_row, &mut self.lengths);
        match shape {
            Shape::Both if roads.is_both_ways() => {
                let (cost, column) = self.mirrored(roads, 0.0, pool)?;
                Some(Prices { of_group: vec![(cost, column)], exact: true })
            }
            Shape::Both => self.pair(roads, pool),
            Shape::Spread(roots) => self.each(roads, roots, false, pool),
            Shape::Collect(roots) => self.each(roads, roots, true, pool),
        }
    }

    /// Adds a low tree for an AllReduce that goes up and down it, with a fee for depth.
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

    fn each(
        &mut self,
        roads: &Roads,
        roots: &[Rank],
        collects: bool,
        pool: &mut Pool,
    ) -> Option<Prices> {
        self.out.survey(roads, &self.lengths, collects);
        let mut of_group = Vec::with_capacity(roots.len());
        for (group, root) in (0..).zip(roots) {
            let cost = self.out.cost(*root)?;
            let found = self.out.tree(&roads.fabric, *root, cost);
            of_group.push((cost, pool.add_tree(roads, group, &found, collects)));
        }
        Some(Prices { of_group, exact: true })
    }

    fn pair(&mut self, roads: &Roads, pool: &mut Pool) -> Option<Prices> {
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
        Some(Prices { of_group: vec![(cost, column)], exact: step == 1 })
    }
}

/// Lengths of rows made a little longer by their latencies, so that of ways that cost the same the
/// quick one is taken.
pub(super) fn with_lateness(roads: &Roads, of_row: &[f64], late: &mut Vec<f64>) {
    let fabric = &roads.fabric;
    let longest = fabric.links().iter().map(|it| fabric.latency(*it).as_ps()).max().unwrap_or(0);
    let mean = of_row.iter().sum::<f64>() / of_row.len().max(1) as f64;
    late.clear();
    late.extend_from_slice(of_row);
    for link in fabric.links() {
        let Some(row) = roads.row(*link) else { continue };
        let share = 0.1 + fabric.latency(*link).as_ps() as f64 / longest.max(1) as f64;
        late[row] = of_row[row] + mean * LATENESS * share;
    }
}
