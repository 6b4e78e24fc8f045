//! Whether one event always happens before another.
//!
//! The graph is cut into chains: the lanes, and a second set that follows each chunk on its way
//! (an event continues the longest chain of an event it waits for that nothing else continued).
//! Two events of one chain compare by position, which answers nearly every question at once.
//!
//! The rest is a search backwards from the later event, from chain to chain: within a chunk's chain
//! nothing has to be looked at but the waits for events of other chains ([`Crossings`]), the latest
//! first. It never goes further back than the earlier event's place in the topological order, and it
//! ends where it meets the earlier event, a few of the events that wait for that one, or the chains of
//! any of these. So a rank's own copy of a chunk, on a chain of its own, and the result that overwrites
//! it after it has gone once around a ring, are a step or two apart. Events of the earlier one's rank are
//! looked at first: what is asked is mostly about two accesses to one place, which the rank itself
//! has ordered.

use std::cmp::Reverse;

use motet_graph::{Followers, Rows};
use motet_units::Rank;

use super::budget::WorkBudget;
use super::order::{EventOrder, LaneIndex};
use crate::program::Program;
use crate::program::graph::{EventGraph, NONE};

/// So many of the events that wait for the earlier one are looked out for beside it.
const MOST_BEHIND: usize = 4;

/// Waits that lead from one data chain to another, and who waits for each event.
#[derive(Debug)]
struct Crossings {
    /// By data chain: (place of an event of the chain, an event of another chain that it waits for), by place.
    into: Rows<(u32, u32)>,
    followers: Followers,
}

/// An event to look out for in a search, with its place on its chains.
#[derive(Clone, Copy, Debug)]
struct Goal {
    event: u32,
    chain: (u32, u32),
    lane: (u32, u32),
}

/// Answers "does a always happen before b?".
#[derive(Debug)]
pub(super) struct HappensBefore<'a> {
    graph: &'a EventGraph,
    lanes: &'a LaneIndex,
    order: &'a EventOrder,
    /// Where each event happens.
    rank: Vec<Rank>,
    /// The data chain of each event and its place in it.
    chain: Vec<(u32, u32)>,
    /// Made for the first search: most programs need none.
    crossings: Option<Crossings>,
    /// By data chain: the last search that came there, and how many of its crossings are looked at.
    seen: Vec<(u32, u32)>,
    search: u32,
    /// Events still to look at: of the earlier event's rank, and others.
    near: Vec<u32>,
    far: Vec<u32>,
    /// For searches here, and for whoever compares the accesses to one place.
    pub(super) budget: WorkBudget,
}

impl<'a> HappensBefore<'a> {
    pub(super) fn new(
        program: &Program,
        graph: &'a EventGraph,
        lanes: &'a LaneIndex,
        order: &'a EventOrder,
    ) -> Self {
        let events = graph.events();
        let mut chain = vec![(NONE, 0); events];
        let mut continued = vec![false; events];
        let mut chains = 0;
        for event in &order.sequence {
            let event = *event as usize;
            let (lane, _) = lanes.of(event);
            let free = graph.preds(event).iter().map(|it| *it as usize).filter(|pred| {
                // The lane's own order is known already: a data chain does better to leave it.
                let in_lane = lane != NONE && lanes.of(*pred).0 == lane;
                !continued[*pred] && !in_lane
            });
            // Of several the longest chain goes on: that of the data that has come far, not that of a rank's own copy.
            let follows = free.max_by_key(|pred| (chain[*pred].1, Reverse(*pred)));
            chain[event] = match follows {
                Some(pred) => {
                    continued[pred] = true;
                    (chain[pred].0, chain[pred].1 + 1)
                }
                None => {
                    chains += 1;
                    (chains - 1, 0)
                }
            };
        }
        let rank = program.transfers().iter().flat_map(|it| [it.src.rank, it.dst.rank]).collect();
        let (near, far) = (Vec::new(), Vec::new());
        Self {
            graph,
            lanes,
            order,
            rank,
            chain,
            crossings: None,
            seen: vec![(0, 0); chains as usize],
            search: 0,
            near,
            far,
            budget: WorkBudget::new(program),
        }
    }

    /// Whether event `a` happens before event `b` in every order. Not before itself. Means nothing
    /// once the budget is spent.
    pub(super) fn before(&mut self, a: usize, b: usize) -> bool {
        if self.order.place[a] >= self.order.place[b] {
            return false;
        }
        if self.on_a_chain_to(a, b) || self.graph.preds(b).contains(&(a as u32)) {
            return true;
        }
        let crossings = self.crossings.take().unwrap_or_else(|| self.crossings());
        let found = self.search(&crossings, a, b);
        self.crossings = Some(crossings);
        found
    }

    fn crossings(&self) -> Crossings {
        let Self { graph, order, chain, .. } = self;
        let waits = order.sequence.iter().flat_map(|event| {
            let (own, place) = (chain[*event as usize].0, order.place[*event as usize]);
            let others = graph.preds(*event as usize).iter();
            let others = others.filter(move |it| chain[**it as usize].0 != own);
            others.map(move |it| (own as usize, (place, *it)))
        });
        Crossings { into: Rows::group(self.seen.len(), waits), followers: graph.followers() }
    }

    fn search(&mut self, crossings: &Crossings, a: usize, b: usize) -> bool {
        let start = self.goal(a);
        let mut goals = [start; MOST_BEHIND + 1];
        let behind = crossings.followers.behind(a as u32).iter().take(MOST_BEHIND);
        let count = 1 + behind.len();
        for (goal, event) in goals[1..].iter_mut().zip(behind) {
            *goal = self.goal(*event as usize);
        }
        let goals = &goals[..count];
        if self.is_behind(goals, b) {
            return true;
        }
        let earliest = self.order.place[a];
        self.search += 1;
        self.near.clear();
        self.far.clear();
        self.near.push(b as u32);
        while let Some(event) = self.near.pop().or_else(|| self.far.pop()) {
            let chain = self.chain[event as usize].0;
            let waits = crossings.into.row(chain as usize);
            let place = self.order.place[event as usize];
            // Those of the event itself and of all before it on its chain.
            let all = waits.partition_point(|it| it.0 <= place);
            let seen = &mut self.seen[chain as usize];
            let known = if seen.0 == self.search { seen.1 as usize } else { 0 };
            if all <= known {
                continue;
            }
            *seen = (self.search, all as u32);
            for (place, awaited) in waits[known..all].iter().rev() {
                if self.budget.is_spent() {
                    return false;
                }
                self.budget.spend(2);
                if *place <= earliest {
                    break;
                }
                let at = *awaited as usize;
                if self.is_behind(goals, at) {
                    return true;
                }
                if self.order.place[at] > earliest {
                    let is_near = self.rank[at] == self.rank[a];
                    if is_near { self.near.push(*awaited) } else { self.far.push(*awaited) }
                }
            }
        }
        false
    }

    fn goal(&self, event: usize) -> Goal {
        Goal { event: event as u32, chain: self.chain[event], lane: self.lanes.of(event) }
    }

    /// Whether the event is one of these, or behind one on a chain.
    fn is_behind(&self, goals: &[Goal], event: usize) -> bool {
        let (chain, lane) = (self.chain[event], self.lanes.of(event));
        let on_chain = |it: &Goal| earlier(it.chain, chain) || earlier(it.lane, lane);
        goals.iter().any(|it| it.event as usize == event || on_chain(it))
    }

    /// Whether `a` is before `b` on a chain of either kind.
    fn on_a_chain_to(&self, a: usize, b: usize) -> bool {
        earlier(self.chain[a], self.chain[b]) || earlier(self.lanes.of(a), self.lanes.of(b))
    }
}

/// Whether the first of two positions, each a chain and a place in it, is before the second on the same chain.
const fn earlier(x: (u32, u32), y: (u32, u32)) -> bool {
    x.0 == y.0 && x.0 != NONE && x.1 < y.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collective::{Collective, CollectiveKind};
    use crate::diagnostic::Report;
    use crate::program::{Event, Lane, LaneKind, ProgramBuilder, Slot, Transfer, TransferId};
    use crate::verify::order::settle;

    const RANKS: u32 = 4;

    /// Any transfers between ranks, with waits only for events of transfers before, and lanes in the order of transfers: nothing
    /// waits in a circle.
    fn program(
        transfers: &[(u32, u32)],
        waits: &[(usize, usize, bool, bool)],
        lanes: &[u8],
    ) -> Program {
        let collective = Collective::new(CollectiveKind::AllGather, RANKS, 1).unwrap();
        let mut builder = ProgramBuilder::new("any", collective);
        for (from, to) in transfers {
            let (from, to) = (Rank(*from), Rank(*to));
            builder.add(Transfer::copy(Slot::input(from, 0), Slot::output(to, from.0), 1));
        }
        let event = |transfer: usize, sent: bool| {
            let id = TransferId::from_index(transfer);
            if sent { id.sent() } else { id.arrived() }
        };
        for (a, b, sent, awaited_sent) in waits {
            let (early, late) = (a.min(b) % transfers.len(), a.max(b) % transfers.len());
            if early < late {
                builder.wait(event(late, *sent), event(early, *awaited_sent));
            }
        }
        for lane in 0..3 {
            let in_lane = |it: &usize| lanes.get(*it).is_some_and(|of| *of == lane);
            let events: Vec<Event> =
                (0..transfers.len()).filter(in_lane).map(|it| event(it, true)).collect();
            builder.add_lane(Lane { rank: Rank(0), kind: LaneKind::Block, channel: 0, events });
        }
        builder.build()
    }

    /// Whether a wait leads from `b` back to `a`, found by looking at everything.
    fn reaches(graph: &EventGraph, a: usize, b: usize) -> bool {
        let mut seen = vec![false; graph.events()];
        let mut open = vec![b];
        while let Some(event) = open.pop() {
            for pred in graph.preds(event).iter().map(|it| *it as usize) {
                if pred == a {
                    return true;
                }
                if !std::mem::replace(&mut seen[pred], true) {
                    open.push(pred);
                }
            }
        }
        false
    }

    proptest! {
        #[test]
        fn chains_and_searches_find_what_waits_say(
            transfers in prop::collection::vec((0..RANKS, 0..RANKS), 1..24),
            waits in prop::collection::vec((0..24usize, 0..24usize, any::<bool>(), any::<bool>()), 0..40),
            lanes in prop::collection::vec(0..6u8, 24),
        ) {
            let program = program(&transfers, &waits, &lanes);
            let graph = EventGraph::new(&program);
            let index = LaneIndex::new(&program);
            let order = settle(&program, &graph, &index, &mut Report::default()).unwrap();
            let mut before = HappensBefore::new(&program, &graph, &index, &order);
            for a in 0..graph.events() {
                for b in 0..graph.events() {
                    prop_assert_eq!(before.before(a, b), reaches(&graph, a, b), "{} before {}", a, b);
                }
            }
        }
    }
}
