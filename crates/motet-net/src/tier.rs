//! [`Tier`]: the five-level distance between devices (§7 of DynamICCL's design-space analysis), of
//! links, rank pairs and whole communicators.
//!
//! | tier | what | from |
//! | --- | --- | --- |
//! | 0 | within a package | class `die` |
//! | 1 | NVLink domain | `nvlink`, `xgmi`, `c2c` |
//! | 2 | within a rack: PCIe, sockets, NIC to leaf | `pcie`, `smp`; network links inside one rack |
//! | 3 | across racks of one datacenter | network links between racks or up to a spine |
//! | 4 | across datacenters | `wan`, or ends in different datacenters |
//!
//! The tier of a pair of ranks is that of its best route: the least, over all routes, of the
//! worst link on it. A communicator's worst tier and its mix over all pairs follow without
//! visiting the pairs: joining links tier by tier gives nested groups, whose sizes are enough.

use std::fmt;

use motet_graph::DisjointSets;
use motet_units::{LinkId, NodeId};

use crate::link::LinkClass;
use crate::network::Network;
use crate::node::{Node, NodeKind};

/// How far apart two devices are, from 0 (one package) to 4 (two datacenters).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(u8);

impl Tier {
    pub const COUNT: usize = 5;

    /// `None` above 4.
    #[must_use]
    pub const fn new(tier: u8) -> Option<Self> {
        if tier < Self::COUNT as u8 { Some(Self(tier)) } else { None }
    }

    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tier that a link's class and its ends' locations give it.
#[must_use]
pub(crate) fn of_link(class: LinkClass, from: &Node, to: &Node) -> Tier {
    let both = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => Some(a == b),
        _ => None,
    };
    let same_dc = both(&from.location.dc, &to.location.dc);
    if class == LinkClass::Wan || same_dc == Some(false) {
        return Tier(4);
    }
    match class {
        LinkClass::Die => Tier(0),
        LinkClass::NvLink | LinkClass::Xgmi | LinkClass::C2c => Tier(1),
        LinkClass::Pcie | LinkClass::Smp => Tier(2),
        _ => {
            let high =
                |it: &Node| matches!(it.kind, NodeKind::Spine | NodeKind::Ocs | NodeKind::Border);
            let same_rack = both(&from.location.rack, &to.location.rack);
            let same_server = both(&from.location.server, &to.location.server);
            if same_server == Some(true) {
                // An unnamed link inside a server is its GPU fabric, unless it leads to a NIC.
                let plain = |it: &Node| matches!(it.kind, NodeKind::Gpu | NodeKind::NvSwitch);
                return if plain(from) && plain(to) { Tier(1) } else { Tier(2) };
            }
            match same_rack {
                Some(true) => Tier(2),
                Some(false) => Tier(3),
                None if high(from) || high(to) => Tier(3),
                None => Tier(2),
            }
        }
    }
}

/// How many pairs of ranks of a communicator are at each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierMix {
    /// Unordered pairs whose best route's worst link has this tier.
    pub pairs: [u64; Tier::COUNT],
    /// Pairs with no route at all.
    pub unreachable: u64,
}

impl TierMix {
    /// The worst tier of any pair; `None` if no pair has a route.
    #[must_use]
    pub fn worst(&self) -> Option<Tier> {
        Tier::all().filter(|it| self.pairs[it.index()] > 0).last()
    }

    /// The share of pairs at each tier, for display and for the agent's state.
    #[must_use]
    pub fn shares(&self) -> [f64; Tier::COUNT] {
        let all: u64 = self.pairs.iter().sum::<u64>() + self.unreachable;
        self.pairs.map(|it| if all == 0 { 0.0 } else { it as f64 / all as f64 })
    }
}

/// The tier mix of the communicator made of these GPUs (each named once).
#[must_use]
pub fn mix(network: &Network, gpus: &[NodeId]) -> TierMix {
    let mut by_tier: Vec<Vec<LinkId>> = vec![Vec::new(); Tier::COUNT];
    for link in network.link_ids() {
        by_tier[network.tier(link).index()].push(link);
    }
    let mut groups = DisjointSets::new(network.nodes().len());
    // Members of the communicator in each group, by its root.
    let mut members = vec![0u64; network.nodes().len()];
    for gpu in gpus {
        members[gpu.index()] = 1;
    }
    let mut pairs = [0u64; Tier::COUNT];
    for (tier, links) in by_tier.iter().enumerate() {
        for id in links {
            let link = network.link(*id);
            if let Some((kept, gone)) = groups.join(link.from.index(), link.to.index()) {
                pairs[tier] += members[kept] * members[gone];
                members[kept] += members[gone];
            }
        }
    }
    let count = gpus.len() as u64;
    let all = count * count.saturating_sub(1) / 2;
    TierMix { pairs, unreachable: all - pairs.iter().sum::<u64>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkSpec;
    use crate::network::NetworkBuilder;
    use motet_units::{Bandwidth, Duration};

    fn spec(class: LinkClass) -> LinkSpec {
        LinkSpec::new(class, Bandwidth::gb_per_s(1), Duration::ZERO)
    }

    /// Two racks of two servers of two GPUs on an NVLink each, joined by leaves and a spine.
    #[test]
    fn mix_of_two_racks() {
        let mut b = NetworkBuilder::new("racks");
        let spine = b.add_node(Node::new("spine", NodeKind::Spine)).unwrap();
        let mut gpus = Vec::new();
        for rack in ["r0", "r1"] {
            let leaf = b.add_node(Node::new(format!("{rack}-leaf"), NodeKind::Leaf)).unwrap();
            b.add_duplex(leaf, spine, spec(LinkClass::InfiniBand)).unwrap();
            for server in ["s0", "s1"] {
                let server = format!("{rack}-{server}");
                let pair: Vec<NodeId> = (0..2)
                    .map(|it| {
                        let node = Node::new(format!("{server}-g{it}"), NodeKind::Gpu);
                        b.add_node(node.in_server(&server).in_rack(rack)).unwrap()
                    })
                    .collect();
                b.add_duplex(pair[0], pair[1], spec(LinkClass::NvLink)).unwrap();
                b.add_duplex(pair[0], leaf, spec(LinkClass::InfiniBand)).unwrap();
                gpus.extend(pair);
            }
        }
        let network = b.build().unwrap();
        let all = mix(&network, &gpus);
        assert_eq!(all.pairs, [0, 4, 8, 16, 0]);
        assert_eq!(all.worst(), Tier::new(3));
        assert_eq!(mix(&network, &gpus[..4]).worst(), Tier::new(2));
        assert_eq!(mix(&network, &gpus[..2]).worst(), Tier::new(1));
        assert_eq!(mix(&network, &gpus[..1]).worst(), None);
    }

    #[test]
    fn pairs_without_a_route_are_counted_apart() {
        let mut b = NetworkBuilder::new("apart");
        let gpus: Vec<NodeId> = (0..3)
            .map(|it| b.add_node(Node::new(it.to_string(), NodeKind::Gpu)).unwrap())
            .collect();
        b.add_duplex(gpus[0], gpus[1], spec(LinkClass::Wan)).unwrap();
        let mix = mix(&b.build().unwrap(), &gpus);
        assert_eq!((mix.pairs, mix.unreachable), ([0, 0, 0, 0, 1], 2));
    }
}
