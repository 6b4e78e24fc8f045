//! What the elements of a `<system>` are, told before any node is made: which host a CPU belongs
//! to, whether a PCI device is a GPU, a NIC or a switch, which ports are of one card, and
//! whether the file's ranks hold. A device is known by its child (`<gpu>`, `<nic>`) or, where a
//! file has none, by PCI class: 0x03 display and 0x12 accelerator are GPUs, 0x02 network
//! controllers NICs. [`topology`](super::topology) makes nodes of it.

use std::collections::BTreeMap;

use motet_units::NodeId;

use crate::formats::xml::{Document, Element};

/// The number of each host of the file, by `host_hash`; one without any counts as one host.
pub(super) fn hosts(document: &Document) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    for element in document.elements.iter().filter(|it| it.name == "cpu") {
        let next = hosts.len();
        hosts.entry(element.get("host_hash").unwrap_or_default().to_owned()).or_insert(next);
    }
    hosts
}

/// Whether the file's ranks hold: 0 to n−1, each once. Single-host dumps of a larger job give
/// other ranks, and files without `<gpu>` elements none.
pub(super) fn ranked(document: &Document, devices: &[Option<Device>]) -> bool {
    let elements = document.elements.iter().zip(devices);
    let gpus: Vec<&Element> = elements
        .filter(|(it, device)| it.name == "gpu" || **device == Some(Device::BareGpu))
        .map(|(it, _)| it)
        .collect();
    let mut seen = vec![false; gpus.len()];
    gpus.iter().all(|it| {
        let slot = rank(it).and_then(|it| seen.get_mut(it as usize));
        slot.is_some_and(|it| !std::mem::replace(it, true))
    })
}

pub(super) fn rank(gpu: &Element) -> Option<u32> {
    gpu.get("rank")?.parse().ok()
}

/// A NIC card: parent element and bus id without the function.
pub(super) type Card = (usize, u64);

/// How many interfaces each card has. Those of a card with several share its PCIe link.
pub(super) fn cards(document: &Document, devices: &[Option<Device>]) -> BTreeMap<Card, CardUse> {
    let mut cards: BTreeMap<Card, CardUse> = BTreeMap::new();
    for (element, device) in document.elements.iter().zip(devices) {
        if let (Some(Device::Nic), Some(card)) = (device, card(element)) {
            cards.entry(card).or_default().interfaces += interfaces(document, element).len().max(1);
        }
    }
    cards
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CardUse {
    pub(super) interfaces: usize,
    /// Stands for the card where it has several interfaces.
    pub(super) node: Option<NodeId>,
}

pub(super) fn card(pci: &Element) -> Option<Card> {
    Some((pci.parent?, bus(pci.get("busid")?)? >> 4))
}

/// The `<net>` elements of a NIC.
pub(super) fn interfaces<'a>(
    document: &'a Document,
    pci: &'a Element,
) -> Vec<(usize, &'a Element)> {
    let nics = document.children(pci).filter(|(_, it)| it.name == "nic");
    nics.flat_map(|(_, nic)| document.children(nic)).filter(|(_, it)| it.name == "net").collect()
}

fn has_child(document: &Document, element: &Element, name: &str) -> bool {
    document.children(element).any(|(_, it)| it.name == name)
}

fn class_is(pci: &Element, prefixes: &[&str]) -> bool {
    let class = pci.get("class").unwrap_or_default();
    prefixes.iter().any(|it| class.starts_with(it))
}

/// What a `<pci>` is; `None` for other elements.
pub(super) fn classify(document: &Document) -> Vec<Option<Device>> {
    let device = |pci: &Element| {
        if has_child(document, pci, "gpu") {
            Device::Gpu
        } else if has_child(document, pci, "nic") {
            Device::Nic
        } else if class_is(pci, &["0x03", "0x12"]) {
            Device::BareGpu
        } else if class_is(pci, &["0x02"]) {
            Device::Nic
        } else if class_is(pci, &["0x0604"]) || has_child(document, pci, "pci") {
            // Anything with devices below passes data on, whatever its class.
            Device::Switch
        } else {
            Device::Other
        }
    };
    let pci = |it: &Element| (it.name == "pci").then(|| device(it));
    document.elements.iter().map(pci).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Gpu,
    /// Known by its class only.
    BareGpu,
    Nic,
    Switch,
    Other,
}

/// A bus id as a number: its hexadecimal digits, so that "00000000:1D:00.0" is "0000:1d:00.0".
pub(super) fn bus(busid: &str) -> Option<u64> {
    let digits: String = busid.chars().filter(|it| !matches!(it, ':' | '.')).collect();
    u64::from_str_radix(&digits, 16).ok()
}
