//! Packets by way of ports.
//!
//! A proxy copies memory as it is. So packets are first made in the sender's own scratch, behind the parts
//! that others send to, and posted from there. The receiver sees their flags in its scratch as if a thread
//! had written them, so no signal is needed.

use std::collections::BTreeMap;

use motet_collective::program::{Slot, Transfer, TransferId};
use motet_units::Rank;

use super::build::{Build, Key};

/// The packets that were made, and the posts.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Parts of each rank's scratch that others send to.
    received: u32,
    /// How many further parts of scratch a rank packs in a slice.
    packed: BTreeMap<(Rank, u32), u32>,
    /// Where a block has packed a chunk, and the copy that did it.
    packs: BTreeMap<(Key, Slot), (Slot, TransferId)>,
    /// The posts of a block to a rank.
    posts: BTreeMap<(Key, Rank), Vec<TransferId>>,
}

impl Ports {
    /// Says that packets are made behind this many parts of scratch.
    pub(super) fn begin_at(&mut self, parts: u32) {
        self.received = parts;
    }

    /// Parts of scratch that every rank has: as many as the rank needs that packs most.
    pub(super) fn parts(&self) -> u32 {
        self.received + self.packed.values().copied().max().unwrap_or(0)
    }

    /// The posts of a block, by peer.
    pub(super) fn of(&self, key: Key) -> impl Iterator<Item = (Rank, &[TransferId])> {
        let of_block = self.posts.range((key, Rank(0))..=(key, Rank(u32::MAX)));
        of_block.map(|((_, peer), ids)| (*peer, ids.as_slice()))
    }
}

impl Build {
    /// Whether data from one rank to another goes through a proxy.
    pub(super) fn by_port(&self, a: Rank, b: Rank) -> bool {
        let packets = self.shape.pattern.has_packets();
        let per = self.shape.gpus_per_server.filter(|_| packets);
        per.is_some_and(|per| a.0 / per.max(1) != b.0 / per.max(1))
    }

    /// Sends a chunk to a place in another rank's scratch: directly, or through a port.
    pub(super) fn send(&mut self, key: Key, src: Slot, dst: Slot) -> TransferId {
        if !self.by_port(src.rank, dst.rank) {
            return self.add(key, Transfer::copy(src, dst, 1));
        }
        let packed = self.pack(key, src);
        self.post(key, packed, dst)
    }

    /// Posts packets that a block has made.
    pub(super) fn post(
        &mut self,
        key: Key,
        (packets, packed): (Slot, TransferId),
        dst: Slot,
    ) -> TransferId {
        let id = self.builder.add(Transfer::copy(packets, dst, 1));
        // A block posts only when all that it did before is done.
        let last = self.lanes.get(&key).and_then(|it| it.last().copied());
        for awaited in [Some(packed), last.filter(|it| *it != packed)].into_iter().flatten() {
            self.builder.wait(id.sent(), awaited.arrived());
        }
        self.ports.posts.entry((key, dst.rank)).or_default().push(id);
        id
    }

    /// The place of a chunk's packets in a block's own scratch, and the copy that makes them. They are made
    /// once, however many peers the block posts them to.
    pub(super) fn pack(&mut self, key: Key, src: Slot) -> (Slot, TransferId) {
        match self.ports.packs.get(&(key, src)) {
            Some(known) => *known,
            None => self.pack_anew(key, src),
        }
    }

    /// The same, but makes packets of the present data even if there are packets of earlier data.
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
