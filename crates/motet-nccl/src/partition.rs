//! Which GPUs NCCL counts as one node ("nNodes"): those that reach one another without a NIC.
//!
//! That is a server, or all servers of one NVLink domain (a GB200 rack). Links of the fabric and
//! ports of GPUs onto it do not join; every link inside a box does. Next:
//! [`topology`](super::topology) draws one such node.

use std::collections::BTreeMap;

use motet_graph::DisjointSets;
use motet_net::{Link, LinkClass, Network, Node, NodeKind};
use motet_units::NodeId;

use super::topology::Wire;

/// The devices of one NCCL node in network order; at least one is a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) members: Vec<NodeId>,
    /// Its GPUs in the order of their ranks, and those ranks.
    pub(super) gpus: Vec<NodeId>,
    pub(super) ranks: Vec<u32>,
}

/// What kind of wire a link inside a box is; `None` if it belongs to the network outside.
pub(super) fn inside(network: &Network, link: &Link) -> Option<Wire> {
    let (from, to) = (network.node(link.from), network.node(link.to));
    match link.spec.class {
        LinkClass::NvLink | LinkClass::Xgmi | LinkClass::Die => Some(Wire::NvLink),
        LinkClass::C2c => Some(Wire::C2c),
        LinkClass::Pcie => Some(Wire::Pci),
        LinkClass::Smp => Some(Wire::Sys),
        LinkClass::Other if is_of_box(from) && is_of_box(to) && !apart(from, to) => {
            Some(unnamed(from.kind, to.kind))
        }
        _ => None,
    }
}

/// The kind of wire of a link without a class, by the devices that it joins.
fn unnamed(a: NodeKind, b: NodeKind) -> Wire {
    let both = |it: NodeKind| a == it && b == it;
    let fast = |it: NodeKind| matches!(it, NodeKind::Gpu | NodeKind::NvSwitch);
    if both(NodeKind::Cpu) {
        Wire::Sys
    } else if fast(a) && fast(b) {
        Wire::NvLink
    } else {
        Wire::Pci
    }
}

fn is_of_box(node: &Node) -> bool {
    matches!(
        node.kind,
        NodeKind::Gpu | NodeKind::Nic | NodeKind::Cpu | NodeKind::PcieSwitch | NodeKind::NvSwitch
    )
}

/// Whether the two are known to stand in different servers.
fn apart(a: &Node, b: &Node) -> bool {
    matches!((&a.location.server, &b.location.server), (Some(a), Some(b)) if a != b)
}

/// The NCCL nodes of a network, in the order of their first ranks.
pub(super) fn parts(network: &Network) -> Vec<Part> {
    let mut groups = DisjointSets::new(network.nodes().len());
    let mut of_server: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in network.nodes().iter().enumerate().filter(|(_, it)| is_of_box(it)) {
        if let Some(server) = &node.location.server {
            let first = *of_server.entry(server).or_insert(index);
            groups.join(first, index);
        }
    }
    for link in network.links() {
        if inside(network, link).is_some() {
            groups.join(link.from.index(), link.to.index());
        }
    }
    let mut part_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut parts: Vec<Part> = Vec::new();
    for (rank, gpu) in network.ranks().iter().enumerate() {
        let root = groups.root(gpu.index());
        let part = *part_of.entry(root).or_insert_with(|| {
            parts.push(Part { members: Vec::new(), gpus: Vec::new(), ranks: Vec::new() });
            parts.len() - 1
        });
        parts[part].gpus.push(*gpu);
        parts[part].ranks.push(u32::try_from(rank).unwrap_or(u32::MAX));
    }
    for id in network.node_ids() {
        if let (true, Some(part)) =
            (is_of_box(network.node(id)), part_of.get(&groups.root(id.index())))
        {
            parts[*part].members.push(id);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::testing::build;
    use super::*;

    #[test]
    fn servers_and_nvlink_domains() {
        let sizes = |kind: &str, words: &[&str]| -> Vec<usize> {
            parts(&build(kind, words)).iter().map(|it| it.gpus.len()).collect()
        };
        assert_eq!(sizes("dgx-a100", &["count=3"]), [8, 8, 8]);
        assert_eq!(sizes("dgx-a100", &["count=2", "detail=full"]), [8, 8]);
        assert_eq!(sizes("gb200-nvl72", &["trays=4"]), [16]);
        assert_eq!(sizes("dgx-1", &[]), [8]);
    }
}
