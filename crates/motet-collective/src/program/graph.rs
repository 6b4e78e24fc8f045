//! The graph of a program's events: what each waits for, its lane and its own sending included.
//!
//! The verifier, the simulator and whoever changes programs (see [`super::canonical`] and the
//! exporters) all order events by it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Event, Program};

/// No event, no lane.
pub(crate) const NONE: u32 = u32::MAX;

/// What each event waits for.
#[derive(Debug)]
pub struct EventGraph {
    starts: Vec<u32>,
    preds: Vec<u32>,
}

impl EventGraph {
    pub fn new(program: &Program) -> Self {
        Self::with_more(program, &[])
    }

    /// The graph with further (event, awaited) pairs, sorted by event.
    pub(crate) fn with_more(program: &Program, more: &[(u32, u32)]) -> Self {
        let events = program.transfers().len() * 2;
        let mut lane_pred = vec![NONE; events];
        for lane in program.lanes() {
            for pair in lane.events.windows(2) {
                if let Some(slot) = lane_pred.get_mut(pair[1].index()) {
                    *slot = pair[0].index() as u32;
                }
            }
        }
        let mut starts = Vec::with_capacity(events + 1);
        let mut preds = Vec::with_capacity(events * 2 + more.len());
        let mut more = more.iter().peekable();
        for event in (0..events).map(Event::from_index) {
            starts.push(preds.len() as u32);
            if !event.is_sent() {
                preds.push(event.transfer().sent().index() as u32);
            }
            let at = event.index() as u32;
            preds.extend(Some(lane_pred[event.index()]).filter(|it| (*it as usize) < events));
            while let Some((_, awaited)) = more.next_if(|it| it.0 == at) {
                preds.push(*awaited);
            }
            let deps = program.deps(event).iter().map(|it| it.index());
            preds.extend(deps.filter(|it| *it < events).map(|it| it as u32));
        }
        starts.push(preds.len() as u32);
        Self { starts, preds }
    }

    pub fn events(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn preds(&self, event: usize) -> &[u32] {
        &self.preds[self.starts[event] as usize..self.starts[event + 1] as usize]
    }

    /// The events that each event is awaited by, as (starts, events).
    pub fn successors(&self) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; self.events() + 1];
        for pred in &self.preds {
            starts[*pred as usize + 1] += 1;
        }
        for event in 0..self.events() {
            starts[event + 1] += starts[event];
        }
        let mut fill = starts.clone();
        let mut successors = vec![0; self.preds.len()];
        for event in 0..self.events() {
            for pred in self.preds(event) {
                let slot = &mut fill[*pred as usize];
                successors[*slot as usize] = event as u32;
                *slot += 1;
            }
        }
        (starts, successors)
    }

    /// An order in which all events can happen; `None` if some wait for one another.
    pub(crate) fn order(&self) -> Option<Vec<u32>> {
        Some(self.sort()).filter(|it| it.len() == self.events())
    }

    /// Whether the events can happen in the order of their numbers, as in most programs; then
    /// there is nothing to sort.
    pub fn is_numbered_in_order(&self) -> bool {
        (0..self.events()).all(|event| self.preds(event).iter().all(|it| (*it as usize) < event))
    }

    /// The events that can happen by number, as far as what they wait for allows: the order in which
    /// links carry transfers unless the program says otherwise.
    #[must_use]
    pub fn sequence(&self) -> Vec<Event> {
        let events = self.events();
        if self.is_numbered_in_order() {
            return (0..events).map(Event::from_index).collect();
        }
        let (starts, successors) = self.successors();
        let mut waiting: Vec<usize> = (0..events).map(|it| self.preds(it).len()).collect();
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..events).filter(|it| waiting[*it] == 0).map(Reverse).collect();
        let mut sequence = Vec::with_capacity(events);
        while let Some(Reverse(event)) = ready.pop() {
            sequence.push(Event::from_index(event));
            for next in &successors[starts[event] as usize..starts[event + 1] as usize] {
                let left = &mut waiting[*next as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(Reverse(*next as usize));
                }
            }
        }
        sequence
    }

    /// An order of the events that can happen; those on or behind a cycle are missing.
    pub(crate) fn sort(&self) -> Vec<u32> {
        if self.is_numbered_in_order() {
            return (0..self.events() as u32).collect();
        }
        let (starts, successors) = self.successors();
        let mut waiting: Vec<u32> = self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut order: Vec<u32> = Vec::with_capacity(self.events());
        order.extend((0..self.events()).filter(|it| waiting[*it] == 0).map(|it| it as u32));
        let mut done = 0;
        while done < order.len() {
            let event = order[done] as usize;
            done += 1;
            for next in &successors[starts[event] as usize..starts[event + 1] as usize] {
                waiting[*next as usize] -= 1;
                if waiting[*next as usize] == 0 {
                    order.push(*next);
                }
            }
        }
        order
    }
}
