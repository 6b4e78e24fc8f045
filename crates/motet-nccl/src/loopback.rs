//! Servers of one GPU each, on sockets: what NCCL sees when several processes on one machine each
//! claim a host of their own (`NCCL_HOSTID`, `NCCL_NET=Socket`).
//!
//! It is the cheapest way to make a real NCCL use its network code, and so the way to check this
//! model against one: compare [`NcclModel::table`](super::NcclModel::table) with its TUNING log.
//! `motet bench examples/loopback.toml --tuning` prints it.

use motet_net::{BuildError, LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration};

/// The machine to imitate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loopback {
    /// How many ranks there are; each has one GPU and is a host of its own.
    pub ranks: u32,
    /// Compute capability of the GPU: 90 for an H200.
    pub sm: u32,
    /// How many network interfaces NCCL uses on each host.
    pub interfaces: u32,
    /// The speed of each; 10 Gbit/s is what NCCL takes where the system does not say, as for `lo`.
    pub speed: Bandwidth,
    /// The CPU's vendor: `GenuineIntel`, `AuthenticAMD`.
    pub vendor: &'static str,
    /// The PCIe link of the GPU.
    pub pcie: Bandwidth,
}

impl Default for Loopback {
    fn default() -> Self {
        Self {
            ranks: 2,
            sm: 90,
            interfaces: 1,
            speed: Bandwidth::gbit_per_s(10),
            vendor: "GenuineIntel",
            pcie: Bandwidth::gb_per_s(48),
        }
    }
}

impl Loopback {
    pub fn network(&self) -> Result<Network, BuildError> {
        let mut builder = NetworkBuilder::new("loopback");
        let leaf = builder.add_node(Node::new("lo", NodeKind::Leaf))?;
        let wire = |class, rate| LinkSpec::new(class, rate, Duration::ZERO);
        for rank in 0..self.ranks {
            let host = format!("host{rank}");
            let cpu = Node::new(format!("{host}-cpu"), NodeKind::Cpu)
                .in_server(&host)
                .with_property("arch", "x86_64")
                .with_property("vendor", self.vendor);
            let cpu = builder.add_node(cpu)?;
            let gpu = Node::new(format!("{host}-gpu"), NodeKind::Gpu).in_server(&host);
            let gpu = builder.add_node(gpu.with_property("sm", self.sm.to_string()))?;
            builder.add_duplex(gpu, cpu, wire(LinkClass::Pcie, self.pcie))?;
            for interface in 0..self.interfaces {
                let nic =
                    Node::new(format!("{host}-if{interface}"), NodeKind::Nic).in_server(&host);
                let nic = builder.add_node(nic.with_property("gdr", "0"))?;
                // NCCL hangs sockets from the CPU by a link that is never the bottleneck.
                let wide = wire(LinkClass::Pcie, Bandwidth::gb_per_s(5000));
                builder.add_duplex(nic, cpu, wide)?;
                builder.add_duplex(nic, leaf, wire(LinkClass::Ethernet, self.speed))?;
            }
        }
        builder.build()
    }
}
