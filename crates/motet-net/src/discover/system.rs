//! Turns what was found into the elements of an NCCL topology file (`<system>`, `<cpu>`, `<pci>`…),
//! so that a machine and a file that describes it become a network in the same way
//! ([`formats::nccl_xml`](crate::formats::nccl_xml)).

use std::collections::{BTreeMap, BTreeSet};

use super::host::{Model, NumaNode};
use super::interfaces::Interface;
use super::kfd;
use super::nvlink::{self, Target, Wiring};
use super::pci::{Device, Devices, Kind};
use super::smi::Smi;
use crate::formats::xml::{Document, Element};
use crate::gpu_model;
use crate::provenance::Unseen;

/// All that is known of the machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) devices: Devices,
    pub(super) nodes: Vec<NumaNode>,
    pub(super) model: Model,
    pub(super) interfaces: BTreeMap<String, Vec<Interface>>,
    pub(super) amd: BTreeMap<String, kfd::Gpu>,
    pub(super) smi: Option<Smi>,
    /// NVLinks of NVIDIA's GPUs in bus order.
    pub(super) nvlinks: Option<Wiring>,
}

impl Machine {
    pub(super) fn gpus(&self) -> Vec<&Device> {
        self.devices.of_kind(Kind::Gpu)
    }

    pub(super) fn nvidia(&self) -> Vec<&Device> {
        self.gpus().into_iter().filter(|it| it.is_nvidia()).collect()
    }

    /// NICs that may carry traffic: virtual functions only where an interface uses them.
    pub(super) fn nics(&self) -> Vec<&Device> {
        let nics = self.devices.of_kind(Kind::Nic);
        let used = |it: &&Device| !it.is_virtual || self.interfaces.contains_key(&it.bus_id);
        nics.into_iter().filter(used).collect()
    }

    /// The machine as a `<system>`, and the PCI devices that are in it.
    pub(super) fn system(&self, unseen: &mut Vec<Unseen>) -> (Document, BTreeSet<String>) {
        let mut tree = Tree {
            machine: self,
            document: Document { elements: Vec::new() },
            by_path: BTreeMap::new(),
        };
        let root = tree.add(None, "system", vec![("version", "1".to_owned())]);
        for node in &self.nodes {
            let mut attributes = vec![("numaid", node.number.to_string())];
            attributes.extend(node.cpus.clone().map(|it| ("cpulist", it)));
            attributes.extend(node.distance.clone().map(|it| ("distance", it)));
            attributes.extend(self.model.iter().cloned());
            let cpu = tree.add(Some(root), "cpu", attributes);
            tree.by_path.insert((node.number, Vec::new()), cpu);
        }
        let nvidia = self.nvidia();
        for (rank, gpu) in self.gpus().into_iter().enumerate() {
            let pci = tree.add_device(gpu, unseen);
            let position = nvidia.iter().position(|it| it.bus_id == gpu.bus_id);
            tree.add_gpu(pci, gpu, rank, position);
        }
        for nic in self.nics() {
            let pci = tree.add_device(nic, unseen);
            tree.add_nic(pci, nic);
        }
        let mut used = BTreeSet::new();
        for element in &tree.document.elements {
            used.extend(element.get("busid").map(str::to_owned));
        }
        (tree.document, used)
    }

    fn sm(&self, gpu: &Device, position: usize) -> Option<u32> {
        let nvidia = self.nvidia();
        let said = self.smi.as_ref().and_then(|smi| {
            let found =
                smi.gpus.iter().find(|it| nvlink::position(&nvidia, smi, *it.0) == Some(position));
            found.and_then(|it| it.1.sm)
        });
        said.or_else(|| gpu_model::model(gpu.device).map(|it| it.sm))
    }
}

struct Tree<'a> {
    machine: &'a Machine,
    document: Document,
    /// The element of each CPU (no switches) and of each switch below it, by the way down to it.
    by_path: BTreeMap<(u32, Vec<String>), usize>,
}

impl Tree<'_> {
    fn add(
        &mut self,
        parent: Option<usize>,
        name: &str,
        attributes: Vec<(&'static str, String)>,
    ) -> usize {
        let index = self.document.elements.len();
        if let Some(parent) = parent {
            self.document.elements[parent].children.push(index);
        }
        self.document.elements.push(Element {
            name: name.to_owned(),
            attributes: attributes.into_iter().map(|(key, it)| (key.to_owned(), it)).collect(),
            text: String::new(),
            children: Vec::new(),
            parent,
            offset: 0,
        });
        index
    }

    /// The `<pci>` of a device, with those of the switches above it.
    fn add_device(&mut self, device: &Device, unseen: &mut Vec<Unseen>) -> usize {
        let first = self.machine.nodes.first().map_or(0, |it| it.number);
        let known = |it: &u32| self.machine.nodes.iter().any(|node| node.number == *it);
        let numa = device.numa.filter(known).unwrap_or_else(|| {
            if self.machine.nodes.len() > 1 {
                let what = format!("the NUMA node of {}", device.bus_id);
                let why = format!("the kernel does not say; taken as node {first}");
                unseen.push(Unseen::new(what, why));
            }
            first
        });
        let mut way: Vec<String> = Vec::new();
        let mut parent = self.by_path[&(numa, Vec::new())];
        for switch in Devices::switches(device) {
            let above = way.last().cloned();
            way.push(switch.clone());
            let key = (numa, way.clone());
            parent = match self.by_path.get(&key) {
                Some(known) => *known,
                None => {
                    let attributes = self.pci_attributes(&switch, above.as_deref());
                    let index = self.add(Some(parent), "pci", attributes);
                    self.by_path.insert(key, index);
                    index
                }
            };
        }
        let attributes = self.pci_attributes(&device.bus_id, way.last().map(String::as_str));
        self.add(Some(parent), "pci", attributes)
    }

    fn pci_attributes(&self, bus_id: &str, above: Option<&str>) -> Vec<(&'static str, String)> {
        let devices = &self.machine.devices;
        let mut attributes = vec![("busid", bus_id.to_owned())];
        match devices.get(bus_id) {
            Some(device) => {
                attributes.push(("class", device.class.clone()));
                attributes.extend(device.ids.iter().cloned());
            }
            // A bridge that only the path of a device names.
            None => attributes.push(("class", "0x060400".to_owned())),
        }
        let link = devices.link_of(bus_id, above);
        attributes.extend(link.speed_text().map(|it| ("link_speed", it)));
        attributes.extend(link.width.map(|it| ("link_width", it.to_string())));
        attributes
    }

    fn add_gpu(&mut self, pci: usize, gpu: &Device, rank: usize, nvidia: Option<usize>) {
        let mut attributes = vec![("dev", rank.to_string()), ("rank", rank.to_string())];
        if let Some(position) = nvidia {
            attributes.extend(self.machine.sm(gpu, position).map(|it| ("sm", it.to_string())));
            attributes.extend(gpu_model::model(gpu.device).map(|it| ("model", it.name.to_owned())));
        }
        let amd = self.machine.amd.get(&gpu.bus_id);
        attributes.extend(amd.and_then(|it| it.gcn.clone()).map(|it| ("gcn", it)));
        let element = self.add(Some(pci), "gpu", attributes);
        for (target, lanes) in amd.map(|it| it.links.clone()).unwrap_or_default() {
            let class = self.machine.devices.get(&target).map(|it| it.class.clone());
            let class = class.unwrap_or_else(|| "0x038000".to_owned());
            let link = vec![("target", target), ("count", lanes.to_string()), ("tclass", class)];
            self.add(Some(element), "xgmi", link);
        }
        let wiring = self.machine.nvlinks.as_ref().zip(nvidia);
        let links = wiring.map(|(wiring, position)| wiring.links[position].clone());
        let others: Vec<(String, String)> = {
            let gpus = self.machine.nvidia();
            gpus.iter().map(|it| (it.bus_id.clone(), it.class.clone())).collect()
        };
        for (target, lanes) in links.unwrap_or_default() {
            let (target, class) = match target {
                Target::Gpu(other) => others[other].clone(),
                Target::Switch => ("nvswitch".to_owned(), "0x068000".to_owned()),
            };
            let link = vec![("target", target), ("count", lanes.to_string()), ("tclass", class)];
            self.add(Some(element), "nvlink", link);
        }
    }

    fn add_nic(&mut self, pci: usize, nic: &Device) {
        let element = self.add(Some(pci), "nic", Vec::new());
        for port in self.machine.interfaces.get(&nic.bus_id).cloned().unwrap_or_default() {
            let mut attributes = vec![("name", port.name)];
            attributes.extend(port.attributes);
            self.add(Some(element), "net", attributes);
        }
    }
}
