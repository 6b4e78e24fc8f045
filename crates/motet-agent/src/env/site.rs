//! [`Site`]: networks of servers at a given tier from each other, from a handful of numbers: what scenarios
//! draw their networks from.
//!
//! Servers are alike: GPUs on an NVSwitch or on PCIe only, NICs beside them. All pairs of servers are equally
//! far apart, so that all of a communicator's traffic between servers crosses the same tier; for networks
//! with several tiers scenarios use the templates of `motet-net`. Tier 1 is one server; at tier 2 servers
//! share a leaf, at tier 3 each has its own rack below one spine, at tier 4 its own datacenter behind a WAN.

use motet_net::{BuildError, LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind, Tier};
use motet_units::{Bandwidth, Duration, NodeId};

/// The parameters of a network of equal servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// How far servers are from each other: 2, 3 or 4; with one server it is tier 1 whatever this says.
    pub tier: Tier,
    pub servers: u32,
    /// GPUs of each server.
    pub gpus: u32,
    /// The compute capability: 90 is 9.0.
    pub sm: u32,
    /// NVLink bandwidth of a GPU; `None` if there is PCIe only.
    pub nvlink: Option<Bandwidth>,
    /// NICs of each server.
    pub nics: u32,
    pub nic: Bandwidth,
    /// Bandwidth of a server's uplink beyond its rack (tier 3) or its datacenter (tier 4).
    pub uplink: Bandwidth,
    /// Latency of a link at that tier.
    pub latency: Duration,
}

const PCIE: Bandwidth = Bandwidth::gb_per_s(48);

impl Site {
    /// Builds the network.
    pub fn network(&self) -> Result<Network, BuildError> {
        let mut builder = NetworkBuilder::new("site");
        let far = self.tier.get();
        let mut outs = Vec::new();
        for server in 0..self.servers {
            let nics = self.server(&mut builder, server)?;
            if self.servers > 1 {
                outs.push(self.out(&mut builder, server, &nics)?);
            }
        }
        let link = |class| LinkSpec::new(class, self.uplink, self.latency);
        if far == 3 && self.servers > 1 {
            let spine = builder.add_node(Node::new("spine", NodeKind::Spine))?;
            for leaf in outs {
                builder.add_duplex(leaf, spine, link(LinkClass::Ethernet))?;
            }
        } else if far == 4 {
            for (at, from) in outs.iter().enumerate() {
                for to in &outs[at + 1..] {
                    builder.add_duplex(*from, *to, link(LinkClass::Wan))?;
                }
            }
        }
        builder.build()
    }

    fn named(&self, server: u32, what: &str, kind: NodeKind) -> Node {
        let node = Node::new(format!("s{server}-{what}"), kind).in_server(format!("s{server}"));
        self.placed(node, server)
    }

    /// Puts a node into the rack and datacenter of its server.
    fn placed(&self, mut node: Node, server: u32) -> Node {
        let far = self.tier.get();
        node.location.rack = Some(format!("r{}", if far >= 3 { server } else { 0 }));
        node.location.dc = Some(format!("d{}", if far >= 4 { server } else { 0 }));
        node
    }

    /// Adds one server and returns its NICs.
    fn server(&self, builder: &mut NetworkBuilder, at: u32) -> Result<Vec<NodeId>, BuildError> {
        let pcie = LinkSpec::new(LinkClass::Pcie, PCIE, Duration::ZERO);
        let cpu = self
            .named(at, "cpu", NodeKind::Cpu)
            .with_property("arch", "x86_64")
            .with_property("vendor", "GenuineIntel");
        let cpu = builder.add_node(cpu)?;
        let switch = match self.nvlink {
            Some(_) if self.gpus > 1 => {
                Some(builder.add_node(self.named(at, "nvswitch", NodeKind::NvSwitch))?)
            }
            _ => None,
        };
        for gpu in 0..self.gpus {
            let node = self.named(at, &format!("gpu{gpu}"), NodeKind::Gpu);
            let gpu = builder.add_node(node.with_property("sm", self.sm.to_string()))?;
            builder.add_duplex(gpu, cpu, pcie)?;
            if let (Some(switch), Some(rate)) = (switch, self.nvlink) {
                let nvlink = LinkSpec::new(LinkClass::NvLink, rate, Duration::from_ns(700));
                builder.add_duplex(gpu, switch, nvlink)?;
            }
        }
        let mut nics = Vec::new();
        for nic in 0..self.nics {
            let node = self.named(at, &format!("nic{nic}"), NodeKind::Nic);
            let nic = builder.add_node(node.with_property("gdr", "1"))?;
            builder.add_duplex(nic, cpu, pcie)?;
            nics.push(nic);
        }
        Ok(nics)
    }

    /// Connects a server's NICs to the switch by which traffic leaves the server, and returns that switch:
    /// the leaf of its rack, or its datacenter's border router.
    fn out(
        &self,
        builder: &mut NetworkBuilder,
        server: u32,
        nics: &[NodeId],
    ) -> Result<NodeId, BuildError> {
        let far = self.tier.get();
        let (name, kind) = match far {
            4 => (format!("border{server}"), NodeKind::Border),
            3 => (format!("leaf{server}"), NodeKind::Leaf),
            _ => ("leaf".to_owned(), NodeKind::Leaf),
        };
        let out = match builder.find(&name) {
            Some(known) => known,
            None => builder.add_node(self.placed(Node::new(name, kind), server))?,
        };
        let latency = if far <= 2 { self.latency } else { Duration::from_ns(500) };
        for nic in nics {
            let link = LinkSpec::new(LinkClass::Ethernet, self.nic, latency);
            builder.add_duplex(*nic, out, link)?;
        }
        Ok(out)
    }
}
