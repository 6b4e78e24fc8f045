//! `forest`: spanning trees packed at the highest throughput that the network allows.
//!
//! An AllGather that reaches the cut bound is a packing of spanning trees, with the same weight of trees out
//! of every root, in which no link carries more than it can (Edmonds; over switches Bang-Jensen, Frank and
//! Jackson). Among such packings we look for low trees, because every level costs latency. The stages, each
//! in its file:
//!
//! 1. [`rate`]: the exact rate, as a fraction, at which every root can spread its part.
//! 2. [`scale`]: bandwidths become whole numbers: how many units of weight each root has, and how many
//!    each link can carry. With [`Room::Needed`], [`slack`] first decides what share of each link is enough
//!    (with [`Room::Near`], of far links only).
//! 3. [`split`]: replaces switches by direct arcs between ranks, starting from the guess of [`exchange`];
//!    [`ways`] remembers which links each arc stands for.
//! 4. [`pack`]: finds the trees, with [`cuts`] to avoid trees after which the rest cannot be packed.
//! 5. [`shorten`]: lowers the trees by exchanging arcs between them.
//! 6. [`finish`]: gives every edge of the trees its path of links.
//!
//! [`net`] answers all questions about maximum flow. ReduceScatter and Reduce are the same on the fabric
//! turned round; Broadcast and Reduce have one root.

mod cuts;
mod exchange;
mod finish;
mod net;
mod pack;
mod rate;
mod scale;
mod shorten;
mod slack;
mod split;
#[cfg(test)]
mod tests;
mod ways;

use motet_collective::CollectiveKind;
use motet_graph::lcm;
use motet_units::{Duration, LinkId, Rank};

use self::scale::Nodes;
use crate::fabric::Fabric;
use crate::lower::{Lowered, Lowering, Trees};
use crate::task::{Goal, SynthError, Task};
use crate::tree::{Forest, PairForest, Tree};

/// What may be chosen about a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForestOptions {
    /// Most transfers that the program may have.
    pub most_transfers: u64,
}

impl Default for ForestOptions {
    fn default() -> Self {
        Self { most_transfers: 1 << 20 }
    }
}

/// Close enough to the bound to look no further: 1/125 above it.
pub(crate) const CLOSE: u64 = 125;

/// How much of each link's bandwidth trees may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// All of it: gives the fewest and lowest trees.
    All,
    /// Little more than the throughput needs: links that are not part of the tightest cut keep some slack, so
    /// that they can catch up after a delay.
    Needed,
    /// All of links up to this latency, and of links beyond it only what the throughput needs. While data is
    /// in flight on a far link its receiver has only data from nearby to receive: the less comes from afar,
    /// the less time is lost.
    Near(Duration),
}

/// The program by a forest that may use this much room, with the number of slices that suits the task's size.
pub fn synthesize_in(
    task: &Task<'_>,
    options: ForestOptions,
    room: Room,
) -> Result<Lowered, SynthError> {
    Rooms::new(task, options)?.synthesize(room)
}

/// A task with its fabric, to try several rooms on.
struct Rooms<'a> {
    task: &'a Task<'a>,
    fabric: Fabric,
    /// The fabric turned round, if trees collect.
    turned: Option<Fabric>,
    options: ForestOptions,
}

impl<'a> Rooms<'a> {
    fn new(task: &'a Task<'a>, options: ForestOptions) -> Result<Self, SynthError> {
        let fabric = Fabric::new(task)?;
        let turned = if collects(task)? { Some(fabric.turned_round()) } else { None };
        Ok(Self { task, fabric, turned, options })
    }

    fn synthesize(&self, room: Room) -> Result<Lowered, SynthError> {
        let forest = forest(self.task, self.turned.as_ref().unwrap_or(&self.fabric), room)?;
        let collects = self.turned.is_some();
        let trees = if collects { Trees::Collect(&forest) } else { Trees::Spread(&forest) };
        Lowering::new(self.task, &self.fabric, trees)?.best(self.options.most_transfers)
    }
}

/// The program by the best forest, with the number of slices that suits the task's size.
pub fn synthesize(task: &Task<'_>, options: ForestOptions) -> Result<Lowered, SynthError> {
    let rooms = Rooms::new(task, options)?;
    let fabric = &rooms.fabric;
    let by = |room| rooms.synthesize(room);
    let all = by(Room::All)?;
    let bound = task.bound()?;
    let least = bound.program_time(task.size).as_ps();
    // Where latency is most of the time, links have slack anyhow.
    let by_latency = bound.latency.as_ps() > least / 4 * 3;
    if by_latency || all.makespan.as_ps() <= least.saturating_add(least / CLOSE) {
        return Ok(all);
    }
    let mut best = all;
    // A latency so short that programs within it of each other count as close is not worth other trees.
    let near = Duration::from_ps(least / CLOSE);
    let far = |it: &LinkId| fabric.latency(*it) > near;
    let some_far = fabric.links().iter().any(far) && !fabric.links().iter().all(far);
    for room in [Room::Needed].into_iter().chain(some_far.then_some(Room::Near(near))) {
        match by(room) {
            Ok(found) if found.makespan < best.makespan => best = found,
            Ok(_) => {}
            Err(SynthError::OutOfTime { .. }) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(best)
}

/// The trees for an AllGather or Broadcast on the fabric, or for a ReduceScatter or Reduce on the
/// fabric turned round.
pub fn forest(task: &Task<'_>, fabric: &Fabric, room: Room) -> Result<Forest, SynthError> {
    if collects(task)? != fabric.is_turned_round() {
        let why = "its fabric is the wrong way round for the collective";
        return Err(SynthError::not_for("forest", why));
    }
    let roots: Vec<Rank> = match task.goal.root() {
        Some(root) => vec![root],
        None => fabric.ranks().collect(),
    };
    let Some(rate) = rate::rate(task, fabric)? else {
        let bare = |root: &Rank| Tree { root: *root, weight: 1, edges: Vec::new() };
        return Ok(Forest { paths: Vec::new(), trees: roots.iter().map(bare).collect() });
    };
    let nodes = Nodes::new(task.network, fabric, &roots);
    let shares = match room {
        Room::All => vec![scale::FULL; fabric.links().len()],
        Room::Needed => slack::shares(&nodes, fabric, rate),
        Room::Near(near) => slack::shares_of_far(&nodes, fabric, rate, near),
    };
    let Some(scaled) = scale::scale(&nodes, fabric, rate, &shares, task.even, task.watch) else {
        if task.watch.out_of_time() {
            return Err(SynthError::OutOfTime { method: "forest" });
        }
        return Err(SynthError::not_for("forest", "its bandwidths are too far apart"));
    };
    let finished = finish::finish(fabric, scaled, task.watch);
    finished.ok_or(SynthError::OutOfTime { method: "forest" })
}

/// The trees of a ReduceScatter, then an AllGather, root by root: an AllReduce.
pub fn pairs(task: &Task<'_>, fabric: &Fabric) -> Result<PairForest, SynthError> {
    let half = |kind, fabric: &Fabric| -> Result<Forest, SynthError> {
        let goal = Goal::new(kind, task.goal.ranks())?;
        forest(&Task { goal, ..task.clone() }, fabric, Room::All)
    };
    let mut collect = half(CollectiveKind::ReduceScatter, &fabric.turned_round())?;
    let mut spread = half(CollectiveKind::AllGather, fabric)?;
    let (a, b) = (collect.weight_of(Rank(0)), spread.weight_of(Rank(0)));
    let least = lcm(a.max(1), b.max(1)).unwrap_or(u64::MAX);
    for (forest, weight) in [(&mut collect, a), (&mut spread, b)] {
        for tree in &mut forest.trees {
            let scaled = u64::from(tree.weight).checked_mul(least / weight.max(1));
            tree.weight = scaled.and_then(|it| u32::try_from(it).ok()).ok_or_else(|| {
                SynthError::not_for("forest", "the weights of the two halves do not fit together")
            })?;
        }
    }
    Ok(PairForest::of(&collect, &spread))
}

/// Whether trees collect into their roots rather than spread out of them.
pub(crate) fn collects(task: &Task<'_>) -> Result<bool, SynthError> {
    use CollectiveKind::{AllGather, Broadcast, Reduce, ReduceScatter};
    match task.goal.kind() {
        AllGather | Broadcast => Ok(false),
        ReduceScatter | Reduce => Ok(true),
        other => {
            Err(SynthError::not_for("forest", format!("{other} is not one of its collectives")))
        }
    }
}
