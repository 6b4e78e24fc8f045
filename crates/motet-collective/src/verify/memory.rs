//! The memory that a program works on, for one call form: every chunk of every buffer of every rank
//! is a cell with a number. In an in-place call input and output share cells, as NCCL defines it.

use motet_units::Rank;

use super::structure;
use crate::collective::InPlace;
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::{Buffer, Program, Slot};

/// Most cells that any program may have, however many transfers it has ([`super::budget`] bounds
/// them by its size); each takes some 16 bytes.
const MAX_CELLS: u64 = 1 << 27;

/// Where each buffer of each rank begins.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) in_place: bool,
    /// `[rank][Buffer as usize]`.
    bases: Vec<[u32; 4]>,
    cells: usize,
}

impl Memory {
    pub(super) fn new(program: &Program, in_place: bool) -> Result<Self, Box<Diagnostic>> {
        if in_place && !structure::has_in_place(program) {
            let kind = program.collective().kind();
            return Err(Box::new(Diagnostic::error(
                Finding::OutOfRange,
                format!("{kind} has no in-place form; mark the program out of place"),
            )));
        }
        let collective = program.collective();
        let mut bases = Vec::with_capacity(collective.ranks() as usize);
        let mut next = 0u64;
        for rank in (0..collective.ranks()).map(Rank) {
            let input = u64::from(collective.input_chunks(rank));
            let output = u64::from(collective.output_chunks(rank));
            let alias = if in_place { collective.in_place(rank) } else { None };
            let (at_input, at_output, size) = match alias {
                Some(InPlace::InputInOutput { offset }) => {
                    (next + u64::from(offset), next, output.max(input + u64::from(offset)))
                }
                Some(InPlace::OutputInInput { offset }) => {
                    (next, next + u64::from(offset), input.max(output + u64::from(offset)))
                }
                Some(InPlace::Apart) | None => (next, next + input, input + output),
            };
            let at_scratch = next + size;
            let at_switch = at_scratch + u64::from(program.scratch_chunks(rank));
            next = at_switch + u64::from(program.switch_chunks(rank));
            if next > MAX_CELLS {
                return Err(Box::new(Diagnostic::error(
                    Finding::TooLarge,
                    format!("the program's buffers hold more than {MAX_CELLS} chunks in all"),
                )));
            }
            // Below MAX_CELLS, so each fits 32 bits.
            bases.push([at_input, at_output, at_scratch, at_switch].map(|it| it as u32));
        }
        Ok(Self { in_place, bases, cells: next as usize })
    }

    pub(super) const fn cells(&self) -> usize {
        self.cells
    }

    /// The cell of the first chunk of `slot`, whose rank must exist.
    pub(super) fn cell(&self, slot: Slot) -> usize {
        let base = self.bases[slot.rank.index()][slot.buffer as usize];
        base as usize + slot.offset as usize
    }

    /// The slot that a user knows the cell by.
    pub(super) fn slot(&self, program: &Program, cell: usize) -> Slot {
        let after = self.bases.partition_point(|it| it[0].min(it[1]) as usize <= cell);
        let rank = Rank::from_index(after.saturating_sub(1));
        let bases = self.bases[rank.index()];
        for buffer in [Buffer::Output, Buffer::Input, Buffer::Scratch, Buffer::Switch] {
            let base = bases[buffer as usize] as usize;
            let slot = Slot::new(rank, buffer, 0);
            let size = structure::buffer_size(program, slot) as usize;
            if (base..base + size).contains(&cell) {
                return Slot { offset: (cell - base) as u32, ..slot };
            }
        }
        Slot::new(rank, Buffer::Scratch, 0)
    }
}
