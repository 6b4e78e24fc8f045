//! [`Merged`]: copies within a rank that the reduction behind them makes on the way.
//!
//! A rank of an AllReduce copies its own part to its output and then adds received data to it there. The copy alone moves the memory
//! of a whole call through the processor once more, long before it is needed. So a copy is left out where only reductions wait for it
//! that together cover what it would have written, and these take its source as their first operand instead: `output = input +
//! received`, block by block, each small enough for the processor's cache.
//!
//! Why nobody sees the difference: in a verified program whoever touches a place after a copy waits for the copy. If only those
//! reductions do, then nobody touches it between the two, and the source, which is the input of a program that does not write its
//! input, is the same then as before.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::{Action, Buffer, Slot, Transfer, TransferId};

use crate::layout::Layout;
use crate::plan::Plan;

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Copies that are left out.
    copies: BTreeSet<u32>,
    /// For each reduction behind one of them: where its first operand lies, in the copy's source.
    first: BTreeMap<u32, Slot>,
}

impl Merged {
    /// Finds the copies that can be left out of one rank's half of a verified program.
    pub(crate) fn new(plan: &Plan, layout: &Layout) -> Self {
        let mut this = Self::default();
        let region = |buffer| layout.whole(buffer).region;
        // The source might have changed before the reduction reads it. In place most programs write their input.
        let writes_input = |it: &Transfer| {
            it.dst.rank == plan.rank && region(it.dst.buffer) == region(Buffer::Input)
        };
        if plan.transfers.iter().any(writes_input) {
            return this;
        }
        for (id, copy) in (0..).map(TransferId).zip(&plan.transfers) {
            let within = copy.src.rank == plan.rank && copy.dst.rank == plan.rank;
            let merges = within && copy.action == Action::Copy && copy.src.buffer == Buffer::Input;
            if let Some(behind) = merges.then(|| reductions(plan, id, copy)).flatten() {
                this.copies.insert(id.0);
                this.first.extend(behind);
            }
        }
        this
    }

    /// Whether a transfer is a copy that is left out.
    pub(crate) fn is_left_out(&self, transfer: u32) -> bool {
        self.copies.contains(&transfer)
    }

    /// Where the first operand of a reduction lies, if not at its destination.
    pub(crate) fn first(&self, transfer: u32) -> Option<Slot> {
        self.first.get(&transfer).copied()
    }
}

/// The reductions that wait for a copy, each with where its first operand lies; `None` if another event waits for the copy too, or
/// if the reductions do not cover all that it writes.
fn reductions(plan: &Plan, id: TransferId, copy: &Transfer) -> Option<Vec<(u32, Slot)>> {
    let copied = plan.local(id.arrived())?;
    if !plan.told(copied).is_empty() {
        return None;
    }
    let mut covered = BTreeSet::new();
    let mut all = Vec::new();
    for local in plan.behind(copied) {
        let event = plan.events[*local as usize];
        let transfer = plan.transfers[event.transfer().index()];
        let at = transfer.dst.offset.checked_sub(copy.dst.offset)?;
        let into_it = !event.is_sent()
            && transfer.action == Action::Reduce
            && transfer.src.rank != plan.rank
            && transfer.dst.buffer == copy.dst.buffer
            && at + transfer.count <= copy.count
            && (at..at + transfer.count).all(|it| covered.insert(it));
        if !into_it {
            return None;
        }
        let first = Slot { offset: copy.src.offset + at, ..copy.src };
        all.push((event.transfer().0, first));
    }
    (covered.len() == copy.count as usize).then_some(all)
}

// The programs that this is for. Who makes them stands above this crate.
#[cfg(test)]
#[path = "../../motet-synth/src/gateways.rs"]
mod gateways;

#[cfg(test)]
mod tests {
    use motet_collective::{Collective, CollectiveKind, ProgramBuilder};
    use motet_units::Rank;

    use super::*;
    use crate::element::Element;

    /// Two ranks; rank 1 brings two chunks to its output and adds what rank 0 sends of each. `also` is something more.
    fn merged(in_place: bool, also: impl Fn(&mut ProgramBuilder, TransferId)) -> Merged {
        let collective = Collective::new(CollectiveKind::AllReduce, 2, 2).unwrap();
        let mut b = ProgramBuilder::new("p", collective);
        let own = b.add(Transfer::copy(Slot::input(Rank(1), 0), Slot::output(Rank(1), 0), 2));
        for chunk in 0..2 {
            let (from, to) = (Slot::input(Rank(0), chunk), Slot::output(Rank(1), chunk));
            let sum = b.add(Transfer::reduce(from, to, 1));
            b.wait(sum.arrived(), own.arrived());
        }
        also(&mut b, own);
        let program = b.build();
        let layout = Layout::new(&program, Rank(1), Element::F32, 10, in_place, 64).unwrap();
        Merged::new(&Plan::new(&program, Rank(1)), &layout)
    }

    #[test]
    fn a_copy_that_only_reductions_wait_for_is_left_out() {
        let it = merged(false, |_, _| {});
        assert!(it.is_left_out(0) && !it.is_left_out(1));
        let first = [0, 1, 2].map(|transfer| it.first(transfer));
        assert_eq!(first, [None, Some(Slot::input(Rank(1), 0)), Some(Slot::input(Rank(1), 1))]);
        assert!(!merged(true, |_, _| {}).is_left_out(0));
    }

    /// The programs that this is for: every copy is left out, and the far ends of the chains have none.
    #[test]
    fn sums_between_datacenters_copy_nothing() {
        let sites = [[0, 1], [2, 3]].map(|it| it.map(Rank).to_vec());
        let size = motet_units::Bytes::new(1 << 20);
        let program = gateways::program(CollectiveKind::AllReduce, &sites, size).unwrap();
        for rank in (0..4).map(Rank) {
            let layout =
                Layout::new(&program, rank, Element::F32, 1 << 18, false, 1 << 19).unwrap();
            let merged = Merged::new(&Plan::new(&program, rank), &layout);
            let within = |it: &&Transfer| it.src.rank == rank && it.dst.rank == rank;
            assert_eq!(merged.copies.len(), program.transfers().iter().filter(within).count());
            assert_eq!(merged.copies.is_empty(), rank.0 % 2 == 1);
        }
    }

    #[test]
    fn a_copy_that_is_read_or_whose_source_is_written_is_made() {
        let read = merged(false, |b, own| {
            let (from, to) = (Slot::output(Rank(1), 1), Slot::output(Rank(0), 1));
            b.add_after(Transfer::copy(from, to, 1), &[own]);
        });
        assert!(!read.is_left_out(0) && read.first(1).is_none());
        let told = merged(false, |b, own| {
            let (from, to) = (Slot::input(Rank(0), 0), Slot::output(Rank(0), 0));
            let other = b.add(Transfer::copy(from, to, 1));
            b.wait(other.sent(), own.arrived());
        });
        assert!(!told.is_left_out(0));
        let written = merged(false, |b, _| {
            let (from, to) = (Slot::input(Rank(0), 0), Slot::input(Rank(1), 0));
            b.add(Transfer::copy(from, to, 1));
        });
        assert!(!written.is_left_out(0));
    }

    #[test]
    fn a_copy_of_more_than_is_reduced_into_is_made() {
        let collective = Collective::new(CollectiveKind::AllReduce, 2, 2).unwrap();
        let mut b = ProgramBuilder::new("p", collective);
        let own = b.add(Transfer::copy(Slot::input(Rank(1), 0), Slot::output(Rank(1), 0), 2));
        let transfer = Transfer::reduce(Slot::input(Rank(0), 0), Slot::output(Rank(1), 0), 1);
        let sum = b.add(transfer);
        b.wait(sum.arrived(), own.arrived());
        let program = b.build();
        let layout = Layout::new(&program, Rank(1), Element::F32, 10, false, 64).unwrap();
        assert!(!Merged::new(&Plan::new(&program, Rank(1)), &layout).is_left_out(0));
    }
}
