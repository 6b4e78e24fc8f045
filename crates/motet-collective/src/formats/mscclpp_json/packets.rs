//! Packets carry their own flags: whoever reads one waits until it has been written in this call.
//!
//! So each read of packets follows the writes of them, if each packet is written once. Before
//! packets are posted to a port, all threads of the block see them and meet: what the block does
//! later follows too. Where a packet is written twice, nothing tells which of the two a reader gets,
//! and no order is claimed.

use std::collections::BTreeMap;

use motet_units::Rank;

use super::graph::{StepGraph, event};
use super::lanes::Numbered;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Buffer, Slot, TransferId};

/// Edges that packets may add; beyond any real plan.
const MAX_EDGES: usize = 1 << 22;

/// A write of packets to scratch.
#[derive(Clone, Copy, Debug)]
struct Written {
    start: u64,
    end: u64,
    id: TransferId,
    /// Whether another write hits one of its packets too.
    twice: bool,
}

pub(super) fn join(graph: &mut StepGraph, numbered: &Numbered, ranks: usize, report: &mut Report) {
    let mut written: Vec<Vec<Written>> = vec![Vec::new(); ranks];
    let mut plain = vec![false; ranks];
    let mut packets = vec![false; ranks];
    // What operations in the switch have there, by where it came from.
    let mut in_switch: BTreeMap<Slot, Slot> = BTreeMap::new();
    let posted = numbered.posted();
    for (index, what) in numbered.moves.iter().enumerate() {
        let id = TransferId::from_index(index);
        let transfer = what.transfer;
        // A proxy moves packets as they are, whether or not anybody has looked at them first.
        let from_packets = what.reads_packets || posted[index] && what.writes_packets;
        for (slot, is_packets) in
            [(transfer.src, from_packets), (transfer.dst, what.writes_packets)]
        {
            if slot.buffer == Buffer::Scratch {
                let uses = if is_packets { &mut packets } else { &mut plain };
                uses[slot.rank.index()] = true;
            }
        }
        if transfer.dst.is_switch() {
            in_switch.insert(transfer.dst, transfer.src);
        }
        // A multicast also writes the packets that it was made from, which are there already.
        let echo = in_switch.get(&transfer.src) == Some(&transfer.dst);
        if what.writes_packets && !echo {
            let (start, end) = span(transfer.dst, transfer.count);
            written[transfer.dst.rank.index()].push(Written { start, end, id, twice: false });
        }
    }
    for rank in (0..ranks).filter(|it| plain[*it] && packets[*it]) {
        report.push(Diagnostic::not_judged(format!(
            "the scratch of gpu {} holds both packets and plain data, which lie differently",
            Rank::from_index(rank)
        )));
    }
    for list in &mut written {
        sort(list);
    }
    let mut edges = 0;
    for (index, what) in numbered.moves.iter().enumerate().filter(|(_, it)| it.reads_packets) {
        let id = TransferId::from_index(index);
        let (start, end) = span(what.transfer.src, what.transfer.count);
        let list = &written[what.transfer.src.rank.index()];
        let from = list.partition_point(|it| it.end <= start);
        let mut covered = start;
        for it in list[from..].iter().take_while(|it| it.start < end) {
            if it.start <= covered {
                covered = covered.max(it.end);
            }
            if !it.twice {
                let reader = graph.seen.get(&id).copied().unwrap_or(event(id.sent()));
                graph.edge(reader, event(it.id.arrived()), true);
            }
            edges += 1;
        }
        if edges > MAX_EDGES {
            let message = "too many packets to follow";
            return report.push(Diagnostic::error(Finding::TooLarge, message));
        }
        if covered < end {
            let message = format!("{} waits for packets that nothing writes", what.transfer);
            report.push(Diagnostic::error(Finding::Deadlock, message).of(id));
        }
    }
}

fn span(slot: Slot, count: u32) -> (u64, u64) {
    (u64::from(slot.offset), u64::from(slot.offset) + u64::from(count))
}

/// Sorts by place and marks what is written twice. Ends are made to grow, so that a search by end
/// finds every write at or after a place.
fn sort(list: &mut [Written]) {
    list.sort_by_key(|it| (it.start, it.end, it.id));
    let mut last: Option<usize> = None;
    for index in 0..list.len() {
        if let Some(last) = last.filter(|it| list[*it].end > list[index].start) {
            list[last].twice = true;
            list[index].twice = true;
        }
        if last.is_none_or(|it| list[index].end >= list[it].end) {
            last = Some(index);
        }
    }
    let mut reach = 0;
    for it in list {
        reach = reach.max(it.end);
        it.end = reach;
    }
}
