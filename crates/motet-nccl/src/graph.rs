//! [`Graph`]: the channels that NCCL found for one pattern inside one node: in which order each
//! channel visits the GPUs, by which interfaces it enters and leaves the node, and how fast.
//!
//! A graph comes from the [`compute`](super::compute) module's search, or from a dump of NCCL's
//! own (`NCCL_GRAPH_DUMP_FILE`), which this file reads. [`connect`](super::connect) makes rings
//! and trees over all servers of them.

use motet_net::formats::nccl_xml::{self, GraphDump, Hop};

use super::NcclError;
use super::kinds::{PathKind, Pattern};

/// One channel inside a node, by the numbers of its GPUs and interfaces there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    pub gpus: Vec<usize>,
    /// The interfaces by which it enters and leaves the node; `None` if there is only one node.
    pub nets: Option<(usize, usize)>,
}

/// The channels of one pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub pattern: Pattern,
    pub channels: Vec<Channel>,
    /// Bandwidth per channel in MB/s: inside the node, and to other nodes.
    pub intra_mbps: i64,
    pub inter_mbps: i64,
    /// The farthest kind of path between GPUs, and from GPUs to interfaces.
    pub type_intra: PathKind,
    pub type_inter: PathKind,
    /// Whether all channels are alike.
    pub same_channels: bool,
    /// 0: a channel enters and leaves by the same interface; 1: by any; 2: channels in pairs, where one enters by
    /// the interface by which the other leaves.
    pub cross_nic: u8,
    /// The latency of the interface, in µs.
    pub latency_inter: f64,
    /// Edges that all channels use together: of equally fast graphs, NCCL takes the one with fewer.
    pub(super) hops: i64,
}

impl Graph {
    pub(super) fn empty(pattern: Pattern) -> Self {
        Self {
            pattern,
            channels: Vec::new(),
            intra_mbps: 0,
            inter_mbps: 0,
            type_intra: PathKind::Loc,
            type_inter: PathKind::Pix,
            same_channels: true,
            cross_nic: 0,
            latency_inter: 0.0,
            hops: 0,
        }
    }

    #[must_use]
    pub fn intra_gbps(&self) -> f64 {
        self.intra_mbps as f64 / 1000.0
    }

    #[must_use]
    pub fn inter_gbps(&self) -> f64 {
        self.inter_mbps as f64 / 1000.0
    }

    /// The graph as a line of NCCL's GRAPH log.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "Pattern {}, crossNic {}, nChannels {}, bw {:.6}/{:.6}, type {}/{}, sameChannels {}",
            self.pattern.number(),
            self.cross_nic,
            self.channels.len(),
            self.intra_gbps(),
            self.inter_gbps(),
            self.type_intra,
            self.type_inter,
            u8::from(self.same_channels)
        )
    }

    /// Reads a dumped graph. A dump names GPUs and interfaces by NCCL's device numbers, which are the numbers
    /// used here.
    fn of_dump(graph: &nccl_xml::Graph, gpus: usize) -> Result<Self, NcclError> {
        let wrong = |problem: String| NcclError::Dump { graph: graph.name().to_owned(), problem };
        let kind = |name: &str| {
            PathKind::from_name(name).ok_or_else(|| wrong(format!("`{name}` is not a path type")))
        };
        let pattern = Pattern::from_number(graph.pattern)
            .ok_or_else(|| wrong(format!("pattern {} is unknown", graph.pattern)))?;
        let mbps = |it: motet_units::Bandwidth| {
            i64::try_from(it.bits_per_s() / 8_000_000).unwrap_or(i64::MAX)
        };
        let channels = graph
            .channels
            .iter()
            .map(|it| channel_of_dump(it, gpus, pattern).map_err(wrong))
            .collect::<Result<Vec<Channel>, NcclError>>()?;
        let crosses = channels.iter().any(|it| matches!(it.nets, Some((a, b)) if a != b));
        Ok(Self {
            pattern,
            same_channels: graph
                .same_channels
                .unwrap_or_else(|| channels.windows(2).all(|it| it[0] == it[1])),
            intra_mbps: mbps(graph.speed_intra),
            inter_mbps: mbps(graph.speed_inter),
            type_intra: kind(&graph.type_intra)?,
            type_inter: kind(&graph.type_inter)?,
            cross_nic: graph.cross_nic.map_or_else(
                || u8::from(crosses && pattern == Pattern::Ring) * 2,
                |it| u8::try_from(it).unwrap_or(u8::MAX),
            ),
            latency_inter: graph.latency_inter.as_us_f64(),
            hops: 0,
            channels,
        })
    }
}

fn channel_of_dump(hops: &[Hop], gpus: usize, pattern: Pattern) -> Result<Channel, String> {
    let number = |dev: &str| {
        // The upper byte of a device number is its server within an NVLink domain.
        let dev: u64 = dev.parse().map_err(|_| format!("`{dev}` is not a device number"))?;
        usize::try_from(dev & ((1 << 56) - 1)).map_err(|_| format!("there is no device {dev}"))
    };
    let (mut order, mut nets) = (Vec::new(), Vec::new());
    for hop in hops {
        match hop {
            Hop::Gpu(dev) => order.push(number(dev)?),
            Hop::Net(dev) => nets.push(number(dev)?),
        }
    }
    let mut seen = vec![false; gpus];
    for gpu in &order {
        let Some(seen) = seen.get_mut(*gpu) else {
            return Err(format!("GPU {gpu} is not one of the {gpus} of a server"));
        };
        if std::mem::replace(seen, true) {
            return Err(format!("a channel visits GPU {gpu} twice"));
        }
    }
    // Channels of NVLS name their head only.
    if pattern != Pattern::Nvls && order.len() != gpus {
        return Err(format!("a channel has {} of {gpus} GPUs", order.len()));
    }
    if order.is_empty() {
        return Err("a channel has no GPU".to_owned());
    }
    let nets = match (nets.first(), nets.last()) {
        (Some(first), Some(last)) => Some((*first, *last)),
        _ => None,
    };
    Ok(Channel { gpus: order, nets })
}

/// The graphs of one node: ring and tree always, the others where they are possible.
#[derive(Clone, Debug, PartialEq)]
pub struct Graphs {
    pub ring: Graph,
    pub tree: Graph,
    pub nvls: Option<Graph>,
    pub collnet_chain: Option<Graph>,
    pub collnet_direct: Option<Graph>,
}

impl Graphs {
    /// Of a node of `gpus` GPUs, from NCCL's own dump.
    pub(super) fn of_dump(dump: &GraphDump, gpus: usize) -> Result<Self, NcclError> {
        let find = |id: u32| {
            let graph = dump.graphs.iter().find(|it| it.id == id && !it.channels.is_empty());
            graph.map(|it| Graph::of_dump(it, gpus)).transpose()
        };
        let need = |id: u32, name: &str| {
            find(id)?.ok_or_else(|| NcclError::Dump {
                graph: name.to_owned(),
                problem: "the dump has no such graph".to_owned(),
            })
        };
        Ok(Self {
            ring: need(0, "ring")?,
            tree: need(1, "tree")?,
            collnet_chain: find(2)?,
            nvls: find(3)?,
            collnet_direct: find(4)?,
        })
    }
}
