//! The graph of events and an order in which they can all happen, or why there is none.
//!
//! An event waits for: what the program says, the event before it in its lane, and, for an
//! arrival, its own sending. A connection between two lanes also has a finite buffer: its k-th
//! sending waits for the arrival of the one `depth` before it. That last kind of wait is checked
//! for deadlock alone; it orders nothing for the data checks, because the depth of a buffer is no
//! promise that a program may lean on.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Event, LaneKind, Program};

/// No lane.
pub(super) const NONE: u32 = u32::MAX;

/// What each event waits for.
#[derive(Debug)]
pub(super) struct Graph {
    starts: Vec<u32>,
    preds: Vec<u32>,
    /// The lane of each event and its place in it, or [`NONE`].
    pub(super) lane: Vec<(u32, u32)>,
}

impl Graph {
    pub(super) fn new(program: &Program) -> Self {
        let events = program.transfers().len() * 2;
        let mut lane = vec![(NONE, NONE); events];
        let mut lane_pred = vec![NONE; events];
        for (index, it) in program.lanes().iter().enumerate() {
            let mut last = NONE;
            for (place, event) in it.events.iter().enumerate() {
                // An event twice in the lanes is reported by the structure check; here the first
                // place counts.
                if event.index() >= events || lane[event.index()].0 != NONE {
                    continue;
                }
                lane[event.index()] = (index as u32, place as u32);
                lane_pred[event.index()] = last;
                last = event.index() as u32;
            }
        }
        let mut starts = Vec::with_capacity(events + 1);
        let mut preds = Vec::with_capacity(events * 2);
        for event in (0..events).map(Event::from_index) {
            starts.push(preds.len() as u32);
            if !event.is_sent() {
                preds.push(event.transfer().sent().index() as u32);
            }
            if lane_pred[event.index()] != NONE {
                preds.push(lane_pred[event.index()]);
            }
            let deps = program.deps(event).iter().map(|it| it.index());
            preds.extend(deps.filter(|it| *it < events).map(|it| it as u32));
        }
        starts.push(preds.len() as u32);
        Self { starts, preds, lane }
    }

    pub(super) fn events(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn preds(&self, event: usize) -> &[u32] {
        &self.preds[self.starts[event] as usize..self.starts[event + 1] as usize]
    }
}

/// A topological order of the events.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) sequence: Vec<u32>,
    /// Where each event is in the sequence.
    pub(super) place: Vec<u32>,
}

/// The order, with every deadlock reported; `None` if there is one in the program itself.
pub(super) fn settle(program: &Program, graph: &Graph, report: &mut Report) -> Option<Order> {
    let sequence = sort(graph, &[]);
    if sequence.len() < graph.events() {
        report_cycles(program, graph, &[], &sequence, report, "");
        return None;
    }
    let fifo = fifo_waits(program, graph, report);
    if !fifo.is_empty() {
        let with_fifo = sort(graph, &fifo);
        if with_fifo.len() < graph.events() {
            let depth = program.hints().protocol.fifo_depth();
            let why = format!(
                ", because a connection holds {depth} transfers with protocol {}",
                program.hints().protocol.name()
            );
            report_cycles(program, graph, &fifo, &with_fifo, report, &why);
        }
    }
    let mut place = vec![0; graph.events()];
    for (index, event) in sequence.iter().enumerate() {
        place[*event as usize] = index as u32;
    }
    Some(Order { sequence, place })
}

/// Kahn's algorithm; events on or behind a cycle are missing from the result. `extra` are further
/// (event, awaited) pairs, sorted.
fn sort(graph: &Graph, extra: &[(u32, u32)]) -> Vec<u32> {
    let events = graph.events();
    let mut next_starts = vec![0u32; events + 1];
    for pred in graph.preds.iter().chain(extra.iter().map(|(_, awaited)| awaited)) {
        next_starts[*pred as usize + 1] += 1;
    }
    for event in 0..events {
        next_starts[event + 1] += next_starts[event];
    }
    let mut fill = next_starts.clone();
    let mut nexts = vec![0u32; next_starts[events] as usize];
    let mut waiting = vec![0u32; events];
    let mut add = |event: usize, pred: u32| {
        let slot = &mut fill[pred as usize];
        nexts[*slot as usize] = event as u32;
        *slot += 1;
        waiting[event] += 1;
    };
    for event in 0..events {
        for pred in graph.preds(event) {
            add(event, *pred);
        }
    }
    for (event, awaited) in extra {
        add(*event as usize, *awaited);
    }
    let mut sequence: Vec<u32> = Vec::with_capacity(events);
    sequence.extend((0..events).filter(|it| waiting[*it] == 0).map(|it| it as u32));
    let mut done = 0;
    while done < sequence.len() {
        let event = sequence[done] as usize;
        done += 1;
        let (start, end) = (next_starts[event] as usize, next_starts[event + 1] as usize);
        for next in &nexts[start..end] {
            waiting[*next as usize] -= 1;
            if waiting[*next as usize] == 0 {
                sequence.push(*next);
            }
        }
    }
    sequence
}

/// The waits that finite connection buffers add, as (event, awaited), sorted by event. A
/// connection joins a threadblock lane that sends to one that receives.
fn fifo_waits(program: &Program, graph: &Graph, report: &mut Report) -> Vec<(u32, u32)> {
    let mut connections: BTreeMap<(u32, u32), Vec<(u32, u32)>> = BTreeMap::new();
    for (index, lane) in program.lanes().iter().enumerate() {
        if lane.kind != LaneKind::Block {
            continue;
        }
        for event in lane.events.iter().filter(|it| it.is_sent() && it.index() < graph.events()) {
            let arrived = event.transfer().arrived();
            let (to, _) = graph.lane[arrived.index()];
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
            pairs.windows(2).all(|it| graph.lane[it[0].1 as usize].1 < graph.lane[it[1].1 as usize].1);
        if !in_order {
            report.push(Diagnostic::error(
                Finding::Mismatch,
                format!("lane {to} receives in another order than lane {from} sends"),
            ));
            continue;
        }
        let late = pairs.iter().skip(depth);
        waits.extend(late.zip(&pairs).map(|((sent, _), (_, arrived))| (*sent, *arrived)));
    }
    waits.sort_unstable();
    waits
}

/// One diagnostic per knot of events that wait for one another.
fn report_cycles(
    program: &Program,
    graph: &Graph,
    extra: &[(u32, u32)],
    sorted: &[u32],
    report: &mut Report,
    why: &str,
) {
    let mut stuck = vec![true; graph.events()];
    for event in sorted {
        stuck[*event as usize] = false;
    }
    // Every stuck event has a stuck predecessor, so walking back from any of them ends in a cycle.
    let pred = |event: u32| {
        let own = graph.preds(event as usize).iter().copied();
        let start = extra.partition_point(|it| it.0 < event);
        let more = extra[start..].iter().take_while(|it| it.0 == event).map(|it| it.1);
        own.chain(more).find(|it| stuck[*it as usize])
    };
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
