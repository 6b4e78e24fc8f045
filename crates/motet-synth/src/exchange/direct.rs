//! Every pair over its fastest path: the classic exchange, best for small sizes.
//!
//! A path is as quick as a transfer that has it to itself: all latencies, plus the transmission time of the
//! slowest link between each two ranks, which store and forward. Of equally quick paths a pair takes one over
//! links that have been given little so far.

use motet_units::Bytes;

use super::demand::Demands;
use super::round::Route;
use super::ways::{Shortest, Ways};
use crate::fabric::Fabric;

/// One route for every pair, for chunks of `chunk` bytes. Every demand must be reachable.
pub(super) fn quickest(
    fabric: &Fabric,
    ways: &Ways,
    demands: &Demands,
    chunk: Bytes,
) -> Vec<Route> {
    let latency: Vec<f64> = ways.link.iter().map(|it| fabric.latency(*it).as_ps() as f64).collect();
    let mut shortest = Shortest::new(ways);
    let mut given = vec![0.0f64; ways.links()];
    let mut routes = Vec::with_capacity(demands.pairs.len());
    let mut pair = 0;
    for from in 0..demands.ranks() {
        let pairs = demands.from(from);
        let Some(most) = pairs.iter().map(|it| it.chunks).max() else { continue };
        // One search serves all pairs of a sender: their sizes are alike, or `flow` will do better anyhow. An
        // arc that costs nothing counts as a picosecond, so that paths have no cycles.
        let bytes = chunk.get() as f64 * f64::from(most);
        let length = |arc: usize| 1.0 + latency[arc] + bytes * ways.slower[arc];
        shortest.search(ways, from, length);
        for it in pairs {
            let mut arcs = Vec::new();
            let mut at = it.dst as usize;
            while at != from {
                let last = ways.into(at).iter().map(|it| *it as usize);
                let last = last.filter(|arc| shortest.is_last(ways, *arc, length(*arc)));
                let load = |arc: &usize| given[ways.link[*arc].index()];
                let Some(arc) = last.min_by(|a, b| load(a).total_cmp(&load(b))) else { break };
                given[ways.link[arc].index()] += ways.busy[arc] * f64::from(it.chunks);
                arcs.push(arc as u32);
                at = ways.tail[arc] as usize;
            }
            arcs.reverse();
            routes.push(Route { pair, base: 0, chunks: it.chunks, arcs });
            pair += 1;
        }
    }
    routes
}
