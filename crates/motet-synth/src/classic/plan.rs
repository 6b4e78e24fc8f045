//! From trees between ranks to programs: chooses a path for every edge, reverses the forest where
//! the collective needs it, and estimates which of several forests is best.

use motet_collective::{CollectiveKind, bound};
use motet_units::{Bytes, Duration, LinkId, Rank};

use super::routes::{Choice, Routes};
use crate::fabric::Fabric;
use crate::lower::{Lowered, Lowering, Order, Sliced, Trees};
use crate::task::{SynthError, Task};
use crate::tree::{Edge, Forest, PairForest, Tree};

/// No program with more transfers than this is made.
pub(super) const MOST_TRANSFERS: u64 = 1 << 22;

/// Programs with more transfers than this take seconds to make and to verify.
const LARGE: u64 = 1 << 20;

/// An edge of a tree whose path is not chosen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassicStep {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) choice: Choice,
}

impl ClassicStep {
    /// An edge that takes the cheapest path.
    pub(super) const fn cheapest(from: Rank, to: Rank) -> Self {
        Self { from, to, choice: Choice::Cheapest }
    }
}

/// A tree whose paths are not chosen yet; parents before children.
#[derive(Clone, Debug)]
pub(super) struct Sketched {
    pub(super) root: Rank,
    pub(super) weight: u32,
    pub(super) steps: Vec<ClassicStep>,
}

/// The ranks whose data spreads: the root, or all.
pub(super) fn roots(task: &Task<'_>, fabric: &Fabric) -> Vec<Rank> {
    match task.goal.root() {
        Some(root) => vec![root],
        None => fabric.ranks().collect(),
    }
}

/// How many bytes each root spreads.
pub(super) fn part_bytes(task: &Task<'_>) -> Bytes {
    let parts = if task.goal.kind().has_root() { 1 } else { u64::from(task.goal.ranks()) };
    Bytes::new(task.size.div_ceil(parts).get().max(1))
}

/// Chooses a path for every edge. If two ranks are connected only through other ranks, those
/// receive the data as well and are skipped when their own edge comes.
pub(super) fn route(mut routes: Routes<'_>, trees: &[Sketched]) -> Result<Forest, SynthError> {
    let mut forest = Forest::default();
    let mut has = vec![usize::MAX; routes.fabric().rank_count()];
    for (number, tree) in trees.iter().enumerate() {
        let mut edges = Vec::with_capacity(tree.steps.len());
        has[tree.root.index()] = number;
        for step in &tree.steps {
            if has[step.to.index()] == number {
                continue;
            }
            if let Some(path) = routes.path(step.from, step.to, tree.weight, step.choice) {
                edges.push(Edge { from: step.from, to: step.to, path });
                has[step.to.index()] = number;
                continue;
            }
            let no_way = || no_way(step.from, step.to);
            let relays = routes.relays(step.from, step.to).ok_or_else(no_way)?;
            for hop in relays.windows(2).filter(|it| has[it[1].index()] != number) {
                let path = routes.path(hop[0], hop[1], tree.weight, step.choice);
                edges.push(Edge { from: hop[0], to: hop[1], path: path.ok_or_else(no_way)? });
            }
            relays.iter().for_each(|it| has[it.index()] = number);
        }
        forest.trees.push(Tree { root: tree.root, weight: tree.weight, edges });
    }
    forest.paths = routes.into_paths();
    Ok(forest)
}

pub(super) fn no_way(from: Rank, to: Rank) -> SynthError {
    let why = format!("no path leads from rank {from} to rank {to} over links that may be used");
    SynthError::not_for("classic", why)
}

/// If some ranks cannot reach each other, replaces the error by the bound's, which names the cut.
pub(super) fn explained(task: &Task<'_>, error: SynthError) -> SynthError {
    let Ok(collective) = task.goal.collective(1) else { return error };
    match (&error, bound::bound(task.network, &collective)) {
        (SynthError::NotForMethod { .. }, Err(proof)) => proof.into(),
        _ => error,
    }
}

/// The program for the trees that `find` makes on a fabric: on the fabric itself for collectives
/// that spread, on the reversed one for those that collect, on both for AllReduce.
pub(super) fn lower(
    task: &Task<'_>,
    fabric: &Fabric,
    find: impl Fn(&Fabric) -> Result<Forest, SynthError>,
) -> Result<Lowered, SynthError> {
    let made = match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::Broadcast => {
            find(fabric).and_then(|it| spread(task, fabric, &it))
        }
        CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
            find(&fabric.turned_round()).and_then(|it| collect(task, fabric, &it))
        }
        _ => find(&fabric.turned_round()).and_then(|up| both(task, fabric, &up, &find(fabric)?)),
    };
    made.map_err(|it| explained(task, it))
}

/// AllGather or Broadcast.
pub(super) fn spread(
    task: &Task<'_>,
    fabric: &Fabric,
    forest: &Forest,
) -> Result<Lowered, SynthError> {
    let floor = floor(task, fabric, &[forest]);
    best(&Lowering::new(task, fabric, Trees::Spread(forest))?, floor)
}

/// ReduceScatter or Reduce.
pub(super) fn collect(
    task: &Task<'_>,
    fabric: &Fabric,
    forest: &Forest,
) -> Result<Lowered, SynthError> {
    let floor = floor(task, fabric, &[forest]);
    best(&Lowering::new(task, fabric, Trees::Collect(forest))?, floor)
}

/// AllReduce.
pub(super) fn both(
    task: &Task<'_>,
    fabric: &Fabric,
    up: &Forest,
    down: &Forest,
) -> Result<Lowered, SynthError> {
    let pairs = PairForest::of(up, down);
    let floor = floor(task, fabric, &[up, down]);
    best(&Lowering::new(task, fabric, Trees::Both(&pairs))?, floor)
}

/// Transmission time of the busiest link under the forests together, in picoseconds: a lower limit
/// on the program's time for any number of slices.
fn floor(task: &Task<'_>, fabric: &Fabric, forests: &[&Forest]) -> u64 {
    let Some(first) = forests.first() else { return 0 };
    let weight = match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            first.trees.first().map_or(1, |it| first.weight_of(it.root))
                * u64::from(task.goal.ranks())
        }
        _ => first.trees.iter().map(|it| u64::from(it.weight)).sum(),
    };
    // Rounded down, because this is a lower limit.
    let unit = Bytes::new(task.size.get() / weight.max(1));
    let loads: Vec<Vec<u64>> = forests.iter().map(|it| it.loads(fabric)).collect();
    let full = |link: &LinkId| {
        let load = loads.iter().map(|it| it[link.index()]).fold(0, u64::saturating_add);
        load.saturating_mul(fabric.busy(*link, unit).as_ps())
    };
    fabric.links().iter().map(full).max().unwrap_or(0)
}

/// The program with the best number of slices out of 1, 2, 4, …; stops when more slices no longer
/// help or the time is close to `floor`.
fn best(lowering: &Lowering<'_>, floor: u64) -> Result<Lowered, SynthError> {
    let task = lowering.task();
    let to_beat = task.to_beat.map_or(u64::MAX, Duration::as_ps);
    let mut chosen: Option<Sliced> = None;
    let (mut best, mut last) = (u64::MAX, u64::MAX);
    let (mut slices, mut worse) = (1, 0);
    while worse < 2 && (slices == 1 || within(lowering, slices)) {
        // Doubling the transfers must pay off, the more so the more there are.
        let least_gain = best / if lowering.transfers(slices) > LARGE { 100 } else { 400 };
        if slices > 1 && best.saturating_sub(floor) < least_gain {
            break;
        }
        let sliced = match lowering.scheduled(slices, Order::ByWave) {
            Err(SynthError::OutOfTime { .. }) if chosen.is_some() => break,
            other => other?,
        };
        let time = sliced.schedule.makespan.as_ps();
        if time < best - least_gain {
            (best, chosen, worse) = (time, Some(sliced), 0);
        } else {
            worse += 1;
        }
        // If the time is a + b ÷ slices, all further doublings together save as much as the last
        // one did; this allows for twice that.
        let hoped = time.saturating_sub(last.saturating_sub(time).saturating_mul(2));
        if last < u64::MAX && hoped >= to_beat {
            break;
        }
        (last, slices) = (time, slices * 2);
    }
    match chosen {
        Some(sliced) => Ok(lowering.emit(sliced)),
        None => lowering.with_slices(1),
    }
}

fn within(lowering: &Lowering<'_>, slices: u32) -> bool {
    lowering.transfers(slices) <= MOST_TRANSFERS
        && lowering.fits(slices)
        && lowering.task().watch.affords(lowering.crossings(slices))
}

/// Estimated time of a forest, in picoseconds: the transmission time of the busiest link plus the
/// time to fill the pipeline, with the best number of slices within the limit on transfers.
pub(super) fn estimate(fabric: &Fabric, forest: &Forest, part: Bytes) -> u64 {
    let Some(root) = forest.trees.first().map(|it| it.root) else { return 0 };
    let unit = Bytes::new(part.div_ceil(forest.weight_of(root).max(1)).get().max(1));
    let busy = |link: LinkId| fabric.busy(link, unit).as_ps();
    let loads = forest.loads(fabric);
    let full = |it: &LinkId| loads[it.index()].saturating_mul(busy(*it));
    let fullest = fabric.links().iter().map(full).max().unwrap_or(0);
    let ways: Vec<(u64, u64)> = forest
        .paths
        .iter()
        .map(|path| {
            let latency = path.iter().map(|it| fabric.latency(*it).as_ps());
            let slowest = path.iter().map(|it| busy(*it)).max().unwrap_or(0);
            (latency.fold(0, u64::saturating_add), slowest)
        })
        .collect();
    let mut came = vec![(0u64, 0u64); fabric.rank_count()];
    let (mut deepest, mut edges) = ((0u64, 0u64), 0u64);
    for tree in &forest.trees {
        edges += tree.edges.len() as u64;
        came[tree.root.index()] = (0, 0);
        for edge in &tree.edges {
            let (latency, slowest) = ways[edge.path as usize];
            let (before, owed) = came[edge.from.index()];
            let owed = owed.saturating_add(slowest.saturating_mul(u64::from(tree.weight)));
            let now = (before.saturating_add(latency), owed);
            came[edge.to.index()] = now;
            let length = |it: (u64, u64)| it.0.saturating_add(it.1);
            if length(now) > length(deepest) {
                deepest = now;
            }
        }
    }
    let slices = (MOST_TRANSFERS / edges.max(1)).clamp(1, 1024);
    fullest.saturating_add(deepest.0).saturating_add(deepest.1 / slices)
}
