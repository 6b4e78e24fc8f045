//! Which GPUs of a network reach each other's memory, and which need a proxy between them: the choice
//! of [`Channel`] that `motet export` makes where the network is known.

use std::collections::BTreeMap;

use motet_graph::DisjointSets;
use motet_net::Network;

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
    let mut groups = DisjointSets::new(network.nodes().len());
    let near = network.link_ids().filter(|it| network.tier(*it).index() <= 1);
    for link in near.map(|it| network.link(it)) {
        groups.join(link.from.index(), link.to.index());
    }
    let mut servers = BTreeMap::new();
    for gpu in network.ranks() {
        if let Some(server) = &network.node(*gpu).location.server {
            groups.join(servers.entry(server).or_insert(*gpu).index(), gpu.index());
        }
    }
    network.ranks().iter().map(|it| groups.root(it.index()) as u32).collect()
}
