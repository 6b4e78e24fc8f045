//! `packing`: AllReduce over packed trees.
//!
//! A ReduceScatter followed by an AllGather leaves links idle that only one of the two phases
//! needs. An AllReduce can overlap the phases: it reduces into a root along one tree and broadcasts
//! from it along another, with many such pairs at once, each for a share of the data, in slices.
//! How much they can carry together is a packing problem: maximize the sum of the pairs' weights so
//! that no link exceeds its capacity.
//!
//! If every link is as fast in one direction as in the other, the best pair is a single tree used
//! in both directions, and the largest packing is one of spanning trees over the ranks, through any
//! switches between them. `motet_collective::bound` finds its exact value, and proves that no
//! program beats it unless switches copy or reduce.
//!
//! - [`roads`]: links, and the rows of the linear program;
//! - [`spanning`], [`arborescence`]: cheapest trees for given lengths, undirected and directed;
//! - [`pricing`], [`pool`]: the cheapest pairs of trees; all pairs known;
//! - [`simplex`], [`master`]: the linear program, and how trees are added to it;
//! - [`mod@round`]: fractional weights into integers.

mod arborescence;
mod master;
mod pool;
mod pricing;
mod roads;
mod round;
mod simplex;
mod spanning;

use motet_collective::CollectiveKind;
use motet_units::Rank;

use crate::fabric::Fabric;
use crate::lower::{Lowered, Lowering, Trees};
use crate::task::{SynthError, Task};
use crate::tree::{Forest, PairForest, Tree, TreePair};
use crate::watch::Watch;
use master::{Master, PackingEffort};
use roads::Roads;

/// Pairs of trees for an AllReduce.
#[derive(Clone, Debug)]
pub struct Packing {
    pub pairs: PairForest,
    /// What the integer weights reach, in GB/s of the collective's size.
    pub algbw: f64,
    /// Upper bound for any packing of tree pairs on this fabric, in GB/s.
    pub bound: f64,
}

/// Most transfers of a program.
const MOST_TRANSFERS: u64 = 2_400_000;

/// Packs pairs of trees; `None` if some rank cannot be reached, or if there is only one rank.
#[must_use]
pub fn pack(fabric: &Fabric) -> Option<Packing> {
    pack_within(fabric, Watch::default())
}

/// As [`pack`], within the allowed work.
fn pack_within(fabric: &Fabric, watch: Watch<'_>) -> Option<Packing> {
    let both_ways = Roads::both_ways(fabric);
    let equal = both_ways.is_some();
    let roads = both_ways.unwrap_or_else(|| Roads::one_way(fabric));
    let mut master = Master::new(roads);
    let packed = master.solve(effort_for(fabric, equal), watch)?;
    let rounded = master.round(&packed)?;
    let pairs = master.pairs(&rounded);
    let gb_per_s = 1.0 / 8e9;
    Some(Packing { pairs, algbw: rounded.value * gb_per_s, bound: packed.bound * gb_per_s })
}

/// Small networks are solved to optimality, large ones for some seconds. Trees are harder to find
/// if links are not equal in both directions.
fn effort_for(fabric: &Fabric, equal: bool) -> PackingEffort {
    let ranks = fabric.rank_count();
    if !equal {
        let turns = (12_000 / ranks.max(1)).clamp(40, 1000);
        return PackingEffort { rounds: ranks.clamp(20, 100), turns, idle: 25 };
    }
    PackingEffort {
        rounds: (2 * ranks).clamp(40, 400),
        turns: (60_000 / ranks.max(1)).clamp(100, 3000),
        idle: 60,
    }
}

/// The AllReduce over packed trees.
pub fn synthesize(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    if task.goal.kind() != CollectiveKind::AllReduce {
        let why = format!("it packs pairs of trees, which {} has no use for", task.goal.kind());
        return Err(SynthError::not_for("packing", why));
    }
    if fabric.rank_count() < 2 {
        return alone(task);
    }
    let Some(packing) = pack_within(fabric, task.watch) else {
        // Some rank is unreachable. The bound's error names the cut that shows it.
        task.bound()?;
        return Err(SynthError::not_for("packing", "some rank cannot be reached"));
    };
    Lowering::new(task, fabric, Trees::Both(&packing.pairs))?.best(MOST_TRANSFERS)
}

/// The program for a single rank.
pub(crate) fn alone(task: &Task<'_>) -> Result<Lowered, SynthError> {
    let fabric = Fabric::new(task)?;
    let tree = Tree { root: Rank(0), weight: 1, edges: Vec::new() };
    let forest = Forest { paths: Vec::new(), trees: vec![tree.clone()] };
    let pair = TreePair { collect: tree.clone(), spread: tree };
    let pairs = PairForest { paths: Vec::new(), pairs: vec![pair] };
    let trees = match task.goal.kind() {
        CollectiveKind::AllReduce => Trees::Both(&pairs),
        CollectiveKind::AllGather | CollectiveKind::Broadcast => Trees::Spread(&forest),
        _ => Trees::Collect(&forest),
    };
    Lowering::new(task, &fabric, trees)?.with_slices(1)
}
