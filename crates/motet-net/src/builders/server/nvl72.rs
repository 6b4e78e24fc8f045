//! GB200 and GB300 NVL72: a rack of trays, each with 4 GPUs, 2 Grace CPUs and 4 NICs, all GPUs on
//! one NVLink domain.
//!
//! The NVLink domain is wider than a server: trays are the servers, the rack is the domain.
//! Defaults: 18 NVLinks of generation 5 at 50 GB/s, 900 GB/s a GPU; a 400 Gbit/s NIC
//! (ConnectX-7) for each GPU, 800 Gbit/s (ConnectX-8) in a GB300; PCIe generation 5 at NCCL's
//! 48 GB/s; NVLink-C2C at 225 GB/s each way between a GPU and the Grace it shares with another.

use motet_units::NodeId;

use super::{COUNT, DETAIL, FABRIC, NIC_LATENCY, PCIE_LATENCY, join};
use crate::builders::assembly::{Assembly, Place, Port, PortUse};
use crate::builders::common::DC;
use crate::builders::template::{Args, Family, Param, ParamKind, Template, TemplateError};
use crate::in_network::InNetwork;
use crate::link::{LinkClass, LinkSpec};
use crate::node::{Node, NodeKind};

/// GPUs, CPUs and NICs of a tray.
const TRAY_GPUS: usize = 4;
const TRAY_CPUS: usize = 2;
const LANES: u32 = 18;

/// A rack of this kind; generations differ in their NICs.
macro_rules! nvl72 {
    ($const:ident, $name:literal, $doc:literal, nic = $nic:literal) => {
        pub(in super::super) const $const: Template = Template {
            name: $name,
            family: Family::Server,
            doc: $doc,
            params: &[
                COUNT,
                Param::count(
                    "trays",
                    (1, 144),
                    "18",
                    "how many trays of 4 GPUs share the NVLink domain",
                ),
                DETAIL,
                FABRIC,
                Param::new("nic", ParamKind::Bandwidth, $nic, "the rate of each NIC"),
                NIC_LATENCY,
                Param::new(
                    "nvlink",
                    ParamKind::Bandwidth,
                    "900 GB/s",
                    "the rate of all NVLinks of a GPU",
                ),
                Param::new(
                    "nvlink-latency",
                    ParamKind::Latency,
                    "150 ns",
                    "between a GPU and the NVSwitches: half of the way from GPU to GPU",
                ),
                Param::new(
                    "c2c",
                    ParamKind::Bandwidth,
                    "225 GB/s",
                    "the rate between a GPU and its CPU",
                ),
                Param::new("pcie", ParamKind::Bandwidth, "48 GB/s", "the rate of each PCIe link"),
                PCIE_LATENCY,
                Param::new(
                    "smp",
                    ParamKind::Bandwidth,
                    "40 GB/s",
                    "the rate between the CPUs of a tray",
                ),
                Param::new(
                    "nvls",
                    ParamKind::Flag,
                    "true",
                    "whether programs may ask the NVSwitches to copy and reduce (NVLink SHARP)",
                ),
                Param::new(
                    "name",
                    ParamKind::Text,
                    "nvl",
                    "racks are called this and a number: nvl0; their nodes nvl0-gpu0, nvl0-nic0",
                ),
                DC,
            ],
            build,
        };
    };
}

nvl72!(
    GB200_NVL72,
    "gb200-nvl72",
    "GB200 NVL72: 18 trays of 4 GPUs on one NVLink domain, a NIC for each GPU",
    nic = "400 Gbit/s"
);
nvl72!(
    GB300_NVL72,
    "gb300-nvl72",
    "GB300 NVL72: 18 trays of 4 GPUs on one NVLink domain, an 800 Gbit/s NIC for each GPU",
    nic = "800 Gbit/s"
);

fn build(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (count, trays) = (args.count("count")?, args.count("trays")?);
    let gpus = trays * TRAY_GPUS;
    let (nodes, links) = match args.text("detail")?.as_str() {
        "full" => (2 * gpus + trays * TRAY_CPUS, 3 * gpus + trays),
        "nics" => (2 * gpus, 2 * gpus),
        _ => (gpus, gpus),
    };
    assembly.reserve((count * (nodes + 1)) as u128, (count * 2 * links) as u128)?;
    let place = Place::of(args)?;
    for _ in 0..count {
        let (number, server) = assembly.next_server(&place.prefix);
        let rack = Rack { args, dc: place.dc.clone(), name: format!("{}{number}", place.prefix) };
        rack.add(assembly, trays, server)?;
    }
    join(assembly, args)
}

/// One rack in the making.
struct Rack<'a> {
    args: &'a Args,
    dc: Option<String>,
    name: String,
}

impl Rack<'_> {
    fn node(&self, name: String, kind: NodeKind) -> Node {
        let mut node = Node::new(format!("{}-{name}", self.name), kind).in_rack(&self.name);
        node.location.dc.clone_from(&self.dc);
        node
    }

    fn add(
        &self,
        assembly: &mut Assembly<'_>,
        trays: usize,
        server: usize,
    ) -> Result<(), TemplateError> {
        let mut switch = self.node("nvswitch".to_owned(), NodeKind::NvSwitch);
        if self.args.flag("nvls")? {
            switch.in_network = InNetwork::NVLS;
        }
        let mut gpus = Vec::with_capacity(trays * TRAY_GPUS);
        for index in 0..trays * TRAY_GPUS {
            let tray = format!("{}-tray{}", self.name, index / TRAY_GPUS);
            let gpu = self.node(format!("gpu{index}"), NodeKind::Gpu).in_server(tray);
            gpus.push(assembly.builder.add_node(gpu)?);
        }
        let switch = assembly.builder.add_node(switch)?;
        let rate = self.args.bandwidth("nvlink")?;
        let latency = self.args.latency("nvlink-latency")?;
        let nvlink = LinkSpec::new(LinkClass::NvLink, rate, latency).with_lanes(LANES);
        for gpu in &gpus {
            assembly.builder.add_duplex(*gpu, switch, nvlink)?;
        }
        for (tray, gpus) in gpus.chunks(TRAY_GPUS).enumerate() {
            self.open_tray(assembly, tray, gpus, server)?;
        }
        Ok(())
    }

    /// The ports of a tray, with what stands between them and the GPUs at this detail.
    fn open_tray(
        &self,
        assembly: &mut Assembly<'_>,
        tray: usize,
        gpus: &[NodeId],
        server: usize,
    ) -> Result<(), TemplateError> {
        let detail = self.args.text("detail")?;
        let bandwidth = self.args.bandwidth("nic")?;
        let pcie = self.args.latency("pcie-latency")?;
        let mut latency = self.args.latency("nic-latency")?;
        let mut nodes = gpus.to_vec();
        if detail == "flat" {
            latency = latency + pcie + pcie;
        } else {
            let name = format!("{}-tray{tray}", self.name);
            let mut add = |kind: &str, count: usize, what: NodeKind| {
                let made = (0..count).map(|it| {
                    let node = self.node(format!("{kind}{}", tray * count + it), what);
                    assembly.builder.add_node(node.in_server(&name))
                });
                made.collect::<Result<Vec<NodeId>, _>>()
            };
            nodes = add("nic", TRAY_GPUS, NodeKind::Nic)?;
            let cpus = add("cpu", if detail == "full" { TRAY_CPUS } else { 0 }, NodeKind::Cpu)?;
            self.wire_tray(assembly, gpus, &nodes, &cpus)?;
        }
        for (rail, node) in nodes.into_iter().enumerate() {
            assembly.open(Port { node, bandwidth, latency, server, rail, carries: PortUse::Both });
        }
        Ok(())
    }

    fn wire_tray(
        &self,
        assembly: &mut Assembly<'_>,
        gpus: &[NodeId],
        nics: &[NodeId],
        cpus: &[NodeId],
    ) -> Result<(), TemplateError> {
        let latency = self.args.latency("pcie-latency")?;
        if cpus.is_empty() {
            let nic = self.args.bandwidth("nic")?;
            let spec = LinkSpec::new(LinkClass::Pcie, nic, latency + latency);
            for (gpu, nic) in gpus.iter().zip(nics) {
                assembly.builder.add_duplex(*gpu, *nic, spec)?;
            }
            return Ok(());
        }
        let c2c = LinkSpec::new(LinkClass::C2c, self.args.bandwidth("c2c")?, latency);
        let pcie = LinkSpec::new(LinkClass::Pcie, self.args.bandwidth("pcie")?, latency);
        for (nodes, spec) in [(gpus, c2c), (nics, pcie)] {
            for (index, node) in nodes.iter().enumerate() {
                let cpu = cpus[index * cpus.len() / nodes.len()];
                assembly.builder.add_duplex(*node, cpu, spec)?;
            }
        }
        let smp = LinkSpec::new(LinkClass::Smp, self.args.bandwidth("smp")?, latency);
        for pair in cpus.windows(2) {
            assembly.builder.add_duplex(pair[0], pair[1], smp)?;
        }
        Ok(())
    }
}
