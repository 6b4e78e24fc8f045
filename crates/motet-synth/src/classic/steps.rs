//! [`Steps`]: builds a program step by step.
//!
//! Within a step every rank reads what was there before the step. The waits follow from that: a
//! send waits for the last write of what it reads, and an arrival waits for the reads (or else the
//! last write) of what it overwrites. Nothing else waits, so steps overlap where they can. Input
//! and output are assumed to share memory, as in an in-place call; the program is then right for
//! both kinds of call.

use motet_collective::collective::InPlace;
use motet_collective::{
    Action, Buffer, Collective, Forms, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_units::{Bytes, Rank};

use super::plan::{no_way, part_bytes};
use super::routes::{Choice, Routes};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::order::order;
use crate::task::{SynthError, Task};

/// No transfer, or the end of a list.
const NONE: u32 = u32::MAX;

/// The index at which each rank's buffers begin among all chunks of all ranks.
#[derive(Clone, Copy, Debug)]
struct Memory {
    input: usize,
    output: usize,
    scratch: usize,
}

/// A program under construction.
pub(super) struct Steps<'a> {
    fabric: &'a Fabric,
    size: Bytes,
    builder: ProgramBuilder,
    routes: Routes<'a>,
    /// For each path of `routes`, its number in the program.
    numbers: Vec<u32>,
    /// Scratch chunks of each rank; ranks that forward data need more than the caller asked for.
    scratch: Vec<u32>,
    memory: Vec<Memory>,
    /// Per chunk: the last transfer that wrote it, and the reads since then, as a linked list in
    /// `readings`.
    written: Vec<u32>,
    read: Vec<u32>,
    /// (transfer, next)
    readings: Vec<(u32, u32)>,
}

impl<'a> Steps<'a> {
    /// Starts a program for `collective`, with this many scratch chunks at every rank.
    pub(super) fn new(
        task: &Task<'_>,
        fabric: &'a Fabric,
        collective: Collective,
        scratch: u32,
    ) -> Self {
        let mut memory = Vec::with_capacity(fabric.rank_count());
        let mut cells = 0;
        let mut in_place = true;
        for rank in fabric.ranks() {
            let input = collective.input_chunks(rank) as usize;
            let output = collective.output_chunks(rank) as usize;
            let shared = collective.in_place(rank);
            in_place &= shared.is_some();
            let (start, both) = match shared {
                Some(InPlace::InputInOutput { offset }) => {
                    ((cells + offset as usize, cells), output.max(offset as usize + input))
                }
                Some(InPlace::OutputInInput { offset }) => {
                    ((cells, cells + offset as usize), input.max(offset as usize + output))
                }
                Some(InPlace::Apart) | None => ((cells, cells + input), input + output),
            };
            memory.push(Memory { input: start.0, output: start.1, scratch: cells + both });
            cells += both + scratch as usize;
        }
        let name = format!("{}-{}", collective.kind(), collective.ranks());
        let forms = Forms { in_place, out_of_place: true };
        let builder = ProgramBuilder::new(name, collective).forms(forms);
        Self {
            fabric,
            size: task.size,
            builder,
            routes: Routes::new(fabric, part_bytes(task)),
            numbers: Vec::new(),
            scratch: vec![scratch; fabric.rank_count()],
            memory,
            written: vec![NONE; cells],
            read: vec![NONE; cells],
            readings: Vec::new(),
        }
    }

    fn cells(&self, slot: Slot, count: u32) -> std::ops::Range<usize> {
        let memory = self.memory[slot.rank.index()];
        let start = match slot.buffer {
            Buffer::Input => memory.input,
            Buffer::Output => memory.output,
            // No step of a classic is in a switch.
            Buffer::Scratch | Buffer::Switch => memory.scratch,
        } + slot.offset as usize;
        start..start + count as usize
    }

    /// Adds one step. All its transfers read what was there before it.
    pub(super) fn step(&mut self, transfers: &[Transfer]) -> Result<(), SynthError> {
        let mut ends = Vec::with_capacity(transfers.len());
        for transfer in transfers {
            let (first, last) = self.send(*transfer)?;
            self.read(first, transfer.src, transfer.count);
            ends.push(last);
        }
        for (id, transfer) in ends.into_iter().zip(transfers) {
            self.write(id, transfer.dst, transfer.count);
        }
        Ok(())
    }

    /// Adds a transfer, in several hops if other ranks must forward it. Returns the first and the
    /// last hop.
    fn send(&mut self, transfer: Transfer) -> Result<(TransferId, TransferId), SynthError> {
        let (from, to) = (transfer.src.rank, transfer.dst.rank);
        if from == to {
            let id = self.builder.add(transfer);
            return Ok((id, id));
        }
        if let Some(path) = self.path(from, to) {
            let id = self.builder.add(Transfer { path: Some(path), ..transfer });
            return Ok((id, id));
        }
        let relays = self.routes.relays(from, to).ok_or_else(|| no_way(from, to))?;
        let (mut src, mut hops) = (transfer.src, Vec::new());
        for hop in relays.windows(2) {
            let path = Some(self.path(hop[0], hop[1]).ok_or_else(|| no_way(from, to))?);
            let id = if hop[1] == to {
                self.builder.add(Transfer { src, path, ..transfer })
            } else {
                let free = &mut self.scratch[hop[1].index()];
                let dst = Slot::scratch(hop[1], *free);
                *free = free.saturating_add(transfer.count);
                let sent = Transfer { path, ..Transfer::copy(src, dst, transfer.count) };
                src = dst;
                self.builder.add(sent)
            };
            if let Some(before) = hops.last() {
                self.builder.wait(id.sent(), TransferId::arrived(*before));
            }
            hops.push(id);
        }
        match (hops.first(), hops.last()) {
            (Some(first), Some(last)) => Ok((*first, *last)),
            _ => Err(no_way(from, to)),
        }
    }

    fn path(&mut self, from: Rank, to: Rank) -> Option<u32> {
        let path = self.routes.path(from, to, 1, Choice::Cheapest)?;
        // `routes` numbers every path it finds, also those not used.
        while self.numbers.len() <= path as usize {
            let next = self.routes.links(self.numbers.len() as u32).to_vec();
            self.numbers.push(self.builder.add_path(next));
        }
        Some(self.numbers[path as usize])
    }

    fn read(&mut self, id: TransferId, slot: Slot, count: u32) {
        let mut waited = NONE;
        for cell in self.cells(slot, count) {
            let writer = self.written[cell];
            if writer != NONE && writer != waited {
                self.builder.wait(id.sent(), TransferId(writer).arrived());
                waited = writer;
            }
            self.readings.push((id.0, self.read[cell]));
            self.read[cell] = self.readings.len() as u32 - 1;
        }
    }

    fn write(&mut self, id: TransferId, slot: Slot, count: u32) {
        let mut waited = NONE;
        for cell in self.cells(slot, count) {
            let mut reading = std::mem::replace(&mut self.read[cell], NONE);
            let writer = std::mem::replace(&mut self.written[cell], id.0);
            if reading == NONE && writer != NONE && writer != waited && writer != id.0 {
                self.builder.wait(id.arrived(), TransferId(writer).arrived());
                waited = writer;
            }
            while reading != NONE {
                let (reader, next) = self.readings[reading as usize];
                if reader != id.0 {
                    self.builder.wait(id.arrived(), TransferId(reader).sent());
                }
                reading = next;
            }
        }
    }

    /// Finishes the program and orders its transfers.
    pub(super) fn finish(mut self) -> Lowered {
        for (rank, chunks) in self.fabric.ranks().zip(&self.scratch) {
            self.builder.set_scratch(rank, *chunks);
        }
        let (program, makespan) = order(self.builder.build(), self.fabric, self.size);
        Lowered { program, makespan, slices: 1 }
    }
}

/// A transfer of `count` chunks between the same offsets of two ranks' buffers of the same kind.
pub(super) fn alike(
    action: Action,
    (from, to): (Rank, Rank),
    buffer: Buffer,
    offset: u32,
    count: u32,
) -> Transfer {
    let (src, dst) = (Slot::new(from, buffer, offset), Slot::new(to, buffer, offset));
    Transfer { action, src, dst, count, path: None }
}
