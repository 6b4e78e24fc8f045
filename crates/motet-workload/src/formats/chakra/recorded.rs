//! Chakra traces that were recorded, as the logs of ranks that a [`Recording`](crate::recording::Recording)
//! is joined from.
//!
//! Generated traces say what is to be done but have no times of communication, so they are refused. The
//! members of a group are in the file beside the traces ([`groups`]); a group without a name is all ranks. If
//! a trace has kernels, the calls on the CPU that launched them are skipped.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_net::formats::{Position, ReadError};
use motet_units::{Bytes, Rank};

use super::{Collective, Node, NodeKind, Trace};
use crate::recording::{LoggedCall, LoggedGroup, LoggedSpan, RankLog};

/// Groups by name, with their ranks.
pub type Groups = BTreeMap<String, Vec<u32>>;

/// Reads the file of groups that ASTRA-sim takes beside traces: `{"1": [0, 1]}`.
pub fn groups(text: &str) -> Result<Groups, ReadError> {
    serde_json::from_str(text).map_err(|error| ReadError {
        at: Some(Position { line: error.line(), column: error.column() }),
        ..ReadError::new(format!("not a file of groups: {error}"))
            .with_remedy("give an object of lists of ranks, such as {\"1\": [0, 1]}")
    })
}

/// Whether some communication has a time.
#[must_use]
pub fn has_times(trace: &Trace) -> bool {
    trace.nodes.iter().any(|it| is_communication(it) && it.start > 0)
}

const fn is_communication(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Send(_) | NodeKind::Receive(_) | NodeKind::Collective { .. })
}

/// The log of one rank of `world`.
pub fn log(trace: &Trace, rank: u32, world: u32, groups: &Groups) -> Result<RankLog, ReadError> {
    if !has_times(trace) {
        let problem =
            "the trace has no times of communication: it says what is done, not when it was";
        return Err(ReadError::new(problem).with_remedy("give a trace that was recorded on GPUs"));
    }
    let kernels = trace.nodes.iter().any(|it| is_communication(it) && it.is_cpu != Some(true));
    let mut log = RankLog { rank, world: Some(world), ..RankLog::default() };
    let mut places: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for node in trace.nodes.iter().filter(|it| !kernels || it.is_cpu != Some(true)) {
        let span = span(node);
        let (name, kind, bytes, ends) = match &node.kind {
            NodeKind::Collective { what: Some(Collective::Data(kind)), bytes, group } => {
                (group.as_deref(), *kind, *bytes, None)
            }
            NodeKind::Send(it) | NodeKind::Receive(it) => {
                let (from, to) = (it.from, it.to);
                let ends = from.zip(to).filter(|it| it.0 != it.1);
                (None, CollectiveKind::SendRecv, it.bytes, ends)
            }
            NodeKind::Compute { .. } if node.is_cpu != Some(true) => {
                log.compute.push(span);
                continue;
            }
            _ => continue,
        };
        let group = *places.entry(name).or_insert_with(|| {
            log.groups.push(logged(name, world, groups));
            log.groups.len() - 1
        });
        let bytes = bytes.unwrap_or(Bytes::ZERO);
        let size = u64::from(log.groups[group].size.unwrap_or(1));
        // Chakra counts what a rank passes to the call, which for an AllGather is its shard.
        let bytes = match kind {
            CollectiveKind::AllGather => Bytes::new(bytes.get().saturating_mul(size)),
            _ => bytes,
        };
        log.calls.push(LoggedCall { group, kind, bytes, span, stream: 0, sequence: None, ends });
    }
    Ok(log)
}

fn span(node: &Node) -> LoggedSpan {
    let ns = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX).saturating_mul(1000);
    let start = ns(node.start);
    LoggedSpan { start, end: start.saturating_add(ns(node.duration)) }
}

fn logged(name: Option<&str>, world: u32, groups: &Groups) -> LoggedGroup {
    let known = name.and_then(|it| groups.get(it));
    let members = match (name, known) {
        (_, Some(ranks)) => {
            let mut ranks: Vec<Rank> = ranks.iter().map(|it| Rank(*it)).collect();
            ranks.sort_unstable();
            ranks.dedup();
            Some(ranks)
        }
        (None, None) => Some((0..world).map(Rank).collect()),
        (Some(_), None) => None,
    };
    LoggedGroup {
        name: name.unwrap_or_default().to_owned(),
        description: String::new(),
        size: members.as_ref().map(|it| it.len() as u32),
        members,
    }
}
