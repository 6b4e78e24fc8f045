//! Whether what a program keeps in scratch can travel as packets.
//!
//! Packets carry their own flags, so that whoever reads them needs no signal, no channel and no
//! meeting. They live in scratch alone: written from plain memory or from packets at hand, read
//! by the GPU they lie at. Plain data in scratch lies differently, so that it is all packets or
//! none. A flag says in which call a packet was written, and two calls must not write the same
//! one while the first is read: scratch is doubled, calls use the halves in turn, and nobody ends
//! a call before everybody has begun it, because everybody's data is in everybody's result.

use std::collections::BTreeMap;

use motet_units::Rank;

use crate::collective::CollectiveKind;
use crate::program::{Action, Buffer, LaneKind, Program, Protocol, Slot, Transfer};

/// What is known of a program whose scratch holds packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// Whether scratch is doubled. The executor takes its own half's offset for others', so that
    /// all must have the same scratch.
    pub(super) doubled: bool,
}

/// Ranges of the scratch of each rank.
type Spans = BTreeMap<Rank, Vec<(u64, u64)>>;

impl Packing {
    /// `None` where some transfer through scratch has no packet form, where there is none, or
    /// where the program is not for LL.
    pub(super) fn new(program: &Program) -> Option<Self> {
        if program.hints().protocol != Protocol::Ll
            || program.collective().kind() == CollectiveKind::SendRecv
        {
            return None;
        }
        let (mut written, mut posted, mut read) = (Spans::new(), Spans::new(), Spans::new());
        for lane in program.lanes() {
            for event in lane.events.iter().filter(|it| it.is_sent()) {
                let transfer = program.transfer(event.transfer());
                if !has_form(transfer, lane.rank, lane.kind) {
                    return None;
                }
                let (reads, writes) = (is_scratch(transfer.src), is_scratch(transfer.dst));
                let add = |to: &mut Spans, slot: Slot| {
                    to.entry(slot.rank).or_default().push(span(slot, transfer.count));
                };
                if reads {
                    add(&mut read, transfer.src);
                }
                if writes {
                    add(&mut written, transfer.dst);
                }
                if writes && lane.kind != LaneKind::Block {
                    add(&mut posted, transfer.dst);
                }
            }
        }
        if written.is_empty() || !apart(&mut written) {
            return None;
        }
        let mut sizes =
            (0..program.collective().ranks()).map(|it| program.scratch_chunks(Rank(it)));
        let first = sizes.next();
        let doubled = sizes.all(|it| Some(it) == first);
        // Who posts learns that it was fetched only from the next call of whoever reads it.
        let fetched = posted.is_empty() || doubled && covers(&mut read, &posted);
        fetched.then_some(Self { doubled })
    }
}

/// What a transfer is in a plan: whether each of its ends is packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl Ends {
    pub(super) fn of(packing: Option<Packing>, transfer: &Transfer) -> Self {
        let packed = |slot| packing.is_some() && is_scratch(slot);
        Self { reads: packed(transfer.src), writes: packed(transfer.dst) }
    }
}

/// Whether `waiter` reads packets that `awaited` writes: it then waits by itself.
pub(super) fn provides(packing: Option<Packing>, waiter: &Transfer, awaited: &Transfer) -> bool {
    let (from, to) = (waiter.src, awaited.dst);
    let (read, written) = (span(from, waiter.count), span(to, awaited.count));
    Ends::of(packing, waiter).reads
        && Ends::of(packing, awaited).writes
        && from.rank == to.rank
        && read.0 < written.1
        && written.0 < read.1
}

fn is_scratch(slot: Slot) -> bool {
    slot.buffer == Buffer::Scratch
}

/// Whether an operation does this transfer with packets at its ends in scratch.
fn has_form(transfer: &Transfer, here: Rank, kind: LaneKind) -> bool {
    let from_here = transfer.src.rank == here;
    match (is_scratch(transfer.src), is_scratch(transfer.dst)) {
        (false, false) => true,
        (false, true) => kind == LaneKind::Block && transfer.action == Action::Copy && from_here,
        (true, true) => transfer.action == Action::Copy && from_here && !transfer.is_local(),
        (true, false) => kind == LaneKind::Block && from_here && transfer.is_local(),
    }
}

fn span(slot: Slot, count: u32) -> (u64, u64) {
    (u64::from(slot.offset), u64::from(slot.offset) + u64::from(count))
}

/// Whether no two ranges overlap.
fn apart(spans: &mut Spans) -> bool {
    spans.values_mut().all(|list| {
        list.sort_unstable();
        list.windows(2).all(|it| it[0].1 <= it[1].0)
    })
}

/// Whether all of `needed` is in `spans`.
fn covers(spans: &mut Spans, needed: &Spans) -> bool {
    spans.values_mut().for_each(|list| list.sort_unstable());
    needed.iter().all(|(rank, list)| {
        let there = spans.get(rank).map_or(&[][..], Vec::as_slice);
        list.iter().all(|(start, end)| {
            let mut reached = *start;
            for (from, to) in there.iter().take_while(|it| it.0 < *end) {
                if *from <= reached {
                    reached = reached.max(*to);
                }
            }
            reached >= *end
        })
    })
}
