//! [`Repairer`]: a good program for a network that has changed, in milliseconds.
//!
//! The expensive part of synthesis is finding the trees. A repairer finds the best trees for the
//! nominal network once and keeps them. When links become slower, fail or come back, it moves the
//! affected trees to other links ([`mend`]) and turns all trees into a program again, with few
//! slices to save time. If the trees cannot be repaired because too much has changed, it finds new
//! ones, which takes longer.
//!
//! It serves AllGather, Broadcast, ReduceScatter, Reduce and AllReduce.

mod mend;

use motet_collective::CollectiveKind;
use motet_graph::gcd;
use motet_net::NetworkState;
use motet_units::{Duration, LinkId, Rank};

use self::mend::{Half, Mending, RepairFabric, Strand};
use crate::fabric::{Fabric, Path};
use crate::forest::{self, Room};
use crate::lower::{Lowered, Lowering, Order, Trees};
use crate::packing;
use crate::task::{SynthError, Task};
use crate::tree::{Forest, PairForest, PathTable, Tree, TreePair};

/// Most transfers of a repaired program: as many as can be scheduled in a few milliseconds.
const MOST_TRANSFERS: u64 = 8000;

/// A later candidate in [`Repairer::new`] must be faster by one part in this many to replace an
/// earlier one.
const WORTH: u64 = 100;

/// Keeps the best trees for a task; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Repairer<'a> {
    task: Task<'a>,
    base: Mending,
    /// Transmission time of the busiest link on the nominal network; unit as in [`Mending::time`].
    before: f64,
    /// The links of the cut that sets the bound on the nominal network.
    cut: Vec<LinkId>,
    order: Order,
    most_transfers: u64,
}

impl<'a> Repairer<'a> {
    /// Finds the best trees for the task on the nominal network.
    pub fn new(task: &Task<'a>) -> Result<Self, SynthError> {
        let nominal = nominal(task);
        if task.goal.kind() != CollectiveKind::AllReduce {
            return Self::with_forest(task, &forest(&nominal)?);
        }
        let packed = Self::with_pairs(task, &pairs(&nominal)?)?;
        if task.goal.ranks() < 2 {
            return Ok(packed);
        }
        // Two candidates: packed trees have the highest bandwidth; the trees of a ReduceScatter
        // followed by an AllGather are less deep.
        let low = forest::pairs(&nominal, &Fabric::new(&nominal)?);
        let Ok(low) = low.and_then(|it| Self::with_pairs(task, &it)) else { return Ok(packed) };
        let mut best: Option<(Duration, Self)> = None;
        for base in [low, packed] {
            // `Ahead` comes first and wins ties, because it loses less when links change.
            for order in [Order::Ahead, Order::ByWave] {
                let repairer = Self { order, ..base.clone() };
                let time = repairer.repair(&nominal.state)?.makespan;
                let worth_it =
                    |it: &(Duration, Self)| time.as_ps() < it.0.as_ps() - it.0.as_ps() / WORTH;
                if best.as_ref().is_none_or(worth_it) {
                    best = Some((time, repairer));
                }
            }
        }
        best.map(|it| it.1).ok_or_else(|| SynthError::not_for("repair", "there are no trees"))
    }

    /// Starts from given trees, which spread (AllGather, Broadcast) or collect (ReduceScatter,
    /// Reduce) as the collective does.
    pub fn with_forest(task: &Task<'a>, forest: &Forest) -> Result<Self, SynthError> {
        let collects = forest::collects(task)?;
        let mut paths = PathTable::default();
        let strand = |tree: &Tree| Strand {
            weight: u64::from(tree.weight),
            halves: vec![half(tree, &forest.paths, &mut paths, collects)],
        };
        let strands = forest.trees.iter().map(strand).collect();
        let root = task.goal.root().unwrap_or(Rank(0));
        Self::with(task, paths, strands, forest.weight_of(root))
    }

    /// Starts from given pairs of trees, for an AllReduce.
    pub fn with_pairs(task: &Task<'a>, forest: &PairForest) -> Result<Self, SynthError> {
        let mut paths = PathTable::default();
        let mut strands = Vec::with_capacity(forest.pairs.len());
        for pair in &forest.pairs {
            let collect = half(&pair.collect, &forest.paths, &mut paths, true);
            let spread = half(&pair.spread, &forest.paths, &mut paths, false);
            let weight = u64::from(pair.spread.weight);
            strands.push(Strand { weight, halves: vec![collect, spread] });
        }
        let least = strands.iter().map(|it| it.weight).min().unwrap_or(1);
        Self::with(task, paths, strands, least)
    }

    fn with(
        task: &Task<'a>,
        paths: PathTable,
        strands: Vec<Strand>,
        least: u64,
    ) -> Result<Self, SynthError> {
        let nominal = nominal(task);
        let fabric = Fabric::new(&nominal)?;
        let cut = nominal.bound()?.cut().map_or_else(Vec::new, |it| it.links.clone());
        let base = Mending::new(paths, strands, least, fabric.link_count());
        let before = base.time(&fabric);
        let task = task.clone();
        let order = Order::ByWave;
        Ok(Self { task, base, before, cut, order, most_transfers: MOST_TRANSFERS })
    }

    /// A lower limit on the busiest link's transmission time in another state: its nominal time, or
    /// the time in which the load of the nominally tightest cut can cross it now.
    fn least(&self, fabric: &Fabric) -> f64 {
        let load: u64 = self.cut.iter().map(|it| self.base.load(*it)).sum();
        let bits: f64 = self.cut.iter().map(|it| fabric.bits_per_s(*it) as f64).sum();
        if bits > 0.0 { self.before.max(load as f64 / bits) } else { self.before }
    }

    /// Limits the program to this many transfers. More transfers mean more, thinner slices (better
    /// pipelining) and a longer time to make the program.
    #[must_use]
    pub const fn most_transfers(mut self, most: u64) -> Self {
        self.most_transfers = most;
        self
    }

    /// A program for the network in another state. It may use every link that the task allows, also
    /// one that was down before. Each call starts from the nominal trees, so that the same state
    /// always gives the same program and calls can run in parallel.
    pub fn repair(&self, state: &NetworkState) -> Result<Lowered, SynthError> {
        let task = Task { state: state.clone(), ..self.task.clone() };
        if task.goal.ranks() < 2 {
            return packing::alone(&task);
        }
        let forth = Fabric::new(&task)?;
        let back = forth.turned_round();
        let mut mending = self.base.clone();
        let mended = mending.mend(&RepairFabric { forth: &forth, back: &back }, self.least(&forth));
        if task.goal.kind() == CollectiveKind::AllReduce {
            let pairs = if mended { into_pairs(mending) } else { pairs(&task)? };
            return self.sliced(Lowering::new(&task, &forth, Trees::Both(&pairs))?);
        }
        let forest = if mended { into_forest(mending) } else { forest(&task)? };
        let trees = match forest::collects(&task)? {
            true => Trees::Collect(&forest),
            false => Trees::Spread(&forest),
        };
        self.sliced(Lowering::new(&task, &forth, trees)?)
    }

    /// Uses as many slices as the limit on transfers allows; there is no time to compare several
    /// numbers of slices.
    fn sliced(&self, lowering: Lowering<'_>) -> Result<Lowered, SynthError> {
        let lowering = lowering.at_one_go().in_order(self.order);
        let most = (self.most_transfers / lowering.transfers(1).max(1))
            .min(3 * self.most_transfers / lowering.crossings(1).max(1));
        let mut slices = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        while slices > 1 && !lowering.fits(slices) {
            slices /= 2;
        }
        lowering.with_slices(slices)
    }
}

fn nominal<'a>(task: &Task<'a>) -> Task<'a> {
    Task { state: NetworkState::nominal(task.network), ..task.clone() }
}

/// The best trees for a task, found from scratch.
fn forest(task: &Task<'_>) -> Result<Forest, SynthError> {
    let fabric = Fabric::new(task)?;
    match forest::collects(task)? {
        true => forest::forest(task, &fabric.turned_round(), Room::All),
        false => forest::forest(task, &fabric, Room::All),
    }
}

/// The best pairs of trees for an AllReduce, found from scratch.
fn pairs(task: &Task<'_>) -> Result<PairForest, SynthError> {
    let fabric = Fabric::new(task)?;
    if fabric.rank_count() < 2 {
        return Ok(PairForest::default());
    }
    match packing::pack(&fabric) {
        Some(packing) => Ok(packing.pairs),
        None => {
            // Some rank is unreachable. The bound's error names the cut that shows it.
            task.bound()?;
            Err(SynthError::not_for("repair", "some rank cannot be reached"))
        }
    }
}

/// A copy of the tree whose paths are numbered in `table`.
fn half(tree: &Tree, paths: &[Path], table: &mut PathTable, collects: bool) -> Half {
    let mut half = Half::of(tree, collects);
    for edge in &mut half.edges {
        edge.path = table.number(&paths[edge.path as usize]);
    }
    half
}

fn into_forest(mending: Mending) -> Forest {
    let (paths, trees) = into_trees(mending);
    Forest { paths, trees }
}

fn into_pairs(mending: Mending) -> PairForest {
    let (paths, trees) = into_trees(mending);
    let mut trees = trees.into_iter();
    let mut pairs = Vec::new();
    while let (Some(collect), Some(spread)) = (trees.next(), trees.next()) {
        pairs.push(TreePair { collect, spread });
    }
    PairForest { paths, pairs }
}

/// All trees, and the paths that they use. A pair's collecting tree comes right before its
/// spreading tree.
fn into_trees(mending: Mending) -> (Vec<Path>, Vec<Tree>) {
    let mut paths = PathTable::default();
    let mut trees = Vec::new();
    // Dividing by the common divisor keeps the number of chunks small.
    let unit = mending.strands.iter().fold(0, |unit, it| gcd(it.weight, unit)).max(1);
    for strand in mending.strands {
        let weight = u32::try_from(strand.weight / unit).unwrap_or(u32::MAX);
        for Half { root, mut edges, .. } in strand.halves {
            for edge in &mut edges {
                edge.path = paths.number(mending.paths.path(edge.path));
            }
            trees.push(Tree { root, weight, edges });
        }
    }
    (paths.into_paths(), trees)
}
