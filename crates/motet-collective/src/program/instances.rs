//! Instances: a program as several copies of itself that run side by side.
//!
//! A runtime moves data with threadblocks, and one threadblock fills no link. In `k` instances every
//! transfer becomes `k` smaller ones, each on lanes and channels of its own, so that `k` threadblocks
//! share its work. Each part of a buffer is cut into `k` blocks and copy `i` has block `i` of every
//! part:
//!
//! ```text
//! two parts of three chunks   | a b c       | d e f       |
//! in two instances            | a b c a b c | d e f d e f |   as seen by copy 0, then copy 1
//! ```
//!
//! A part is what belongs to one rank (the table in [`crate::collective`]): an AllReduce has one,
//! an AllGather's output one per rank. Chunks that stood beside each other in one part still do,
//! so that a transfer stays one transfer per copy unless it crosses from one part into the next;
//! there it is cut. Scratch counts as one part, and so do switch registers.

use motet_units::Rank;

use super::{Buffer, Event, Lane, LaneKind, Program, Slot, Transfer, TransferId, Turns};
use crate::collective::{Collective, CollectiveError};

/// `program` as `k` copies of itself, each on its k-th of every chunk's part; 0 counts as 1. It has
/// `k` times the chunks, does the same and is right if `program` is.
///
/// Copies of a transfer are numbered one after the other, so that links carry them in the order
/// in which they carried the transfer. Copy `i` of a lane on channel `c` is on channel `c + i·n`
/// where the program has `n` channels.
///
/// # Errors
/// If there would be more chunks than a collective can have.
pub fn in_instances(program: &Program, k: u32) -> Result<Program, CollectiveError> {
    if k <= 1 {
        return Ok(program.clone());
    }
    let collective = program.collective().refined(k)?;
    let parts = Parts::new(program);
    let mut builder = program.emptied_for(collective);
    for rank in (0..program.collective().ranks()).map(Rank) {
        let whole = |chunks: u32| {
            let chunks = u64::from(chunks) * u64::from(k);
            u32::try_from(chunks).map_err(|_| CollectiveError::Chunks(chunks))
        };
        builder.set_scratch(rank, whole(program.scratch_chunks(rank))?);
        builder.set_switch(rank, whole(program.switch_chunks(rank))?);
    }
    builder.set_made_for(program.made_for().cloned());
    let mut copies = Copies { k, starts: vec![0], each: Vec::new() };
    for transfer in program.transfers() {
        let pieces = parts.pieces(transfer);
        for copy in 0..k {
            for piece in &pieces {
                builder.add(Transfer {
                    src: parts.moved(piece.src, copy, k),
                    dst: parts.moved(piece.dst, copy, k),
                    ..*piece
                });
            }
        }
        copies.each.push(pieces.len() as u32);
        copies.starts.push(builder.transfers().len() as u32);
    }
    for event in (0..program.transfers().len() * 2).map(Event::from_index) {
        for awaited in program.deps(event) {
            for copy in 0..k {
                for waiting in copies.events(event, copy) {
                    for awaited in copies.events(*awaited, copy) {
                        builder.wait(waiting, awaited);
                    }
                }
            }
        }
    }
    builder.set_lanes(copies.lanes(program));
    builder.set_turns(copies.turns(program));
    Ok(builder.build())
}

/// Where the parts of every buffer begin.
struct Parts<'a> {
    program: &'a Program,
    /// Of an AllToAllV, whose parts differ in length: by rank, of its input and its output.
    uneven: Vec<[Vec<u32>; 2]>,
}

impl<'a> Parts<'a> {
    fn new(program: &'a Program) -> Self {
        let collective = program.collective();
        let ranks = 0..collective.ranks() as usize;
        let uneven = collective.counts().map_or_else(Vec::new, |counts| {
            ranks.map(|rank| uneven_parts(collective, counts, rank)).collect()
        });
        Self { program, uneven }
    }

    /// The part that holds a chunk: its first chunk and its length.
    fn of(&self, slot: Slot) -> (u32, u32) {
        let side = match slot.buffer {
            Buffer::Scratch => return (0, self.program.scratch_chunks(slot.rank)),
            Buffer::Switch => return (0, self.program.switch_chunks(slot.rank)),
            Buffer::Input => 0,
            Buffer::Output => 1,
        };
        if let Some(starts) = self.uneven.get(slot.rank.index()).map(|it| &it[side]) {
            let next = starts.partition_point(|it| *it <= slot.offset);
            let start = starts[next.saturating_sub(1)];
            let end = starts.get(next).copied().unwrap_or(start);
            return (start, end - start);
        }
        let length = self.program.collective().chunks();
        (slot.offset / length * length, length)
    }

    /// The transfer cut where its source or its destination passes into another part.
    fn pieces(&self, transfer: &Transfer) -> Vec<Transfer> {
        let mut pieces = Vec::with_capacity(1);
        let mut rest = *transfer;
        loop {
            let room = |slot: Slot| {
                let (start, length) = self.of(slot);
                // In a range outside its buffer, which is the verifier's to report, there is
                // nothing to cut.
                match (start + length).checked_sub(slot.offset) {
                    None | Some(0) => u32::MAX,
                    Some(room) => room,
                }
            };
            let count = rest.count.min(room(rest.src)).min(room(rest.dst));
            pieces.push(Transfer { count, ..rest });
            rest.count -= count;
            if rest.count == 0 {
                return pieces;
            }
            rest.src.offset = rest.src.offset.saturating_add(count);
            rest.dst.offset = rest.dst.offset.saturating_add(count);
        }
    }

    /// Where `copy` has the chunk at `slot`.
    fn moved(&self, slot: Slot, copy: u32, k: u32) -> Slot {
        let (start, length) = self.of(slot);
        let offset = u64::from(start) * u64::from(k)
            + u64::from(copy) * u64::from(length)
            + u64::from(slot.offset.saturating_sub(start));
        Slot { offset: u32::try_from(offset).unwrap_or(u32::MAX), ..slot }
    }
}

/// Where the parts of a rank's input and output begin in an AllToAllV, and where the last ends.
fn uneven_parts(collective: &Collective, counts: &[u32], rank: usize) -> [Vec<u32>; 2] {
    let n = collective.ranks() as usize;
    let starts = |lengths: &mut dyn Iterator<Item = u32>| {
        let mut starts = vec![0];
        let mut end = 0;
        for length in lengths {
            end += length;
            starts.push(end);
        }
        starts
    };
    let input = starts(&mut counts[rank * n..][..n].iter().copied());
    let output = starts(&mut counts.iter().skip(rank).step_by(n).copied());
    [input, output]
}

/// What became of each transfer.
struct Copies {
    k: u32,
    /// By transfer: its first copy's first piece; and where the last one's end.
    starts: Vec<u32>,
    /// By transfer: pieces of a copy.
    each: Vec<u32>,
}

impl Copies {
    /// The pieces of a transfer in one copy.
    fn pieces(&self, id: TransferId, copy: u32) -> impl Iterator<Item = TransferId> + use<> {
        let each = self.each[id.index()];
        let first = self.starts[id.index()] + copy * each;
        (first..first + each).map(TransferId)
    }

    /// An event in one copy. What does not exist stays so, for the verifier to report.
    fn events(&self, event: Event, copy: u32) -> Vec<Event> {
        if event.transfer().index() >= self.each.len() {
            return vec![Event::from_index(usize::MAX)];
        }
        let half = |it: TransferId| if event.is_sent() { it.sent() } else { it.arrived() };
        self.pieces(event.transfer(), copy).map(half).collect()
    }

    fn lanes(&self, program: &Program) -> Vec<Lane> {
        let lanes = program.lanes();
        let channels = lanes.iter().map(|it| it.channel).max().map_or(0, |it| it.saturating_add(1));
        let mut made = Vec::with_capacity(lanes.len() * self.k as usize);
        for copy in 0..self.k {
            let before = made.len() as u32;
            made.extend(lanes.iter().map(|lane| Lane {
                rank: lane.rank,
                kind: match lane.kind {
                    LaneKind::Block => LaneKind::Block,
                    LaneKind::Port { block } => {
                        LaneKind::Port { block: before.saturating_add(block) }
                    }
                },
                channel: lane.channel.saturating_add(channels.saturating_mul(copy)),
                events: self.lane(&lane.events, copy),
            }));
        }
        made
    }

    /// The events of a lane in one copy.
    fn lane(&self, events: &[Event], copy: u32) -> Vec<Event> {
        let mut made = Vec::with_capacity(events.len());
        let mut at = 0;
        while let Some(event) = events.get(at) {
            let id = event.transfer();
            if event.is_sent() && events.get(at + 1) == Some(&id.arrived()) {
                // One step of the lane; so is each piece.
                made.extend(self.pieces(id, copy).flat_map(|it| [it.sent(), it.arrived()]));
                at += 2;
            } else {
                made.extend(self.events(*event, copy));
                at += 1;
            }
        }
        made
    }

    /// A link's turn passes through the copies of a transfer before it goes on to the next.
    fn turns(&self, program: &Program) -> Vec<Turns> {
        let known = |it: &&TransferId| it.index() < self.each.len();
        let copies = |id: &TransferId| self.starts[id.index()]..self.starts[id.index() + 1];
        let turns = program.turns().iter().map(|it| Turns {
            link: it.link,
            transfers: it.transfers.iter().filter(known).flat_map(copies).map(TransferId).collect(),
        });
        turns.collect()
    }
}
