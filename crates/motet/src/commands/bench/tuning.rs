//! `motet bench --tuning`: NCCL's own tables, as its TUNING log prints them, and with `-v` the
//! GRAPH lines that they follow from.
//!
//! Beside the log of a real NCCL (`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING,GRAPH`) they show
//! whether the model holds; docs/nccl-model.md says how to compare the two.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Graph, Graphs, NcclModel, Protocol, TunedCollective};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct TuningJson {
    backend: &'static str,
    model: String,
    ranks: usize,
    /// Servers, or NVLink domains.
    nodes: usize,
    channels: usize,
    graphs: Vec<GraphJson>,
    max_threads: Vec<ThreadsJson>,
    tuning: Vec<CellJson>,
}

#[derive(Serialize)]
struct GraphJson {
    /// Which kind of node has it; nodes alike share theirs.
    node_kind: usize,
    graph: &'static str,
    pattern: u32,
    cross_nic: u8,
    channels: usize,
    /// Of each channel.
    intra_gbps: f64,
    inter_gbps: f64,
    type_intra: &'static str,
    type_inter: &'static str,
    same_channels: bool,
}

#[derive(Serialize)]
struct ThreadsJson {
    algorithm: &'static str,
    protocol: &'static str,
    threads: u32,
}

#[derive(Serialize)]
struct CellJson {
    collective: &'static str,
    algorithm: &'static str,
    protocol: &'static str,
    latency_us: f64,
    /// Zero where the combination cannot be chosen.
    bandwidth_gbps: f64,
}

/// The log, without the prefix that NCCL puts before each line.
pub(super) fn text(model: &NcclModel, verbose: bool) -> String {
    let mut out = String::new();
    if verbose {
        for line in model.graph_lines() {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.push_str(&model.table());
    out
}

pub(super) fn json(model: &NcclModel, name: String) -> TuningJson {
    let (comm, tuning) = (model.communicator(), model.tuning());
    let pairs = || Algorithm::ALL.into_iter().flat_map(|a| Protocol::ALL.map(|p| (a, p)));
    let cells = |kind: CollectiveKind| {
        TunedCollective::of(kind).into_iter().flat_map(move |collective| {
            pairs().map(move |(algorithm, protocol)| CellJson {
                collective: kind.name(),
                algorithm: algorithm.name(),
                protocol: protocol.name(),
                latency_us: tuning.latency(collective, algorithm, protocol),
                bandwidth_gbps: tuning.bandwidth(collective, algorithm, protocol),
            })
        })
    };
    let threads = |(algorithm, protocol): (Algorithm, Protocol)| ThreadsJson {
        algorithm: algorithm.name(),
        protocol: protocol.name(),
        threads: tuning.max_threads(algorithm, protocol),
    };
    let kinds = model.distinct_graphs().iter().enumerate();
    TuningJson {
        backend: "sim",
        model: name,
        ranks: comm.ranks,
        nodes: comm.nodes,
        channels: comm.channels,
        graphs: kinds.flat_map(|(kind, it)| graphs(kind, it)).collect(),
        max_threads: pairs().map(threads).collect(),
        tuning: CollectiveKind::ALL.into_iter().flat_map(cells).collect(),
    }
}

/// The graphs of one kind of node, in the order of the log.
fn graphs(node_kind: usize, graphs: &Graphs) -> Vec<GraphJson> {
    let named = [
        ("ring", Some(&graphs.ring)),
        ("tree", Some(&graphs.tree)),
        ("nvls", graphs.nvls.as_ref()),
        ("collnet-chain", graphs.collnet_chain.as_ref()),
        ("collnet-direct", graphs.collnet_direct.as_ref()),
    ];
    let json = |(name, graph): (&'static str, Option<&Graph>)| {
        let it = graph?;
        Some(GraphJson {
            node_kind,
            graph: name,
            pattern: it.pattern.number(),
            cross_nic: it.cross_nic,
            channels: it.channels.len(),
            intra_gbps: it.intra_gbps(),
            inter_gbps: it.inter_gbps(),
            type_intra: it.type_intra.name(),
            type_inter: it.type_inter.name(),
            same_channels: it.same_channels,
        })
    };
    named.into_iter().filter_map(json).collect()
}
