//! `<graphs>`: the rings and trees that NCCL's search chose, as `NCCL_GRAPH_DUMP_FILE` writes
//! them. [`GraphDump`] holds them as they are; [`GraphDump::network`] is the network they imply.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, NodeId};

use crate::formats::xml::{Document, Element};
use crate::formats::{ReadError, speeds};
use crate::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};

/// A graph dump: one graph per kind of algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphDump {
    /// The graphs, in the order of the file.
    pub graphs: Vec<Graph>,
}

/// The channels of one kind of algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// NCCL's number of it: 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct.
    pub id: u32,
    /// The shape: 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Per channel.
    pub speed_intra: Bandwidth,
    /// Per channel.
    pub speed_inter: Bandwidth,
    /// The worst path inside a server: NVL, PIX, PHB, SYS…
    pub type_intra: String,
    /// How the hops between servers go, in NCCL's word.
    pub type_inter: String,
    /// What NCCL counts for the network beside its own constants.
    pub latency_inter: Duration,
    /// Whether channels may leave and enter by different NICs: 0 no, 1 yes, 2 they do in pairs.
    /// `None`: the dump does not say.
    pub cross_nic: Option<u32>,
    /// Whether all channels are alike. `None`: the dump does not say.
    pub same_channels: Option<bool>,
    /// The devices that each channel passes, in order.
    pub channels: Vec<Vec<Hop>>,
}

/// One stop of a channel, by NCCL's device number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hop {
    Gpu(String),
    Net(String),
}

const RING: u32 = 4;

impl Graph {
    /// What the algorithm is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.id {
            0 => "ring",
            1 => "tree",
            2 => "collnet chain",
            3 => "nvls",
            4 => "collnet direct",
            _ => "other",
        }
    }

    fn from_element(text: &str, document: &Document, element: &Element) -> Result<Self, ReadError> {
        let number = |name: &str| {
            let value = element.get(name).unwrap_or("0");
            value.parse::<u32>().map_err(|_| {
                ReadError::new(format!("{name}=\"{value}\" is not a number"))
                    .at(text, element.offset)
            })
        };
        let speed = |name: &str| {
            let value = element.get(name).unwrap_or("0");
            gigabytes(value).ok_or_else(|| {
                ReadError::new(format!("{name}=\"{value}\" is not a speed in GB/s"))
                    .at(text, element.offset)
            })
        };
        let said = |name: &str| element.get(name).map(|_| number(name)).transpose();
        let word = |name: &str| element.get(name).unwrap_or_default().to_owned();
        let channels = document.children(element).filter(|(_, it)| it.name == "channel");
        Ok(Self {
            id: number("id")?,
            pattern: number("pattern")?,
            speed_intra: speed("speedintra")?,
            speed_inter: speed("speedinter")?,
            type_intra: word("typeintra"),
            type_inter: word("typeinter"),
            latency_inter: latency(text, element)?,
            cross_nic: said("crossnic")?,
            same_channels: said("samechannels")?.map(|it| it != 0),
            channels: channels.map(|(_, it)| hops(document, it)).collect(),
        })
    }

    /// The hops of all channels with the bandwidth they need together. A ring closes, unless it
    /// goes in and out by the network; a tree is used both ways.
    fn demands(&self) -> BTreeMap<(Hop, Hop), Bandwidth> {
        let mut demands: BTreeMap<(Hop, Hop), Bandwidth> = BTreeMap::new();
        let mut add = |from: &Hop, to: &Hop| {
            if from != to {
                let net = matches!(from, Hop::Net(_)) || matches!(to, Hop::Net(_));
                let speed = if net { self.speed_inter } else { self.speed_intra };
                let total = demands.entry((from.clone(), to.clone())).or_default();
                *total = total.saturating_add(speed);
            }
        };
        for channel in &self.channels {
            for pair in channel.windows(2) {
                add(&pair[0], &pair[1]);
                if self.pattern != RING {
                    add(&pair[1], &pair[0]);
                }
            }
            if let (RING, [first @ Hop::Gpu(_), .., last @ Hop::Gpu(_)]) =
                (self.pattern, channel.as_slice())
            {
                add(last, first);
            }
        }
        demands
    }
}

fn hops(document: &Document, channel: &Element) -> Vec<Hop> {
    let hop = |element: &Element| {
        let dev = element.get("dev").unwrap_or_default().to_owned();
        match element.name.as_str() {
            "gpu" => Some(Hop::Gpu(dev)),
            "net" => Some(Hop::Net(dev)),
            _ => None,
        }
    };
    document.children(channel).filter_map(|(_, it)| hop(it)).collect()
}

/// "20.6" GB/s, rounded to whole bits per second.
fn gigabytes(text: &str) -> Option<Bandwidth> {
    let gb = text.parse::<f64>().ok().filter(|it| (0.0..1e9).contains(it))?;
    Some(Bandwidth::from_bits_per_s((gb * 8e9).round() as u64))
}

/// Microseconds, rounded to whole picoseconds.
fn latency(text: &str, element: &Element) -> Result<Duration, ReadError> {
    let value = element.get("latencyinter").unwrap_or("0");
    let micros =
        value.parse::<f64>().ok().filter(|it| (0.0..1e9).contains(it)).ok_or_else(|| {
            ReadError::new(format!("latencyinter=\"{value}\" is not a time in microseconds"))
                .at(text, element.offset)
        })?;
    Ok(Duration::from_ps((micros * 1e6).round() as u64))
}

impl GraphDump {
    pub(super) fn from_document(text: &str, document: &Document) -> Result<Self, ReadError> {
        let graphs = document.children(document.root()).filter(|(_, it)| it.name == "graph");
        let graphs: Result<Vec<Graph>, ReadError> =
            graphs.map(|(_, it)| Graph::from_element(text, document, it)).collect();
        Ok(Self { graphs: graphs? })
    }

    /// The network that the dump implies: its GPUs and NICs, and a link for each hop of the ring
    /// graph (or of the first graph, where there is no ring) as fast as all channels over it
    /// together. The graphs are alternatives on the same wires, so they do not add up.
    pub fn network(&self) -> Result<(Network, Vec<String>), ReadError> {
        let mut builder = NetworkBuilder::new("nccl-graph");
        let hops = self.graphs.iter().flat_map(|it| it.channels.iter().flatten());
        let sorted: BTreeMap<(u64, &Hop), ()> = hops.map(|it| ((order(it), it), ())).collect();
        let mut nodes: BTreeMap<&Hop, NodeId> = BTreeMap::new();
        for (_, hop) in sorted.keys() {
            let node = match hop {
                Hop::Gpu(dev) => Node::new(format!("gpu{dev}"), NodeKind::Gpu),
                Hop::Net(dev) => Node::new(format!("net{dev}"), NodeKind::Nic),
            };
            nodes.insert(hop, builder.add_node(node.in_server("s0"))?);
        }
        let mut notes = vec![self.summary()];
        let ring = self.graphs.iter().find(|it| it.pattern == RING && !it.channels.is_empty());
        if let Some(graph) = ring.or_else(|| self.graphs.iter().find(|it| !it.channels.is_empty()))
        {
            notes.push(format!("the links are the hops of the {} graph", graph.name()));
            let demands = graph.demands();
            for ((from, to), width) in demands.iter().filter(|(_, it)| !it.is_zero()) {
                let back = demands.get(&(to.clone(), from.clone()));
                let spec = graph.spec(from, to, *width);
                if back != Some(width) {
                    builder.add_link(nodes[from], nodes[to], spec)?;
                } else if from < to {
                    builder.add_duplex(nodes[from], nodes[to], spec)?;
                }
            }
        }
        Ok((builder.build()?, notes))
    }

    fn summary(&self) -> String {
        let graphs: Vec<String> = self
            .graphs
            .iter()
            .map(|it| {
                let channels = it.channels.len();
                let (intra, inter) = (it.speed_intra, it.speed_inter);
                format!("{} with {channels} channels at {intra} inside, {inter} out", it.name())
            })
            .collect();
        format!("an NCCL graph dump, not a topology: {}", graphs.join("; "))
    }
}

/// GPUs before NICs, each by number where they are numbers.
fn order(hop: &Hop) -> u64 {
    let (dev, base) = match hop {
        Hop::Gpu(dev) => (dev, 0),
        Hop::Net(dev) => (dev, 1 << 32),
    };
    base + u64::from(dev.parse::<u32>().unwrap_or(u32::MAX))
}

impl Graph {
    fn spec(&self, from: &Hop, to: &Hop, width: Bandwidth) -> LinkSpec {
        let net = matches!(from, Hop::Net(_)) || matches!(to, Hop::Net(_));
        let nvlink = !net && matches!(self.type_intra.as_str(), "NVL" | "NVB");
        let (class, latency): (LinkClass, Duration) = if nvlink {
            (LinkClass::NvLink, speeds::NVLINK_LATENCY)
        } else {
            (LinkClass::Pcie, speeds::PCIE_LATENCY)
        };
        LinkSpec::new(class, width, latency)
    }
}
