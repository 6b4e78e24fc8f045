//! Packets by rails: ports are used only between GPUs that have the same number in their servers.
//!
//! A proxy does one post after the other, and each takes many times as long as a write to memory. So a rank
//! posts only once for each other server: data is summed within the server before, and spread within the
//! server after. MSCCL++'s own plans for several servers do the same.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_collective::program::{Slot, Transfer, TransferId};
use motet_units::Rank;

use super::build::{Build, Key};

/// By (receiver, origin): the transfer that brings the origin's data to the receiver.
type Sent = BTreeMap<(Rank, Rank), TransferId>;

impl Build {
    pub(super) fn rails(&mut self, slice: u32) {
        if !self.shape.suits(self.kind, self.ranks) {
            return;
        }
        match self.kind {
            CollectiveKind::AllGather => self.rails_gather(slice),
            CollectiveKind::ReduceScatter => self.rails_scatter(slice),
            CollectiveKind::AllReduce => self.rails_reduce(slice),
            _ => {}
        }
    }

    const fn gpus(&self) -> u32 {
        match self.shape.gpus_per_server {
            Some(gpus) if gpus > 0 => gpus,
            _ => 1,
        }
    }

    fn all(&self) -> Vec<Rank> {
        (0..self.ranks).map(Rank).collect()
    }

    /// The other ranks of a rank's server, beginning with the next.
    fn near(&self, rank: Rank) -> Vec<Rank> {
        let (gpus, first) = (self.gpus(), rank.0 - rank.0 % self.gpus());
        (1..gpus).map(|it| Rank(first + (rank.0 + it) % gpus)).collect()
    }

    /// The ranks of the same number in other servers, beginning with the next.
    fn rail(&self, rank: Rank) -> Vec<Rank> {
        let steps = 1..self.ranks / self.gpus();
        steps.map(|it| Rank((rank.0 + it * self.gpus()) % self.ranks)).collect()
    }

    /// The block of a rank that unpacks.
    fn unpacker(&self, rank: Rank, slice: u32) -> Key {
        (rank, u32::from(self.shape.apart), slice)
    }

    fn scratch_at(&self, rank: Rank, part: u32, slice: u32) -> Slot {
        Slot::scratch(rank, self.chunk(part, slice))
    }

    /// AllGather: a rank sends its data over its rail and within its server, and hands on within its server
    /// what came over its rail. Scratch has a part for each rank.
    fn rails_gather(&mut self, slice: u32) {
        self.ports.begin_at(self.ranks);
        let own = self.chunk(0, slice);
        let mut sent = Sent::new();
        for rank in self.all() {
            let (key, src) = ((rank, 0, slice), Slot::input(rank, own));
            for peer in self.rail(rank).into_iter().chain(self.near(rank)) {
                let dst = self.scratch_at(peer, rank.0, slice);
                sent.insert((peer, rank), self.send(key, src, dst));
            }
            self.keep(key, src, Slot::output(rank, self.chunk(rank.0, slice)));
        }
        for rank in self.all() {
            for from in self.rail(rank) {
                let packets = self.scratch_at(rank, from.0, slice);
                for peer in self.near(rank) {
                    let dst = self.scratch_at(peer, from.0, slice);
                    let id = self.add((rank, 0, slice), Transfer::copy(packets, dst, 1));
                    self.builder.wait(id.sent(), sent[&(rank, from)].arrived());
                    sent.insert((peer, from), id);
                }
            }
        }
        for rank in self.all() {
            let key = self.unpacker(rank, slice);
            // In the order in which they come: from the own server, over the own rail, over others' rails.
            let rails: Vec<Rank> =
                self.near(rank).into_iter().chain([rank]).flat_map(|it| self.rail(it)).collect();
            let (own, on): (Vec<Rank>, Vec<Rank>) =
                rails.into_iter().partition(|it| it.0 % self.gpus() == rank.0 % self.gpus());
            for from in self.near(rank).into_iter().chain(own).chain(on) {
                let src = self.scratch_at(rank, from.0, slice);
                let dst = Slot::output(rank, self.chunk(from.0, slice));
                self.unpack(key, Transfer::copy(src, dst, 1), sent[&(rank, from)]);
            }
        }
    }

    /// ReduceScatter: for each rank of its rail, a rank sums its server's data and sends the sum; then it
    /// adds up the sums that came for itself. Scratch has a part for each rank and one for each server. Sums
    /// for other ranks are made in the output, one after the other.
    fn rails_scatter(&mut self, slice: u32) {
        let (gpus, servers) = (self.gpus(), self.ranks / self.gpus());
        self.ports.begin_at(self.ranks + servers);
        let mut sent: BTreeMap<(Rank, u32), TransferId> = BTreeMap::new();
        // Those for other servers first: they have further to go.
        let order = |rank: Rank| (1..=servers).map(move |it| (rank.0 / gpus + it) % servers);
        for rank in self.all() {
            for server in order(rank) {
                for peer in self.near(rank) {
                    let part = server * gpus + peer.0 % gpus;
                    let src = Slot::input(rank, self.chunk(part, slice));
                    let place = server * gpus + rank.0 % gpus;
                    let dst = self.scratch_at(peer, place, slice);
                    sent.insert((peer, place), self.send((rank, 0, slice), src, dst));
                }
            }
        }
        for rank in self.all() {
            let key = (rank, 0, slice);
            for server in order(rank) {
                let to = Rank(server * gpus + rank.0 % gpus);
                let sum = Slot::output(rank, self.chunk(0, slice));
                let own = Slot::input(rank, self.chunk(to.0, slice));
                self.add(key, Transfer::copy(own, sum, 1));
                for peer in self.near(rank) {
                    let place = server * gpus + peer.0 % gpus;
                    let src = self.scratch_at(rank, place, slice);
                    self.unpack(key, Transfer::reduce(src, sum, 1), sent[&(rank, place)]);
                }
                if to != rank {
                    let packed = self.pack_anew(key, sum);
                    let place = self.ranks + rank.0 / gpus;
                    let dst = self.scratch_at(to, place, slice);
                    let id = self.post(key, packed, dst);
                    sent.insert((to, place), id);
                }
            }
        }
        for rank in self.all() {
            let sum = Slot::output(rank, self.chunk(0, slice));
            for from in self.rail(rank) {
                let place = self.ranks + from.0 / gpus;
                let src = self.scratch_at(rank, place, slice);
                let add = Transfer::reduce(src, sum, 1);
                self.unpack((rank, 0, slice), add, sent[&(rank, place)]);
            }
        }
    }

    /// AllReduce: each rank sums one part of its server's data, then adds up what the servers have of that
    /// part, and sends the sum to its server. Scratch has a part for each GPU of the server, one for each
    /// server, and one for each GPU's sum.
    fn rails_reduce(&mut self, slice: u32) {
        let (gpus, servers) = (self.gpus(), self.ranks / self.gpus());
        self.ports.begin_at(2 * gpus + servers);
        let part = |rank: Rank| rank.0 % gpus;
        let (mut near, mut far, mut sums) = (Sent::new(), Sent::new(), Sent::new());
        for rank in self.all() {
            for peer in self.near(rank) {
                let src = Slot::input(rank, self.chunk(part(peer), slice));
                let dst = self.scratch_at(peer, part(rank), slice);
                near.insert((peer, rank), self.send((rank, 0, slice), src, dst));
            }
        }
        for rank in self.all() {
            let (key, own) = ((rank, 0, slice), self.chunk(part(rank), slice));
            let sum = Slot::output(rank, own);
            self.keep(key, Slot::input(rank, own), sum);
            for peer in self.near(rank) {
                let src = self.scratch_at(rank, part(peer), slice);
                self.unpack(key, Transfer::reduce(src, sum, 1), near[&(rank, peer)]);
            }
            for peer in self.rail(rank) {
                let dst = self.scratch_at(peer, gpus + rank.0 / gpus, slice);
                far.insert((peer, rank), self.send(key, sum, dst));
            }
        }
        for rank in self.all() {
            let key = (rank, 0, slice);
            let sum = Slot::output(rank, self.chunk(part(rank), slice));
            for from in self.rail(rank) {
                let src = self.scratch_at(rank, gpus + from.0 / gpus, slice);
                self.unpack(key, Transfer::reduce(src, sum, 1), far[&(rank, from)]);
            }
            for peer in self.near(rank) {
                let dst = self.scratch_at(peer, gpus + servers + part(rank), slice);
                sums.insert((peer, rank), self.send(key, sum, dst));
            }
        }
        for rank in self.all() {
            let key = self.unpacker(rank, slice);
            for peer in self.near(rank) {
                let src = self.scratch_at(rank, gpus + servers + part(peer), slice);
                let dst = Slot::output(rank, self.chunk(part(peer), slice));
                self.unpack(key, Transfer::copy(src, dst, 1), sums[&(rank, peer)]);
            }
        }
    }
}
