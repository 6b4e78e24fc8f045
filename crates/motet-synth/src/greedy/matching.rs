//! [`Matching`]: links take chunks, each when it is free.
//!
//! Whenever a link is free it takes a chunk that its source has and that its destination lacks and
//! nobody is bringing; of those it looks at, the one that the fewest ranks have. Links into ranks
//! that can receive least choose first. Sets of chunks are bits, so that a choice takes some tens
//! of nanoseconds.
//!
//! Where a group of ranks is well joined inside and poorly to the outside, so that what comes in
//! from outside takes longest, a chunk comes into the group only once ([`super::groups`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_sim::link_rule::{Arrival, Passage};
use motet_units::seed::Stream;
use motet_units::{Bytes, LinkId, Rank};
use rand::RngExt;
use rand::seq::SliceRandom;

use super::groups::Groups;
use super::overlay::{Overlay, OverlayEdge};
use crate::fabric::Fabric;
use crate::watch::Watch;

/// Marks an event in which a link becomes free; others are sends that arrive.
const FREE: u32 = 1 << 31;
/// How many chunks are looked at for one choice; more where a wrong one costs most.
const LOOKED_AT: usize = 6;
const LOOKED_AT_FOR_GROUP: usize = 48;

/// A chunk goes over a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Send {
    pub(super) chunk: u32,
    pub(super) way: u32,
}

/// Sends in the order in which they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MatchingPlan {
    pub(super) sends: Vec<Send>,
    /// When the last one has arrived, in picoseconds.
    pub(super) makespan: u64,
}

/// What is to be spread: each chunk from its origin to everyone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) overlay: &'a Overlay,
    pub(super) groups: &'a Groups,
    /// Into a group a link stays with its partner, so that no two want the same entry. Without
    /// this ways take turns, which brings data to far groups sooner.
    pub(super) faithful: bool,
    /// A link into a group that has nothing new to bring takes what is there already: idle it would help
    /// nobody, and late in a short exchange a second copy from outside may come before one from inside.
    pub(super) repeats: bool,
    /// Whether what stays within a group may go over links that lead out of it. They are needed for what
    /// must leave, and are often the ones with the longest latency: a chunk that a link inside would bring
    /// a little later is then the last to arrive.
    pub(super) detours: bool,
    /// Per chunk.
    pub(super) origins: &'a [u32],
    pub(super) chunk: Bytes,
    pub(super) watch: Watch<'a>,
}

impl Spread<'_> {
    /// One matching. `None` if some rank cannot be reached, or time is up.
    pub(super) fn plan(&self, random: &mut Stream) -> Option<MatchingPlan> {
        let mut matching = Matching::new(self, random);
        matching.begin();
        let mut turn = 0usize;
        while let Some(Reverse((now, event))) = matching.events.pop() {
            turn += 1;
            if self.watch.out_of_time_at(turn) {
                return None;
            }
            if event & FREE != 0 {
                matching.serve((event & !FREE) as usize, now, random);
            } else {
                matching.arrive(event as usize, now);
            }
        }
        let Matching { sends, makespan, missing, .. } = matching;
        (missing == 0).then_some(MatchingPlan { sends, makespan })
    }
}

struct Matching<'a> {
    spread: &'a Spread<'a>,
    words: usize,
    /// Per rank: chunks that are there.
    have: Vec<u64>,
    /// Per rank: chunks that are there or on their way.
    will: Vec<u64>,
    /// Per group: chunks that are inside or on their way in.
    inside: Vec<u64>,
    /// Per chunk: how many ranks will have it.
    copies: Vec<u32>,
    busy: Vec<u64>,
    free_at: Vec<u64>,
    idle: Vec<bool>,
    /// Per link: which of the ways that begin with it is asked first. Ways take turns, from the
    /// rank after the link's own on, so that links into one switch choose different ranks.
    next_way: Vec<u32>,
    /// Links in the order in which they choose; events name places in it.
    turn: Vec<u32>,
    place: Vec<u32>,
    events: BinaryHeap<Reverse<(u64, u32)>>,
    sends: Vec<Send>,
    makespan: u64,
    missing: usize,
}

impl<'a> Matching<'a> {
    fn new(spread: &'a Spread<'a>, random: &mut Stream) -> Self {
        let fabric = spread.fabric;
        let (ranks, links, chunks) =
            (fabric.rank_count(), fabric.link_count(), spread.origins.len());
        let words = chunks.div_ceil(64);
        let busy = |link: usize| fabric.busy(LinkId::from_index(link), spread.chunk).as_ps();
        let mut it = Self {
            spread,
            words,
            have: vec![0; ranks * words],
            will: vec![0; ranks * words],
            inside: vec![0; spread.groups.total() * words],
            copies: vec![1; chunks],
            busy: (0..links).map(busy).collect(),
            free_at: vec![0; links],
            idle: vec![true; links],
            next_way: (0..links).map(|it| first_way(spread.overlay, it)).collect(),
            turn: Vec::new(),
            place: vec![0; links],
            events: BinaryHeap::new(),
            sends: Vec::with_capacity(chunks * (ranks - 1)),
            makespan: 0,
            missing: chunks * (ranks - 1),
        };
        it.set_turns(random);
        it
    }

    /// Links into ranks that can receive least come first, then at random.
    fn set_turns(&mut self, random: &mut Stream) {
        let fabric = self.spread.fabric;
        let into = |rank: u32| {
            let node = fabric.node(Rank(rank));
            let bits = fabric.incoming(node).iter().map(|it| fabric.bits_per_s(*it));
            bits.fold(0, u64::saturating_add)
        };
        let receives: Vec<u64> = (0..fabric.rank_count() as u32).map(into).collect();
        let overlay = self.spread.overlay;
        let used = |it: &u32| !overlay.of_link(*it as usize).is_empty();
        let mut turn: Vec<u32> = (0..fabric.link_count() as u32).filter(used).collect();
        turn.shuffle(random);
        turn.sort_by_key(|it| {
            let ways = overlay.of_link(*it as usize).iter();
            ways.map(|it| receives[overlay.ways[*it as usize].to as usize]).min()
        });
        for (place, link) in (0..).zip(&turn) {
            self.place[*link as usize] = place;
        }
        self.turn = turn;
    }

    fn begin(&mut self) {
        for (chunk, origin) in self.spread.origins.iter().enumerate() {
            let (word, bit) = (*origin as usize * self.words + chunk / 64, 1 << (chunk % 64));
            self.have[word] |= bit;
            self.will[word] |= bit;
            for group in self.spread.groups.of(*origin) {
                self.inside[group as usize * self.words + chunk / 64] |= bit;
            }
        }
        for place in 0..self.turn.len() as u32 {
            self.idle[self.turn[place as usize] as usize] = false;
            self.events.push(Reverse((0, FREE | place)));
        }
    }

    fn arrive(&mut self, send: usize, now: u64) {
        self.makespan = self.makespan.max(now);
        let Send { chunk, way } = self.sends[send];
        let rank = self.spread.overlay.ways[way as usize].to as usize;
        let (word, bit) = (chunk as usize / 64, 1 << (chunk % 64));
        self.have[rank * self.words + word] |= bit;
        self.missing -= 1;
        let node = self.spread.fabric.node(Rank::from_index(rank));
        for link in self.spread.fabric.outgoing(node) {
            let ways = self.spread.overlay.of_link(link.index());
            let lacks = |it: &u32| {
                let to = self.spread.overlay.ways[*it as usize].to as usize;
                self.will[to * self.words + word] & bit == 0
            };
            if self.idle[link.index()] && ways.iter().any(lacks) {
                self.idle[link.index()] = false;
                self.events.push(Reverse((now, FREE | self.place[link.index()])));
            }
        }
    }

    /// A link is free: it takes a chunk, or waits.
    fn serve(&mut self, place: usize, now: u64, random: &mut Stream) {
        let link = self.turn[place] as usize;
        if self.free_at[link] > now {
            self.events.push(Reverse((self.free_at[link], FREE | place as u32)));
            return;
        }
        let overlay = self.spread.overlay;
        let ways = overlay.of_link(link);
        let first = self.next_way[link] as usize % ways.len();
        let mut soonest = u64::MAX;
        for at in (first..ways.len()).chain(0..first) {
            let way = ways[at];
            let start = self.earliest(way as usize, now);
            if start > now {
                soonest = soonest.min(start);
            } else if let Some(chunk) = self.choose(way as usize, random) {
                let OverlayEdge { from, to, .. } = overlay.ways[way as usize];
                let stays = self.spread.faithful && self.spread.groups.crosses(from, to);
                if !stays {
                    self.next_way[link] = at as u32 + 1;
                }
                self.start(Send { chunk, way }, now);
                return;
            }
        }
        if soonest < u64::MAX {
            self.events.push(Reverse((soonest, FREE | place as u32)));
        } else {
            self.idle[link] = true;
        }
    }

    /// When all links of the way will be free as the head comes by.
    fn earliest(&self, way: usize, now: u64) -> u64 {
        let hops = self.spread.overlay.hops(way);
        let wanted = hops.iter().map(|it| self.free_at[it.link as usize].saturating_sub(it.head));
        wanted.max().unwrap_or(0).max(now)
    }

    /// The chunk to go this way next: one that is new to all groups it enters, or where that is allowed
    /// any. None over a detour, unless those are allowed.
    fn choose(&self, way: usize, random: &mut Stream) -> Option<u32> {
        let OverlayEdge { from, to, .. } = self.spread.overlay.ways[way];
        if !self.spread.detours && self.spread.groups.is_detour(way, from, to) {
            return None;
        }
        let new = self.rarest(way, self.spread.groups, random);
        if new.is_some() || !self.spread.repeats {
            return new;
        }
        self.rarest(way, &Groups::default(), random)
    }

    /// The chunk that the fewest ranks have, of some that can go this way and enter no group twice.
    fn rarest(&self, way: usize, groups: &Groups, random: &mut Stream) -> Option<u32> {
        let way = &self.spread.overlay.ways[way];
        let words = self.words;
        let have = &self.have[way.from as usize * words..][..words];
        let will = &self.will[way.to as usize * words..][..words];
        let crosses = groups.crosses(way.from, way.to);
        let enough = if crosses { LOOKED_AT_FOR_GROUP } else { LOOKED_AT };
        let start: u32 = random.random();
        let first = (start as usize >> 6) % words;
        let turn = start & 63;
        let mut best: Option<(u32, u32)> = None;
        let mut looked = 0;
        for word in (first..words).chain(0..first) {
            let mut open = have[word] & !will[word];
            for group in groups.entered(way.from, way.to) {
                open &= !self.inside[group as usize * words + word];
            }
            // Start at a random bit.
            let mut open = open.rotate_right(turn);
            while open != 0 {
                let chunk = word as u32 * 64 + ((open.trailing_zeros() + turn) & 63);
                let copies = self.copies[chunk as usize];
                if best.is_none_or(|it| copies < it.0) {
                    best = Some((copies, chunk));
                }
                looked += 1;
                if looked == enough {
                    return best.map(|it| it.1);
                }
                open &= open - 1;
            }
        }
        best.map(|it| it.1)
    }

    fn start(&mut self, send: Send, now: u64) {
        let overlay = self.spread.overlay;
        let way = &overlay.ways[send.way as usize];
        let (word, bit) = (send.chunk as usize / 64, 1 << (send.chunk % 64));
        self.will[way.to as usize * self.words + word] |= bit;
        for group in self.spread.groups.entered(way.from, way.to) {
            self.inside[group as usize * self.words + word] |= bit;
        }
        self.copies[send.chunk as usize] += 1;
        let mut at = Arrival::whole(now);
        for hop in overlay.hops(send.way as usize) {
            let link = hop.link as usize;
            let passage = Passage::of(at.forwarded(false), self.free_at[link], self.busy[link]);
            self.free_at[link] = passage.streamed;
            at = passage.arrival(hop.latency);
        }
        let number = self.sends.len() as u32;
        self.sends.push(send);
        let link = overlay.hops(send.way as usize)[0].link as usize;
        self.events.push(Reverse((self.free_at[link], FREE | self.place[link])));
        self.events.push(Reverse((at.tail, number)));
    }
}

/// The first way that leads to a higher rank than it comes from.
fn first_way(overlay: &Overlay, link: usize) -> u32 {
    let mut ways = overlay.of_link(link).iter().map(|it| &overlay.ways[*it as usize]);
    ways.position(|it| it.to > it.from).unwrap_or(0) as u32
}
