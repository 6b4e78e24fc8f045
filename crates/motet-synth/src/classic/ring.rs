//! Rings: one, one in both directions, or several.
//!
//! Data travels from rank to rank around the ring; with slices the ring is a pipeline. A single
//! ring uses one NIC of a server to send and one to receive. Several rings are found one after the
//! other. Each search sees the load of the rings before, so the next ring leaves a server through
//! another NIC and takes other links inside it. Rings are added as long as that lowers the load of
//! the busiest link per ring.

use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::routes::Routes;
use super::tour::{self, Costs};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// Most rings that are tried.
const MOST_RINGS: usize = 16;

/// The search stops this many rings after the best number found so far.
const PATIENCE: usize = 3;

pub(super) fn one(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    lower(task, fabric, &found(task, fabric, 1)?)
}

pub(super) fn bidirectional(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let mut rings = found(task, fabric, 1)?;
    rings.extend(rings.first().map(|it| it.iter().rev().copied().collect::<Vec<_>>()));
    lower(task, fabric, &rings)
}

pub(super) fn several(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let ranks = fabric.rank_count() as u64;
    let roots = if task.goal.root().is_some() { 1 } else { ranks };
    let most = plan::MOST_TRANSFERS / (roots * ranks).max(1);
    let rings = found(task, fabric, most.clamp(1, MOST_RINGS as u64) as usize)?;
    lower(task, fabric, &rings)
}

fn found(task: &Task<'_>, fabric: &Fabric, most: usize) -> Result<Vec<Vec<Rank>>, SynthError> {
    rings(task, fabric, most).map_err(|it| plan::explained(task, it))
}

fn lower(task: &Task<'_>, fabric: &Fabric, rings: &[Vec<Rank>]) -> Result<Lowered, SynthError> {
    let weighted: Vec<(&[Rank], u32)> = rings.iter().map(|it| (it.as_slice(), 1)).collect();
    plan::lower(task, fabric, |it| forest(task, it, &weighted))
}

/// Up to `most` rings that together load the busiest link as little as possible.
pub(super) fn rings(
    task: &Task<'_>,
    fabric: &Fabric,
    most: usize,
) -> Result<Vec<Vec<Rank>>, SynthError> {
    let mut routes = Routes::new(fabric, plan::part_bytes(task));
    let mut rings: Vec<Vec<Rank>> = Vec::new();
    let (mut best, mut kept) = (f64::INFINITY, 0);
    while rings.len() < most && rings.len() < kept + PATIENCE {
        let ring = next_ring(&mut routes)?;
        for (from, to) in steps_round(&ring) {
            routes.carry(from, to).ok_or_else(|| plan::no_way(from, to))?;
        }
        rings.push(ring);
        let fullest = routes.loads().iter().copied().max().unwrap_or(0);
        let each = fullest as f64 / rings.len() as f64;
        // Each ring adds transfers, so it must pay off.
        if each < best * 0.99 {
            (best, kept) = (each, rings.len());
        }
    }
    rings.truncate(kept.max(1));
    Ok(rings)
}

fn steps_round(ring: &[Rank]) -> impl Iterator<Item = (Rank, Rank)> + '_ {
    let next = ring.iter().cycle().skip(1);
    ring.iter().copied().zip(next.copied()).filter(|(a, b)| a != b)
}

/// A short ring given the load of the links so far, in the cheaper of the two directions.
fn next_ring(routes: &mut Routes<'_>) -> Result<Vec<Rank>, SynthError> {
    let ranks: Vec<Rank> = routes.fabric().ranks().collect();
    if ranks.len() > tour::MOST_RANKS {
        return Ok(ranks);
    }
    let rows: Vec<Vec<u64>> = ranks.iter().map(|it| routes.loaded_row(*it)).collect();
    let tour = tour::tour(&Costs::new(&rows));
    let ring: Vec<Rank> = tour.into_iter().map(Rank).collect();
    let forth = |(a, b): (Rank, Rank)| rows[a.index()][b.index()];
    let back = |(a, b): (Rank, Rank)| rows[b.index()][a.index()];
    let one_way = steps_round(&ring).map(forth).fold(0, u64::saturating_add);
    let other_way = steps_round(&ring).map(back).fold(0, u64::saturating_add);
    Ok(if other_way < one_way { ring.into_iter().rev().collect() } else { ring })
}

/// For every root a chain around each ring, with the share of the data that the ring carries. The
/// direction is the rings' own, also on a reversed fabric.
pub(super) fn forest(
    task: &Task<'_>,
    fabric: &Fabric,
    rings: &[(&[Rank], u32)],
) -> Result<Forest, SynthError> {
    let routes = Routes::new(fabric, plan::part_bytes(task));
    let mut trees = Vec::new();
    for root in plan::roots(task, fabric) {
        for (ring, weight) in rings {
            let count = ring.len();
            let start = ring.iter().position(|it| *it == root).unwrap_or(0);
            let back = fabric.is_turned_round();
            let at = |it: usize| ring[(start + if back { count - it } else { it }) % count];
            let steps = (1..count).map(|it| ClassicStep::cheapest(at(it - 1), at(it))).collect();
            trees.push(Sketched { root, weight: *weight, steps });
        }
    }
    plan::route(routes, &trees)
}
