//! Cuts around one rank: what lies within some latency of it, and all the rest, which sends.
//!
//! Where latency counts as much as bandwidth the slowest cut need not be a place with a name: on a
//! ring it is the border of the nearest so many ranks. What lies beyond has less to send than all
//! ranks together, but farther to go.

use super::distance::FAR;
use super::graph::BoundGraph;

/// Most distances at which cuts are made.
const MOST_STEPS: usize = 8;

/// The sending sides of the cuts around a node, at different latencies from it. `far` has the latency
/// from every node to that one.
pub(super) fn cuts_around(graph: &BoundGraph, far: &[u64]) -> Vec<Vec<bool>> {
    let mut steps: Vec<u64> = graph.ranks.iter().map(|it| far[*it as usize]).collect();
    steps.retain(|it| *it != FAR);
    steps.sort_unstable();
    steps.dedup();
    // Between the ranks at one distance and the next: right behind the first, and right before the
    // next, with all switches between them inside.
    let gaps: Vec<(u64, u64)> = steps.windows(2).map(|it| (it[0], it[1] - 1)).collect();
    let every = gaps.len().div_ceil(MOST_STEPS).max(1);
    let mut radii: Vec<u64> = gaps.into_iter().step_by(every).flat_map(|it| [it.0, it.1]).collect();
    radii.dedup();
    let beyond = |radius: u64| -> Vec<bool> {
        (0..graph.nodes()).map(|it| graph.usable[it] && far[it] > radius).collect()
    };
    let mut cuts: Vec<Vec<bool>> = radii.into_iter().map(beyond).collect();
    // Where GPUs are joined directly there is nothing between one distance and the next.
    cuts.dedup();
    cuts
}
