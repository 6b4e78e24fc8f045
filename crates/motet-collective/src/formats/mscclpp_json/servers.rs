//! Which GPUs of a network reach each other's memory, and which need a proxy between them.

use std::collections::BTreeMap;

use motet_net::Network;
use motet_units::NodeId;

use super::Channel;

impl Channel {
    /// Memory within a server and between GPUs that NVLink or the like joins across servers; ports
    /// otherwise.
    #[must_use]
    pub fn on(network: &Network) -> Self {
        Self::Servers(memory_groups(network))
    }
}

/// For each rank the group of GPUs that reach each other's memory: those of a server, and those
/// joined by NVLink or the like across servers.
fn memory_groups(network: &Network) -> Vec<u32> {
    let mut group: Vec<usize> = (0..network.nodes().len()).collect();
    let mut join = |a: NodeId, b: NodeId| {
        let (a, b) = (root(&group, a.index()), root(&group, b.index()));
        group[a.max(b)] = a.min(b);
    };
    let near = network.link_ids().filter(|it| network.tier(*it).index() <= 1);
    for link in near.map(|it| network.link(it)) {
        join(link.from, link.to);
    }
    let mut servers = BTreeMap::new();
    for gpu in network.ranks() {
        if let Some(server) = &network.node(*gpu).location.server {
            join(*servers.entry(server).or_insert(*gpu), *gpu);
        }
    }
    let groups = network.ranks().iter().map(|it| root(&group, it.index()) as u32);
    groups.collect()
}

fn root(group: &[usize], mut at: usize) -> usize {
    while group[at] != at {
        at = group[at];
    }
    at
}
