//! [`Topology`]: where a communicator lies: how many ranks, how far apart, over what, and which library serves them
//! (s_topology of Fig. 14; the environment of §4, the class of cluster of §8).
//!
//! All of it is fixed while a communicator lives, apart from [`Topology::in_network`]. Next:
//! [`workload`](super::workload).

use std::collections::BTreeSet;

use motet_net::{LinkClass, Network, NodeKind, Tier, TierMix};
use motet_units::{NodeId, Rank};

use super::encoding::Row;
use crate::words::category;

category! {
    /// The family of topologies that the fabric belongs to.
    TopologyClass {
        FatTree = "fat-tree",
        BCube = "bcube",
        Jellyfish = "jellyfish",
        Torus = "torus",
        HammingMesh = "hammingmesh",
        /// SiP-ML's optical circuit switches.
        SipOcs = "sip-ocs",
        TopoOpt = "topoopt",
        /// Several of them, or none of them.
        Mixed = "mixed",
    }
}

category! {
    /// What joins GPUs inside a server.
    Intra { NvLink = "nvlink", PcieOnly = "pcie-only" }
}

category! {
    /// What joins servers.
    Inter {
        /// A communicator inside one server; Fig. 14 has no word for it.
        None = "none",
        /// An NVLink domain of several servers.
        NvSwitch256 = "nvswitch-256",
        /// NICs that reach GPU memory, over a fabric that is not said.
        GpuDirectRdma = "gpudirect-rdma",
        RoceV2 = "rocev2",
        InfiniBand = "infiniband",
        CommodityEthernet = "commodity-eth",
    }
}

category! {
    /// The library that carries collectives out: those of Fig. 9.
    Library {
        Nccl = "nccl",
        Mpi = "mpi",
        Gloo = "gloo",
        Horovod = "horovod",
        Mscclang = "mscclang",
        BlueConnect = "blueconnect",
        Blink = "blink",
        Plink = "plink",
        SparcMl = "sparcml",
        OmniReduce = "omnireduce",
        OkTopk = "ok-topk",
        CommLib = "commlib",
        DeepReduce = "deepreduce",
        Sccl = "sccl",
        Taccl = "taccl",
        /// A library that the survey does not name.
        Other = "other",
    }
}

impl Library {
    /// Whether it transfers sparse data in a sparse format ("sparse-aware: YES" in Fig. 9).
    #[must_use]
    pub const fn is_sparse_aware(self) -> bool {
        matches!(
            self,
            Self::SparcMl | Self::OmniReduce | Self::OkTopk | Self::CommLib | Self::DeepReduce
        )
    }
}

category! {
    /// Where training happens (§4).
    Environment { Datacenter = "datacenter", Edge = "edge", Federated = "fl" }
}

category! {
    /// What the cluster is made of. §8 names the feature and not its values; these are the cases of its
    /// questions 4 and 5.
    ClusterClass {
        /// Like GPUs joined by NVLink and RDMA.
        Specialized = "specialized",
        /// Ordinary Ethernet between like servers.
        Commodity = "commodity",
        /// Unlike servers, or some of them behind a slow network.
        Heterogeneous = "heterogeneous",
    }
}

/// The topology of a communicator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topology {
    /// Ranks of the communicator (cluster_size_log2_N).
    pub ranks: u32,
    pub class: TopologyClass,
    pub intra: Intra,
    pub inter: Inter,
    /// Pairs of ranks at each tier (communicator_tier_mix); the worst of them is communicator_tier_max.
    pub tiers: TierMix,
    /// Switches add gradients up by themselves (is_INA_active), as SwitchML's and ATP's do. Not NVLS or SHARP, which
    /// are algorithms of NCCL.
    pub in_network: bool,
    pub library: Library,
    pub environment: Environment,
    pub cluster: ClusterClass,
}

impl Topology {
    /// The topology of the communicator of these ranks on a network; `None` if there are no ranks or the
    /// network lacks one of them. The family of the fabric is given as `class`, because it cannot be read off
    /// a graph of links.
    #[must_use]
    pub fn of(network: &Network, ranks: &[Rank], class: TopologyClass) -> Option<Self> {
        let gpus = ranks.iter().map(|it| network.gpu(*it)).collect::<Option<Vec<NodeId>>>()?;
        let first = *gpus.first()?;
        let tiers = TierMix::of(network, &gpus);
        let worst = tiers.worst().map_or(0, Tier::get);
        let several = match server(network, first) {
            // Where servers are not known, GPUs farther apart than NVLink count as being in different ones.
            None => worst > 1,
            named => gpus.iter().any(|it| server(network, *it) != named),
        };
        let of_gpus = |it: &NodeId| network.outgoing(*it).iter().map(|it| network.link(*it));
        let nvlink = gpus.iter().all(|it| {
            of_gpus(it).any(|it| matches!(it.spec.class, LinkClass::NvLink | LinkClass::Xgmi))
        });
        let inter = match several {
            false => Inter::None,
            true if worst <= 1 => Inter::NvSwitch256,
            true => outward(network, &gpus),
        };
        let cluster = match inter {
            _ if worst == 4 => ClusterClass::Heterogeneous,
            Inter::CommodityEthernet => ClusterClass::Commodity,
            _ if nvlink => ClusterClass::Specialized,
            _ => ClusterClass::Commodity,
        };
        Some(Self {
            ranks: u32::try_from(gpus.len()).ok()?,
            class,
            intra: if nvlink { Intra::NvLink } else { Intra::PcieOnly },
            inter,
            tiers,
            in_network: false,
            library: Library::Nccl,
            environment: Environment::Datacenter,
            cluster,
        })
    }

    /// The worst tier of any pair (communicator_tier_max); `None` with fewer than two ranks.
    #[must_use]
    pub fn worst_tier(&self) -> Option<Tier> {
        self.tiers.worst()
    }

    pub(super) fn encode(&self, row: &mut Row) {
        row.log2("topology.ranks", u64::from(self.ranks), 17);
        row.one_hot("topology.class", self.class.index(), TopologyClass::ALL, |it| it.name());
        row.one_hot("topology.intra", self.intra.index(), Intra::ALL, |it| it.name());
        row.one_hot("topology.inter", self.inter.index(), Inter::ALL, |it| it.name());
        let worst = self.worst_tier().map_or(Tier::COUNT, Tier::index);
        let names = ["0", "1", "2", "3", "4", "none"];
        row.one_hot("topology.tier_max", worst, &names, |it| it);
        for (share, name) in self.tiers.shares().into_iter().zip(names) {
            row.share_of("topology.tier_mix", name, share);
        }
        let all = self.tiers.pairs.iter().sum::<u64>() + self.tiers.unreachable;
        row.share_of(
            "topology.tier_mix",
            "unreachable",
            self.tiers.unreachable as f64 / all.max(1) as f64,
        );
        row.flag("topology.in_network", self.in_network);
        row.one_hot("topology.library", self.library.index(), Library::ALL, |it| it.name());
        let environment = self.environment.index();
        row.one_hot("topology.environment", environment, Environment::ALL, |it| it.name());
        row.one_hot("topology.cluster", self.cluster.index(), ClusterClass::ALL, |it| it.name());
    }
}

fn server(network: &Network, node: NodeId) -> Option<&str> {
    network.node(node).location.server.as_deref()
}

/// How the servers of these GPUs are connected: the slowest kind of the links that leave them.
fn outward(network: &Network, gpus: &[NodeId]) -> Inter {
    let servers: BTreeSet<&str> = gpus.iter().filter_map(|it| server(network, *it)).collect();
    let alone: BTreeSet<NodeId> =
        gpus.iter().copied().filter(|it| server(network, *it).is_none()).collect();
    let leaves = |from: NodeId, to: NodeId| match server(network, from) {
        Some(name) => servers.contains(name) && server(network, to) != Some(name),
        None => alone.contains(&from),
    };
    let leaving = network.links().iter().filter(|it| leaves(it.from, it.to));
    let kinds: BTreeSet<Inter> = leaving
        .filter_map(|it| match it.spec.class {
            LinkClass::InfiniBand => Some(Inter::InfiniBand),
            LinkClass::Roce => Some(Inter::RoceV2),
            LinkClass::Ethernet | LinkClass::Wan => Some(Inter::CommodityEthernet),
            // A fabric that is not named, out of a NIC.
            _ if network.node(it.from).kind == NodeKind::Nic => Some(Inter::GpuDirectRdma),
            _ => None,
        })
        .collect();
    let slowest =
        [Inter::CommodityEthernet, Inter::GpuDirectRdma, Inter::RoceV2, Inter::InfiniBand];
    let found = slowest.into_iter().find(|it| kinds.contains(it));
    found.unwrap_or(Inter::CommodityEthernet)
}

#[cfg(test)]
mod tests {
    use motet_net::builders::{Params, find};
    use motet_net::{LinkSpec, NetworkBuilder, Node};
    use motet_units::{Bandwidth, Duration};

    use super::*;

    fn of(kind: &str, words: &[&str], ranks: u32) -> Topology {
        let network = find(kind).unwrap().build(&Params::from_words(words).unwrap()).unwrap();
        let ranks: Vec<Rank> = (0..ranks).map(Rank).collect();
        Topology::of(&network, &ranks, TopologyClass::FatTree).unwrap()
    }

    #[test]
    fn a_network_says_where_a_communicator_lies() {
        let inside = of("dgx-h100", &["count=2"], 8);
        assert_eq!((inside.intra, inside.inter), (Intra::NvLink, Inter::None));
        assert_eq!(inside.worst_tier(), Tier::new(1));
        let across = of("dgx-h100", &["count=2"], 16);
        assert_eq!((across.intra, across.inter), (Intra::NvLink, Inter::InfiniBand));
        assert_eq!((across.ranks, across.cluster), (16, ClusterClass::Specialized));
        assert!(across.worst_tier() > inside.worst_tier());
        // One server's GPUs are no concern of another's network.
        assert_eq!(of("dgx-h100", &["count=4"], 8), inside);
        assert_eq!(across.tiers.pairs.iter().sum::<u64>(), 16 * 15 / 2);
    }

    /// Two GPUs without a server, joined as said.
    fn pair(class: LinkClass) -> Topology {
        let mut builder = NetworkBuilder::new("pair");
        let mut gpu = |name: &str| builder.add_node(Node::new(name, NodeKind::Gpu)).unwrap();
        let (a, b) = (gpu("a"), gpu("b"));
        let link = LinkSpec::new(class, Bandwidth::gb_per_s(1), Duration::ZERO);
        builder.add_duplex(a, b, link).unwrap();
        let network = builder.build().unwrap();
        Topology::of(&network, &[Rank(0), Rank(1)], TopologyClass::Mixed).unwrap()
    }

    #[test]
    fn links_say_what_joins_servers() {
        let found = |class| (pair(class).intra, pair(class).inter, pair(class).cluster);
        let commodity = ClusterClass::Commodity;
        assert_eq!(
            found(LinkClass::NvLink),
            (Intra::NvLink, Inter::None, ClusterClass::Specialized)
        );
        assert_eq!(found(LinkClass::Roce), (Intra::PcieOnly, Inter::RoceV2, commodity));
        assert_eq!(
            found(LinkClass::Ethernet),
            (Intra::PcieOnly, Inter::CommodityEthernet, commodity)
        );
        let far = (Intra::PcieOnly, Inter::CommodityEthernet, ClusterClass::Heterogeneous);
        assert_eq!(found(LinkClass::Wan), far);
    }

    #[test]
    fn ranks_that_a_network_lacks_have_no_topology() {
        let network =
            find("dgx-h100").unwrap().build(&Params::from_words(["count=1"]).unwrap()).unwrap();
        assert_eq!(Topology::of(&network, &[Rank(0), Rank(8)], TopologyClass::Mixed), None);
        assert_eq!(Topology::of(&network, &[], TopologyClass::Mixed), None);
    }
}
