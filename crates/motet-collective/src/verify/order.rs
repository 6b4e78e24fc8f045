//! The graph of events and an order in which they can all happen, or why there is none.
//!
//! An event waits for: what the program says, the event before it in its lane, and, for an
//! arrival, its own sending. A connection between two lanes also has a finite buffer: its k-th
//! sending waits for the arrival of the one `depth` before it. That last kind of wait is checked
//! for deadlock alone; it orders nothing for the data checks, because the depth of a buffer is no
//! promise that a program may lean on.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::graph::{EventGraph, NONE};
use crate::program::{Event, LaneKind, Program};

/// The lane of each event and its place in it, or [`NONE`].
#[derive(Debug)]
pub(super) struct LaneIndex(Vec<(u32, u32)>);

impl LaneIndex {
    pub(super) fn new(program: &Program) -> Self {
        let mut lanes = vec![(NONE, NONE); program.transfers().len() * 2];
        for (index, lane) in program.lanes().iter().enumerate() {
            for (place, event) in lane.events.iter().enumerate() {
                if let Some(slot) = lanes.get_mut(event.index()) {
                    *slot = (index as u32, place as u32);
                }
            }
        }
        Self(lanes)
    }

    pub(super) fn of(&self, event: usize) -> (u32, u32) {
        self.0[event]
    }
}

/// A topological order of the events.
#[derive(Debug)]
pub(super) struct EventOrder {
    pub(super) sequence: Vec<u32>,
    /// Where each event is in the sequence.
    pub(super) place: Vec<u32>,
}

/// The order, with every deadlock reported; `None` if there is one in the program itself.
pub(super) fn settle(
    program: &Program,
    graph: &EventGraph,
    lanes: &LaneIndex,
    report: &mut Report,
) -> Option<EventOrder> {
    let sequence = graph.sort();
    if sequence.len() < graph.events() {
        report_cycles(program, graph, &sequence, report, "");
        return None;
    }
    let fifo = fifo_waits(program, lanes, report);
    if !fifo.is_empty() {
        let bounded = EventGraph::with_more(program, &fifo);
        let can_happen = bounded.sort();
        if can_happen.len() < bounded.events() {
            let depth = program.hints().protocol.fifo_depth();
            let why = format!(
                ", because a connection's buffer has {depth} places with protocol {}",
                program.hints().protocol.name()
            );
            report_cycles(program, &bounded, &can_happen, report, &why);
        }
    }
    let mut place = vec![0; graph.events()];
    for (index, event) in sequence.iter().enumerate() {
        place[*event as usize] = index as u32;
    }
    Some(EventOrder { sequence, place })
}

/// What each sending waits for so that its connection has room, as (sent, awaited), sorted.
pub(crate) fn waits_for_room(program: &Program) -> Vec<(u32, u32)> {
    fifo_waits(program, &LaneIndex::new(program), &mut Report::default())
}

/// The waits that finite connection buffers add, as (event, awaited), sorted by event. A
/// connection joins a threadblock lane that sends to one that receives.
fn fifo_waits(program: &Program, lanes: &LaneIndex, report: &mut Report) -> Vec<(u32, u32)> {
    let mut connections: BTreeMap<(u32, u32), Vec<(u32, u32)>> = BTreeMap::new();
    for (index, lane) in program.lanes().iter().enumerate() {
        if lane.kind != LaneKind::Block {
            continue;
        }
        let events = program.transfers().len() * 2;
        for event in lane.events.iter().filter(|it| it.is_sent() && it.index() < events) {
            let arrived = event.transfer().arrived();
            let (to, _) = lanes.of(arrived.index());
            let same = to == NONE || to as usize == index;
            if !same && program.lanes()[to as usize].kind == LaneKind::Block {
                let pair = (event.index() as u32, arrived.index() as u32);
                connections.entry((index as u32, to)).or_default().push(pair);
            }
        }
    }
    let depth = program.hints().protocol.fifo_depth();
    let mut waits = Vec::new();
    for ((from, to), pairs) in connections {
        let in_order =
            pairs.windows(2).all(|it| lanes.of(it[0].1 as usize).1 < lanes.of(it[1].1 as usize).1);
        if !in_order {
            report.push(Diagnostic::error(
                Finding::Mismatch,
                format!("lane {to} receives in another order than lane {from} sends"),
            ));
            continue;
        }
        connection_waits(program, lanes, &pairs, depth, &mut waits);
    }
    waits.sort_unstable();
    waits
}

/// The waits of one connection, whose (sent, arrived) pairs are in order. A transfer takes as many
/// places of the buffer as its chunks need at the program's largest size. It has been sent only
/// when the receiver has taken enough of what came before, or has begun to take the transfer that
/// holds the place.
fn connection_waits(
    program: &Program,
    lanes: &LaneIndex,
    pairs: &[(u32, u32)],
    depth: usize,
    waits: &mut Vec<(u32, u32)>,
) {
    // Places taken up to and with each transfer.
    let mut ends = Vec::with_capacity(pairs.len());
    let mut end = 0;
    let chunks = program.chunks_per_place();
    for (sent, _) in pairs {
        let transfer = program.transfer(Event::from_index(*sent as usize).transfer());
        end += u64::from(transfer.count.div_ceil(chunks));
        ends.push(end);
    }
    for ((sent, _), end) in pairs.iter().zip(&ends) {
        let Some(taken) = end.checked_sub(depth as u64).filter(|it| *it > 0) else { continue };
        let holder = ends.partition_point(|it| *it < taken);
        let arrived = pairs[holder].1;
        if ends[holder] == taken {
            waits.push((*sent, arrived));
            continue;
        }
        // Taking begins when all that the arrival waits for, but the sending, has happened.
        let event = Event::from_index(arrived as usize);
        let others = |it: &&Event| **it != event.transfer().sent() && exists(program, **it);
        let deps = program.deps(event).iter().filter(others);
        waits.extend(deps.map(|it| (*sent, it.index() as u32)));
        let (lane, place) = lanes.of(arrived as usize);
        let before = (place as usize).checked_sub(1);
        let before = before.map(|it| program.lanes()[lane as usize].events[it]);
        let before = before.filter(|it| exists(program, *it));
        waits.extend(before.map(|it| (*sent, it.index() as u32)));
    }
}

fn exists(program: &Program, event: Event) -> bool {
    event.index() < program.transfers().len() * 2
}

/// One diagnostic per knot of events that wait for one another.
fn report_cycles(
    program: &Program,
    graph: &EventGraph,
    sorted: &[u32],
    report: &mut Report,
    why: &str,
) {
    let mut stuck = vec![true; graph.events()];
    for event in sorted {
        stuck[*event as usize] = false;
    }
    // Every stuck event has a stuck predecessor, so walking back from any of them ends in a cycle.
    let pred =
        |event: u32| graph.preds(event as usize).iter().copied().find(|it| stuck[*it as usize]);
    // 0: not seen; otherwise the number of the walk that saw it.
    let mut seen = vec![0u32; graph.events()];
    let mut walk = 0;
    for start in (0..graph.events() as u32).filter(|it| stuck[*it as usize]) {
        walk += 1;
        let mut at = start;
        while seen[at as usize] == 0 {
            seen[at as usize] = walk;
            match pred(at) {
                Some(before) => at = before,
                None => break,
            }
        }
        if seen[at as usize] != walk {
            continue;
        }
        let mut cycle = vec![at];
        let mut next = pred(at);
        while let Some(event) = next.filter(|it| *it != at) {
            cycle.push(event);
            next = pred(event);
        }
        report.push(describe_cycle(program, &cycle, why));
    }
}

fn describe_cycle(program: &Program, cycle: &[u32], why: &str) -> Diagnostic {
    const SHOWN: usize = 6;
    let text = |event: &u32| {
        let event = Event::from_index(*event as usize);
        let transfer = program.transfer(event.transfer());
        let side = if event.is_sent() { "sending" } else { "arrival" };
        format!(
            "{side} of transfer {} (rank {} to {})",
            event.transfer().0,
            transfer.src.rank,
            transfer.dst.rank
        )
    };
    let mut words: Vec<String> = cycle.iter().take(SHOWN).map(text).collect();
    if cycle.len() > SHOWN {
        words.push(format!("{} more", cycle.len() - SHOWN));
    }
    let message = format!(
        "{} events wait for one another{why}: {}, which waits for the first",
        cycle.len(),
        words.join(", which waits for ")
    );
    let first = Event::from_index(cycle[0] as usize).transfer();
    Diagnostic::error(Finding::Deadlock, message).of(first)
}
