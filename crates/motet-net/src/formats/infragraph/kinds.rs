//! What components and links of InfraGraph are to Motet, and how fast links are whose rate is not given.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration};

use super::Wire;
use super::expand::Expanded;
use super::schema::Link;
use crate::formats::speeds;
use crate::{LinkClass, NodeKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node(NodeKind),
    /// A place where a link is plugged in.
    Port,
    /// Carries nothing between GPUs.
    None,
}

impl Kind {
    /// The node that it is; a port that is left is a switch of its own.
    pub(super) fn node(self) -> Option<NodeKind> {
        match self {
            Self::Node(kind) => Some(kind),
            Self::Port => Some(NodeKind::Leaf),
            Self::None => None,
        }
    }
}

/// What each component is.
pub(super) fn kinds(graph: &Expanded, notes: &mut Vec<String>) -> Vec<Kind> {
    let mut near = vec![false; graph.instances.len()];
    for edge in &graph.edges {
        let (a, b) = (graph.parts[edge.a].instance, graph.parts[edge.b].instance);
        near[a] |= graph.is_server[b];
        near[b] |= graph.is_server[a];
    }
    // A switch's chip may be called a CPU; a host's CPU has network cards beside it.
    let mut is_host = graph.is_server.clone();
    for part in graph.parts.iter().filter(|it| it.choice == "nic") {
        is_host[part.instance] = true;
    }
    let mut left_out = 0usize;
    let mut kinds = Vec::with_capacity(graph.parts.len());
    for part in &graph.parts {
        let says = |word: &str| part.words.contains(word);
        let inside = graph.is_server[part.instance];
        kinds.push(match part.choice.as_str() {
            "xpu" => Kind::Node(NodeKind::Gpu),
            "cpu" if is_host[part.instance] => Kind::Node(NodeKind::Cpu),
            "nic" => Kind::Node(NodeKind::Nic),
            "port" => Kind::Port,
            "memory" => {
                left_out += 1;
                Kind::None
            }
            _ if says("nvl") || says("nvsw") => Kind::Node(NodeKind::NvSwitch),
            _ if says("mgmt") || says("management") => {
                left_out += 1;
                Kind::None
            }
            _ if inside => Kind::Node(NodeKind::PcieSwitch),
            _ if near[part.instance] => Kind::Node(NodeKind::Leaf),
            _ => Kind::Node(NodeKind::Spine),
        });
    }
    if left_out > 0 {
        notes.push(format!("left out: {left_out} components for memory or management"));
    }
    kinds
}

/// The technology, by the words that name and describe a link.
pub(super) fn class(link: &Link) -> LinkClass {
    let words = format!("{} {}", link.name, link.description).to_lowercase();
    let table = [
        ("c2c", LinkClass::C2c),
        ("nvl", LinkClass::NvLink),
        ("xgmi", LinkClass::Xgmi),
        ("pci", LinkClass::Pcie),
        ("infiniband", LinkClass::InfiniBand),
        ("roce", LinkClass::Roce),
        ("eth", LinkClass::Ethernet),
        ("upi", LinkClass::Smp),
        ("qpi", LinkClass::Smp),
        ("infinity", LinkClass::Smp),
        ("optic", LinkClass::Optical),
    ];
    table.iter().find(|it| words.contains(it.0)).map_or(LinkClass::Other, |it| it.1)
}

/// Where a file gives none: those of the other readers.
pub(super) fn latency(class: LinkClass) -> Duration {
    match class {
        LinkClass::NvLink | LinkClass::Xgmi => speeds::NVSWITCH_LATENCY,
        LinkClass::Smp => speeds::SMP_LATENCY,
        LinkClass::C2c => speeds::C2C_LATENCY,
        _ => speeds::PCIE_LATENCY,
    }
}

/// The first number in a text behind a word, as in `nvlink_4` and `PCIE_GEN5`.
fn generation(words: &str, behind: &str) -> Option<u32> {
    let rest = &words[words.find(behind)? + behind.len()..];
    let digits = rest.trim_start_matches(|it: char| !it.is_ascii_digit());
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// How many NVLink wires each GPU has: a generation says how much they carry together.
pub(super) struct NvLinks {
    wires: BTreeMap<usize, u64>,
    gpus: Vec<bool>,
}

impl NvLinks {
    pub(super) fn of(wires: &[Wire], kinds: &[Kind]) -> Self {
        let gpus: Vec<bool> = kinds.iter().map(|it| *it == Kind::Node(NodeKind::Gpu)).collect();
        let mut count: BTreeMap<usize, u64> = BTreeMap::new();
        for wire in wires.iter().filter(|it| it.class == LinkClass::NvLink && it.rate.is_none()) {
            for end in [wire.a, wire.b].into_iter().filter(|it| gpus[*it]) {
                *count.entry(end).or_default() += 1;
            }
        }
        Self { wires: count, gpus }
    }

    /// The rate of a link that has none in the file, by the generation that is named.
    pub(super) fn rate(&self, wire: &Wire, notes: &mut Vec<String>) -> Option<Bandwidth> {
        let words = format!("{} {}", wire.link, wire.description).to_lowercase();
        let (rate, why) = match wire.class {
            LinkClass::NvLink => {
                let generation = generation(&words, "nvl")?;
                // Lanes of a P100, V100, A100, H100 and B200, and which of them they are.
                let (lanes, sm) = match generation {
                    1 => (4, 60),
                    2 => (6, 70),
                    3 => (12, 80),
                    4 => (18, 90),
                    5 => (18, 100),
                    _ => return None,
                };
                let gpu = [wire.a, wire.b].into_iter().find(|it| self.gpus[*it])?;
                let wires = self.wires.get(&gpu).copied().unwrap_or(1).max(1);
                let all = speeds::nvlink(Some(sm)).saturating_mul(lanes);
                let rate = Bandwidth::from_bits_per_s(all.bits_per_s() / wires);
                (rate, format!("NVLink {generation}: {all} for each GPU, over its {wires} links"))
            }
            LinkClass::Pcie => {
                let generation = generation(&words, "gen").or_else(|| generation(&words, "pcie"));
                let transfers = match generation.unwrap_or(3) {
                    1 => "2.5",
                    2 => "5",
                    4 => "16",
                    5 => "32",
                    6 => "64",
                    _ => "8",
                };
                let rate = speeds::pcie(Some(transfers), None);
                (rate, format!("PCIe of {transfers} GT/s with 16 lanes: {rate}"))
            }
            LinkClass::Smp => {
                let rate = speeds::sockets(speeds::CpuModel::default());
                (rate, format!("between CPU sockets: {rate}"))
            }
            _ if words.contains("fabric") => {
                let rate = speeds::sockets(speeds::CpuModel::default());
                (rate, format!("`{}`: {rate}, as between CPU sockets", wire.link))
            }
            _ => return None,
        };
        let note = format!("the file gives no bandwidth; assumed {why}");
        if !notes.contains(&note) {
            notes.push(note);
        }
        Some(rate)
    }
}
