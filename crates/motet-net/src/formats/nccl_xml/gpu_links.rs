//! The links beside the PCIe tree: `<nvlink>`, `<xgmi>`, `<c2c>` and `<pcilink>`.
//!
//! Each end of a GPU-to-GPU link lists it, so the two listings make one duplex link; where only
//! one end lists it, that is enough. All NVSwitches of a file become one node, as in NCCL, which
//! only ever looks at the links into the switch fabric as a whole.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, NodeId};

use super::devices::bus;
use super::topology::{Topology, pcie};
use crate::formats::xml::Element;
use crate::formats::{ReadError, speeds, unique_name};
use crate::{Link, LinkClass, LinkSpec, Network, Node, NodeKind, gpu_model};

/// NCCL's stand-in for a switch that the container does not see.
const HIDDEN_SWITCH: &str = "fffffff:ff:ff.0";
/// More lanes than any GPU has; what a file says beyond it is a mistake.
const MAX_LANES: u32 = 1024;

/// Lanes listed from the first GPU of a pair and from the second.
type Lanes = (u32, u32);

/// What an `<nvlink>` leads to.
enum Target {
    Gpu(usize),
    Switch,
    Cpu,
    Itself,
    Unknown,
}

/// A note for a file whose GPUs have neither NVLinks nor xGMI: cloud providers' files have only
/// PCIe. It names the template of the box that the file most looks like.
pub(super) fn missing(network: &Network) -> Option<String> {
    let fast = |it: &Link| matches!(it.spec.class, LinkClass::NvLink | LinkClass::Xgmi);
    if network.ranks().len() < 2 || network.links().iter().any(fast) {
        return None;
    }
    let remedy = match template(network) {
        Some(name) => format!("a template such as `{name}` has them"),
        None => "a file that NCCL writes on the machine (NCCL_TOPO_DUMP_FILE) has them".to_owned(),
    };
    Some(format!(
        "there are no NVLinks in the file, only PCIe; providers' files leave them out because \
         NCCL asks the driver for them. If these GPUs have NVLinks, {remedy}"
    ))
}

/// The template of a box with as many GPUs of this generation, told by the PCI device id, by compute
/// capability or, as a last resort, by the generation of PCIe.
fn template(network: &Network) -> Option<&'static str> {
    let gpu = network.node(*network.ranks().first()?);
    let property = |key: &str| gpu.properties.get(key).map(String::as_str);
    let number = |it: &str| it.split(['.', ' ']).next().and_then(|it| it.parse::<u32>().ok());
    if property("vendor") == Some("0x1002") {
        return None;
    }
    let (gpus, nics) = (network.ranks().len(), network.count(NodeKind::Nic));
    let device = property("device").and_then(|it| it.strip_prefix("0x"));
    let known = device.and_then(|it| u32::from_str_radix(it, 16).ok()).and_then(gpu_model::model);
    let sm = known.map(|it| it.sm).or_else(|| property("sm").and_then(number));
    let generation = match (sm, property("link_speed").and_then(number)) {
        // Cards, which no template is of.
        _ if known.is_some_and(|it| it.nvlinks == 0) => return None,
        (Some(sm), _) => sm / 10,
        // Azure's file for NDv2 says PCIe 4, which a V100 does not have.
        (None, Some(16)) if (gpus, nics) == (8, 1) => 7,
        (None, Some(8)) => 7,
        (None, Some(16)) => 8,
        (None, Some(32)) => 9,
        _ => return None,
    };
    match (gpus, generation, nics) {
        (4, 7, _) => Some("v100-x4"),
        (8, 7, 1) => Some("ndv2"),
        (8, 7, _) => Some("dgx-1"),
        (16, 7, _) => Some("dgx-2"),
        (8, 8, _) => Some("dgx-a100"),
        (8, 9, _) => Some("dgx-h100"),
        (8, 10.., _) => Some("dgx-b200"),
        _ => None,
    }
}

/// The GPUs of each host by bus id, and by device number: files written by hand use the latter.
#[derive(Default)]
struct Peers {
    by_bus: BTreeMap<(usize, u64), usize>,
    by_dev: BTreeMap<(usize, String), usize>,
}

impl Topology<'_> {
    pub(super) fn join_gpus(&mut self) -> Result<(), ReadError> {
        let peers = self.peers();
        let document = self.document;
        let mut pairs: BTreeMap<(usize, usize, LinkClass), Lanes> = BTreeMap::new();
        let mut switched: Vec<u32> = Vec::with_capacity(self.gpus.len());
        let (mut itself, mut unknown) = (0u32, 0u32);
        for gpu in 0..self.gpus.len() {
            let element = &document.elements[self.gpus[gpu].element];
            let mut to_switch = 0u32;
            for (_, link) in document.children(element) {
                let class = match link.name.as_str() {
                    "nvlink" => LinkClass::NvLink,
                    "xgmi" => LinkClass::Xgmi,
                    "c2c" => {
                        self.join_c2c(gpu, link)?;
                        continue;
                    }
                    _ => continue,
                };
                let lanes = self.lanes(link)?;
                match self.target(gpu, link, &peers) {
                    Target::Gpu(other) => {
                        let listed =
                            pairs.entry((gpu.min(other), gpu.max(other), class)).or_default();
                        let side = if gpu < other { &mut listed.0 } else { &mut listed.1 };
                        *side = side.saturating_add(lanes).min(MAX_LANES);
                    }
                    Target::Switch => to_switch = to_switch.saturating_add(lanes).min(MAX_LANES),
                    Target::Cpu => self.join_nvlink_cpu(gpu, link, lanes)?,
                    Target::Itself => itself += 1,
                    Target::Unknown => unknown += 1,
                }
            }
            switched.push(to_switch);
        }
        self.add_pairs(&pairs)?;
        self.add_switch(&switched)?;
        if itself > 0 {
            self.notes.push(format!("left out {itself} GPU links that lead back to their own GPU"));
        }
        if unknown > 0 {
            self.notes.push(format!("left out {unknown} GPU links to devices outside the file"));
        }
        Ok(())
    }

    /// The link's `count`; one without counts as one lane.
    fn lanes(&self, link: &Element) -> Result<u32, ReadError> {
        let Some(count) = link.get("count") else { return Ok(1) };
        match count.parse::<u32>() {
            Ok(lanes) if lanes <= MAX_LANES => Ok(lanes),
            _ => Err(ReadError::new(format!("`{count}` is not a number of links"))
                .at(self.text, link.offset)
                .with_remedy(format!("write a count from 1 to {MAX_LANES}"))),
        }
    }

    fn peers(&self) -> Peers {
        let mut peers = Peers::default();
        for (index, gpu) in self.gpus.iter().enumerate() {
            if let Some(bus) = gpu.bus {
                peers.by_bus.entry((gpu.host, bus)).or_insert(index);
            }
            if let Some(dev) = &gpu.dev {
                peers.by_dev.entry((gpu.host, dev.clone())).or_insert(index);
            }
        }
        peers
    }

    fn target(&self, gpu: usize, link: &Element, peers: &Peers) -> Target {
        let host = self.gpus[gpu].host;
        let target = link.get("target").unwrap_or_default();
        let class = link.get("tclass").unwrap_or_default();
        if class.starts_with("0x068001") {
            return Target::Cpu;
        }
        if class.starts_with("0x0680") || target.eq_ignore_ascii_case(HIDDEN_SWITCH) {
            return Target::Switch;
        }
        let by_bus = bus(target).and_then(|it| peers.by_bus.get(&(host, it)));
        let found = by_bus.or_else(|| peers.by_dev.get(&(host, target.to_owned()))).copied();
        match found {
            Some(other) if other == gpu => Target::Itself,
            Some(other) => Target::Gpu(other),
            None => Target::Unknown,
        }
    }

    /// How fast one lane of a GPU is.
    fn lane(&self, gpu: usize, class: LinkClass) -> Bandwidth {
        let gpu = &self.gpus[gpu];
        if class == LinkClass::Xgmi {
            speeds::xgmi(gpu.gcn.as_deref())
        } else {
            speeds::nvlink(gpu.sm)
        }
    }

    fn add_pairs(
        &mut self,
        pairs: &BTreeMap<(usize, usize, LinkClass), Lanes>,
    ) -> Result<(), ReadError> {
        let mut uneven = 0u32;
        for (&(a, b, class), &(there, back)) in pairs {
            uneven += u32::from(there > 0 && back > 0 && there != back);
            let lanes = there.max(back);
            if lanes == 0 {
                continue;
            }
            let lane = self.lane(a, class).min(self.lane(b, class));
            let width = lane.saturating_mul(u64::from(lanes));
            let spec = LinkSpec::new(class, width, speeds::NVLINK_LATENCY).with_lanes(lanes);
            self.builder.add_duplex(self.gpus[a].node, self.gpus[b].node, spec)?;
        }
        if uneven > 0 {
            self.notes.push(format!(
                "{uneven} GPU pairs list a different number of links at each end: the larger counts"
            ));
        }
        Ok(())
    }

    fn add_switch(&mut self, switched: &[u32]) -> Result<(), ReadError> {
        if switched.iter().all(|it| *it == 0) {
            return Ok(());
        }
        let name = unique_name(&self.builder, "nvswitch");
        let mut node = Node::new(name, NodeKind::NvSwitch);
        // NCCL fuses hosts into one file only where NVLink joins them: then the switch is shared.
        if self.hosts.len() <= 1 {
            node = node.in_server("s0");
        }
        let switch = self.builder.add_node(node)?;
        for (gpu, lanes) in switched.iter().enumerate().filter(|(_, it)| **it > 0) {
            let width = self.lane(gpu, LinkClass::NvLink).saturating_mul(u64::from(*lanes));
            let spec = LinkSpec::new(LinkClass::NvLink, width, speeds::NVSWITCH_LATENCY);
            self.builder.add_duplex(self.gpus[gpu].node, switch, spec.with_lanes(*lanes))?;
        }
        self.notes.push("all NVSwitches are one node, as NCCL sees them".to_owned());
        Ok(())
    }

    /// POWER's NVLink to the CPU.
    fn join_nvlink_cpu(&mut self, gpu: usize, link: &Element, lanes: u32) -> Result<(), ReadError> {
        let Some(cpu) = self.cpu_above(link).filter(|_| lanes > 0) else { return Ok(()) };
        let width = self.lane(gpu, LinkClass::NvLink).saturating_mul(u64::from(lanes));
        let spec = LinkSpec::new(LinkClass::NvLink, width, speeds::NVLINK_LATENCY);
        self.join(self.gpus[gpu].node, cpu, spec.with_lanes(lanes), link)
    }

    /// A superchip's link to its CPU; `bw` is in MB/s per link.
    fn join_c2c(&mut self, gpu: usize, link: &Element) -> Result<(), ReadError> {
        let lanes = self.lanes(link)?;
        let speed = link.get("bw").and_then(|it| it.parse::<u64>().ok());
        let bits = speed.and_then(|it| it.checked_mul(8_000_000)?.checked_mul(u64::from(lanes)));
        let (Some(bits), Some(cpu)) = (bits.filter(|it| *it > 0), self.cpu_above(link)) else {
            self.note_once("left out C2C links without bandwidth or CPU");
            return Ok(());
        };
        let width = Bandwidth::from_bits_per_s(bits);
        let spec = LinkSpec::new(LinkClass::C2c, width, speeds::C2C_LATENCY).with_lanes(lanes);
        self.join(self.gpus[gpu].node, cpu, spec, link)
    }

    fn note_once(&mut self, note: &str) {
        if !self.notes.iter().any(|it| it == note) {
            self.notes.push(note.to_owned());
        }
    }

    fn cpu_above(&self, element: &Element) -> Option<NodeId> {
        let mut parent = element.parent;
        while let Some(index) = parent {
            let above = &self.document.elements[index];
            if above.name == "cpu" {
                return self.place[index];
            }
            parent = above.parent;
        }
        None
    }

    /// `<pcilink>` joins two PCIe switches outside the tree.
    pub(super) fn join_pci_switches(&mut self) -> Result<(), ReadError> {
        let document = self.document;
        let links: Vec<(usize, &Element)> = document
            .elements
            .iter()
            .filter(|it| it.name == "pcilink")
            .filter_map(|it| Some((it.parent?, it)))
            .collect();
        if links.is_empty() {
            return Ok(());
        }
        let mut by_bus = BTreeMap::new();
        for (index, element) in document.elements.iter().enumerate() {
            if let (Some(id), Some(bus)) = (self.place[index], element.get("busid").and_then(bus)) {
                by_bus.insert((self.host(index), bus), id);
            }
        }
        let mut joined = std::collections::BTreeSet::new();
        for (parent, link) in links {
            let other = link.get("target").and_then(bus);
            let other = other.and_then(|it| by_bus.get(&(self.host(parent), it)).copied());
            let (Some(here), Some(other)) = (self.place[parent], other) else {
                self.note_once("left out <pcilink> elements to switches outside the file");
                continue;
            };
            if here != other && joined.insert((here.min(other), here.max(other))) {
                self.join(here, other, pcie(&document.elements[parent]), link)?;
            }
        }
        Ok(())
    }
}
