//! The waits that the kernel must check: those of the program without those that are implied.
//!
//! Dropped are: the wait of an arrival for its own sending; waits for sendings that left over the same
//! first link before (the link keeps that order itself); waits of an arrival that the sending has too; and
//! waits for an event that another event of the same list waits for. Only implied waits that are common
//! and cheap to find are dropped; keeping one costs time, not correctness.

use motet_collective::TransferId;
use motet_collective::program::Event;

use crate::route::Routed;

/// Lists longer than this are not searched pair by pair.
const MOST_PAIRS: usize = 12;
/// No place in the sequence; no event.
pub(super) const NONE: u32 = u32::MAX;

/// The waits of every event, and how long each event is needed.
#[derive(Debug)]
pub(super) struct Waits {
    /// The event at place p in the sequence waits for `list[starts[p]..starts[p + 1]]`.
    starts: Vec<u32>,
    list: Vec<u32>,
    /// The last place where something waits for each event, [`NONE`] if nothing does.
    pub(super) last_use: Vec<u32>,
    /// Whether anything in the program waits for the event, dropped waits included.
    pub(super) awaited: Vec<bool>,
    /// By transfer: whether its arrival waits for more than the transfer itself.
    joins: Vec<bool>,
}

impl Waits {
    /// `takes_time` says whether a transfer within a rank takes time. `first_link` numbers the first links of
    /// transfers: equal numbers mean that two transfers leave over the same link.
    pub(super) fn new(
        routed: &Routed<'_>,
        takes_time: impl Fn(usize) -> bool,
        first_link: impl Fn(TransferId) -> Option<u32>,
    ) -> Self {
        let events = routed.graph().events();
        let transfers = (0..events / 2).map(TransferId::from_index);
        let mut finder = Finder {
            routed,
            first_link: transfers.map(|it| first_link(it).unwrap_or(NONE)).collect(),
            place: vec![0; events],
            alias: (0..events as u32).collect(),
            awaited: vec![false; events],
            found: Vec::new(),
        };
        for (place, event) in routed.sequence().iter().enumerate() {
            finder.place[event.index()] = place as u32;
        }
        let mut waits = Self {
            starts: Vec::with_capacity(events + 1),
            list: Vec::with_capacity(events),
            last_use: vec![NONE; events],
            awaited: Vec::new(),
            joins: vec![false; events / 2],
        };
        for (place, event) in routed.sequence().iter().enumerate() {
            waits.starts.push(waits.list.len() as u32);
            let transfer = event.transfer();
            finder.find(*event);
            let local = routed.hops(transfer.index()).is_empty();
            if event.is_sent() {
                if local && finder.found.is_empty() && !takes_time(transfer.index()) {
                    finder.alias[event.index()] = NONE;
                }
            } else if finder.found.is_empty() {
                if local {
                    // It arrives as it is sent: one time for both.
                    finder.alias[event.index()] = finder.alias[transfer.sent().index()];
                }
            } else {
                waits.joins[transfer.index()] = true;
                if local {
                    finder.found.push(transfer.sent().index() as u32);
                    finder.settle();
                }
            }
            for awaited in &finder.found {
                waits.last_use[*awaited as usize] = place as u32;
            }
            waits.list.extend_from_slice(&finder.found);
        }
        waits.starts.push(waits.list.len() as u32);
        waits.awaited = finder.awaited;
        waits
    }

    /// The events that the one at this place waits for.
    pub(super) fn at(&self, place: usize) -> &[u32] {
        &self.list[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// Whether the arrival of a transfer waits for more than the transfer.
    pub(super) fn joins(&self, transfer: usize) -> bool {
        self.joins[transfer]
    }
}

/// Finds the waits of one event after the other, in sequence.
struct Finder<'a> {
    routed: &'a Routed<'a>,
    /// By transfer: the number of its first link; [`NONE`] if it stays within a rank.
    first_link: Vec<u32>,
    /// By event: its place in the sequence.
    place: Vec<u32>,
    /// By event: an event that happens at the same time and stands for it. [`NONE`]: it happens at launch,
    /// which nobody need wait for.
    alias: Vec<u32>,
    /// See [`Waits`].
    awaited: Vec<bool>,
    found: Vec<u32>,
}

impl Finder<'_> {
    fn find(&mut self, event: Event) {
        let graph = self.routed.graph();
        self.found.clear();
        let sent = event.transfer().sent();
        let link = self.first_link[event.transfer().index()];
        // What the transfer already waited for when it was sent.
        let known: &[u32] = if event.is_sent() { &[] } else { short(graph.preds(sent.index())) };
        for pred in graph.preds(event.index()) {
            let other = Event::from_index(*pred as usize);
            // That a transfer arrives does not make its sending awaited.
            if other == sent {
                continue;
            }
            self.awaited[*pred as usize] = true;
            let behind = other.is_sent()
                && link != NONE
                && self.first_link[other.transfer().index()] == link
                && self.place[other.index()] < self.place[sent.index()];
            if !behind && !known.contains(pred) {
                self.found.push(*pred);
            }
        }
        self.drop_pairs();
        self.settle();
    }

    /// Drops events that another event of the list waits for.
    fn drop_pairs(&mut self) {
        if !(2..=MOST_PAIRS).contains(&self.found.len()) {
            return;
        }
        let graph = self.routed.graph();
        let mut all = [0; MOST_PAIRS];
        let all = &mut all[..self.found.len()];
        all.copy_from_slice(&self.found);
        self.found.retain(|it| {
            // Nothing implies itself through another: what waits comes later in the sequence.
            !all.iter().any(|other| short(graph.preds(*other as usize)).contains(it))
        });
    }

    /// Replaces every event found by the one that stands for its time, without duplicates and the launch.
    fn settle(&mut self) {
        let alias = &self.alias;
        for it in &mut self.found {
            *it = alias[*it as usize];
        }
        self.found.retain(|it| *it != NONE);
        self.found.sort_unstable();
        self.found.dedup();
    }
}

/// The list if it is short enough to be searched again and again.
fn short(list: &[u32]) -> &[u32] {
    if list.len() <= MOST_PAIRS { list } else { &[] }
}
