//! Hierarchical: data moves between servers and inside them at the same time, on two or three
//! levels.
//!
//! For AllGather every rank sends its data to the rank in the same position of every other server;
//! the receiver spreads it inside its server as soon as the first chunk has arrived. With racks and
//! datacenters as further levels, data crosses between two of them once. ReduceScatter is the
//! reverse, AllReduce is both.
//!
//! For Broadcast and Reduce the data is divided among helpers, each of which spreads its share
//! ([`Helpers`]). If these are the GPUs of the root's server, all its NICs are used; but with more than two
//! servers the root's then sends everything several times, or data goes from server to server in a
//! chain. If they are the GPUs of all other servers, the root's server sends everything once and the
//! others exchange the rest, two latencies in all: scatter, then AllGather (van de Geijn's broadcast).
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

/// Most edges of all trees together if each rank helps: as many as pairs of ranks.
const MOST_HELPED: usize = 1 << 17;

/// Who spreads the root's data in Broadcast and Reduce, each a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Helpers {
    Root,
    /// The root's server, or whatever the lowest group is that holds it.
    Server,
    /// Everyone outside the root's part of the network; where there are no parts, all but the root.
    Others,
}

/// One combination of levels, shape and helpers.
#[derive(Clone, Debug)]
struct Variant {
    group: Group,
    shape: Shape,
    helpers: Helpers,
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
    let rooted = task.goal.root().is_some();
    let few = ranks * ranks <= MOST_HELPED;
    let mut groups: Vec<Group> = Vec::new();
    for chosen in 0..1usize << all.len() {
        let levels: Vec<_> =
            (0..all.len()).filter(|it| chosen >> it & 1 == 1).map(|it| &all[it]).collect();
        // Without levels, a large group would exchange between all pairs; the method `direct` does
        // that, except where all ranks take part in spreading what one has.
        if !levels.is_empty() || all.is_empty() || (rooted && few) {
            groups.push(nest(ranks, &levels));
        }
    }
    let helpers: &[Helpers] = match (rooted, few) {
        (false, _) => &[Helpers::Root],
        (true, false) => &[Helpers::Server, Helpers::Root],
        (true, true) => &[Helpers::Server, Helpers::Root, Helpers::Others],
    };
    let shapes: &[Shape] = if rooted {
        &[Shape::Chain, Shape::Binary, Shape::Chains, Shape::Star]
    } else {
        &[Shape::Star, Shape::Chains, Shape::Chain]
    };
    let mut variants = Vec::new();
    for group in groups {
        for shape in shapes {
            for helpers in helpers {
                variants.push(Variant { group: group.clone(), shape: *shape, helpers: *helpers });
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
        let helpers = match variant.helpers {
            Helpers::Root => vec![root],
            Helpers::Server => lowest(&variant.group, root).members.clone(),
            Helpers::Others => outside(&variant.group, root),
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

/// The ranks that are not in the root's part of the group; all but the root if it has no parts.
fn outside(group: &Group, root: Rank) -> Vec<Rank> {
    let holds = |it: &&Group| it.members.binary_search(&root).is_ok();
    let alone = [root];
    let near = group.parts.iter().find(holds).map_or(&alone[..], |it| &it.members);
    let far = group.members.iter().filter(|it| near.binary_search(it).is_err());
    let far: Vec<Rank> = far.copied().collect();
    if far.is_empty() { vec![root] } else { far }
}
