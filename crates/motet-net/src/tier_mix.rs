//! [`TierMix`]: how far apart the ranks of a communicator are, as the number of pairs at each tier.
//!
//! No pair is visited: links are joined into groups tier by tier, nearest first, and whenever two
//! groups become one, every pair with a member in each has just got its first route, whose worst
//! link has this tier. So the sizes of the groups are enough.

use motet_graph::DisjointSets;
use motet_units::{LinkId, NodeId};

use crate::network::Network;
use crate::tier::Tier;

/// How many pairs of ranks of a communicator are at each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierMix {
    /// Unordered pairs whose best route's worst link has this tier.
    pub pairs: [u64; Tier::COUNT],
    /// Pairs with no route at all.
    pub unreachable: u64,
}

impl TierMix {
    /// The mix of the communicator made of these GPUs (each named once).
    #[must_use]
    pub fn of(network: &Network, gpus: &[NodeId]) -> Self {
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
        Self { pairs, unreachable: all - pairs.iter().sum::<u64>() }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkClass, LinkSpec};
    use crate::network::NetworkBuilder;
    use crate::node::{Node, NodeKind};
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
        let all = TierMix::of(&network, &gpus);
        assert_eq!(all.pairs, [0, 4, 8, 16, 0]);
        assert_eq!(all.worst(), Tier::new(3));
        assert_eq!(TierMix::of(&network, &gpus[..4]).worst(), Tier::new(2));
        assert_eq!(TierMix::of(&network, &gpus[..2]).worst(), Tier::new(1));
        assert_eq!(TierMix::of(&network, &gpus[..1]).worst(), None);
    }

    #[test]
    fn pairs_without_a_route_are_counted_apart() {
        let mut b = NetworkBuilder::new("apart");
        let gpus: Vec<NodeId> = (0..3)
            .map(|it| b.add_node(Node::new(it.to_string(), NodeKind::Gpu)).unwrap())
            .collect();
        b.add_duplex(gpus[0], gpus[1], spec(LinkClass::Wan)).unwrap();
        let mix = TierMix::of(&b.build().unwrap(), &gpus);
        assert_eq!((mix.pairs, mix.unreachable), ([0, 0, 0, 0, 1], 2));
    }
}
