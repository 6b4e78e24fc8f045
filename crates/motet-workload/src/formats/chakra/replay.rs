//! A recording as Chakra traces, so that what a profiler saw can be run by ASTRA-sim and others.
//!
//! A rank's calls and compute become nodes in the order in which they ended. A node waits for the last node
//! of its rank that had ended when it began. Times say no more about dependencies than that, and a node never
//! begins earlier than it was recorded.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Rank};

use super::export::{VERSION, micros};
use super::{Collective, Message, Node, NodeKind, Trace};
use crate::recording::{Call, Recording, Span};

/// The traces of all ranks that were seen.
#[must_use]
pub fn traces(recording: &Recording) -> BTreeMap<u32, Trace> {
    recording.ranks().iter().map(|rank| (rank.0, trace(recording, *rank))).collect()
}

fn trace(recording: &Recording, rank: Rank) -> Trace {
    let mut all: Vec<(Span, String, NodeKind)> = Vec::new();
    for span in recording.compute(rank) {
        let kind = NodeKind::Compute { operations: None, bytes: None };
        all.push((*span, "compute".to_owned(), kind));
    }
    for call in recording.calls() {
        let Some(seen) = call.seen.iter().find(|it| it.rank == rank) else { continue };
        let name = recording.group(call).parallelism.map_or("", |it| it.name());
        let name = format!("{name} {}", call.kind.name());
        all.push((seen.span, name.trim_start().to_owned(), kind(recording, call, rank)));
    }
    all.sort_by_key(|it| (it.0.end, it.0.start));
    let ends: Vec<_> = all.iter().map(|it| it.0.end).collect();
    let node = |(place, (span, name, kind)): (usize, (Span, String, NodeKind))| {
        // Nodes before this place are those that ended by then, but never the node itself.
        let ended = ends.partition_point(|end| *end <= span.start).min(place);
        let start = micros(span.start.since(motet_units::Instant::START));
        Node {
            id: place as u64,
            name,
            waits: ended.checked_sub(1).map(|it| it as u64).into_iter().collect(),
            control: Vec::new(),
            start,
            duration: micros(span.length()),
            is_cpu: Some(false),
            kind,
        }
    };
    let nodes = all.into_iter().enumerate().map(node).collect();
    Trace { version: VERSION.to_owned(), nodes }
}

fn kind(recording: &Recording, call: &Call, rank: Rank) -> NodeKind {
    let members = &recording.group(call).members;
    match call.kind {
        CollectiveKind::SendRecv => {
            let other = call.seen.iter().map(|it| it.rank).find(|it| *it != rank);
            // One whose ends were not told is taken for a send.
            let sends = call.sender.is_none_or(|it| it == rank);
            let (from, to) = if sends { (Some(rank), other) } else { (other, Some(rank)) };
            let message = Message { bytes: Some(call.bytes), from, to, tag: None };
            if sends { NodeKind::Send(message) } else { NodeKind::Receive(message) }
        }
        kind => {
            let kind =
                if kind == CollectiveKind::AllToAllV { CollectiveKind::AllToAll } else { kind };
            let bytes = match kind {
                CollectiveKind::AllGather => call.bytes.div_ceil(members.len().max(1) as u64),
                _ => call.bytes,
            };
            NodeKind::Collective {
                what: Some(Collective::Data(kind)),
                bytes: Some(bytes).filter(|it| *it > Bytes::ZERO),
                group: Some((call.group + 1).to_string()),
            }
        }
    }
}
