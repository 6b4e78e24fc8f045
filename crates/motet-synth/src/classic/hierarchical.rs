//! Hierarchical: data moves between servers and inside them at the same time, on two or three
//! levels.
//!
//! For AllGather every rank sends its data to the rank in the same position of every other server;
//! the receiver spreads it inside its server as soon as the first chunk has arrived. With racks and
//! datacenters as further levels, data crosses between two of them once. ReduceScatter is the
//! reverse, AllReduce is both. For Broadcast and Reduce every GPU of the root's server handles a
//! share of the data, so that all its NICs are used.
//!
//! Several levels and several shapes of the traffic between groups are possible. Every combination
//! is estimated, and the best few are scheduled.

use motet_collective::CollectiveKind;
use motet_units::Rank;

use super::levels::{Group, divisions, nest};
use super::plan::{self, Sketched};
use super::routes::Routes;
use super::spread::{Shape, Spreader, rerooted};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// If the best candidate by estimate has more tree edges than this, it alone is scheduled;
/// otherwise the best [`TRIED`] are, and compared.
const MOST_TRIED: usize = 1 << 17;

/// How many of the best candidates are scheduled.
const TRIED: usize = 3;

/// One combination of levels and shape.
#[derive(Clone, Debug)]
struct Variant {
    group: Group,
    shape: Shape,
    /// Broadcast and Reduce: whether every rank of the root's group sends a share, or the root
    /// alone.
    by_all: bool,
}

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let turned = fabric.turned_round();
    let collects =
        matches!(task.goal.kind(), CollectiveKind::ReduceScatter | CollectiveKind::Reduce);
    let found_on = if collects { &turned } else { fabric };
    let part = plan::part_bytes(task);
    let mut found: Vec<(u64, Variant, Forest)> = Vec::new();
    for variant in variants(task, fabric) {
        let forest = forest(task, found_on, &variant).map_err(|it| plan::explained(task, it))?;
        found.push((plan::estimate(found_on, &forest, part), variant, forest));
        // Drops all but the best, because forests can be large.
        found.sort_by_key(|it| it.0);
        found.truncate(TRIED);
    }
    let edges = |it: &Forest| it.trees.iter().map(|it| it.edges.len()).sum::<usize>();
    if found.first().is_some_and(|it| edges(&it.2) > MOST_TRIED) {
        found.truncate(1);
    }
    let mut best: Option<Lowered> = None;
    for (_, variant, forest) in &found {
        let lowered = lower(task, fabric, &turned, variant, forest)?;
        if best.as_ref().is_none_or(|it| lowered.makespan < it.makespan) {
            best = Some(lowered);
        }
    }
    best.ok_or_else(|| SynthError::not_for("hierarchical", "there is no rank"))
}

fn lower(
    task: &Task<'_>,
    fabric: &Fabric,
    turned: &Fabric,
    variant: &Variant,
    forest: &Forest,
) -> Result<Lowered, SynthError> {
    match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::Broadcast => plan::spread(task, fabric, forest),
        CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
            plan::collect(task, fabric, forest)
        }
        _ => plan::both(task, fabric, &self::forest(task, turned, variant)?, forest),
    }
}

/// Every combination of levels and shapes that is worth estimating.
fn variants(task: &Task<'_>, fabric: &Fabric) -> Vec<Variant> {
    let ranks = fabric.rank_count();
    let all = divisions(task, fabric);
    let mut groups: Vec<Group> = Vec::new();
    for chosen in 0..1usize << all.len() {
        let levels: Vec<_> =
            (0..all.len()).filter(|it| chosen >> it & 1 == 1).map(|it| &all[it]).collect();
        // Without levels, a large group would exchange between all pairs; the method `direct` does
        // that.
        if !levels.is_empty() || all.is_empty() {
            groups.push(nest(ranks, &levels));
        }
    }
    let rooted = task.goal.root().is_some();
    let shapes: &[Shape] = if rooted {
        &[Shape::Chain, Shape::Binary, Shape::Chains, Shape::Star]
    } else {
        &[Shape::Star, Shape::Chains, Shape::Chain]
    };
    let mut variants = Vec::new();
    for group in groups {
        for shape in shapes {
            for by_all in [true, false].into_iter().filter(|it| rooted || *it) {
                variants.push(Variant { group: group.clone(), shape: *shape, by_all });
            }
            if group.parts.is_empty() {
                break;
            }
        }
    }
    variants
}

fn forest(task: &Task<'_>, fabric: &Fabric, variant: &Variant) -> Result<Forest, SynthError> {
    let ranks = fabric.rank_count();
    let mut routes = Routes::new(fabric, plan::part_bytes(task));
    let mut spreader = Spreader::new(&mut routes, variant.shape);
    let mut trees = Vec::new();
    for root in plan::roots(task, fabric) {
        let helpers = match task.goal.root() {
            Some(root) if variant.by_all => lowest(&variant.group, root).members.clone(),
            _ => vec![root],
        };
        for helper in helpers {
            let steps = spreader.tree(&variant.group, helper);
            let steps = if helper == root { steps } else { rerooted(&steps, root, ranks) };
            trees.push(Sketched { root, weight: 1, steps });
        }
    }
    plan::route(routes, &trees)
}

/// The lowest-level group of `rank`.
fn lowest(group: &Group, rank: Rank) -> &Group {
    let part = group.parts.iter().find(|it| it.members.binary_search(&rank).is_ok());
    part.map_or(group, |it| lowest(it, rank))
}
