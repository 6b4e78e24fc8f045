//! Data hazards: which transfers must follow which others so that every read sees the right value.
//!
//! A read must follow the last write of its chunk (read after write), and a write must follow the
//! reads and writes before it (write after read, write after write). One walk over all accesses, in
//! an order that is known to be right, finds them.

use std::collections::BTreeMap;

use super::resolve::{Address, address};
use crate::collective::Collective;
use crate::program::{Action, Slot, Transfer};

/// The accesses to one chunk so far.
#[derive(Clone, Debug, Default)]
struct Cell {
    writer: Option<u32>,
    /// Since the last write.
    readers: Vec<u32>,
}

/// Memory as a walk has left it. Accesses are named by numbers of the caller's choosing.
#[derive(Debug)]
pub(super) struct Hazards<'a> {
    /// The collective whose in-place form makes input and output one.
    in_place: Option<&'a Collective>,
    cells: BTreeMap<Address, Cell>,
}

impl<'a> Hazards<'a> {
    pub(super) const fn new(in_place: Option<&'a Collective>) -> Self {
        Self { in_place, cells: BTreeMap::new() }
    }

    fn cell(&mut self, slot: Slot, index: u32) -> &mut Cell {
        let (rank, scratch, start) = address(self.in_place, slot);
        self.cells.entry((rank, scratch, start + u64::from(index))).or_default()
    }

    /// `access` reads the source of `transfer`; what it must follow is added to `after`.
    pub(super) fn read(&mut self, access: u32, transfer: &Transfer, after: &mut Vec<u32>) {
        for index in 0..transfer.count {
            let cell = self.cell(transfer.src, index);
            after.extend(cell.writer);
            cell.readers.push(access);
        }
    }

    /// `access` writes the destination of `transfer`.
    pub(super) fn write(&mut self, access: u32, transfer: &Transfer, after: &mut Vec<u32>) {
        for index in 0..transfer.count {
            let cell = self.cell(transfer.dst, index);
            // Where somebody has read since, that somebody follows the last write.
            if cell.readers.is_empty() || transfer.action == Action::Reduce {
                after.extend(cell.writer);
            }
            after.append(&mut cell.readers);
            cell.writer = Some(access);
        }
    }
}

/// Sorted, each once, and without `own`.
pub(super) fn tidy(after: &mut Vec<u32>, own: u32) {
    after.sort_unstable();
    after.dedup();
    after.retain(|it| *it != own);
}
