//! The dependency graph of a program's events: the program's waits, the order within lanes, and
//! each transfer's send before its arrival.
//!
//! The verifier, the simulator and everything that changes programs (see [`super::canonical`] and
//! the exporters) order events by it.

use motet_graph::{Followers, Rows};

use super::{Event, Program};

/// No event, no lane.
pub(crate) const NONE: u32 = u32::MAX;

/// What each event waits for: the program's waits, the event before it in its lane, and for an
/// arrival its own send.
#[derive(Debug)]
pub struct EventGraph {
    preds: Rows,
}

impl EventGraph {
    /// The graph of a program, which may be wrong; waits for events that do not exist are left out.
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
        let mut preds = Rows::with_capacity(events, events * 2 + more.len());
        let mut more = more.iter().peekable();
        for event in (0..events).map(Event::from_index) {
            let at = event.index() as u32;
            let own = (!event.is_sent()).then(|| event.transfer().sent().index() as u32);
            let lane = Some(lane_pred[event.index()]).filter(|it| (*it as usize) < events);
            let more = std::iter::from_fn(|| more.next_if(|it| it.0 == at).map(|it| it.1));
            let deps = program.deps(event).iter().map(|it| it.index());
            let deps = deps.filter(|it| *it < events).map(|it| it as u32);
            preds.push_chain(own.into_iter().chain(lane).chain(more).chain(deps));
        }
        Self { preds }
    }

    /// How many events there are: two for each transfer.
    pub fn events(&self) -> usize {
        self.preds.count()
    }

    /// The events that an event waits for, by their indices.
    #[inline]
    pub fn preds(&self, event: usize) -> &[u32] {
        self.preds.row(event)
    }

    /// The events that wait for each event.
    pub(crate) fn followers(&self) -> Followers {
        let of = |event: usize| self.preds(event).iter().map(move |it| (event as u32, *it));
        Followers::of(self.events(), (0..self.events()).flat_map(of))
    }

    /// An order in which all events can happen; `None` if some wait for one another.
    pub(crate) fn order(&self) -> Option<Vec<u32>> {
        Some(self.sort()).filter(|it| it.len() == self.events())
    }

    /// Whether the events can happen in the order of their numbers, as in most programs; then no
    /// sorting is needed.
    pub fn is_numbered_in_order(&self) -> bool {
        (0..self.events()).all(|event| self.preds(event).iter().all(|it| (*it as usize) < event))
    }

    /// The events in the order in which they happen if, of those that can, the lowest number always
    /// goes first. Links carry transfers in this order unless the program gives them turns. Events
    /// that wait for each other are left out.
    #[must_use]
    pub fn sequence(&self) -> Vec<Event> {
        let events = self.events();
        if self.is_numbered_in_order() {
            return (0..events).map(Event::from_index).collect();
        }
        let by_number = self.followers().topological_by(|it| it, |it| it, |_| None);
        by_number.into_iter().map(|it| Event::from_index(it as usize)).collect()
    }

    /// An order of the events that can happen; those on or behind a cycle are missing.
    pub(crate) fn sort(&self) -> Vec<u32> {
        if self.is_numbered_in_order() {
            return (0..self.events() as u32).collect();
        }
        self.followers().topological()
    }
}
