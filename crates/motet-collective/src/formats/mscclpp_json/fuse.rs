//! Which neighbouring steps of a threadblock go into one operation.
//!
//! The executor takes 64 operations per threadblock, but one operation has up to eight peers and
//! sums up to ten ranges. Steps are put together only where that orders nothing anew: nobody is
//! waited for before the later ones, and nobody is told of the earlier ones.

use std::ops::Range;

use motet_units::Rank;

use super::agenda::Item;
use super::limits::{MAX_BUFFERS_PER_OP, MAX_CHANNELS_PER_OP};
use super::packing::{Ends, Packing};
use super::resolve::address;
use super::switch_write;
use crate::program::{Action, Program, Slot, Transfer};

/// Steps that become one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fused {
    pub(super) items: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Posted to ports.
    Posts,
    /// Copies that do not touch one another.
    Copies,
    /// A copy to the destination if `copied`, so many reductions into it, and copies of the sum.
    Sum { copied: bool, reduces: usize },
    /// An operation in the switch.
    Switch,
}

/// Splits the steps of one block.
pub(super) struct PlanFuser<'a> {
    pub(super) program: &'a Program,
    pub(super) packing: Option<Packing>,
    /// The rank that the block runs at.
    pub(super) here: Rank,
    pub(super) items: &'a [Item],
    /// Whether to put anything together at all.
    pub(super) fused: bool,
}

impl PlanFuser<'_> {
    pub(super) fn run(&self) -> Vec<Fused> {
        let mut groups = Vec::new();
        let mut at = 0;
        while at < self.items.len() {
            let (end, kind) = self.next(at);
            groups.push(Fused { items: at..end, kind });
            at = end;
        }
        groups
    }

    fn next(&self, at: usize) -> (usize, Kind) {
        if self.items[at].port.is_some() {
            return (self.posts(at), Kind::Posts);
        }
        if self.transfer(at).is_in_switch() {
            let ids = self.items[at..].iter().map(|it| it.id);
            return (at + switch_write::length(self.program, ids), Kind::Switch);
        }
        self.sum(at).unwrap_or_else(|| (self.copies(at), Kind::Copies))
    }

    fn transfer(&self, at: usize) -> &Transfer {
        self.program.transfer(self.items[at].id)
    }

    fn ends(&self, at: usize) -> Ends {
        Ends::of(self.packing, self.transfer(at))
    }

    /// Whether the step at `at` may share an operation with the one before it.
    fn joins(&self, at: usize, posted: bool) -> bool {
        let Some(item) = self.items.get(at) else { return false };
        let before = &self.items[at - 1];
        self.fused
            && item.port.is_some() == posted
            && item.takes.is_empty()
            && item.follows.is_empty()
            && (posted || before.tells.is_empty())
    }

    /// Posts through different ports, all signalled alike.
    fn posts(&self, at: usize) -> usize {
        let first = &self.items[at];
        let mut end = at + 1;
        while end - at < MAX_CHANNELS_PER_OP && self.joins(end, true) {
            let item = &self.items[end];
            let alike = (item.flush, item.signals()) == (first.flush, first.signals());
            let distinct = self.items[at..end].iter().all(|it| it.port != item.port);
            let told = !self.items[end - 1].after_flush.is_empty();
            let packets = self.ends(end) == self.ends(at)
                && (!self.ends(at).reads || self.same_source(at, end) && !first.signals());
            if !alike || !distinct || told || !packets {
                break;
            }
            end += 1;
        }
        end
    }

    fn same_source(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.transfer(a), self.transfer(b));
        (a.src, a.count) == (b.src, b.count)
    }

    /// Copies to or from others, from one buffer; packets that are forwarded, from one place.
    fn copies(&self, at: usize) -> usize {
        let first = self.transfer(at);
        let mut end = at + 1;
        if first.is_local() || first.action != Action::Copy {
            return end;
        }
        let pushes = |it: &Transfer| it.src.rank == self.here;
        while end - at < MAX_CHANNELS_PER_OP && self.joins(end, false) {
            let it = self.transfer(end);
            let alike = it.action == Action::Copy
                && !it.is_local()
                && pushes(it) == pushes(first)
                && self.ends(end) == self.ends(at)
                && (!pushes(it) || it.src.buffer == first.src.buffer)
                && (!self.ends(at).reads || self.same_source(at, end));
            let apart = (at..end).all(|other| !conflict(self.program, it, self.transfer(other)));
            if !alike || !apart {
                break;
            }
            end += 1;
        }
        end
    }

    /// A sum and what it is copied to, if a step reduces here.
    fn sum(&self, at: usize) -> Option<(usize, Kind)> {
        let first = self.transfer(at);
        let (dst, count) = (first.dst, first.count);
        let copied = first.action == Action::Copy;
        let plain = self.ends(at) == Ends { reads: false, writes: false };
        let apart = self.ends(at).reads || !self.overlap(first.src, dst, count);
        if copied && !(first.is_local() && plain && apart) {
            return None;
        }
        if !copied && !apart {
            return Some((at + 1, Kind::Sum { copied, reduces: 1 }));
        }
        let start = at + usize::from(copied);
        let mut end = start;
        // The destination or what is copied to it comes first among the sources.
        while end - start + 1 < MAX_BUFFERS_PER_OP && (end == at || self.joins(end, false)) {
            if !self.adds(end, start, (dst, count)) {
                break;
            }
            end += 1;
        }
        let reduces = end - start;
        if reduces == 0 {
            return None;
        }
        let kind = Kind::Sum { copied, reduces };
        let packets = self.ends(start).reads;
        let mut sent = 0;
        while sent < MAX_CHANNELS_PER_OP && self.joins(end, false) {
            let it = self.transfer(end);
            let own = packets && it.is_local() && end == start + reduces;
            let fits = it.action == Action::Copy
                && (it.src, it.count) == (dst, count)
                && (own || !it.is_local())
                && self.ends(end) == (Ends { reads: false, writes: packets });
            if !fits {
                break;
            }
            sent += usize::from(!own);
            end += 1;
        }
        Some((end, kind))
    }

    /// Whether the step at `at` reduces into `to` in the same way as that at `start`.
    fn adds(&self, at: usize, start: usize, (dst, count): (Slot, u32)) -> bool {
        let it = self.transfer(at);
        let alike = it.is_local() == self.transfer(start).is_local()
            && self.ends(at).reads == self.ends(start).reads;
        let apart = self.ends(at).reads || !self.overlap(it.src, dst, count);
        it.action == Action::Reduce && (it.dst, it.count) == (dst, count) && alike && apart
    }

    fn overlap(&self, a: Slot, b: Slot, count: u32) -> bool {
        overlap(self.program, a, count, b, count)
    }
}

/// Whether two ranges share a chunk, in place or not.
fn overlap(program: &Program, a: Slot, m: u32, b: Slot, n: u32) -> bool {
    let in_place = Some(program.collective()).filter(|_| program.forms().in_place);
    let (a, b) = (address(in_place, a), address(in_place, b));
    (a.0, a.1) == (b.0, b.1) && a.2 < b.2 + u64::from(n) && b.2 < a.2 + u64::from(m)
}

/// Whether a transfer touches what another writes, or writes what it touches.
pub(super) fn conflict(program: &Program, a: &Transfer, b: &Transfer) -> bool {
    overlap(program, a.src, a.count, b.dst, b.count)
        || overlap(program, a.dst, a.count, b.dst, b.count)
        || overlap(program, a.dst, a.count, b.src, b.count)
}
