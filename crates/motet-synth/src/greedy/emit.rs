//! Matchings into programs.
//!
//! Data lies as in [`crate::lower`]: data that spreads goes from its origin's input into everyone's output;
//! data that is collected is summed at every rank that it passes, in scratch (for an AllReduce, in the
//! output). A matching for collecting was found on the fabric turned round, so its sends are made in reverse
//! order, each from its end to its start.

use motet_collective::{
    Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_units::Rank;

use super::matching::{MatchingPlan, Send};
use super::overlay::Overlay;

/// No transfer, no place.
const NONE: u32 = u32::MAX;

pub(super) struct Emitter {
    kind: CollectiveKind,
    root: Option<Rank>,
    ranks: usize,
    /// Chunks per part.
    chunks: u32,
    builder: ProgramBuilder,
    /// Per chunk: the last transfer into its sum at its origin, after which the sum may be spread. Empty if
    /// nothing was collected.
    summed: Vec<u32>,
}

impl Emitter {
    pub(super) fn new(collective: Collective, ranks: usize, chunks: u32) -> Self {
        let (kind, root) = (collective.kind(), collective.root());
        let name = format!("{kind}-{}", collective.ranks());
        let forms = Forms { in_place: true, out_of_place: true };
        let builder = ProgramBuilder::new(name, collective).forms(forms);
        let mut it = Self { kind, root, ranks, chunks, builder, summed: Vec::new() };
        it.keep_own();
        it
    }

    pub(super) fn build(self) -> Program {
        self.builder.build()
    }

    /// Adds the local copies of data that a rank has in its input and must also have in its output.
    fn keep_own(&mut self) {
        let chunks = self.chunks;
        let ranks = (0..self.ranks).map(Rank::from_index);
        let own: Vec<(Rank, u32)> = match (self.kind, self.root) {
            (CollectiveKind::AllGather, _) => ranks.map(|it| (it, it.0 * chunks)).collect(),
            (CollectiveKind::Broadcast, Some(root)) => vec![(root, 0)],
            _ if self.ranks == 1 => vec![(Rank(0), 0)],
            _ => Vec::new(),
        };
        for (rank, to) in own {
            let copy = Transfer::copy(Slot::input(rank, 0), Slot::output(rank, to), chunks);
            self.builder.add(copy);
        }
    }

    /// The place of a chunk in the input of the rank that has it from the start.
    const fn in_input(&self, chunk: u32) -> u32 {
        match self.kind {
            CollectiveKind::AllGather => chunk % self.chunks,
            _ => chunk,
        }
    }

    /// The place of a chunk in the output of every rank that ends up with it.
    const fn in_output(&self, chunk: u32) -> u32 {
        match self.kind {
            CollectiveKind::ReduceScatter => chunk % self.chunks,
            _ => chunk,
        }
    }

    /// Adds the transfers of a matching that spreads chunks from their origins.
    pub(super) fn spread(&mut self, overlay: &Overlay, plan: &MatchingPlan, origins: &[u32]) {
        let first = self.builder_paths(overlay, false);
        let chunks = origins.len();
        let mut brought = vec![NONE; chunks * self.ranks];
        for (chunk, summed) in self.summed.iter().enumerate() {
            brought[origins[chunk] as usize * chunks + chunk] = *summed;
        }
        for Send { chunk, way } in plan.sends.iter().copied() {
            let (from, to) = ends(overlay, way);
            let place = self.in_output(chunk);
            let before = brought[from.index() * chunks + chunk as usize];
            let source = match before {
                NONE => Slot::input(from, self.in_input(chunk)),
                _ => Slot::output(from, place),
            };
            let mut transfer = Transfer::copy(source, Slot::output(to, place), 1);
            transfer.path = Some(first + way);
            let id = self.builder.add(transfer);
            if before != NONE {
                self.builder.wait(id.sent(), TransferId(before).arrived());
            }
            brought[to.index() * chunks + chunk as usize] = id.0;
        }
    }

    /// Adds the transfers that sum chunks at their origins, from a matching found on the fabric turned round.
    pub(super) fn collect(&mut self, overlay: &Overlay, plan: &MatchingPlan, origins: &[u32]) {
        let first = self.builder_paths(overlay, true);
        let chunks = origins.len();
        let mut last = vec![NONE; chunks * self.ranks];
        let mut slots = vec![NONE; chunks * self.ranks];
        let mut scratch = vec![0u32; self.ranks];
        for Send { chunk, way } in plan.sends.iter().rev().copied() {
            let (parent, child) = ends(overlay, way);
            let sum = parent.index() * chunks + chunk as usize;
            let own = child.index() * chunks + chunk as usize;
            if last[sum] == NONE {
                if origins[chunk as usize] != parent.0 && self.kind != CollectiveKind::AllReduce {
                    let free = &mut scratch[parent.index()];
                    slots[sum] = std::mem::replace(free, *free + 1);
                }
                let slot = self.sum_slot(parent, chunk, slots[sum]);
                last[sum] = self.builder.add(Transfer::copy(Slot::input(parent, chunk), slot, 1)).0;
            }
            let source = match last[own] {
                NONE => Slot::input(child, chunk),
                _ => self.sum_slot(child, chunk, slots[own]),
            };
            let target = self.sum_slot(parent, chunk, slots[sum]);
            let mut transfer = Transfer::reduce(source, target, 1);
            transfer.path = Some(first + way);
            let id = self.builder.add(transfer);
            if last[own] != NONE {
                self.builder.wait(id.sent(), TransferId(last[own]).arrived());
            }
            self.builder.wait(id.arrived(), TransferId(last[sum]).arrived());
            last[sum] = id.0;
        }
        for (rank, chunks) in scratch.iter().enumerate() {
            self.builder.set_scratch(Rank::from_index(rank), *chunks);
        }
        let at_origin = |(chunk, origin): (usize, &u32)| last[*origin as usize * chunks + chunk];
        self.summed = origins.iter().enumerate().map(at_origin).collect();
    }

    /// Where a rank sums a chunk: at place `scratch` of its scratch, or in its output if that is [`NONE`].
    const fn sum_slot(&self, rank: Rank, chunk: u32, scratch: u32) -> Slot {
        match scratch {
            NONE => Slot::output(rank, self.in_output(chunk)),
            place => Slot::scratch(rank, place),
        }
    }

    /// Adds every way of the overlay as a path; returns the number of the first.
    fn builder_paths(&mut self, overlay: &Overlay, turned: bool) -> u32 {
        let mut first = 0;
        for way in 0..overlay.ways.len() {
            let mut path = overlay.path(way);
            if turned {
                path.reverse();
            }
            let number = self.builder.add_path(path);
            if way == 0 {
                first = number;
            }
        }
        first
    }
}

fn ends(overlay: &Overlay, way: u32) -> (Rank, Rank) {
    let way = &overlay.ways[way as usize];
    (Rank(way.from), Rank(way.to))
}
