//! NCCL topology files (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`), NVIDIA's and AMD's dialects,
//! and graph dumps (`NCCL_GRAPH_DUMP_FILE`).
//!
//! [`read`] takes either: `<system>` is a server's devices as a tree of CPUs, PCIe bridges, GPUs
//! and NICs (`devices.rs`, `topology.rs`) with the GPU links beside it (`gpu_links.rs`);
//! `<graphs>` is the rings and trees that NCCL chose on one (`graph.rs`).

mod devices;
mod gpu_links;
mod graph;
#[cfg(test)]
mod tests;
mod topology;

pub use graph::{Graph, GraphDump, Hop};

use super::{NetworkFormat, ReadError, ReadNetwork, xml};
use crate::Network;

/// The network of a `<system>` that was not read from text but made, as
/// [`discover`](crate::discover) does from sysfs; with notes.
pub(crate) fn network_of(system: &xml::Document) -> Result<(Network, Vec<String>), ReadError> {
    topology::convert("", system)
}

/// Reads a topology file or a graph dump.
///
/// What NCCL does when it loads such a file is done here too: all NVSwitches become one node,
/// CPUs of one host are joined pairwise, an unknown PCIe speed counts as generation 3, and
/// network interfaces that several CPUs list are one.
pub fn read(text: &str) -> Result<ReadNetwork, ReadError> {
    let document = xml::parse(text)?;
    let root = document.root();
    match root.name.as_str() {
        "system" => {
            let (network, notes) = topology::convert(text, &document)?;
            let mut read = ReadNetwork::new(network, NetworkFormat::NcclTopology);
            read.notes = notes;
            read.notes.extend(gpu_links::missing(&read.network));
            Ok(read)
        }
        "graphs" => {
            let dump = GraphDump::from_document(text, &document)?;
            let (network, notes) = dump.network()?;
            let mut read = ReadNetwork::new(network, NetworkFormat::NcclGraph);
            read.notes = notes;
            read.graphs = Some(dump);
            Ok(read)
        }
        "algo" => Err(ReadError::new("<algo> is an MSCCL program, not a network")
            .at(text, root.offset)
            .with_remedy("check it with `motet verify`")),
        other => Err(ReadError::new(format!("<{other}> is not an NCCL topology"))
            .at(text, root.offset)
            .with_remedy("a topology's root is <system>, a graph dump's <graphs>")),
    }
}
