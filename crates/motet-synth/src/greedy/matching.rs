//! [`Matching`]: links take chunks, each when it is free.
//!
//! A free link takes a chunk that its source has and that its destination neither has nor is being sent; of a
//! few such chunks, the one that the fewest ranks have (rarest first). Links into the ranks that can receive
//! least choose first. Sets of chunks are bits, so that a choice takes some tens of nanoseconds.
//!
//! Where a group of ranks has fast links inside and few to the outside, so that these are the bottleneck, a
//! chunk enters the group only once ([`super::groups`]).

use motet_graph::LeastFirst;
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
const FREE: u64 = 1 << 32;
/// How many chunks are compared for one choice.
const LOOKED_AT: usize = 6;
/// The same for a way into another group, where a wrong choice costs most.
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
    /// Whether a link that sends into other groups stays with one way, so that no two links compete for the
    /// same port of a group. Otherwise its ways take turns, which brings data to far groups sooner.
    pub(super) faithful: bool,
    /// Whether a link into a group that has no new chunk to bring may bring one that the group already has. It
    /// would be idle otherwise, and late in a short exchange a second copy from outside may arrive before one
    /// from inside.
    pub(super) repeats: bool,
    /// Whether data for the same group may go over links that lead out of it. Those links are needed for data
    /// that must leave, and often have the longest latency: a chunk that a link inside would have brought a
    /// little later is then the last to arrive.
    pub(super) detours: bool,
    /// Per chunk: the rank that has it from the start.
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
        while let Some((now, event)) = matching.events.pop() {
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
    /// How many words a set of chunks has.
    words: usize,
    /// Per rank: the set of chunks that it has.
    have: Vec<u64>,
    /// Per rank: the set of chunks that it has or that are in flight to it.
    will: Vec<u64>,
    /// Per group: the set of chunks that some rank of it has or that are in flight into it.
    inside: Vec<u64>,
    /// Per chunk: how many ranks have it or are being sent it.
    copies: Vec<u32>,
    /// Per link: the transmission time of a chunk.
    busy: Vec<u64>,
    free_at: Vec<u64>,
    /// Per link: whether it waits for a chunk that it could take; an arrival wakes it.
    idle: Vec<bool>,
    /// Per link: which of the ways that begin with it is tried first. Ways take turns, beginning with the one
    /// to the rank after the link's own, so that links into one switch choose different ranks.
    next_way: Vec<u32>,
    /// The links in the order in which they choose at the same instant; events name places in it.
    turn: Vec<u32>,
    /// Per link: its place in `turn`.
    place: Vec<u32>,
    events: LeastFirst,
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
            events: LeastFirst::new(),
            sends: Vec::with_capacity(chunks * (ranks - 1)),
            makespan: 0,
            missing: chunks * (ranks - 1),
        };
        it.set_turns(random);
        it
    }

    /// Puts links into ranks with the least bandwidth of all links into them first; ties are broken at random.
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
            self.events.push(0, FREE | u64::from(place));
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
                self.events.push(now, FREE | u64::from(self.place[link.index()]));
            }
        }
    }

    /// A link is free: it takes a chunk, or waits.
    fn serve(&mut self, place: usize, now: u64, random: &mut Stream) {
        let link = self.turn[place] as usize;
        if self.free_at[link] > now {
            self.events.push(self.free_at[link], FREE | place as u64);
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
            self.events.push(soonest, FREE | place as u64);
        } else {
            self.idle[link] = true;
        }
    }

    /// The earliest start at which each link of the way is free when the first byte gets there.
    fn earliest(&self, way: usize, now: u64) -> u64 {
        let hops = self.spread.overlay.hops(way);
        let wanted = hops.iter().map(|it| self.free_at[it.link as usize].saturating_sub(it.head));
        wanted.max().unwrap_or(0).max(now)
    }

    /// The chunk to send over this way next: one that is new to every group that the way enters, else, with
    /// [`Spread::repeats`], any. `None` if there is none, or the way is a detour that is not allowed.
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

    /// The chunk that the fewest ranks have, of a few that this way can carry without entering a group twice.
    fn rarest(&self, way: usize, groups: &Groups, random: &mut Stream) -> Option<u32> {
        let way = &self.spread.overlay.ways[way];
        let words = self.words;
        let have = &self.have[way.from as usize * words..][..words];
        let will = &self.will[way.to as usize * words..][..words];
        let crosses = groups.crosses(way.from, way.to);
        // Asked once and not for every word: few ways enter a group.
        let enters = groups.entered(way.from, way.to).next().is_some();
        let enough = if crosses { LOOKED_AT_FOR_GROUP } else { LOOKED_AT };
        let start: u32 = random.random();
        let first = (start as usize >> 6) % words;
        let turn = start & 63;
        let mut best: Option<(u32, u32)> = None;
        let mut looked = 0;
        for word in (first..words).chain(0..first) {
            let mut open = have[word] & !will[word];
            if enters && open != 0 {
                for group in groups.entered(way.from, way.to) {
                    open &= !self.inside[group as usize * words + word];
                }
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
        let number = self.sends.len() as u64;
        self.sends.push(send);
        let link = overlay.hops(send.way as usize)[0].link as usize;
        self.events.push(self.free_at[link], FREE | u64::from(self.place[link]));
        self.events.push(at.tail, number);
    }
}

/// Of the ways that begin with a link, the first that leads to a higher rank than it comes from.
fn first_way(overlay: &Overlay, link: usize) -> u32 {
    let mut ways = overlay.of_link(link).iter().map(|it| &overlay.ways[*it as usize]);
    ways.position(|it| it.to > it.from).unwrap_or(0) as u32
}
