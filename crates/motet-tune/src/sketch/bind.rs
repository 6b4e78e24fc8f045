//! Stage 1: each GPU to the NIC nearest to it.
//!
//! Nearest is a NIC that shares a PCIe switch with the GPU, then one that shares a CPU (root complex, NUMA
//! node), then any of the server ([`Distance`](crate::sketch::locality::Distance) orders them so). Where
//! several NICs are equally near, GPUs are spread over them: the GPUs with the fewest such NICs first, each to
//! the NIC with the fewest GPUs so far, in file order.

use std::collections::BTreeMap;

use crate::sketch::Servers;
use motet_net::Network;
use motet_units::NodeId;

/// (GPU, port) of every GPU that can reach a port of its server, in rank order.
#[must_use]
pub fn bind(network: &Network, servers: &Servers) -> Vec<(NodeId, NodeId)> {
    let mut bound: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for server in servers.list() {
        let mut choices: Vec<(NodeId, Vec<NodeId>)> = Vec::with_capacity(server.gpus.len());
        for gpu in &server.gpus {
            let ways = servers.ways(network, *gpu);
            let Some(nearest) = ways.iter().map(|it| it.distance).min() else { continue };
            let near = ways.iter().filter(|it| it.distance == nearest).map(|it| it.port);
            choices.push((*gpu, near.collect()));
        }
        // Stable: equal numbers of choices stay in rank order.
        choices.sort_by_key(|it| it.1.len());
        let mut load: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (gpu, near) in choices {
            let least = near.into_iter().min_by_key(|it| load.get(it).copied().unwrap_or(0));
            if let Some(port) = least {
                *load.entry(port).or_default() += 1;
                bound.insert(gpu, port);
            }
        }
    }
    network.ranks().iter().filter_map(|gpu| Some((*gpu, *bound.get(gpu)?))).collect()
}
