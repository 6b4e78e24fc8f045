//! How a [`Model`] becomes nodes, links and open ports.

use motet_units::{Bandwidth, Duration, NodeId};

use super::join;
use super::models::{Inside, Model};
use crate::builders::assembly::{Assembly, Place, Port, PortUse};
use crate::builders::template::{Args, TemplateError};
use crate::in_network::InNetwork;
use crate::link::{LinkClass, LinkSpec};
use crate::node::{Node, NodeKind};

/// One server of a template in the making.
struct Server<'a> {
    model: &'a Model,
    args: &'a Args,
    place: &'a Place,
    /// Its name, and its number over the whole assembly.
    name: String,
    server: usize,
    rack: Option<String>,
    nics: usize,
}

pub(super) fn build(
    assembly: &mut Assembly<'_>,
    args: &Args,
    model: &Model,
) -> Result<(), TemplateError> {
    let count = args.count("count")?;
    let whole = model;
    // Only boxes whose GPUs are all alike have the parameter.
    let model = &whole.with_gpus(args.count("gpus").unwrap_or(whole.gpus));
    let mut nics = args.count("nics")?;
    if !args.given("nics") && model.gpus < whole.gpus {
        // GPUs that stay out leave their NICs unused too.
        nics = (nics * model.gpus / whole.gpus).max(1);
    }
    if nics > 0 && !model.gpus.is_multiple_of(nics) {
        let problem = format!("{nics} NICs do not divide the {} GPUs", model.gpus);
        let fits = (1..=nics).rev().find(|it| model.gpus.is_multiple_of(*it)).unwrap_or(1);
        return Err(TemplateError::of("nics", problem).with_remedy(format!("try `nics={fits}`")));
    }
    let (nodes, links) = size(model, nics, &args.text("detail")?);
    assembly.reserve((count * nodes) as u128, (count * links) as u128)?;
    let place = Place::of(args)?;
    let rack = Some(args.text("rack")?).filter(|it| !it.is_empty());
    for _ in 0..count {
        let (number, server) = assembly.next_server(&place.prefix);
        let name = format!("{}{number}", place.prefix);
        let rack = rack.clone();
        Server { model, args, place: &place, name, server, rack, nics }.add(assembly)?;
    }
    join(assembly, args)
}

/// Nodes and links of one box, without what a fabric adds.
fn size(model: &Model, nics: usize, detail: &str) -> (usize, usize) {
    let (switches, inside) = match model.inside {
        Inside::Switch { .. } => (1, model.gpus),
        Inside::Wires(_) => (0, model.wires().count()),
    };
    let (nodes, links) = match detail {
        "full" => {
            let (switches, cpus) = (model.pcie_switches, model.cpus);
            (switches + cpus + nics, model.gpus + nics + switches + cpus * (cpus - 1) / 2)
        }
        "nics" => (nics, if nics == 0 { 0 } else { model.gpus }),
        _ => (0, 0),
    };
    (model.gpus + switches + nodes, 2 * (inside + links))
}

impl Server<'_> {
    fn add(&self, assembly: &mut Assembly<'_>) -> Result<(), TemplateError> {
        let gpus = self.add_nodes(assembly, "gpu", NodeKind::Gpu, self.model.gpus)?;
        self.join_gpus(assembly, &gpus)?;
        match self.args.text("detail")?.as_str() {
            "full" => self.add_pcie(assembly, &gpus),
            "nics" => self.add_nics(assembly, &gpus),
            _ => self.open_gpus(assembly, &gpus),
        }
    }

    fn node(&self, name: &str, kind: NodeKind) -> Node {
        let mut node = Node::new(format!("{}-{name}", self.name), kind).in_server(&self.name);
        node.location.rack.clone_from(&self.rack);
        node.location.dc.clone_from(&self.place.dc);
        node
    }

    fn add_nodes(
        &self,
        assembly: &mut Assembly<'_>,
        name: &str,
        kind: NodeKind,
        count: usize,
    ) -> Result<Vec<NodeId>, TemplateError> {
        let nodes = (0..count).map(|it| self.node(&format!("{name}{it}"), kind));
        Ok(nodes.map(|it| assembly.builder.add_node(it)).collect::<Result<_, _>>()?)
    }

    fn join_gpus(&self, assembly: &mut Assembly<'_>, gpus: &[NodeId]) -> Result<(), TemplateError> {
        let rate = self.args.bandwidth(self.model.link)?;
        let latency = self.args.latency("nvlink-latency")?;
        match self.model.inside {
            Inside::Switch { lanes } => {
                // The box has 6 to 12 NVSwitch chips (4 since Hopper), and every GPU spreads its
                // lanes evenly over all of them: seen from outside they are one switch that never
                // blocks, so one node stands for them and the links carry all lanes.
                let mut switch = self.node("nvswitch", NodeKind::NvSwitch);
                if self.args.flag("nvls").unwrap_or(false) {
                    switch.in_network = InNetwork::NVLS;
                }
                let switch = assembly.builder.add_node(switch)?;
                let spec = LinkSpec::new(LinkClass::NvLink, rate, latency).with_lanes(lanes);
                for gpu in gpus {
                    assembly.builder.add_duplex(*gpu, switch, spec)?;
                }
            }
            Inside::Wires(_) => {
                for (a, b, lanes, package) in self.model.wires() {
                    let class = match (package, self.model.link) {
                        (true, _) => LinkClass::Die,
                        (false, "xgmi") => LinkClass::Xgmi,
                        (false, _) => LinkClass::NvLink,
                    };
                    let all = rate.saturating_mul(u64::from(*lanes));
                    let spec = LinkSpec::new(class, all, latency).with_lanes(*lanes);
                    let (a, b) = (gpus[usize::from(*a)], gpus[usize::from(*b)]);
                    assembly.builder.add_duplex(a, b, spec)?;
                }
            }
        }
        Ok(())
    }

    /// Flat: the GPUs themselves are the ports.
    fn open_gpus(&self, assembly: &mut Assembly<'_>, gpus: &[NodeId]) -> Result<(), TemplateError> {
        if self.nics == 0 {
            return Ok(());
        }
        let nic = self.args.bandwidth("nic")?;
        let pcie = self.args.latency("pcie-latency")?;
        let latency = self.args.latency("nic-latency")? + pcie + pcie;
        let sharing = gpus.len() / self.nics;
        let relay = self.args.text("attach")? == "relay";
        if relay && sharing < 2 {
            let problem = "`relay` needs a NIC shared by at least two GPUs";
            return Err(TemplateError::of("attach", problem).with_remedy("use `share`"));
        }
        let share = Bandwidth::from_bits_per_s((nic.bits_per_s() / sharing as u64).max(1));
        for (rail, group) in gpus.chunks(sharing).enumerate() {
            let port = |node: NodeId, bandwidth: Bandwidth, carries: PortUse| Port {
                node,
                bandwidth,
                latency,
                server: self.server,
                rail,
                carries,
            };
            if relay {
                let (sends, receives) = self.model.relay;
                assembly.open(port(group[sends], nic, PortUse::Send));
                assembly.open(port(group[receives], nic, PortUse::Receive));
            } else {
                for gpu in group {
                    assembly.open(port(*gpu, share, PortUse::Both));
                }
            }
        }
        Ok(())
    }

    /// NIC nodes as ports, joined to their GPUs at their own rate: PCIe is not drawn.
    fn add_nics(&self, assembly: &mut Assembly<'_>, gpus: &[NodeId]) -> Result<(), TemplateError> {
        let nics = self.open_nics(assembly)?;
        let pcie = self.args.latency("pcie-latency")?;
        let spec = LinkSpec::new(LinkClass::Pcie, self.args.bandwidth("nic")?, pcie + pcie);
        for (gpu, node) in gpus.iter().enumerate().filter(|_| !nics.is_empty()) {
            let nic = nics[gpu * nics.len() / gpus.len()];
            assembly.builder.add_duplex(*node, nic, spec)?;
        }
        Ok(())
    }

    fn add_pcie(&self, assembly: &mut Assembly<'_>, gpus: &[NodeId]) -> Result<(), TemplateError> {
        let latency = self.args.latency("pcie-latency")?;
        let pcie = LinkSpec::new(LinkClass::Pcie, self.args.bandwidth("pcie")?, latency);
        let smp = LinkSpec::new(LinkClass::Smp, self.args.bandwidth("smp")?, latency);
        let count = self.model.pcie_switches;
        let switches = self.add_nodes(assembly, "pcie", NodeKind::PcieSwitch, count)?;
        let cpus = self.add_nodes(assembly, "cpu", NodeKind::Cpu, self.model.cpus)?;
        let nics = self.open_nics(assembly)?;
        // Devices are spread evenly, in order: a GPU and its NIC share a PCIe switch.
        let tree = match switches.as_slice() {
            [] => {
                let c2c = LinkSpec::new(LinkClass::C2c, self.args.bandwidth("c2c")?, latency);
                [(gpus, &cpus, c2c), (&nics, &cpus, pcie), (&switches, &cpus, pcie)]
            }
            _ => [(gpus, &switches, pcie), (&nics, &switches, pcie), (&switches, &cpus, pcie)],
        };
        for (below, above, spec) in tree {
            for (index, node) in below.iter().enumerate() {
                let parent = above[index * above.len() / below.len()];
                assembly.builder.add_duplex(*node, parent, spec)?;
            }
        }
        for (index, a) in cpus.iter().enumerate() {
            for b in &cpus[index + 1..] {
                assembly.builder.add_duplex(*a, *b, smp)?;
            }
        }
        Ok(())
    }

    fn open_nics(&self, assembly: &mut Assembly<'_>) -> Result<Vec<NodeId>, TemplateError> {
        let bandwidth = self.args.bandwidth("nic")?;
        let latency: Duration = self.args.latency("nic-latency")?;
        let nics = self.add_nodes(assembly, "nic", NodeKind::Nic, self.nics)?;
        for (rail, node) in nics.iter().enumerate() {
            let (node, server, carries) = (*node, self.server, PortUse::Both);
            assembly.open(Port { node, bandwidth, latency, server, rail, carries });
        }
        Ok(nics)
    }
}
