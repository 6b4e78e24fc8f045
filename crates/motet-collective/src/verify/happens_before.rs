//! Whether one event always happens before another.
//!
//! The graph is cut into chains: the lanes, and a second set that follows each chunk on its way
//! (an event continues the chain of the first event it waits for that nothing else continued).
//! Two events of one chain compare by position, which answers nearly every question at once. The
//! rest is a search backwards that never goes further back than the earlier event's place in the
//! topological order and stops at its chains. It looks at events of the earlier one's rank first:
//! what is asked is mostly about two accesses to one place, which the rank itself has ordered.

use motet_units::Rank;

use super::budget::WorkBudget;
use super::order::{EventOrder, LaneIndex};
use crate::program::Program;
use crate::program::graph::{EventGraph, NONE};

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
    /// The last search that saw each event.
    seen: Vec<u32>,
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
            let follows = graph.preds(event).iter().map(|it| *it as usize).find(|pred| {
                // The lane's own order is known already: a data chain does better to leave it.
                let in_lane = lane != NONE && lanes.of(*pred).0 == lane;
                !continued[*pred] && !in_lane
            });
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
            seen: vec![0; events],
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
        self.search += 1;
        self.near.clear();
        self.far.clear();
        self.near.push(b as u32);
        while let Some(event) = self.near.pop().or_else(|| self.far.pop()) {
            if self.budget.is_spent() {
                return false;
            }
            let preds = self.graph.preds(event as usize);
            self.budget.spend(1 + preds.len());
            for pred in preds {
                let at = *pred as usize;
                if at == a || self.on_a_chain_to(a, at) {
                    return true;
                }
                let later = self.order.place[at] > self.order.place[a];
                if later && self.seen[at] != self.search {
                    self.seen[at] = self.search;
                    let is_near = self.rank[at] == self.rank[a];
                    if is_near { self.near.push(*pred) } else { self.far.push(*pred) }
                }
            }
        }
        false
    }

    /// Whether `a` is before `b` on a chain of either kind.
    fn on_a_chain_to(&self, a: usize, b: usize) -> bool {
        let earlier = |x: (u32, u32), y: (u32, u32)| x.0 == y.0 && x.0 != NONE && x.1 < y.1;
        earlier(self.chain[a], self.chain[b]) || earlier(self.lanes.of(a), self.lanes.of(b))
    }
}
