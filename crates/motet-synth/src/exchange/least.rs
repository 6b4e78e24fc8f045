//! A quick lower bound for the time of any routing: the data that must leave or enter a rank or a server.
//!
//! The bound proper (`motet_collective::bound`) looks at more cuts and takes longer; this one only
//! tells when a search may stop.

use std::collections::BTreeMap;

use motet_net::Network;

use super::demand::Demands;
use crate::fabric::Fabric;

/// The group of a node that is in none.
pub(super) const NONE: usize = usize::MAX;

/// The lower bound in picoseconds per byte of a chunk: times the chunk's size, it is a time.
pub(super) fn least_time(network: &Network, fabric: &Fabric, demands: &Demands) -> f64 {
    let nodes = fabric.node_count();
    let mut by_rank = vec![NONE; nodes];
    for rank in fabric.ranks() {
        by_rank[fabric.node(rank).index()] = rank.index();
    }
    let ranks = of_groups(fabric, demands, &by_rank, fabric.rank_count());
    let (by_server, servers) = servers(network);
    ranks.max(of_groups(fabric, demands, &by_server, servers))
}

/// The number of the server that each node is in ([`NONE`] if in no server), and how many servers there are.
pub(super) fn servers(network: &Network) -> (Vec<usize>, usize) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups = Vec::with_capacity(network.nodes().len());
    for node in network.nodes() {
        let next = known.len();
        let server = node.location.server.as_deref();
        groups.push(server.map_or(NONE, |it| *known.entry(it).or_insert(next)));
    }
    (groups, known.len())
}

/// The lower bound if nodes are grouped so: for each group, the chunks that must leave it over the bandwidth of
/// all links out of it, and likewise for those that must enter; the longest counts.
fn of_groups(fabric: &Fabric, demands: &Demands, group: &[usize], groups: usize) -> f64 {
    // Out of each group, then into it.
    let mut bits = vec![0.0; groups * 2];
    let count = |from: usize, to: usize, into: &mut [f64], amount: f64| {
        if from == to {
            return;
        }
        if from != NONE {
            into[from] += amount;
        }
        if to != NONE {
            into[groups + to] += amount;
        }
    };
    for link in fabric.links() {
        let (from, to) = (fabric.from(*link).index(), fabric.to(*link).index());
        count(group[from], group[to], &mut bits, fabric.bits_per_s(*link) as f64);
    }
    let mut chunks = vec![0.0; groups * 2];
    let of = |rank: u32| group[fabric.node(motet_units::Rank(rank)).index()];
    for pair in &demands.pairs {
        count(of(pair.src), of(pair.dst), &mut chunks, f64::from(pair.chunks));
    }
    let times = chunks.iter().zip(&bits).filter(|(chunks, _)| **chunks > 0.0);
    times.map(|(chunks, bits)| chunks * 8e12 / bits).fold(0.0, f64::max)
}
