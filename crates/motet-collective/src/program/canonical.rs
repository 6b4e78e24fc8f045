//! The canonical form of a program: transfers numbered in the order in which lanes run them, and no
//! wait that follows from lanes or from other waits.
//!
//! Two programs that order the same transfers in the same way have the same canonical form. The
//! exporters write it, so that reading back what they wrote gives an equal program, and a test can
//! compare the two.

use motet_units::Rank;

use super::graph::{EventGraph, NONE};
use super::implied;
use super::{Event, Lane, Program, ProgramBuilder, TransferId};
use crate::collective::Collective;

/// Visits that finding implied waits one by one may take in all, about a second. Where they do not
/// suffice, the remaining waits are kept, which is right as well, only longer.
const MOST_VISITS: u64 = 1 << 26;

impl Program {
    /// The same program without the waits that follow from lanes, from a transfer's own sending
    /// or from other waits. What is left is unique: it is the transitive reduction of the graph
    /// of events, less the edges that are not waits. A program that deadlocks is left as it is.
    #[must_use]
    pub fn without_implied_waits(&self) -> Self {
        let graph = EventGraph::new(self);
        let Some(order) = graph.order() else {
            return self.clone();
        };
        if let Some(implied) = implied::by_lanes(self, &graph, &order) {
            return self.without(&implied);
        }
        let mut place = vec![0u32; order.len()];
        for (index, event) in order.iter().enumerate() {
            place[*event as usize] = index as u32;
        }
        let mut search = Search {
            graph: &graph,
            place: &place,
            seen: vec![NONE; order.len()],
            visits: 0,
            implied: Vec::new(),
        };
        let mut builder = self.to_builder();
        builder.waits_mut().clear();
        for event in (0..graph.events()).map(Event::from_index) {
            let waits = self.deps(event);
            if waits.is_empty() {
                continue;
            }
            search.from(event.index(), waits);
            for awaited in waits {
                // What does not exist is the verifier's to report.
                let unknown = awaited.index() >= graph.events();
                if unknown || !search.implied.contains(&(awaited.index() as u32)) {
                    builder.wait(event, *awaited);
                }
            }
        }
        builder.build()
    }

    /// The same program without the waits marked here, in the order of events and their waits.
    fn without(&self, marked: &[bool]) -> Self {
        let mut builder = self.to_builder();
        let mut marks = marked.iter();
        builder.waits_mut().retain(|_| marks.next() != Some(&true));
        builder.build()
    }

    /// The same program with lanes sorted by rank and transfers numbered in the order in which
    /// the lanes send them; those that no lane sends come last. Lanes must be threadblocks.
    pub(crate) fn in_lane_order(&self) -> Self {
        let mut lanes: Vec<Lane> = self.lanes().to_vec();
        lanes.sort_by_key(|it| it.rank);
        let mut new_ids = vec![NONE; self.transfers().len()];
        let mut old_ids = Vec::with_capacity(new_ids.len());
        let in_lanes = lanes.iter().flat_map(|it| &it.events).filter(|it| it.is_sent());
        let rest = (0..new_ids.len()).map(TransferId::from_index);
        for id in in_lanes.map(|it| it.transfer()).chain(rest) {
            if new_ids[id.index()] == NONE {
                new_ids[id.index()] = old_ids.len() as u32;
                old_ids.push(id);
            }
        }
        let renamed = |event: Event| {
            let id = TransferId(new_ids[event.transfer().index()]);
            if event.is_sent() { id.sent() } else { id.arrived() }
        };
        for lane in &mut lanes {
            for event in &mut lane.events {
                *event = renamed(*event);
            }
        }
        let mut builder = self.emptied();
        for id in &old_ids {
            builder.add(*self.transfer(*id));
        }
        for event in (0..new_ids.len() * 2).map(Event::from_index) {
            for awaited in self.deps(event) {
                builder.wait(renamed(event), renamed(*awaited));
            }
        }
        builder.set_lanes(lanes);
        builder.build()
    }

    /// A builder with everything but transfers, waits, lanes and turns.
    pub(crate) fn emptied(&self) -> ProgramBuilder {
        self.emptied_for(self.collective().clone())
    }

    /// The same for another collective of as many ranks.
    pub(super) fn emptied_for(&self, collective: Collective) -> ProgramBuilder {
        let mut builder =
            ProgramBuilder::new(self.name(), collective).forms(self.forms()).hints(*self.hints());
        for rank in (0..self.collective().ranks()).map(Rank) {
            builder.set_scratch(rank, self.scratch_chunks(rank));
            builder.set_switch(rank, self.switch_chunks(rank));
        }
        for path in self.paths() {
            builder.add_path(path.clone());
        }
        builder.set_network(self.network());
        builder
    }
}

/// Finds, for one event after the other, which of its waits are implied.
struct Search<'a> {
    graph: &'a EventGraph,
    place: &'a [u32],
    /// The last event whose search saw each event.
    seen: Vec<u32>,
    visits: u64,
    implied: Vec<u32>,
}

impl Search<'_> {
    /// Searches backwards from `event`, latest first: what is seen before its turn as an awaited
    /// event comes is awaited by something that is awaited too. Goes no further back than the
    /// earliest event awaited.
    fn from(&mut self, event: usize, waits: &[Event]) {
        self.implied.clear();
        if self.visits > MOST_VISITS {
            return;
        }
        let mark = event as u32;
        let known = waits.iter().filter(|it| it.index() < self.place.len());
        let earliest = known.map(|it| self.place[it.index()]).min().unwrap_or(0);
        let mut starts: Vec<u32> = self.graph.preds(event).to_vec();
        starts.sort_unstable_by_key(|it| std::cmp::Reverse(self.place[*it as usize]));
        let mut stack = Vec::new();
        for start in starts {
            if self.seen[start as usize] == mark {
                self.implied.push(start);
                continue;
            }
            self.seen[start as usize] = mark;
            stack.push(start);
            while let Some(at) = stack.pop() {
                let preds = self.graph.preds(at as usize);
                self.visits += preds.len() as u64;
                for pred in preds {
                    let pred = *pred as usize;
                    if self.place[pred] >= earliest && self.seen[pred] != mark {
                        self.seen[pred] = mark;
                        stack.push(pred as u32);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::CollectiveKind;
    use crate::program::{LaneKind, Slot, Transfer};
    use proptest::prelude::*;

    /// A program of `transfers` local transfers with these waits, each for an earlier event, and
    /// the events of every third transfer in one lane, or all in three.
    fn program(transfers: usize, waits: &[(usize, usize)], all: bool) -> Program {
        let collective = Collective::new(CollectiveKind::AllReduce, 1, 4).unwrap();
        let mut b = ProgramBuilder::new("p", collective);
        let mut lanes = vec![Vec::new(); 3];
        for index in 0..transfers {
            let id = b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), 1));
            if index % 3 == 0 || all {
                lanes[index % 3].extend([id.sent(), id.arrived()]);
            }
        }
        for events in lanes {
            b.add_lane(Lane { rank: Rank(0), kind: LaneKind::Block, channel: 0, events });
        }
        for (a, b_) in waits {
            let (a, b_) = (a % (transfers * 2), b_ % (transfers * 2));
            if a != b_ {
                b.wait(Event::from_index(a.max(b_)), Event::from_index(a.min(b_)));
            }
        }
        b.build()
    }

    /// Which events precede which, by brute force.
    fn closure(program: &Program) -> Vec<Vec<bool>> {
        let graph = EventGraph::new(program);
        let count = graph.events();
        let mut before = vec![vec![false; count]; count];
        for event in graph.order().unwrap() {
            for pred in graph.preds(event as usize) {
                let (pred, event) = (*pred as usize, event as usize);
                before[event][pred] = true;
                let earlier = before[pred].clone();
                for (slot, other) in before[event].iter_mut().zip(earlier) {
                    *slot |= other;
                }
            }
        }
        before
    }

    proptest! {
        #[test]
        fn no_implied_wait_stays_and_the_order_does(
            transfers in 1usize..12,
            waits in prop::collection::vec((0usize..24, 0usize..24), 0..40),
            all in any::<bool>(),
        ) {
            let full = program(transfers, &waits, all);
            let reduced = full.without_implied_waits();
            let before = closure(&full);
            prop_assert_eq!(closure(&reduced), before.clone());
            prop_assert_eq!(reduced.without_implied_waits(), reduced.clone());
            // Without any one of the waits the order would be another.
            let all = reduced.to_builder().waits_mut().clone();
            for index in 0..all.len() {
                let mut b = reduced.to_builder();
                b.waits_mut().remove(index);
                prop_assert_ne!(closure(&b.build()), before.clone());
            }
        }
    }

    #[test]
    fn a_deadlock_is_left_as_it_is() {
        let mut b = program(2, &[], false).to_builder();
        b.wait(Event::from_index(0), Event::from_index(3));
        b.wait(Event::from_index(2), Event::from_index(1));
        let stuck = b.build();
        assert_eq!(stuck.without_implied_waits(), stuck);
    }
}
