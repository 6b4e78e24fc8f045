//! Which waits follow from others, for all events of a program with lanes at once.
//!
//! Lanes are sequences, so that what an event knows of a lane is one number: how far the lane has
//! surely come before the event happens. One walk through the events in order carries these numbers
//! along for a few lanes at a time, and a wait is implied if something else that its event waits
//! for knows as much of the awaited lane.

use super::graph::{EventGraph, NONE};
use super::{Event, Program};

/// Lanes whose progress is carried along in one walk.
const AT_ONCE: usize = 16;

/// Walks times waits that may be looked at; about a second. Real programs stay below.
const MOST_WORK: usize = 1 << 28;

/// For each wait of a program, in the order of events and their waits, whether another implies it.
/// `None` if a wait is for an event in no lane, or if there are too many lanes to walk for.
pub(super) fn by_lanes(program: &Program, graph: &EventGraph, order: &[u32]) -> Option<Vec<bool>> {
    let lanes = program.lanes().len();
    let edges: usize = (0..graph.events()).map(|it| graph.preds(it).len()).sum();
    if lanes == 0 || lanes.div_ceil(AT_ONCE).saturating_mul(edges) > MOST_WORK {
        return None;
    }
    let mut place = vec![(NONE, 0u32); graph.events()];
    for (lane, it) in (0..).zip(program.lanes()) {
        for (at, event) in (1..).zip(&it.events) {
            *place.get_mut(event.index())? = (lane, at);
        }
    }
    let mut waits: Vec<Wait> = Vec::new();
    for event in (0..graph.events()).map(Event::from_index) {
        for awaited in program.deps(event) {
            let (lane, at) = *place.get(awaited.index())?;
            if lane == NONE {
                return None;
            }
            let number = waits.len() as u32;
            let (event, awaited) = (event.index() as u32, awaited.index() as u32);
            waits.push(Wait { event, awaited, lane, at, number });
        }
    }
    let mut implied = vec![false; waits.len()];
    waits.sort_unstable_by_key(|it| (it.lane / AT_ONCE as u32, it.event));
    let mut walk = Walk { graph, order, place: &place, known: vec![[0; AT_ONCE]; graph.events()] };
    for group in waits.chunk_by(|a, b| a.lane / AT_ONCE as u32 == b.lane / AT_ONCE as u32) {
        walk.with(group[0].lane / AT_ONCE as u32 * AT_ONCE as u32);
        for wait in group {
            implied[wait.number as usize] = walk.implies(wait);
        }
    }
    Some(implied)
}

struct Wait {
    event: u32,
    awaited: u32,
    /// Of the awaited event, with its place there counted from 1.
    lane: u32,
    at: u32,
    number: u32,
}

struct Walk<'a> {
    graph: &'a EventGraph,
    order: &'a [u32],
    /// The lane of each event and its place in it, counted from 1.
    place: &'a [(u32, u32)],
    /// By event: how far each of the lanes looked at has come when the event has happened.
    known: Vec<[u32; AT_ONCE]>,
}

impl Walk<'_> {
    /// Carries along what events know of the lanes from `first` on.
    fn with(&mut self, first: u32) {
        for event in self.order {
            let mut known = [0; AT_ONCE];
            for pred in self.graph.preds(*event as usize) {
                for (slot, other) in known.iter_mut().zip(&self.known[*pred as usize]) {
                    *slot = (*slot).max(*other);
                }
            }
            let (lane, at) = self.place[*event as usize];
            if let Some(slot) =
                lane.checked_sub(first).and_then(|lane| known.get_mut(lane as usize))
            {
                *slot = at;
            }
            self.known[*event as usize] = known;
        }
    }

    /// Whether something else that the event waits for has to wait for the awaited event too, or
    /// the event waits for it twice (as for its lane's event before).
    fn implies(&self, wait: &Wait) -> bool {
        let slot = wait.lane as usize % AT_ONCE;
        let preds = self.graph.preds(wait.event as usize);
        preds.iter().filter(|it| **it == wait.awaited).count() > 1
            || preds
                .iter()
                .any(|it| *it != wait.awaited && self.known[*it as usize][slot] >= wait.at)
    }
}
