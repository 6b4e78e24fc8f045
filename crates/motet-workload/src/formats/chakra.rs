//! Chakra execution traces: what one rank computes and communicates, as ASTRA-sim and others read it.
//!
//! A trace is one file per rank: a sequence of protobuf messages, each after its length. The first holds the
//! schema's version, every other one a node (`wire` has the messages). Part of what a node does is in
//! attributes with agreed names. Which ranks are in a group is in no trace but in a file beside the traces
//! ([`export::groups`]).
//!
//! [`read`] refuses what it does not understand if that would change the meaning: unknown kinds of nodes,
//! numbers that occur twice, nodes that wait for each other. Waits for nodes that are missing are kept and
//! reported ([`Trace::missing`]). [`write()`] is its reverse; [`json`] reads and writes the same as text;
//! [`export`] makes a job into traces; [`recorded`] makes traces with times into logs of ranks, [`replay`]
//! the reverse. Chakra counts time in whole microseconds, and the size of a collective is what one rank
//! passes to it (its shard, for an AllGather).

pub mod export;
pub mod json;
pub mod recorded;
pub mod replay;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_graph::Followers;
use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank};

/// What one rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The schema's version.
    pub version: String,
    pub nodes: Vec<Node>,
}

/// One node of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: u64,
    pub name: String,
    /// Nodes that must be done before it: Chakra's data dependencies, by which alone its own feeder orders
    /// nodes.
    pub waits: Vec<u64>,
    /// Chakra's control dependencies. In traces converted from PyTorch's they are the calls that enclose a
    /// node; they have cycles and name nodes that were left out. So they are kept, but do not order nodes.
    pub control: Vec<u64>,
    /// Microseconds; 0 in traces that were not recorded.
    pub start: u64,
    /// Microseconds.
    pub duration: u64,
    /// Whether it runs on the CPU instead of the accelerator, if the trace says so.
    pub is_cpu: Option<bool>,
    pub kind: NodeKind,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Metadata,
    /// Memory that is read.
    Load {
        bytes: Option<Bytes>,
    },
    /// Memory that is written.
    Store {
        bytes: Option<Bytes>,
    },
    Compute {
        /// Operations, where they are counted.
        operations: Option<u64>,
        /// Bytes of the operands.
        bytes: Option<Bytes>,
    },
    Send(Message),
    Receive(Message),
    Collective {
        /// `None` for a call on the CPU that launches a collective. PyTorch's traces have this call in
        /// addition to the kernel, and only the kernel says which collective it is.
        what: Option<Collective>,
        /// The bytes that the rank passes to the call.
        bytes: Option<Bytes>,
        /// The name of the group; `None` for all ranks.
        group: Option<String>,
    },
}

/// A message between two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub bytes: Option<Bytes>,
    pub from: Option<Rank>,
    pub to: Option<Rank>,
    pub tag: Option<u32>,
}

/// Collectives of Chakra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    Data(CollectiveKind),
    /// Moves nothing.
    Barrier,
}

/// Reads the trace of one rank.
pub fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let trace = wire::decode(bytes)?;
    check(&trace)?;
    Ok(trace)
}

/// The trace as a file. A trace that [`read`] made, or would take, is read back equal.
#[must_use]
pub fn write(trace: &Trace) -> Vec<u8> {
    wire::encode(trace)
}

impl Trace {
    /// The index of each node in the trace, by its number.
    fn places(&self) -> BTreeMap<u64, u32> {
        self.nodes.iter().enumerate().map(|(place, it)| (it.id, place as u32)).collect()
    }

    /// Waits for nodes that are not in the trace, as pairs of the waiting node and the missing one. Whoever
    /// runs the trace must know that this order is lost.
    #[must_use]
    pub fn missing(&self) -> Vec<(u64, u64)> {
        let places = self.places();
        let all = self.nodes.iter().flat_map(|it| it.waits.iter().map(|to| (it.id, *to)));
        all.filter(|(_, to)| !places.contains_key(to)).collect()
    }
}

/// Checks that no two nodes have the same number, and that waits have no cycle.
fn check(trace: &Trace) -> Result<(), ReadError> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = trace.nodes.iter().find(|it| !seen.insert(it.id)) {
        return Err(ReadError::new(format!("two nodes have the number {}", twice.id))
            .with_remedy("write every rank's nodes into a file of its own"));
    }
    let places = trace.places();
    let mut waits: Vec<(u32, u32)> = Vec::new();
    for (place, node) in trace.nodes.iter().enumerate() {
        waits.extend(
            node.waits.iter().filter_map(|it| places.get(it)).map(|it| (place as u32, *it)),
        );
    }
    let order = Followers::of(trace.nodes.len(), waits).topological();
    if order.len() < trace.nodes.len() {
        let mut free = vec![false; trace.nodes.len()];
        order.iter().for_each(|it| free[*it as usize] = true);
        let stuck = trace.nodes.iter().zip(free).find(|(_, free)| !free).map_or(0, |it| it.0.id);
        let problem = format!("node {stuck} waits for itself by way of others");
        return Err(ReadError::new(problem).with_remedy("a trace has no cycles: make it again"));
    }
    Ok(())
}
