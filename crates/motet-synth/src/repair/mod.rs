//! [`Repairer`]: a good program for a network that has changed, in milliseconds.
//!
//! What is hard about a program is its trees. A repairer keeps those that are best on the network as
//! it nominally is. When links become slower, fail or come back, the trees over them are re-hung
//! ([`mend`]) and all are lowered again, into few slices. Where trees cannot be mended, because much
//! has changed, they are found anew, which takes longer.
//!
//! It serves AllGather, Broadcast, ReduceScatter, Reduce and AllReduce.

mod mend;

use motet_collective::CollectiveKind;
use motet_graph::gcd;
use motet_net::NetworkState;
use motet_units::{Duration, LinkId, Rank};

use self::mend::{Half, Mending, Strand, Ways};
use crate::fabric::{Fabric, Path};
use crate::forest::{self, Room};
use crate::lower::{Lowered, Lowering, Order, Trees};
use crate::packing;
use crate::task::{SynthError, Task};
use crate::tree::{Forest, PairForest, PathTable, Tree, TreePair};

/// Most transfers of a repaired program: what can be ordered in a few milliseconds.
const MOST_TRANSFERS: u64 = 8000;

/// A less simple way must gain one part in so many on the nominal network.
const WORTH: u64 = 100;

/// Keeps the best trees for a task: see the head of this file.
#[derive(Clone, Debug)]
pub struct Repairer<'a> {
    task: Task<'a>,
    base: Mending,
    /// How long the busiest link takes nominally, in seconds for a unit of a bit.
    before: f64,
    /// The links of the tightest cut.
    cut: Vec<LinkId>,
    order: Order,
    most_transfers: u64,
}

impl<'a> Repairer<'a> {
    /// Finds the best trees for the task on its network as that nominally is.
    pub fn new(task: &Task<'a>) -> Result<Self, SynthError> {
        let nominal = nominal(task);
        if task.goal.kind() != CollectiveKind::AllReduce {
            return Self::with_forest(task, &forest(&nominal)?);
        }
        let packed = Self::with_pairs(task, &pairs(&nominal)?)?;
        if task.goal.ranks() < 2 {
            return Ok(packed);
        }
        // Packed trees carry most; those of a ReduceScatter and an AllGather are lower.
        let low = forest::pairs(&nominal, &Fabric::new(&nominal)?);
        let Ok(low) = low.and_then(|it| Self::with_pairs(task, &it)) else { return Ok(packed) };
        let mut best: Option<(Duration, Self)> = None;
        for base in [low, packed] {
            // What runs ahead bears changes better, and goes first.
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

    /// Starts from trees that spread or collect, as the task's collective does.
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

    /// Starts from pairs of trees, for an AllReduce.
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

    /// How long the busiest link takes at the least in another state: as long as nominally, or as long
    /// as what crosses the nominally tightest cut needs to cross it now.
    fn least(&self, fabric: &Fabric) -> f64 {
        let load: u64 = self.cut.iter().map(|it| self.base.load(*it)).sum();
        let bits: f64 = self.cut.iter().map(|it| fabric.bits_per_s(*it) as f64).sum();
        if bits > 0.0 { self.before.max(load as f64 / bits) } else { self.before }
    }

    /// Programs with at most so many transfers: more make longer pipelines of thinner slices, and
    /// take longer to make.
    #[must_use]
    pub const fn most_transfers(mut self, most: u64) -> Self {
        self.most_transfers = most;
        self
    }

    /// A program for the network in another state. Links that the task allows may be used, whether
    /// they were up before or not. It starts from the nominal trees each time, so that the same
    /// state gives the same program whatever came between, and many can be repaired at once.
    pub fn repair(&self, state: &NetworkState) -> Result<Lowered, SynthError> {
        let task = Task { state: state.clone(), ..self.task.clone() };
        if task.goal.ranks() < 2 {
            return packing::alone(&task);
        }
        let forth = Fabric::new(&task)?;
        let back = forth.turned_round();
        let mut mending = self.base.clone();
        let mended = mending.mend(&Ways { forth: &forth, back: &back }, self.least(&forth));
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

    /// With as many slices as the transfers allow: there is no time to try several.
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

/// The best trees for a task, found anew.
fn forest(task: &Task<'_>) -> Result<Forest, SynthError> {
    let fabric = Fabric::new(task)?;
    match forest::collects(task)? {
        true => forest::forest(task, &fabric.turned_round(), Room::All),
        false => forest::forest(task, &fabric, Room::All),
    }
}

fn pairs(task: &Task<'_>) -> Result<PairForest, SynthError> {
    let fabric = Fabric::new(task)?;
    if fabric.rank_count() < 2 {
        return Ok(PairForest::default());
    }
    match packing::pack(&fabric) {
        Some(packing) => Ok(packing.pairs),
        None => {
            // The bound knows the cut that proves it.
            task.bound()?;
            Err(SynthError::not_for("repair", "some rank cannot be reached"))
        }
    }
}

/// A tree with its paths numbered anew.
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

/// All halves in turn, and the paths that they still take.
fn into_trees(mending: Mending) -> (Vec<Path>, Vec<Tree>) {
    let mut paths = PathTable::default();
    let mut trees = Vec::new();
    // Where little was moved, fewer chunks do.
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
