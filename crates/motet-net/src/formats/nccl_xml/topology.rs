//! `<system>` to a [`Network`]: devices first, in document order, then the links beside the tree.
//!
//! [`devices`](super::devices) says what each element is. Every attribute is kept as a property
//! of its node.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, NodeId, Rank};

use super::devices::{
    Card, CardUse, Device, bus, card, cards, classify, hosts, interfaces, rank, ranked,
};
use crate::formats::speeds::{self, CpuModel};
use crate::formats::xml::{Document, Element};
use crate::formats::{ReadError, unique_name};
use crate::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};

/// CPUs of a host are joined pairwise, so their number is bounded.
const MAX_CPUS_PER_HOST: usize = 64;
const MAX_CPUS: usize = 4096;
/// GPUs or interfaces of one PCI device. Each gets the device's attributes as properties, so
/// their number and length are bounded too; NCCL itself reads at most 255 characters.
const MAX_PARTS: usize = 32;
const MAX_VALUE: usize = 255;

pub(super) fn convert(
    text: &str,
    document: &Document,
) -> Result<(Network, Vec<String>), ReadError> {
    let devices = classify(document);
    let mut topology = Topology {
        text,
        document,
        builder: NetworkBuilder::new("nccl-topology"),
        hosts: hosts(document),
        place: vec![None; document.elements.len()],
        gpus: Vec::new(),
        cpus: Vec::new(),
        cards: cards(document, &devices),
        interfaces: BTreeMap::new(),
        ignored: 0,
        classless: 0,
        notes: Vec::new(),
        ranked: ranked(document, &devices),
        devices,
    };
    topology.add_devices()?;
    topology.join_cpus()?;
    topology.join_gpus()?;
    topology.join_pci_switches()?;
    if !topology.ranked && topology.gpus.iter().any(|it| it.has_rank) {
        let last = topology.gpus.len().saturating_sub(1);
        let note =
            format!("the file's ranks are not 0 to {last}, each once: ranks follow file order");
        topology.notes.push(note);
    }
    let Topology { ignored, classless, .. } = topology;
    if ignored > 0 {
        topology.notes.push(format!("left out {ignored} devices that are neither GPU nor NIC"));
    }
    if classless > 0 {
        topology.notes.push(format!(
            "left out {classless} devices without a class: NCCL asks the machine what they are"
        ));
    }
    Ok((topology.builder.build()?, topology.notes))
}

pub(super) struct Gpu {
    pub(super) node: NodeId,
    pub(super) host: usize,
    /// The element whose children are its links: `<gpu>`, or its `<pci>` where there is none.
    pub(super) element: usize,
    pub(super) bus: Option<u64>,
    pub(super) dev: Option<String>,
    has_rank: bool,
    pub(super) sm: Option<u32>,
    pub(super) gcn: Option<String>,
}

pub(super) struct Topology<'a> {
    pub(super) text: &'a str,
    pub(super) document: &'a Document,
    pub(super) builder: NetworkBuilder,
    pub(super) hosts: BTreeMap<String, usize>,
    /// The CPU or PCIe switch that each element stands for.
    pub(super) place: Vec<Option<NodeId>>,
    pub(super) gpus: Vec<Gpu>,
    /// Each CPU with its host and how fast it talks to others.
    cpus: Vec<(NodeId, usize, Bandwidth)>,
    cards: BTreeMap<Card, CardUse>,
    /// Interfaces directly below CPUs, by host and name: several CPUs may list the same one.
    interfaces: BTreeMap<(usize, String), NodeId>,
    ignored: usize,
    classless: usize,
    pub(super) notes: Vec<String>,
    /// Whether ranks are those of the file.
    ranked: bool,
    /// What each `<pci>` is.
    devices: Vec<Option<Device>>,
}

impl Topology<'_> {
    fn add_devices(&mut self) -> Result<(), ReadError> {
        let document = self.document;
        for (index, element) in document.elements.iter().enumerate() {
            match (element.name.as_str(), self.devices[index]) {
                ("cpu", _) => self.add_cpu(index, element)?,
                (_, Some(Device::Gpu)) => self.add_pci_gpus(element)?,
                (_, Some(Device::BareGpu)) => self.add_gpu(index, element, Some(element))?,
                (_, Some(Device::Nic)) => self.add_pci_nic(index, element)?,
                (_, Some(Device::Switch)) => self.add_pci_switch(index, element)?,
                (_, Some(Device::Other)) if element.get("class").is_none() => self.classless += 1,
                (_, Some(Device::Other)) => self.ignored += 1,
                ("gpu", _) if self.parent_name(element) != "pci" => {
                    self.add_gpu(index, element, None)?;
                }
                ("net", _) => self.add_interface_of_cpu(index, element)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn parent_name(&self, element: &Element) -> &str {
        element.parent.map_or("", |it| self.document.elements[it].name.as_str())
    }

    /// The nearest CPU or PCIe switch above.
    pub(super) fn above(&self, element: &Element) -> Option<NodeId> {
        let mut parent = element.parent;
        while let Some(index) = parent {
            if self.place[index].is_some() {
                return self.place[index];
            }
            parent = self.document.elements[index].parent;
        }
        None
    }

    pub(super) fn host(&self, index: usize) -> usize {
        let mut at = Some(index);
        while let Some(index) = at {
            let element = &self.document.elements[index];
            if element.name == "cpu" {
                return self.hosts[element.get("host_hash").unwrap_or_default()];
            }
            at = element.parent;
        }
        0
    }

    /// A node of the host that holds `index`, its name made unique, with these elements'
    /// attributes as properties.
    fn node(&self, name: &str, kind: NodeKind, index: usize, from: &[&Element]) -> Node {
        let server = format!("s{}", self.host(index));
        let several = self.hosts.len() > 1 && !matches!(kind, NodeKind::Gpu);
        let name = if several { format!("{server}-{name}") } else { name.to_owned() };
        let mut node = Node::new(unique_name(&self.builder, &name), kind).in_server(server);
        for element in from {
            for (key, value) in element.attributes.iter().filter(|(_, it)| kept(it)) {
                node.properties.insert(key.clone(), value.clone());
            }
        }
        node
    }

    pub(super) fn add(&mut self, node: Node, element: &Element) -> Result<NodeId, ReadError> {
        let at = |error| ReadError::from(error).at(self.text, element.offset);
        self.builder.add_node(node).map_err(at)
    }

    pub(super) fn join(
        &mut self,
        a: NodeId,
        b: NodeId,
        spec: LinkSpec,
        element: &Element,
    ) -> Result<(), ReadError> {
        let at = |error| ReadError::from(error).at(self.text, element.offset);
        self.builder.add_duplex(a, b, spec).map(drop).map_err(at)
    }

    fn add_cpu(&mut self, index: usize, element: &Element) -> Result<(), ReadError> {
        let number = |name: &str| element.get(name).and_then(|it| it.parse().ok());
        let speed = speeds::sockets(CpuModel {
            arch: element.get("arch"),
            vendor: element.get("vendor"),
            family: number("familyid"),
            model: number("modelid"),
        });
        let name = match element.get("numaid") {
            Some(numa) if !numa.is_empty() && numa != "-1" => format!("cpu{numa}"),
            _ => format!("cpu{}", self.cpus.len()),
        };
        let id = self.add(self.node(&name, NodeKind::Cpu, index, &[element]), element)?;
        self.place[index] = Some(id);
        let host = self.host(index);
        self.cpus.push((id, host, speed));
        if self.cpus.len() > MAX_CPUS {
            let problem = format!("there are more than {MAX_CPUS} CPUs");
            return Err(ReadError::new(problem).at(self.text, element.offset));
        }
        Ok(())
    }

    fn add_pci_switch(&mut self, index: usize, element: &Element) -> Result<(), ReadError> {
        let name = format!("pcie-{}", element.get("busid").unwrap_or("switch"));
        let node = self.node(&name, NodeKind::PcieSwitch, index, &[element]);
        let id = self.add(node, element)?;
        if let Some(above) = self.above(element) {
            self.join(id, above, pcie(element), element)?;
        }
        self.place[index] = Some(id);
        Ok(())
    }

    fn check_parts(&self, pci: &Element, count: usize) -> Result<(), ReadError> {
        if count <= MAX_PARTS {
            return Ok(());
        }
        let problem = format!("the device has more than {MAX_PARTS} GPUs or interfaces");
        Err(ReadError::new(problem).at(self.text, pci.offset))
    }

    fn add_pci_gpus(&mut self, pci: &Element) -> Result<(), ReadError> {
        let document = self.document;
        let gpus = || document.children(pci).filter(|(_, it)| it.name == "gpu");
        self.check_parts(pci, gpus().count())?;
        for (child, element) in gpus() {
            self.add_gpu(child, element, Some(pci))?;
        }
        Ok(())
    }

    fn add_gpu(
        &mut self,
        index: usize,
        element: &Element,
        pci: Option<&Element>,
    ) -> Result<(), ReadError> {
        let number = |name: &str| element.get(name).and_then(|it| it.parse().ok());
        let rank = rank(element).filter(|_| self.ranked);
        let order = u32::try_from(self.gpus.len()).unwrap_or(u32::MAX);
        let name = format!("gpu{}", rank.unwrap_or(order));
        let mut node = match pci {
            Some(pci) => self.node(&name, NodeKind::Gpu, index, &[pci, element]),
            None => self.node(&name, NodeKind::Gpu, index, &[element]),
        };
        node.properties.remove("rank");
        node.rank = rank.map(Rank);
        let id = self.add(node, element)?;
        if let Some(above) = self.above(element) {
            self.join(id, above, pcie(pci.unwrap_or(element)), element)?;
        }
        let busid = pci.and_then(|it| it.get("busid")).or_else(|| element.get("busid"));
        self.gpus.push(Gpu {
            node: id,
            host: self.host(index),
            element: index,
            bus: busid.and_then(bus),
            dev: element.get("dev").map(str::to_owned),
            has_rank: element.get("rank").is_some(),
            sm: number("sm"),
            gcn: element.get("gcn").map(str::to_owned),
        });
        Ok(())
    }

    fn add_pci_nic(&mut self, index: usize, pci: &Element) -> Result<(), ReadError> {
        let above = self.above(pci);
        let card = card(pci).and_then(|it| Some((it, *self.cards.get(&it)?)));
        let attach = match card {
            Some((_, CardUse { node: Some(node), .. })) => Some(node),
            Some((card, CardUse { interfaces: interfaces @ 2.., .. })) => {
                let name = format!("card-{}", pci.get("busid").unwrap_or("nic"));
                let node = self.node(&name, NodeKind::PcieSwitch, index, &[]);
                let id = self.add(node.with_property("multiport", "true"), pci)?;
                if let Some(above) = above {
                    self.join(id, above, pcie(pci), pci)?;
                }
                self.cards.insert(card, CardUse { interfaces, node: Some(id) });
                Some(id)
            }
            _ => above,
        };
        let document = self.document;
        let nets = interfaces(document, pci);
        self.check_parts(pci, nets.len())?;
        if nets.is_empty() {
            let name = format!("nic-{}", pci.get("busid").unwrap_or_default());
            return self.add_nic(self.node(&name, NodeKind::Nic, index, &[pci]), pci, attach, pci);
        }
        for (child, net) in nets {
            let name = net.get("name").filter(|it| !it.is_empty()).unwrap_or("nic");
            let node = self.node(name, NodeKind::Nic, child, &[pci, net]);
            self.add_nic(with_bandwidth(node, net), pci, attach, net)?;
        }
        Ok(())
    }

    fn add_nic(
        &mut self,
        mut node: Node,
        pci: &Element,
        attach: Option<NodeId>,
        element: &Element,
    ) -> Result<(), ReadError> {
        node.properties.remove("name");
        let id = self.add(node, element)?;
        match attach {
            Some(attach) => self.join(id, attach, pcie(pci), element),
            None => Ok(()),
        }
    }

    /// `<net>` below a CPU's `<nic>`: an interface without a PCI device of its own.
    fn add_interface_of_cpu(&mut self, index: usize, net: &Element) -> Result<(), ReadError> {
        let document = self.document;
        let mut parent = net.parent;
        while let Some(it) = parent.filter(|it| document.elements[*it].name == "nic") {
            parent = document.elements[it].parent;
        }
        if parent.is_some_and(|it| self.devices[it] == Some(Device::Nic)) {
            return Ok(());
        }
        let name = net.get("name").filter(|it| !it.is_empty()).unwrap_or("nic");
        let key = (self.host(index), format!("{name}/{}", net.get("dev").unwrap_or_default()));
        let id = match self.interfaces.get(&key) {
            Some(id) => *id,
            None => {
                let mut node = self.node(name, NodeKind::Nic, index, &[net]);
                node.properties.remove("name");
                let id = self.add(with_bandwidth(node, net), net)?;
                self.interfaces.insert(key, id);
                id
            }
        };
        // Nothing says how it is attached: it is not narrower than the network it leads to.
        let width = bandwidth(net).unwrap_or_default().max(speeds::pcie(None, None));
        let spec = LinkSpec::new(LinkClass::Pcie, width, speeds::PCIE_LATENCY);
        match self.above(net) {
            Some(above) => self.join(id, above, spec, net),
            None => Ok(()),
        }
    }

    fn join_cpus(&mut self) -> Result<(), ReadError> {
        let cpus = std::mem::take(&mut self.cpus);
        let mut of_host: BTreeMap<usize, Vec<(NodeId, Bandwidth)>> = BTreeMap::new();
        for (id, host, speed) in cpus {
            of_host.entry(host).or_default().push((id, speed));
        }
        for cpus in of_host.values() {
            if cpus.len() > MAX_CPUS_PER_HOST {
                let problem = format!("a host has more than {MAX_CPUS_PER_HOST} CPUs");
                return Err(ReadError::new(problem));
            }
            for (place, (a, speed)) in cpus.iter().enumerate() {
                for (b, other) in &cpus[place + 1..] {
                    let slower = *speed.min(other);
                    let spec = LinkSpec::new(LinkClass::Smp, slower, speeds::SMP_LATENCY);
                    self.builder.add_duplex(*a, *b, spec)?;
                }
            }
        }
        Ok(())
    }
}

fn kept(value: &str) -> bool {
    (1..=MAX_VALUE).contains(&value.len())
}

/// How a device hangs in the PCIe tree.
pub(super) fn pcie(element: &Element) -> LinkSpec {
    let width = speeds::pcie(element.get("link_speed"), element.get("link_width"));
    LinkSpec::new(LinkClass::Pcie, width, speeds::PCIE_LATENCY)
}

/// The `speed` of a `<net>`, in Mbit/s.
fn bandwidth(net: &Element) -> Option<Bandwidth> {
    let bits = net.get("speed")?.parse::<u64>().ok()?.checked_mul(1_000_000)?;
    (bits > 0).then_some(Bandwidth::from_bits_per_s(bits))
}

fn with_bandwidth(node: Node, net: &Element) -> Node {
    match bandwidth(net) {
        Some(speed) => node.with_property("bandwidth", speed.to_string()),
        None => node,
    }
}
