//! Packets by way of ports.
//!
//! A proxy moves what lies in memory, so that packets are made first, in the sender's own scratch behind
//! what others send there, and posted from there. Whoever they are for finds their flags in its scratch, as
//! if a thread had written them: nobody is signalled.

use std::collections::BTreeMap;

use motet_collective::program::{Slot, Transfer, TransferId};
use motet_units::Rank;

use super::build::{Build, Key};

/// What is packed and posted.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Parts of each rank's scratch that others send to.
    received: u32,
    /// Further parts that each rank packs, by rank and slice.
    packed: BTreeMap<(Rank, u32), u32>,
    /// Where a block has packed a chunk, and when.
    packs: BTreeMap<(Key, Slot), (Slot, TransferId)>,
    /// By the block that posts and the rank it posts to.
    posts: BTreeMap<(Key, Rank), Vec<TransferId>>,
}

impl Ports {
    /// Packets are made behind so many parts of scratch.
    pub(super) fn begin_at(&mut self, parts: u32) {
        self.received = parts;
    }

    /// Parts of scratch that every rank has: as many as the rank that packs most.
    pub(super) fn parts(&self) -> u32 {
        self.received + self.packed.values().copied().max().unwrap_or(0)
    }

    /// What a block posts, by peer.
    pub(super) fn of(&self, key: Key) -> impl Iterator<Item = (Rank, &[TransferId])> {
        let of_block = self.posts.range((key, Rank(0))..=(key, Rank(u32::MAX)));
        of_block.map(|((_, peer), ids)| (*peer, ids.as_slice()))
    }
}

impl Build {
    /// Whether a proxy moves what goes from one rank to another.
    pub(super) fn by_port(&self, a: Rank, b: Rank) -> bool {
        let packets = self.shape.pattern.has_packets();
        let per = self.shape.gpus_per_server.filter(|_| packets);
        per.is_some_and(|per| a.0 / per.max(1) != b.0 / per.max(1))
    }

    /// Sends a chunk to a place in another rank's scratch, by whichever way leads there.
    pub(super) fn send(&mut self, key: Key, src: Slot, dst: Slot) -> TransferId {
        if !self.by_port(src.rank, dst.rank) {
            return self.add(key, Transfer::copy(src, dst, 1));
        }
        let packed = self.pack(key, src);
        self.post(key, packed, dst)
    }

    /// Posts what a block has packed.
    pub(super) fn post(
        &mut self,
        key: Key,
        (packets, packed): (Slot, TransferId),
        dst: Slot,
    ) -> TransferId {
        let id = self.builder.add(Transfer::copy(packets, dst, 1));
        // A block posts when it is through with what it did before.
        let last = self.lanes.get(&key).and_then(|it| it.last().copied());
        for awaited in [Some(packed), last.filter(|it| *it != packed)].into_iter().flatten() {
            self.builder.wait(id.sent(), awaited.arrived());
        }
        self.ports.posts.entry((key, dst.rank)).or_default().push(id);
        id
    }

    /// Where a block has a chunk as packets in its own scratch, and the copy that makes them. However many
    /// peers the block posts them to, they are made once.
    pub(super) fn pack(&mut self, key: Key, src: Slot) -> (Slot, TransferId) {
        match self.ports.packs.get(&(key, src)) {
            Some(known) => *known,
            None => self.pack_anew(key, src),
        }
    }

    /// The same, of what is there now.
    pub(super) fn pack_anew(&mut self, key: Key, src: Slot) -> (Slot, TransferId) {
        let (rank, _, slice) = key;
        let place = self.ports.packed.entry((rank, slice)).or_insert(0);
        let part = self.ports.received + *place;
        *place += 1;
        let packets = Slot::scratch(rank, self.chunk(part, slice));
        let id = self.add(key, Transfer::copy(src, packets, 1));
        self.ports.packs.insert((key, src), (packets, id));
        (packets, id)
    }
}
