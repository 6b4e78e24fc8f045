//! Where a call begins and ends.
//!
//! A program says what happens within one call. But GPUs begin and end a call each at its own
//! time, and before and after it their buffers belong to others. So no block may touch another
//! GPU's memory before that GPU has begun, and no GPU may end before all others are through with
//! its memory and what it posted has been fetched. Where the signals of the program itself do not
//! see to this, further ones do, which order nothing within the call.
//!
//! A signal at the end waits until the other GPU sees what the block has written, which takes longer than
//! the signal itself. A block that only read there has nothing to be seen: what it read it has stored at
//! home before its threads met, so that the reads are over, and a relaxed signal is enough.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::agenda::{Agenda, Take};
use super::packing::{Ends, Packing};
use crate::program::Program;

/// What a block does with another GPU's memory, by index of its items.
#[derive(Clone, Copy, Debug)]
struct Access {
    first: usize,
    /// The last that the block does itself.
    last_own: Option<usize>,
    /// Whether any of it writes there.
    writes: bool,
}

/// Adds the handshakes of all blocks.
pub(super) fn add(program: &Program, packing: Option<Packing>, agenda: &mut Agenda) {
    let mut of_rank: BTreeMap<Rank, Vec<usize>> = BTreeMap::new();
    for (index, block) in agenda.blocks.iter().enumerate() {
        of_rank.entry(block.rank).or_default().push(index);
    }
    let joined = joined(agenda);
    let accesses: Vec<BTreeMap<Rank, Access>> =
        (0..agenda.blocks.len()).map(|it| accesses(program, packing, agenda, it)).collect();
    // By rank and the rank whose memory it touches: the blocks that do so.
    let mut towards: BTreeMap<(Rank, Rank), Vec<usize>> = BTreeMap::new();
    for (index, touched) in accesses.iter().enumerate() {
        for peer in touched.keys() {
            towards.entry((agenda.blocks[index].rank, *peer)).or_default().push(index);
        }
    }
    for (index, touched) in accesses.iter().enumerate() {
        let rank = agenda.blocks[index].rank;
        for (peer, access) in touched {
            let peer = *peer;
            let blocks = &of_rank[&peer];
            // A block has only so many channels: take one that is there; else the block that comes
            // this way just as this one goes that way, so that one channel serves both; else any.
            let there = blocks.iter().find(|it| joined.contains(&(index, **it)));
            let place = towards[&(rank, peer)].partition_point(|it| *it < index);
            let back = towards.get(&(peer, rank)).map(|it| &it[place % it.len()]);
            let any = &blocks[(rank.index() + place) % blocks.len()];
            let partner = *there.or(back).unwrap_or(any);
            if !begun(program, agenda, index, peer, access.first) {
                agenda.blocks[partner].call.greets.insert(index);
                agenda.blocks[index].call.greeted_by.insert(partner);
            }
            if access.last_own.is_some_and(|it| !left(agenda, index, blocks, it)) {
                let call = &mut agenda.blocks[index].call;
                call.leaves_after = call.leaves_after.max(access.last_own.unwrap_or(0));
                call.leaves.insert(partner);
                agenda.blocks[partner].call.left_by.insert(index);
                if !access.writes {
                    agenda.blocks[index].call.leaves_unchanged.insert(partner);
                    agenda.blocks[partner].call.left_unchanged_by.insert(index);
                }
            }
        }
    }
    confirm(agenda);
}

/// Pairs of blocks that a channel joins already, both ways round.
fn joined(agenda: &Agenda) -> BTreeSet<(usize, usize)> {
    let mut joined = BTreeSet::new();
    for (to, block) in agenda.blocks.iter().enumerate() {
        for take in block.items.iter().flat_map(|it| &it.takes) {
            if let Take::Block(from) = take {
                joined.extend([(*from, to), (to, *from)]);
            }
        }
    }
    joined
}

fn accesses(
    program: &Program,
    packing: Option<Packing>,
    agenda: &Agenda,
    index: usize,
) -> BTreeMap<Rank, Access> {
    let block = &agenda.blocks[index];
    let mut accesses: BTreeMap<Rank, Access> = BTreeMap::new();
    for (at, item) in block.items.iter().enumerate() {
        let transfer = program.transfer(item.id);
        // Two calls do not write the same packets where scratch is doubled.
        if packing.is_some_and(|it| it.doubled) && Ends::of(packing, transfer).writes {
            continue;
        }
        for rank in [transfer.src.rank, transfer.dst.rank] {
            if rank != block.rank {
                let none = Access { first: at, last_own: None, writes: false };
                let access = accesses.entry(rank).or_insert(none);
                access.writes |= rank == transfer.dst.rank;
                if item.port.is_none() {
                    access.last_own = Some(at);
                }
            }
        }
    }
    accesses
}

/// Whether the block has heard of `peer` before its item `first`.
fn begun(program: &Program, agenda: &Agenda, index: usize, peer: Rank, first: usize) -> bool {
    let items = &agenda.blocks[index].items[..=first];
    items.iter().flat_map(|it| &it.takes).any(|take| match take {
        Take::Block(from) => agenda.blocks[*from].rank == peer,
        Take::Port { lane, .. } => program.lanes()[*lane].rank == peer,
    })
}

/// Whether one of `blocks` hears of the block after its item `last`.
fn left(agenda: &Agenda, index: usize, blocks: &[usize], last: usize) -> bool {
    let items = &agenda.blocks[index].items[last..];
    items
        .iter()
        .filter(|it| it.port.is_none())
        .any(|it| blocks.iter().any(|to| it.tells.contains(to)))
}

/// The block that the signals of a port go to tells the one that posted, when all have come.
fn confirm(agenda: &mut Agenda) {
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (sender, block) in agenda.blocks.iter().enumerate() {
        for lane in block.items.iter().filter_map(|it| it.port) {
            pairs.extend(agenda.receivers.get(&lane).map(|receiver| (*receiver, sender)));
        }
    }
    for (receiver, sender) in pairs {
        agenda.blocks[receiver].call.confirms.insert(sender);
        agenda.blocks[sender].call.confirmed_by.insert(receiver);
    }
}
