//! [`Dry`]: a run without time. It executes crossings and events in an order that the program's
//! waits and the links' turns allow.
//!
//! It serves two purposes. It gives every crossing a position in one order that respects all waits,
//! lanes and turns; [`crate::group`] uses it to decide what may travel together without a deadlock.
//! And when a timed run gets stuck, it finds the same deadlock again and says who waits for whom,
//! so that the engines need not keep track of that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_collective::{Event, TransferId};
use motet_units::LinkId;

use super::error::{Names, SimError};
use super::prepared::{NONE, Prepared};
use super::segments::followers;

/// Which crossings and events happened.
#[derive(Debug)]
pub(crate) struct Dry<'a> {
    prepared: &'a Prepared<'a>,
    /// Whether links carry transfers in their fixed order, or in the order of arrival.
    in_turn: bool,
    /// The position of each leg's crossing in the order; `NONE` if it never happens.
    place: Vec<u32>,
    crossed: u32,
    /// The events, in the order in which they happened.
    events: Vec<u32>,
    /// How many things each event still waits for; an arrival also waits to reach its destination.
    waits: Vec<u32>,
    /// How many heads each leg still waits for: several where a switch reduces.
    missing: Vec<u32>,
    /// Per link: the next leg in its order.
    turn: Vec<u32>,
    /// Legs that can be crossed now, lowest number first.
    open: BinaryHeap<Reverse<u32>>,
}

impl<'a> Dry<'a> {
    /// Runs until nothing more can happen.
    pub(super) fn run(prepared: &'a Prepared<'a>, in_turn: bool) -> Self {
        let heads = |leg: &super::prepared::Leg| match leg.is_shared {
            true => prepared.shared[leg.next as usize].heads,
            false => 1,
        };
        let mut dry = Self {
            prepared,
            in_turn,
            place: vec![NONE; prepared.legs.len()],
            crossed: 0,
            events: Vec::with_capacity(prepared.nodes.len()),
            waits: prepared.nodes.iter().map(|it| it.waits).collect(),
            missing: prepared.legs.iter().map(heads).collect(),
            turn: prepared.turn_starts.clone(),
            open: BinaryHeap::new(),
        };
        for transfer in 0..prepared.first.len() {
            if dry.waits[transfer * 2] == 0 {
                dry.head_comes(prepared.first[transfer]);
            }
        }
        while let Some(Reverse(leg)) = dry.open.pop() {
            dry.cross(leg);
        }
        dry
    }

    fn head_comes(&mut self, leg: u32) {
        self.missing[leg as usize] -= 1;
        self.open_if_due(leg);
    }

    fn open_if_due(&mut self, leg: u32) {
        let link = self.prepared.legs[leg as usize].link as usize;
        let in_turn = self.in_turn && link + 1 < self.turn.len();
        let due = !in_turn || self.prepared.turns[self.turn[link] as usize] == leg;
        if due && self.missing[leg as usize] == 0 {
            self.open.push(Reverse(leg));
        }
    }

    fn cross(&mut self, id: u32) {
        let prepared = self.prepared;
        self.place[id as usize] = self.crossed;
        self.crossed += 1;
        let leg = &prepared.legs[id as usize];
        let link = leg.link as usize;
        if self.in_turn && link + 1 < self.turn.len() {
            self.turn[link] += 1;
            if self.turn[link] < prepared.turn_starts[link + 1] {
                let next = prepared.turns[self.turn[link] as usize];
                self.open_if_due(next);
            }
        }
        let behind = followers(prepared, id);
        if leg.is_shared {
            let shared = &prepared.shared[leg.next as usize];
            shared.begins.iter().for_each(|it| self.happen(it.0 * 2));
            shared.ends.iter().for_each(|it| self.need_less(it.0 * 2 + 1));
        } else {
            if leg.hop == 0 {
                self.happen(leg.transfer * 2);
            }
            if behind.is_empty() {
                self.need_less(leg.transfer * 2 + 1);
            }
        }
        behind.iter().for_each(|it| self.head_comes(*it));
    }

    /// An event waits for one thing less; if that was the last one, it happens (an arrival) or its transfer
    /// can be sent (a sending).
    fn need_less(&mut self, event: u32) {
        self.waits[event as usize] -= 1;
        if self.waits[event as usize] > 0 {
            return;
        }
        if event.is_multiple_of(2) {
            self.head_comes(self.prepared.first[event as usize / 2]);
        } else {
            self.happen(event);
        }
    }

    /// Records that an event has happened, and with it all arrivals that waited for nothing else.
    fn happen(&mut self, event: u32) {
        let mut told = self.events.len();
        self.events.push(event);
        // Not by recursion: arrivals can wait for one another in long chains.
        while let Some(event) = self.events.get(told).map(|it| *it as usize) {
            told += 1;
            let nodes = &self.prepared.nodes;
            let range = nodes[event].first as usize..nodes[event + 1].first as usize;
            for next in &self.prepared.waiting[range] {
                self.waits[*next as usize] -= 1;
                if self.waits[*next as usize] > 0 {
                    continue;
                }
                if next.is_multiple_of(2) {
                    self.head_comes(self.prepared.first[*next as usize / 2]);
                } else {
                    self.events.push(*next);
                }
            }
        }
    }

    /// The place of each transfer's last crossing.
    pub(crate) fn last_crossings(&self) -> Vec<u32> {
        let mut last = vec![0; self.prepared.first.len()];
        for (leg, place) in self.prepared.legs.iter().zip(&self.place) {
            let last: &mut u32 = &mut last[leg.transfer as usize];
            *last = (*last).max(*place);
        }
        last
    }

    /// By event: the place of the first crossing that waits for it, directly or through a chain of arrivals.
    pub(crate) fn first_waiting(&self) -> Vec<u32> {
        let Prepared { nodes, waiting, first, .. } = self.prepared;
        let mut least = vec![NONE; nodes.len() - 1];
        for event in self.events.iter().rev().map(|it| *it as usize) {
            let range = nodes[event].first as usize..nodes[event + 1].first as usize;
            for next in waiting[range].iter().map(|it| *it as usize) {
                let place = match next.is_multiple_of(2) {
                    true => self.place[first[next / 2] as usize],
                    false => least[next],
                };
                least[event] = least[event].min(place);
            }
        }
        least
    }

    /// Why a run got stuck: the first crossing that never happens, and what it waits for.
    pub(super) fn stuck(&self) -> SimError {
        let routed = self.prepared.routed;
        let names = Names { program: routed.program(), network: routed.network() };
        let stuck = (0..self.place.len() as u32).find(|it| self.place[*it as usize] == NONE);
        let Some(leg) = stuck else {
            let nothing = "nothing that the program or the links make it wait for";
            return names.stuck(TransferId(0), nothing.to_owned());
        };
        let carried = self.prepared.carries(leg);
        let first = carried.as_slice()[0];
        let link = LinkId(self.prepared.legs[leg as usize].link);
        let asked = |it: &TransferId| self.missing_event(*it).map(|event| (*it, event));
        match carried.as_slice().iter().find_map(asked) {
            Some((transfer, event)) => names.stuck(transfer, names.event(event)),
            None if self.missing[leg as usize] == 0 => {
                names.stuck(first, self.turn_before(link, &names))
            }
            None => {
                let link = names.link(link);
                names.stuck(first, format!("what it is to be reduced with before link {link}"))
            }
        }
    }

    /// The first event that has not happened and for which a transfer's sending waits.
    fn missing_event(&self, transfer: TransferId) -> Option<Event> {
        let graph = self.prepared.routed.graph();
        let preds = graph.preds(transfer.sent().index()).iter();
        let happened = |event: &u32| match event.is_multiple_of(2) {
            true => self.place[self.prepared.first[*event as usize / 2] as usize] != NONE,
            false => self.waits[*event as usize] == 0,
        };
        preds.copied().find(|it| !happened(it)).map(|it| Event::from_index(it as usize))
    }

    fn turn_before(&self, link: LinkId, names: &Names<'_>) -> String {
        let before = self.prepared.turns.get(self.turn[link.index()] as usize);
        let before = before.map_or(0, |it| self.prepared.legs[*it as usize].transfer);
        let before = names.transfer(TransferId(before));
        format!("its turn on link {} behind {before}", names.link(link))
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::{Collective, CollectiveKind, ProgramBuilder, Slot, Transfer, Verified};
    use motet_net::builders::{Params, find};
    use motet_units::{Bytes, Rank};

    use crate::{Discipline, Prepared, Routed, SimError, SimOptions, Simulation, SwitchForwarding};

    /// Turns that contradict what transfers wait for can only be made by hand: a run that meets
    /// them says so, whatever the build, and names who waits for whom.
    #[test]
    fn a_halt_is_an_error_that_names_its_cause() {
        let params = Params::from_words(["gpus=3"]).unwrap();
        let network = find("switch").unwrap().build(&params).unwrap();
        let collective = Collective::rooted(CollectiveKind::Broadcast, 3, 1, Rank(0)).unwrap();
        let mut b = ProgramBuilder::new("in-turn", collective);
        let (input, to) = (Slot::input(Rank(0), 0), |rank| Slot::output(Rank(rank), 0));
        b.add(Transfer::copy(input, to(0), 1));
        let first = b.add(Transfer::copy(input, to(1), 1));
        b.add_after(Transfer::copy(input, to(2), 1), &[first]);
        let program = Verified::new(b.build(), Some(&network)).unwrap();
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        let mut prepared = Prepared::new(&routed);
        let link = routed.hops(1)[0].link.index();
        assert_eq!(link, routed.hops(2)[0].link.index(), "both leave rank 0 over one link");
        let turns = prepared.turn_starts[link] as usize..prepared.turn_starts[link + 1] as usize;
        prepared.turns[turns].reverse();
        let run = |discipline| {
            let options = SimOptions { discipline, ..SimOptions::default() };
            Simulation::new(&prepared, Bytes::new(1 << 20)).options(options).run()
        };
        let Err(error @ SimError::Stuck { .. }) = run(Discipline::ProgramOrder) else {
            panic!("a halt was taken for the end");
        };
        let text = error.to_string();
        assert!(
            text.contains("transfer 1 (copy rank 0 input[0] to rank 1 output[0]) never"),
            "{text}"
        );
        assert!(text.contains("behind transfer 2 ("), "{text}");
        assert!(run(Discipline::Fifo).is_ok() && run(Discipline::FairShare).is_ok());
    }
}
