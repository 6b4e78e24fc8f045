//! [`Prepared`]: a routed program in the form that the event engine runs; made once for any number
//! of runs.
//!
//! The unit of work is a *leg*: one crossing of one link. A transfer's route is a chain of legs;
//! where switches multicast or reduce, chains share legs and form trees ([`crate::group`]). Legs
//! are numbered by program order and then by hop. A leg's number is therefore also the order in
//! which a [`ProgramOrder`](crate::model::Discipline::ProgramOrder) link carries it (unless the
//! program gives the link turns of its own), and the tie-breaker in the order of events.

use std::collections::BTreeSet;

use motet_collective::{Action, TransferId};
use motet_units::LinkId;

use super::dry::Dry;
use crate::group::{self, Group};
use crate::route::Routed;

/// No leg follows.
pub(super) const NONE: u32 = u32::MAX;

/// One crossing of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    /// The link; for a transfer within a rank, the number of the network's links.
    pub(super) link: u32,
    pub(super) count: u32,
    /// The first transfer that the leg carries.
    pub(super) transfer: u32,
    /// The next leg, or `NONE` at the end of the route; for a shared leg its index in [`Prepared::shared`].
    pub(super) next: u32,
    pub(super) hop: u32,
    pub(super) starts_segment: bool,
    pub(super) is_shared: bool,
}

/// What the leg of a group ([`crate::group`]) has beyond a plain leg: it may carry several transfers, join
/// several legs before it, and fork into several behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    pub(super) carries: Vec<TransferId>,
    /// The next legs.
    pub(super) next: Vec<u32>,
    /// The transfers whose first leg this is, and those whose last leg it is.
    pub(super) begins: Vec<TransferId>,
    pub(super) ends: Vec<TransferId>,
    /// How many heads must come before the leg can start: one from each leg before it and from each transfer
    /// that begins with it.
    pub(super) heads: u32,
}

/// An event among those that wait for one another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventNode {
    /// How many events it waits for; an arrival also waits to reach its destination.
    pub(super) waits: u32,
    /// Where the list of the events that wait for it begins in [`Prepared::waiting`].
    pub(super) first: u32,
}

/// A program on a network, ready for the event engine.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(super) routed: &'a Routed<'a>,
    pub(super) legs: Vec<Leg>,
    pub(super) shared: Vec<Shared>,
    /// The first leg of each transfer.
    pub(super) first: Vec<u32>,
    /// By event, and one entry more that ends the last list. An arrival does not wait for its own sending, but
    /// for reaching its destination, which is never earlier.
    pub(super) nodes: Vec<EventNode>,
    /// The events that wait for event e: `waiting[nodes[e].first..nodes[e + 1].first]`.
    pub(super) waiting: Vec<u32>,
    /// The legs of each link in program order or as the program says: `turns[turn_starts[link]..turn_starts[link + 1]]`.
    pub(super) turn_starts: Vec<u32>,
    pub(super) turns: Vec<u32>,
}

impl<'a> Prepared<'a> {
    /// Cuts every route into legs and finds which transfers share some; nothing of it depends on
    /// the network's state.
    #[must_use]
    pub fn new(routed: &'a Routed<'a>) -> Self {
        let order: Vec<TransferId> =
            routed.sequence().iter().filter(|it| it.is_sent()).map(|it| it.transfer()).collect();
        let apart = Self::with_groups(routed, &order, &[]);
        if !group::is_possible(routed.network()) {
            return apart;
        }
        let groups = group::find(routed, &order, &Dry::run(&apart, true));
        if groups.is_empty() { apart } else { Self::with_groups(routed, &order, &groups) }
    }

    fn with_groups(routed: &'a Routed<'a>, order: &[TransferId], groups: &[Group]) -> Self {
        let mut legs = Legs::new(routed);
        if groups.is_empty() {
            for id in order {
                legs.chain(*id);
            }
        } else {
            legs.with_groups(order, groups);
        }
        let (nodes, waiting) = nodes(routed);
        let (turn_starts, turns) = turns(routed.network().links().len(), &legs.legs);
        let Legs { legs, shared, first, .. } = legs;
        let mut made = Self { routed, legs, shared, first, nodes, waiting, turn_starts, turns };
        made.take_given_turns();
        made
    }

    /// Puts the legs of links that the program gives turns into their order. A leg of several
    /// transfers comes when the first of them does, or the last if they are reduced
    /// ([`crate::group`] says why).
    fn take_given_turns(&mut self) {
        let program = self.routed.program();
        let mut place = vec![NONE; if program.turns().is_empty() { 0 } else { self.first.len() }];
        for given in program.turns() {
            for (at, id) in (0..).zip(&given.transfers) {
                place[id.index()] = at;
            }
            let link = given.link.index();
            let range = self.turn_starts[link] as usize..self.turn_starts[link + 1] as usize;
            let mut turns = self.turns[range.clone()].to_vec();
            turns.sort_by_key(|leg| {
                let carried = self.carries(*leg);
                let places = carried.as_slice().iter().map(|it| place[it.index()]);
                let first = program.transfer(carried.as_slice()[0]);
                if first.action == Action::Reduce { places.max() } else { places.min() }
            });
            self.turns[range].copy_from_slice(&turns);
        }
    }

    #[must_use]
    pub const fn routed(&self) -> &'a Routed<'a> {
        self.routed
    }

    /// The number of link crossings in one run; fewer than hops where transfers share links.
    #[must_use]
    pub fn crossings(&self) -> usize {
        self.turns.len()
    }

    /// A transfer that shares links with others, if any does.
    pub(crate) fn first_together(&self) -> Option<TransferId> {
        self.shared.first().and_then(|it| it.carries.first()).copied()
    }

    /// The transfers whose data a leg carries.
    pub(super) fn carries(&self, leg: u32) -> Carried<'_> {
        let leg = &self.legs[leg as usize];
        if leg.is_shared {
            Carried::Many(&self.shared[leg.next as usize].carries)
        } else {
            Carried::One([TransferId(leg.transfer)])
        }
    }
}

/// One transfer or several.
pub(super) enum Carried<'a> {
    One([TransferId; 1]),
    Many(&'a [TransferId]),
}

impl Carried<'_> {
    pub(super) fn as_slice(&self) -> &[TransferId] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

/// Builds the legs of a program.
struct Legs<'a> {
    routed: &'a Routed<'a>,
    local: u32,
    legs: Vec<Leg>,
    shared: Vec<Shared>,
    first: Vec<u32>,
}

impl<'a> Legs<'a> {
    fn new(routed: &'a Routed<'a>) -> Self {
        let transfers = routed.program().transfers().len();
        Self {
            routed,
            local: LinkId::from_index(routed.network().links().len()).0,
            legs: Vec::with_capacity(transfers),
            shared: Vec::new(),
            first: vec![NONE; transfers],
        }
    }

    fn next_id(&self) -> u32 {
        self.legs.len() as u32
    }

    /// Adds the legs of a transfer that shares none of them.
    fn chain(&mut self, id: TransferId) {
        let count = self.routed.program().transfer(id).count;
        let hops = self.routed.hops(id.index());
        self.first[id.index()] = self.next_id();
        let plain = Leg {
            link: self.local,
            count,
            transfer: id.0,
            next: NONE,
            hop: 0,
            starts_segment: true,
            is_shared: false,
        };
        if hops.is_empty() {
            self.legs.push(plain);
        }
        for (number, hop) in hops.iter().enumerate() {
            let last = number + 1 == hops.len();
            let next = if last { NONE } else { self.next_id() + 1 };
            let (link, starts_segment) = (hop.link.0, hop.starts_segment);
            self.legs.push(Leg { link, next, hop: number as u32, starts_segment, ..plain });
        }
    }

    /// Adds all legs of a program in which some transfers share theirs. Every leg of a group gets an entry in
    /// `shared`, even one that carries one transfer; that costs little, since few programs have groups, and
    /// groups have few legs.
    fn with_groups(&mut self, order: &[TransferId], groups: &[Group]) {
        let mut grouped = vec![false; self.first.len()];
        // (place, level, group, leg of group): in program order, and within a group upstream first.
        let mut queue: Vec<(u32, u32, usize, usize)> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            for (id, _) in &group.members {
                grouped[id.index()] = true;
            }
            for (leg, it) in group.legs.iter().enumerate() {
                queue.push((it.place, it.level, index, leg));
            }
        }
        queue.sort_unstable();
        let mut ids: Vec<Vec<u32>> = groups.iter().map(|it| vec![NONE; it.legs.len()]).collect();
        let mut queue = queue.into_iter().peekable();
        for (place, id) in order.iter().enumerate() {
            while let Some((_, _, group, leg)) = queue.next_if(|it| it.0 as usize == place) {
                ids[group][leg] = self.next_id();
                self.shared_leg(&groups[group].legs[leg]);
            }
            if !grouped[id.index()] {
                self.chain(*id);
            }
        }
        for (group, ids) in groups.iter().zip(&ids) {
            self.join(group, ids);
        }
    }

    fn shared_leg(&mut self, leg: &group::SharedLeg) {
        let first = leg.carries[0];
        self.legs.push(Leg {
            link: leg.hop.link.0,
            count: self.routed.program().transfer(first).count,
            transfer: first.0,
            next: self.shared.len() as u32,
            hop: leg.number,
            starts_segment: leg.hop.starts_segment,
            is_shared: true,
        });
        self.shared.push(Shared { carries: leg.carries.clone(), ..Shared::default() });
    }

    /// Connects the legs of a group along the routes of its members.
    fn join(&mut self, group: &Group, ids: &[u32]) {
        let mut joined = BTreeSet::new();
        for (id, way) in &group.members {
            let way: Vec<u32> = way.iter().map(|it| ids[*it as usize]).collect();
            self.first[id.index()] = way[0];
            let begins = self.shared_of(way[0]);
            begins.begins.push(*id);
            begins.heads += 1;
            for pair in way.windows(2) {
                if joined.insert((pair[0], pair[1])) {
                    self.shared_of(pair[0]).next.push(pair[1]);
                    self.shared_of(pair[1]).heads += 1;
                }
            }
            self.shared_of(way[way.len() - 1]).ends.push(*id);
        }
    }

    fn shared_of(&mut self, leg: u32) -> &mut Shared {
        &mut self.shared[self.legs[leg as usize].next as usize]
    }
}

/// What each event waits for, as a count, and what waits for it.
fn nodes(routed: &Routed<'_>) -> (Vec<EventNode>, Vec<u32>) {
    let graph = routed.graph();
    let events = graph.events();
    // An arrival waits to reach its destination, which is never before its own sending.
    let preds = |event: usize| {
        let own = if event.is_multiple_of(2) { NONE } else { event as u32 - 1 };
        graph.preds(event).iter().copied().filter(move |it| *it != own)
    };
    let mut nodes = vec![EventNode::default(); events + 1];
    for event in 0..events {
        nodes[event].waits = (event % 2) as u32;
        for pred in preds(event) {
            nodes[event].waits += 1;
            nodes[pred as usize + 1].first += 1;
        }
    }
    for event in 0..events {
        nodes[event + 1].first += nodes[event].first;
    }
    let mut waiting = vec![0u32; nodes[events].first as usize];
    let mut fill: Vec<u32> = nodes.iter().map(|it| it.first).collect();
    for event in 0..events {
        for pred in preds(event) {
            let slot = &mut fill[pred as usize];
            waiting[*slot as usize] = event as u32;
            *slot += 1;
        }
    }
    (nodes, waiting)
}

/// The legs of each link, in order.
fn turns(links: usize, legs: &[Leg]) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; links + 1];
    for leg in legs.iter().filter(|it| (it.link as usize) < links) {
        starts[leg.link as usize + 1] += 1;
    }
    for link in 0..links {
        starts[link + 1] += starts[link];
    }
    let mut fill = starts.clone();
    let mut turns = vec![0; starts[links] as usize];
    for (id, leg) in legs.iter().enumerate().filter(|(_, it)| (it.link as usize) < links) {
        let slot = &mut fill[leg.link as usize];
        turns[*slot as usize] = id as u32;
        *slot += 1;
    }
    (starts, turns)
}
