//! NCCL's own rings and trees, with as many channels as NCCL would open.
//!
//! Channels that are copies of each other become one tree with their joint weight, because in the
//! simulator two connections over the same links are no faster than one. NCCL slices data by its
//! buffer size; here the best number of slices is chosen, so this is NCCL's pattern at its best.

use motet_graph::gcd;
use motet_nccl::{Channels, NcclModel, NcclOptions, Tree};
use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::ring as rings;
use super::routes::Routes;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

pub(super) fn ring(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let channels = channels(task, fabric, "nccl-ring")?;
    let mut found: Vec<(&[Rank], u32)> = Vec::new();
    for channel in 0..channels.count() {
        let ring = channels.ring(channel);
        match found.iter_mut().find(|it| it.0 == ring) {
            Some(known) => known.1 += 1,
            None => found.push((ring, 1)),
        }
    }
    lessen(&mut found);
    // If all rings together need too many transfers, only as many as fit are used.
    let ranks = fabric.rank_count() as u64;
    let roots = if task.goal.root().is_some() { 1 } else { ranks };
    let most = plan::MOST_TRANSFERS / (roots * ranks).max(1);
    found.truncate(most.max(1) as usize);
    plan::lower(task, fabric, |it| rings::forest(task, it, &found))
}

pub(super) fn tree(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let channels = channels(task, fabric, "nccl-tree")?;
    let mut found: Vec<(&Tree, u32)> = Vec::new();
    for channel in 0..channels.count() {
        let tree = channels.tree(channel);
        match found.iter_mut().find(|it| it.0 == tree) {
            Some(known) => known.1 += 1,
            None => found.push((tree, 1)),
        }
    }
    lessen(&mut found);
    plan::lower(task, fabric, |it| forest(task, it, &found))
}

fn channels(
    task: &Task<'_>,
    fabric: &Fabric,
    method: &'static str,
) -> Result<Channels, SynthError> {
    if fabric.rank_count() < task.network.ranks().len() {
        return Err(SynthError::not_for(method, "NCCL is modelled over all GPUs of the network"));
    }
    let model = NcclModel::new(task.network, NcclOptions::default());
    let model = model.map_err(|it| SynthError::not_for(method, it.to_string()))?;
    let channels = model.channels();
    if channels.count() == 0 || channels.rings.is_empty() || channels.trees.is_empty() {
        return Err(SynthError::not_for(method, "NCCL finds no channel on this network"));
    }
    Ok(channels)
}

/// Divides the weights by their greatest common divisor.
fn lessen<T>(found: &mut [(T, u32)]) {
    let common = found.iter().fold(0, |all, it| gcd(all, it.1)).max(1);
    found.iter_mut().for_each(|it| it.1 /= common);
}

fn forest(task: &Task<'_>, fabric: &Fabric, trees: &[(&Tree, u32)]) -> Result<Forest, SynthError> {
    let mut sketched = Vec::with_capacity(trees.len());
    for (tree, weight) in trees {
        let root = tree.root().unwrap_or_default();
        let mut steps: Vec<ClassicStep> = Vec::with_capacity(fabric.rank_count());
        steps.extend(tree.children(root).map(|it| ClassicStep::cheapest(root, it)));
        let mut next = 0;
        while let Some(step) = steps.get(next).copied() {
            steps.extend(tree.children(step.to).map(|it| ClassicStep::cheapest(step.to, it)));
            next += 1;
        }
        sketched.push(Sketched { root, weight: *weight, steps });
    }
    plan::route(Routes::new(fabric, plan::part_bytes(task)), &sketched)
}
