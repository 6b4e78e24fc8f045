//! Pairs the sends of an MSCCL XML file with its receives.
//!
//! The file says only that a step sends to a peer and that another receives from one. A connection
//! (two ranks and a channel) delivers in order, so that the k-th send and the k-th receive on it are
//! the two halves of one transfer. Sends without a receive, and pairs that differ in their number of
//! chunks, are reported here.

use std::collections::BTreeMap;

use super::parse::XmlBlock;
use super::read::{BlockRead, XmlReader, text};
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::{Action, Slot, Transfer};

/// One thing that a step does: a whole local transfer, or the sending or the receiving half of a
/// transfer between ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    /// The index of its threadblock among all of the file.
    pub(super) block: u32,
    pub(super) step: u32,
    pub(super) kind: HalfKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum HalfKind {
    /// Both halves of a transfer within the rank.
    Local(Transfer),
    Arrival {
        action: Action,
        slot: Slot,
        count: u32,
    },
    Sending {
        slot: Slot,
        count: u32,
    },
}

/// For each half that sends, the half that receives from it.
#[derive(Debug)]
pub(super) struct Pairs {
    arrivals: BTreeMap<usize, usize>,
}

impl Pairs {
    /// The transfer that the half `sending` begins and the half that ends it.
    pub(super) fn of(&self, sending: usize, halves: &[Half]) -> Option<(Transfer, usize)> {
        let other = *self.arrivals.get(&sending)?;
        let HalfKind::Sending { slot: src, count } = halves[sending].kind else {
            return None;
        };
        let HalfKind::Arrival { action, slot: dst, count: other_count } = halves[other].kind else {
            return None;
        };
        // Where the two differ, which is reported, no more than the smaller can be meant.
        let count = count.min(other_count);
        Some((Transfer { action, src, dst, count, path: None }, other))
    }
}

/// (from, to, channel).
type Connection = (i64, i64, i64);

/// What each end of a connection does, as indices of halves and of blocks.
#[derive(Debug, Default)]
struct Ends {
    sendings: Vec<usize>,
    arrivals: Vec<usize>,
    senders: Vec<usize>,
    receivers: Vec<usize>,
}

/// Pairs all halves, reporting those without a partner.
pub(super) fn pair(reader: &mut XmlReader<'_>) -> Pairs {
    let mut connections: BTreeMap<Connection, Ends> = BTreeMap::new();
    for (index, block) in reader.blocks.iter().enumerate() {
        if let Some(connection) = outgoing(block) {
            connections.entry(connection).or_default().senders.push(index);
        }
        if let Some(connection) = incoming(block) {
            connections.entry(connection).or_default().receivers.push(index);
        }
    }
    let mut alone = Vec::new();
    for (index, half) in reader.halves.iter().enumerate() {
        let block = &reader.blocks[half.block as usize];
        match half.kind {
            HalfKind::Local(_) => {}
            HalfKind::Sending { .. } => match outgoing(block) {
                Some(it) => connections.entry(it).or_default().sendings.push(index),
                None => alone.push(index),
            },
            HalfKind::Arrival { .. } => match incoming(block) {
                Some(it) => connections.entry(it).or_default().arrivals.push(index),
                None => alone.push(index),
            },
        }
    }
    for index in alone {
        without_peer(reader, index);
    }
    let mut arrivals = BTreeMap::new();
    for (connection, ends) in connections {
        shared(reader, connection, &ends);
        for (sending, arrival) in ends.sendings.iter().zip(&ends.arrivals) {
            same_count(reader, *sending, *arrival);
            arrivals.insert(*sending, *arrival);
        }
        let paired = ends.sendings.len().min(ends.arrivals.len());
        for half in ends.sendings[paired..].iter().chain(&ends.arrivals[paired..]) {
            unmatched(reader, connection, *half, paired);
        }
    }
    Pairs { arrivals }
}

fn outgoing(block: &BlockRead<'_>) -> Option<Connection> {
    let XmlBlock { send, channel, .. } = block.source;
    let own = i64::from(block.rank.0);
    (*send >= 0 && *send != own).then_some((own, *send, *channel))
}

fn incoming(block: &BlockRead<'_>) -> Option<Connection> {
    let XmlBlock { recv, channel, .. } = block.source;
    let own = i64::from(block.rank.0);
    (*recv >= 0 && *recv != own).then_some((*recv, own, *channel))
}

fn without_peer(reader: &mut XmlReader<'_>, index: usize) {
    let half = reader.halves[index];
    let place = reader.place(half.block as usize, half.step as usize);
    let (finding, message) = match half.kind {
        HalfKind::Sending { .. } => {
            (Finding::UnmatchedSend, "the step sends, but its threadblock has no send peer")
        }
        _ => (Finding::UnmatchedReceive, "the step receives, but its threadblock has no recv peer"),
    };
    reader.error(finding, message, place);
}

/// Two threadblocks on one end of a connection overwrite each other's position in its buffer.
fn shared(reader: &mut XmlReader<'_>, (from, to, channel): Connection, ends: &Ends) {
    for (blocks, gpu, what) in [(&ends.senders, from, "send"), (&ends.receivers, to, "receive")] {
        if let [first, second, ..] = blocks[..] {
            let id = |it: usize| reader.blocks[it].source.id;
            let message = format!(
                "gpu {gpu}: threadblocks {} and {} both {what} on channel {channel} between ranks \
                 {from} and {to}; give them different channels",
                id(first),
                id(second)
            );
            reader.report.push(Diagnostic::error(Finding::BadLane, message));
        }
    }
    let (senders, receivers) = (ends.senders.len(), ends.receivers.len());
    if (senders == 0) != (receivers == 0) && ends.sendings.is_empty() && ends.arrivals.is_empty() {
        let (has, lacks) = if senders == 0 { (to, from) } else { (from, to) };
        let message = format!(
            "gpu {has} names gpu {lacks} as a peer on channel {channel}, but no threadblock there \
             names it back"
        );
        reader.report.push(Diagnostic::warning(Finding::Mismatch, message));
    }
}

fn same_count(reader: &mut XmlReader<'_>, sending: usize, arrival: usize) {
    let count = |it: HalfKind| match it {
        HalfKind::Sending { count, .. } | HalfKind::Arrival { count, .. } => count,
        HalfKind::Local(transfer) => transfer.count,
    };
    let [sent, received] = [sending, arrival].map(|it| reader.halves[it]);
    let (sent_count, received_count) = (count(sent.kind), count(received.kind));
    if sent_count != received_count {
        let there = text(reader.place(received.block as usize, received.step as usize));
        let message =
            format!("sends {sent_count} chunks, but {there} takes {received_count} of them");
        let place = reader.place(sent.block as usize, sent.step as usize);
        reader.error(Finding::Mismatch, &message, place);
    }
}

fn unmatched(reader: &mut XmlReader<'_>, connection: Connection, index: usize, paired: usize) {
    let (from, to, channel) = connection;
    let half = reader.halves[index];
    let place = reader.place(half.block as usize, half.step as usize);
    let (finding, message) = match half.kind {
        HalfKind::Sending { .. } => (
            Finding::UnmatchedSend,
            format!("gpu {to} receives only {paired} times from gpu {from} on channel {channel}"),
        ),
        _ => (
            Finding::UnmatchedReceive,
            format!("gpu {from} sends only {paired} times to gpu {to} on channel {channel}"),
        ),
    };
    reader.error(finding, &message, place);
}
