//! From trees between ranks to programs: ways for every edge, the forest turned as the collective
//! needs it, and an estimate of which of several forests is best.

use motet_collective::{CollectiveKind, bound};
use motet_units::{Bytes, Duration, LinkId, Rank};

use super::routes::{Choice, Routes};
use crate::fabric::Fabric;
use crate::lower::{Lowered, Lowering, Order, Sliced, Trees};
use crate::task::{SynthError, Task};
use crate::tree::{Edge, Forest, PairForest, Tree};

/// Programs of more transfers are not made.
pub(super) const MOST_TRANSFERS: u64 = 1 << 22;

/// Programs of more transfers take seconds to make and to verify.
const LARGE: u64 = 1 << 20;

/// A step of a tree whose way is not yet chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassicStep {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) choice: Choice,
}

impl ClassicStep {
    /// By the cheapest way.
    pub(super) const fn cheapest(from: Rank, to: Rank) -> Self {
        Self { from, to, choice: Choice::Cheapest }
    }
}

/// A tree whose ways are not yet chosen; steps parents first.
#[derive(Clone, Debug)]
pub(super) struct Sketched {
    pub(super) root: Rank,
    pub(super) weight: u32,
    pub(super) steps: Vec<ClassicStep>,
}

/// Whose data spreads: the root's, or everyone's.
pub(super) fn roots(task: &Task<'_>, fabric: &Fabric) -> Vec<Rank> {
    match task.goal.root() {
        Some(root) => vec![root],
        None => fabric.ranks().collect(),
    }
}

/// What one root has to spread, in bytes.
pub(super) fn part_bytes(task: &Task<'_>) -> Bytes {
    let parts = if task.goal.kind().has_root() { 1 } else { u64::from(task.goal.ranks()) };
    Bytes::new(task.size.div_ceil(parts).get().max(1))
}

/// Chooses a way for every step. Where two ranks have none between them, those on the way get
/// the data too, and need it no more when their own step comes.
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

/// The bound's own words where ranks cannot reach each other at all.
pub(super) fn explained(task: &Task<'_>, error: SynthError) -> SynthError {
    let Ok(collective) = task.goal.collective(1) else { return error };
    match (&error, bound::bound(task.network, &collective)) {
        (SynthError::NotForMethod { .. }, Err(proof)) => proof.into(),
        _ => error,
    }
}

/// The program of trees that `find` makes on a fabric: as it is for what spreads, turned round
/// for what is collected, and both for an AllReduce.
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

/// How long the fullest link of the forests together is busy, in picoseconds: they take no less,
/// whatever the slices.
fn floor(task: &Task<'_>, fabric: &Fabric, forests: &[&Forest]) -> u64 {
    let Some(first) = forests.first() else { return 0 };
    let weight = match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            first.trees.first().map_or(1, |it| first.weight_of(it.root))
                * u64::from(task.goal.ranks())
        }
        _ => first.trees.iter().map(|it| u64::from(it.weight)).sum(),
    };
    // Rounded down: a floor may be low.
    let unit = Bytes::new(task.size.get() / weight.max(1));
    let loads: Vec<Vec<u64>> = forests.iter().map(|it| it.loads(fabric)).collect();
    let full = |link: &LinkId| {
        let load = loads.iter().map(|it| it[link.index()]).fold(0, u64::saturating_add);
        load.saturating_mul(fabric.busy(*link, unit).as_ps())
    };
    fabric.links().iter().map(full).max().unwrap_or(0)
}

/// The program with the best of 1, 2, 4, … slices, until they do not help any more or next to
/// nothing is left to gain.
fn best(lowering: &Lowering<'_>, floor: u64) -> Result<Lowered, SynthError> {
    let task = lowering.task();
    let to_beat = task.to_beat.map_or(u64::MAX, Duration::as_ps);
    let mut chosen: Option<Sliced> = None;
    let (mut best, mut last) = (u64::MAX, u64::MAX);
    let (mut slices, mut worse) = (1, 0);
    while worse < 2 && (slices == 1 || within(lowering, slices)) {
        // Twice the transfers must be worth it, the more so the more there are.
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
        // If time goes as a + b ÷ slices, twice what the last doubling saved is all that is left.
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

/// About how long a forest takes, in picoseconds: the time of the fullest link, and that to fill
/// the pipeline with the best number of slices that the most transfers allow.
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
