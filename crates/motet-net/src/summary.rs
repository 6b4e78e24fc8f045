//! [`Summary`]: a network in a few numbers, as `motet net show` prints it. Its field names are
//! those of the command's JSON and stay.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::{Bandwidth, NodeId};
use serde::{Serialize, Serializer};

use crate::components;
use crate::link::LinkClass;
use crate::network::Network;
use crate::node::{Location, NodeKind};
use crate::signature::Signature;
use crate::tier::Tier;
use crate::tier_mix::TierMix;

/// A network in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The name of the network.
    pub name: String,
    /// Its identity.
    pub signature: Signature,
    /// How many GPUs have ranks.
    pub ranks: usize,
    /// How many nodes there are.
    pub nodes: usize,
    /// Directed.
    pub links: usize,
    /// Distinct names among the places of nodes.
    pub servers: usize,
    /// How many racks are named.
    pub racks: usize,
    /// How many datacenters are named.
    pub dcs: usize,
    /// Weakly connected.
    pub components: usize,
    /// Whether every rank reaches every other along links.
    pub ranks_connected: bool,
    /// The kinds that occur, in the order of [`NodeKind::ALL`].
    pub kinds: Vec<KindCount>,
    /// The classes that occur, in the order of [`LinkClass::ALL`].
    pub classes: Vec<ClassSummary>,
    /// How far apart its ranks are.
    pub tiers: TierSummary,
}

/// How many nodes are of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindCount {
    /// The kind of node.
    pub kind: &'static str,
    /// How many of it there are.
    pub count: usize,
}

/// The links of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSummary {
    /// The class of links.
    pub class: &'static str,
    /// Directed links.
    pub links: usize,
    /// Pairs of nodes joined both ways, however many links there are between them.
    pub connections: usize,
    /// Pairs of nodes joined one way only.
    pub one_way: usize,
    /// Physical lanes (NVLinks, say), those of the two directions counted once: of each pair of
    /// nodes the lanes of the direction that has more.
    pub lanes: u64,
    /// What one GPU can send over its links of this class; `None` if no GPU has one.
    pub gpu_bandwidth: Option<BandwidthSpread>,
}

/// The least and the most over all GPUs, those without such a link included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandwidthSpread {
    /// In JSON as gigabytes (10⁹) per second.
    #[serde(rename = "min_gbps", serialize_with = "as_gbps")]
    pub min: Bandwidth,
    /// The greatest.
    #[serde(rename = "max_gbps", serialize_with = "as_gbps")]
    pub max: Bandwidth,
}

/// How far apart the ranks are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierSummary {
    /// Pairs of ranks at tiers 0 to 4.
    pub pairs: [u64; Tier::COUNT],
    /// Pairs with no way between them.
    pub unreachable: u64,
    /// The worst tier of any pair; `None` if no pair has a way.
    pub worst: Option<u8>,
}

fn as_gbps<S: Serializer>(bandwidth: &Bandwidth, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(bandwidth.as_gb_per_s_f64())
}

impl Summary {
    /// The summary of a network.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let kinds = NodeKind::ALL
            .map(|kind| KindCount { kind: kind.name(), count: network.count(kind) })
            .into_iter()
            .filter(|it| it.count > 0);
        let mix = TierMix::of(network, network.ranks());
        Self {
            name: network.name().to_owned(),
            signature: Signature::of(network),
            ranks: network.ranks().len(),
            nodes: network.nodes().len(),
            links: network.links().len(),
            servers: places(network, |it| it.server.as_deref()),
            racks: places(network, |it| it.rack.as_deref()),
            dcs: places(network, |it| it.dc.as_deref()),
            components: components::weak(network).1,
            ranks_connected: components::reach_each_other(network, network.ranks()),
            kinds: kinds.collect(),
            classes: classes(network),
            tiers: TierSummary {
                pairs: mix.pairs,
                unreachable: mix.unreachable,
                worst: mix.worst().map(Tier::get),
            },
        }
    }

    /// How many nodes are of this kind.
    #[must_use]
    pub fn count(&self, kind: NodeKind) -> usize {
        self.kinds.iter().find(|it| it.kind == kind.name()).map_or(0, |it| it.count)
    }

    /// The links of this class, if there are any.
    #[must_use]
    pub fn class(&self, class: LinkClass) -> Option<&ClassSummary> {
        self.classes.iter().find(|it| it.class == class.name())
    }
}

fn places(network: &Network, place: impl Fn(&Location) -> Option<&str>) -> usize {
    network.nodes().iter().filter_map(|it| place(&it.location)).collect::<BTreeSet<_>>().len()
}

/// The lanes between two nodes, from the lower id to the higher and back.
#[derive(Default)]
struct Between {
    up: u64,
    down: u64,
}

fn classes(network: &Network) -> Vec<ClassSummary> {
    let mut pairs: BTreeMap<(LinkClass, NodeId, NodeId), Between> = BTreeMap::new();
    let mut links: BTreeMap<LinkClass, usize> = BTreeMap::new();
    for link in network.links() {
        let class = link.spec.class;
        *links.entry(class).or_default() += 1;
        let (low, high) = (link.from.min(link.to), link.from.max(link.to));
        let between = pairs.entry((class, low, high)).or_default();
        let lanes = if link.from == low { &mut between.up } else { &mut between.down };
        // A link that says zero lanes still is one.
        *lanes += u64::from(link.spec.lanes.max(1));
    }
    let summary = |(class, links): (LinkClass, usize)| {
        let of_class = (class, NodeId(0), NodeId(0))..=(class, NodeId(u32::MAX), NodeId(u32::MAX));
        let mut summary = ClassSummary {
            class: class.name(),
            links,
            connections: 0,
            one_way: 0,
            lanes: 0,
            gpu_bandwidth: gpu_bandwidth(network, class),
        };
        for (_, between) in pairs.range(of_class) {
            let duplex = between.up > 0 && between.down > 0;
            summary.connections += usize::from(duplex);
            summary.one_way += usize::from(!duplex);
            summary.lanes += between.up.max(between.down);
        }
        summary
    };
    // `LinkClass` is ordered as in `ALL`.
    links.into_iter().map(summary).collect()
}

fn gpu_bandwidth(network: &Network, class: LinkClass) -> Option<BandwidthSpread> {
    let sends = |gpu: &NodeId| {
        let specs = network.outgoing(*gpu).iter().map(|it| network.link(*it).spec);
        specs
            .filter(|it| it.class == class)
            .fold(Bandwidth::ZERO, |sum, it| sum.saturating_add(it.bandwidth))
    };
    let all: Vec<Bandwidth> = network.ranks().iter().map(sends).collect();
    let (min, max) = (*all.iter().min()?, *all.iter().max()?);
    (!max.is_zero()).then_some(BandwidthSpread { min, max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkSpec;
    use crate::network::NetworkBuilder;
    use crate::node::Node;
    use crate::testing::{multigraph, rings};
    use motet_units::Duration;
    use proptest::prelude::*;

    /// Two servers of two GPUs each; NVLink doubled by lanes in one, by parallel links in the other.
    fn pairs() -> Network {
        let mut b = NetworkBuilder::new("pairs");
        let leaf = b.add_node(Node::new("leaf", NodeKind::Leaf).in_rack("r")).unwrap();
        let nvlink = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(25), Duration::ZERO);
        let double = LinkSpec { bandwidth: Bandwidth::gb_per_s(50), ..nvlink.with_lanes(2) };
        let roce = LinkSpec::new(LinkClass::Roce, Bandwidth::gb_per_s(10), Duration::ZERO);
        for server in ["s", "t"] {
            let ids: Vec<NodeId> = (0..2)
                .map(|it| {
                    let node = Node::new(format!("{server}{it}"), NodeKind::Gpu);
                    b.add_node(node.in_server(server).in_rack("r")).unwrap()
                })
                .collect();
            if server == "s" {
                b.add_duplex(ids[0], ids[1], double).unwrap();
            } else {
                b.add_duplex(ids[0], ids[1], nvlink).unwrap();
                b.add_duplex(ids[1], ids[0], nvlink).unwrap();
            }
            b.add_duplex(ids[0], leaf, roce).unwrap();
        }
        b.build().unwrap()
    }

    #[test]
    fn counts_and_bandwidths() {
        let summary = Summary::of(&pairs());
        let nvlink = summary.class(LinkClass::NvLink).unwrap();
        assert_eq!((nvlink.links, nvlink.connections, nvlink.lanes), (6, 2, 4));
        let fifty = Bandwidth::gb_per_s(50);
        assert_eq!(nvlink.gpu_bandwidth, Some(BandwidthSpread { min: fifty, max: fifty }));
        let roce = summary.class(LinkClass::Roce).unwrap();
        let ten = Bandwidth::gb_per_s(10);
        assert_eq!(roce.gpu_bandwidth, Some(BandwidthSpread { min: Bandwidth::ZERO, max: ten }));
        assert_eq!((summary.count(NodeKind::Gpu), summary.count(NodeKind::Spine)), (4, 0));
        assert_eq!((summary.servers, summary.racks, summary.dcs), (2, 1, 0));
        assert_eq!(summary.tiers.pairs, [0, 2, 4, 0, 0]);
        assert!(summary.ranks_connected && summary.components == 1);
    }

    /// The JSON is what other tools read: its names and shape stay.
    #[test]
    fn json_is_stable() {
        let mut summary = Summary::of(&pairs());
        summary.signature = "0".repeat(32).parse().unwrap();
        summary.classes.truncate(1);
        let json = serde_json::to_string_pretty(&summary).unwrap();
        insta::assert_snapshot!(json, @r#"
        {
          "name": "pairs",
          "signature": "00000000000000000000000000000000",
          "ranks": 4,
          "nodes": 5,
          "links": 10,
          "servers": 2,
          "racks": 1,
          "dcs": 0,
          "components": 1,
          "ranks_connected": true,
          "kinds": [
            {
              "kind": "gpu",
              "count": 4
            },
            {
              "kind": "leaf",
              "count": 1
            }
          ],
          "classes": [
            {
              "class": "nvlink",
              "links": 6,
              "connections": 2,
              "one_way": 0,
              "lanes": 4,
              "gpu_bandwidth": {
                "min_gbps": 50.0,
                "max_gbps": 50.0
              }
            }
          ],
          "tiers": {
            "pairs": [
              0,
              2,
              4,
              0,
              0
            ],
            "unreachable": 0,
            "worst": 2
          }
        }
        "#);
    }

    #[test]
    fn one_way_links_do_not_connect_ranks() {
        let two = Summary::of(&rings(&[3, 3], NodeKind::Gpu));
        assert_eq!((two.components, two.ranks_connected), (2, false));
        let mut b = NetworkBuilder::new("one way");
        let ids: Vec<NodeId> =
            ["a", "b"].map(|it| b.add_node(Node::new(it, NodeKind::Gpu)).unwrap()).to_vec();
        let spec = LinkSpec::new(LinkClass::Xgmi, Bandwidth::gb_per_s(1), Duration::ZERO);
        b.add_link(ids[0], ids[1], spec).unwrap();
        let summary = Summary::of(&b.build().unwrap());
        assert_eq!((summary.components, summary.ranks_connected), (1, false));
        let xgmi = summary.class(LinkClass::Xgmi).unwrap();
        assert_eq!((xgmi.connections, xgmi.one_way, xgmi.lanes), (0, 1, 1));
    }

    proptest! {
        #[test]
        fn parts_add_up(network in multigraph(8, 20)) {
            let summary = Summary::of(&network);
            prop_assert_eq!(summary.kinds.iter().map(|it| it.count).sum::<usize>(), summary.nodes);
            prop_assert_eq!(summary.classes.iter().map(|it| it.links).sum::<usize>(), summary.links);
            // Reaching each other is what all searches that may pass anywhere say.
            let search = crate::Search::new(&network, crate::Metric::Hops).through(crate::Transit::All);
            let all = network.ranks().iter().all(|from| {
                let found = search.all_from(*from);
                network.ranks().iter().all(|to| found.cost(*to).is_some())
            });
            prop_assert_eq!(summary.ranks_connected, all);
        }
    }
}
