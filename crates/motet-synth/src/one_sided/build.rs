//! Puts the parts of a collective on thread blocks.

use std::collections::BTreeMap;

use motet_collective::program::{
    Forms, Hints, Lane, LaneKind, Program, ProgramBuilder, Protocol, Slot, Transfer, TransferId,
};
use motet_collective::{Collective, CollectiveError, CollectiveKind};
use motet_units::Rank;

use super::parts::{Part, parts};
use super::ports::Ports;
use super::{Pattern, Shape};

/// A thread block: its rank, the number of its group of peers, its slice.
pub(super) type Key = (Rank, u32, u32);

pub(super) struct Build {
    pub(super) kind: CollectiveKind,
    pub(super) ranks: u32,
    forms: Forms,
    pub(super) shape: Shape,
    pub(super) builder: ProgramBuilder,
    pub(super) lanes: BTreeMap<Key, Vec<TransferId>>,
    pub(super) ports: Ports,
}

impl Build {
    pub(super) fn new(
        kind: CollectiveKind,
        ranks: u32,
        forms: Forms,
        shape: Shape,
    ) -> Result<Self, CollectiveError> {
        let shape = Shape {
            slices: shape.slices.max(1),
            peers_per_block: shape.peers_per_block.max(1),
            ..shape
        };
        let parts = match (shape.pattern, kind) {
            (Pattern::DirectTwice | Pattern::PacketsTwice, _) => ranks,
            (Pattern::Rails, CollectiveKind::AllReduce) => shape.gpus_per_server.unwrap_or(1),
            _ => 1,
        };
        let chunks = parts.saturating_mul(shape.slices);
        let collective = Collective::new(kind, ranks, chunks)?;
        let protocol = if shape.pattern.has_packets() { Protocol::Ll } else { Protocol::Simple };
        let name = format!("{kind}-{}", shape.pattern.name());
        let hints = Hints { protocol, ..Hints::default() };
        let builder = ProgramBuilder::new(name, collective).forms(forms).hints(hints);
        let (lanes, ports) = (BTreeMap::new(), Ports::default());
        Ok(Self { kind, ranks, forms, shape, builder, lanes, ports })
    }

    pub(super) fn run(mut self) -> Program {
        let all = parts(self.kind, self.ranks);
        for slice in 0..self.shape.slices {
            match self.shape.pattern {
                Pattern::Direct => {
                    // Parts that a rank has for itself come last: nobody else waits for them.
                    let stays = |it: &&Part| it.from.iter().all(|from| from.0 == it.to);
                    all.iter().filter(|it| !stays(it)).for_each(|it| self.direct(it, slice));
                    all.iter().filter(stays).for_each(|it| self.direct(it, slice));
                }
                Pattern::Pull => self.pull(slice),
                Pattern::DirectTwice => self.direct_twice(slice),
                Pattern::Packets | Pattern::Staged => self.by_scratch(&all, slice),
                Pattern::PacketsTwice => self.packets_twice(slice),
                Pattern::Rails => self.rails(slice),
            }
        }
        self.add_lanes();
        self.set_scratch();
        self.builder.build()
    }

    /// Thread blocks, each followed by the ports that it posts to.
    fn add_lanes(&mut self) {
        let mut channels: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
        let lane = |rank, kind, channel, ids: &[TransferId]| {
            let events = ids.iter().flat_map(|it| [it.sent(), it.arrived()]).collect();
            Lane { rank, kind, channel, events }
        };
        for (key, ids) in &self.lanes {
            let (rank, ..) = *key;
            let block = self.builder.lanes_mut().len() as u32;
            self.builder.add_lane(lane(rank, LaneKind::Block, 0, ids));
            for (peer, ids) in self.ports.of(*key) {
                let channel = channels.entry((rank, peer)).or_insert(0);
                self.builder.add_lane(lane(rank, LaneKind::Port { block }, *channel, ids));
                *channel += 1;
            }
        }
    }

    /// The chunk of a part that belongs to a slice.
    pub(super) const fn chunk(&self, part: u32, slice: u32) -> u32 {
        part * self.shape.slices + slice
    }

    /// The block of `rank` that serves `peer`. Peers are counted from the rank on, so that blocks of
    /// different ranks with the same number serve different peers.
    fn block(&self, rank: Rank, peer: Rank, slice: u32) -> Key {
        let distance = (peer.0 + self.ranks - rank.0) % self.ranks;
        let group = distance.saturating_sub(1) / self.shape.peers_per_block;
        (rank, group, slice)
    }

    fn others(&self, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let ranks = self.ranks;
        (1..ranks).map(move |it| Rank((rank.0 + it) % ranks))
    }

    /// The same, those behind ports first, because proxies take longest.
    fn far_first(&self, rank: Rank) -> Vec<Rank> {
        let (far, near): (Vec<Rank>, Vec<Rank>) =
            self.others(rank).partition(|it| self.by_port(rank, *it));
        far.into_iter().chain(near).collect()
    }

    pub(super) fn add(&mut self, key: Key, transfer: Transfer) -> TransferId {
        let id = self.builder.add(transfer);
        self.lanes.entry(key).or_default().push(id);
        id
    }

    /// Copies a chunk within a rank. Does nothing if the two places are one in calls of this form.
    pub(super) fn keep(&mut self, key: Key, src: Slot, dst: Slot) -> Option<TransferId> {
        let same = self.forms == Forms::IN_PLACE;
        (!same).then(|| self.add(key, Transfer::copy(src, dst, 1)))
    }

    fn direct(&mut self, part: &Part, slice: u32) {
        let dst = Slot::output(part.to, self.chunk(part.at, slice));
        let source =
            |build: &Self, (rank, at): (Rank, u32)| Slot::input(rank, build.chunk(at, slice));
        match part.from.as_slice() {
            [from] if from.0 == part.to => {
                let key = self.block(part.to, part.to, slice);
                self.keep(key, source(self, *from), dst);
            }
            [from] => {
                let key = self.block(from.0, part.to, slice);
                self.add(key, Transfer::copy(source(self, *from), dst, 1));
            }
            several => {
                let key = (part.to, 0, slice);
                for from in several.iter().filter(|it| it.0 == part.to) {
                    self.keep(key, source(self, *from), dst);
                }
                for from in several.iter().filter(|it| it.0 != part.to) {
                    self.add(key, Transfer::reduce(source(self, *from), dst, 1));
                }
            }
        }
    }

    /// In place, every part lies in its source's output where it also belongs in all other outputs.
    fn pull(&mut self, slice: u32) {
        if !self.forms.in_place {
            return;
        }
        for rank in (0..self.ranks).map(Rank) {
            for peer in self.others(rank) {
                let at = self.chunk(peer.0, slice);
                let (src, dst) = (Slot::output(peer, at), Slot::output(rank, at));
                self.add(self.block(rank, peer, slice), Transfer::copy(src, dst, 1));
            }
        }
    }

    fn direct_twice(&mut self, slice: u32) {
        for rank in (0..self.ranks).map(Rank) {
            let (key, chunk) = ((rank, 0, slice), self.chunk(rank.0, slice));
            let sum = Slot::output(rank, chunk);
            self.keep(key, Slot::input(rank, chunk), sum);
            for peer in self.others(rank) {
                self.add(key, Transfer::reduce(Slot::input(peer, chunk), sum, 1));
            }
            for peer in self.others(rank) {
                self.add(key, Transfer::copy(sum, Slot::output(peer, chunk), 1));
            }
        }
    }

    /// The block that sums packets: the one that sends to everybody, or one of its own.
    fn summer(&self, rank: Rank, slice: u32) -> Key {
        let groups = self.ranks.saturating_sub(1).div_ceil(self.shape.peers_per_block);
        (rank, if groups > 1 || self.shape.apart { groups } else { 0 }, slice)
    }

    /// The block that unpacks what `peer` sent.
    fn receiver(&self, rank: Rank, peer: Rank, slice: u32) -> Key {
        let (rank, group, slice) = self.block(rank, peer, slice);
        // Behind those that send and the one that sums.
        (rank, if self.shape.apart { group + self.ranks } else { group }, slice)
    }

    /// Unpacks what was sent from one rank to another.
    pub(super) fn unpack(&mut self, key: Key, transfer: Transfer, awaited: TransferId) {
        let id = self.add(key, transfer);
        self.builder.wait(id.sent(), awaited.arrived());
    }

    fn by_scratch(&mut self, all: &[Part], slice: u32) {
        self.ports.begin_at(self.ranks);
        let place =
            |build: &Self, to: Rank, from: Rank| Slot::scratch(to, build.chunk(from.0, slice));
        // All blocks send first, then copy their own data, then wait for what others send.
        let mut sent = BTreeMap::new();
        for far in [true, false] {
            for part in all {
                let away =
                    |it: &&(Rank, u32)| it.0 != part.to && self.by_port(it.0, part.to) == far;
                let from: Vec<(Rank, u32)> = part.from.iter().filter(away).copied().collect();
                for (from, at) in from {
                    let key = self.block(from, part.to, slice);
                    let src = Slot::input(from, self.chunk(at, slice));
                    let id = self.send(key, src, place(self, part.to, from));
                    sent.insert((part.to, from), id);
                }
            }
        }
        for part in all {
            let dst = Slot::output(part.to, self.chunk(part.at, slice));
            for (from, at) in part.from.iter().filter(|it| it.0 == part.to) {
                let src = Slot::input(*from, self.chunk(*at, slice));
                let key = match part.from.len() {
                    1 => self.block(part.to, part.to, slice),
                    _ => self.summer(part.to, slice),
                };
                self.keep(key, src, dst);
            }
        }
        for part in all {
            let dst = Slot::output(part.to, self.chunk(part.at, slice));
            for (from, _) in part.from.iter().filter(|it| it.0 != part.to) {
                let src = place(self, part.to, *from);
                let (key, transfer) = match part.from.len() {
                    1 => (self.receiver(part.to, *from, slice), Transfer::copy(src, dst, 1)),
                    _ => (self.summer(part.to, slice), Transfer::reduce(src, dst, 1)),
                };
                self.unpack(key, transfer, sent[&(part.to, *from)]);
            }
        }
    }

    fn packets_twice(&mut self, slice: u32) {
        self.ports.begin_at(2 * self.ranks);
        let all: Vec<Rank> = (0..self.ranks).map(Rank).collect();
        let mut sent = BTreeMap::new();
        for rank in &all {
            for peer in self.far_first(*rank) {
                let src = Slot::input(*rank, self.chunk(peer.0, slice));
                let dst = Slot::scratch(peer, self.chunk(rank.0, slice));
                let key = self.block(*rank, peer, slice);
                sent.insert((peer, *rank), self.send(key, src, dst));
            }
        }
        let mut sums = BTreeMap::new();
        for rank in &all {
            let key = self.summer(*rank, slice);
            let own = self.chunk(rank.0, slice);
            let sum = Slot::output(*rank, own);
            self.keep(key, Slot::input(*rank, own), sum);
            for peer in self.others(*rank) {
                let src = Slot::scratch(*rank, self.chunk(peer.0, slice));
                self.unpack(key, Transfer::reduce(src, sum, 1), sent[&(*rank, peer)]);
            }
            // One operation sums, packs the sum for the ports and writes it to peers in the same server.
            let peers = self.far_first(*rank);
            if peers.first().is_some_and(|it| self.by_port(*rank, *it)) {
                self.pack(key, sum);
            }
            for peer in peers.into_iter().rev() {
                let dst = Slot::scratch(peer, self.chunk(self.ranks + rank.0, slice));
                sums.insert((peer, *rank), self.send(key, sum, dst));
            }
        }
        for rank in &all {
            for peer in self.others(*rank) {
                let src = Slot::scratch(*rank, self.chunk(self.ranks + peer.0, slice));
                let dst = Slot::output(*rank, self.chunk(peer.0, slice));
                let key = self.receiver(*rank, peer, slice);
                self.unpack(key, Transfer::copy(src, dst, 1), sums[&(*rank, peer)]);
            }
        }
    }

    /// Gives every rank its scratch. All have the same amount, because an executor that writes to another
    /// rank's scratch takes it to be laid out like its own.
    fn set_scratch(&mut self) {
        let chunks = self.ports.parts().saturating_mul(self.shape.slices);
        for rank in (0..self.ranks).map(Rank) {
            self.builder.set_scratch(rank, chunks);
        }
    }
}
