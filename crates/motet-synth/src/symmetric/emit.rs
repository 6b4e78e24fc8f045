//! The pattern moved to every rank, as a program.
//!
//! Each move is made for the data of all ranks at once, in order of rank: a move's transfer for the data of
//! rank r comes r places after its transfer for the data of rank 0. So the transfers that a transfer waits
//! for are found by counting, without a table.
//!
//! Data lies as in [`crate::lower`]: no input is ever written to, and data that is collected is summed at every
//! rank that it passes, in scratch (for an AllReduce, in the output). The place in scratch depends on the move
//! alone, because in each move every rank is passed by the data of exactly one rank.

use motet_collective::{
    Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_units::Rank;

use super::Found;
use super::pattern::{Move, Pattern, ROOT};
use super::translations::Translations;

/// No transfers yet.
const NONE: u32 = u32::MAX;

/// The program that does `found` at every rank.
pub(super) fn program(
    collective: Collective,
    forth: &Translations,
    back: &Translations,
    found: &Found,
) -> Program {
    let name = format!("{}-{}", collective.kind(), collective.ranks());
    let forms = Forms { in_place: true, out_of_place: true };
    let mut emitter = Emitter {
        kind: collective.kind(),
        trees: found.trees,
        ranks: forth.ranks(),
        builder: ProgramBuilder::new(name, collective).forms(forms),
        summed: vec![NONE; found.trees as usize],
    };
    // A link has the same path number whichever half uses it.
    for link in forth.directions().iter().flat_map(|it| &it.links) {
        emitter.builder.add_path(vec![*link]);
    }
    if emitter.kind == CollectiveKind::AllGather || emitter.ranks == 1 {
        emitter.keep_own();
    }
    if let Some(pattern) = &found.collect {
        emitter.collect(back, pattern);
    }
    if let Some(pattern) = &found.spread {
        emitter.spread(forth, pattern);
    }
    emitter.builder.build()
}

struct Emitter {
    kind: CollectiveKind,
    trees: u32,
    ranks: usize,
    builder: ProgramBuilder,
    /// Per tree: the transfer for the data of rank 0 after which its sum is whole at the root; those of other
    /// ranks follow it. [`NONE`] if nothing was collected.
    summed: Vec<u32>,
}

/// Per move and rank: the rank that the move brings that rank's data to.
fn ends(over: &Translations, pattern: &Pattern) -> Vec<u32> {
    let ranks = over.ranks();
    let mut ends = vec![0u32; ranks * pattern.moves.len()];
    for (number, it) in pattern.moves.iter().enumerate() {
        let next = &over.directions()[it.direction as usize].next;
        let (before, own) = ends.split_at_mut(number * ranks);
        for (root, end) in own[..ranks].iter_mut().enumerate() {
            let from = match it.parent {
                ROOT => root,
                parent => before[parent as usize * ranks + root] as usize,
            };
            *end = next[from];
        }
    }
    ends
}

impl Emitter {
    fn next_id(&self) -> u32 {
        self.builder.transfers().len() as u32
    }

    /// Adds the local copies of data that a rank has in its input and must also have in its output.
    fn keep_own(&mut self) {
        let chunks = self.trees;
        for rank in (0..self.ranks).map(Rank::from_index) {
            let to = match self.kind {
                CollectiveKind::AllGather => rank.0 * chunks,
                _ => 0,
            };
            let own = Transfer::copy(Slot::input(rank, 0), Slot::output(rank, to), chunks);
            self.builder.add(own);
        }
    }

    /// Where the share of `tree` of the part of `root` lies among all parts.
    const fn place(&self, root: usize, tree: u32) -> u32 {
        root as u32 * self.trees + tree
    }

    /// Adds the transfers of a pattern that spreads.
    fn spread(&mut self, over: &Translations, pattern: &Pattern) {
        let ranks = self.ranks;
        let ends = ends(over, pattern);
        let first = self.next_id();
        let from_input = self.kind == CollectiveKind::AllGather;
        for (number, it) in pattern.moves.iter().enumerate() {
            let before = match it.parent {
                ROOT => self.summed[it.tree as usize],
                parent => first + parent * ranks as u32,
            };
            for root in 0..ranks {
                let place = self.place(root, it.tree);
                let (source, from) = match it.parent {
                    ROOT if from_input => (Slot::input(Rank::from_index(root), it.tree), root),
                    ROOT => (Slot::output(Rank::from_index(root), place), root),
                    parent => {
                        let from = ends[parent as usize * ranks + root];
                        (Slot::output(Rank(from), place), from as usize)
                    }
                };
                let to = Slot::output(Rank(ends[number * ranks + root]), place);
                let mut transfer = Transfer::copy(source, to, 1);
                transfer.path = Some(it.direction * ranks as u32 + from as u32);
                let id = self.builder.add(transfer);
                if before != NONE {
                    self.builder.wait(id.sent(), TransferId(before + root as u32).arrived());
                }
            }
        }
    }

    /// Adds the transfers of a pattern that collects. Time runs backwards: the pattern's last move comes
    /// first, and each goes from its end to its start. `over` is the fabric turned round, on which the
    /// pattern was found.
    fn collect(&mut self, over: &Translations, pattern: &Pattern) {
        let ranks = self.ranks;
        let ends = ends(over, pattern);
        let mut sums = Sums::of(pattern, self.trees as usize, self.kind);
        if self.kind == CollectiveKind::ReduceScatter {
            for rank in (0..ranks).map(Rank::from_index) {
                self.builder.set_scratch(rank, sums.scratch);
            }
        }
        for (number, it) in pattern.moves.iter().enumerate().rev() {
            let sum = sums.index(it);
            if sums.last[sum] == NONE {
                self.start_sums(&mut sums, it, &ends);
            }
            let first = self.next_id();
            let (last, ready) = (sums.last[sum], sums.last[number]);
            for root in 0..ranks {
                let child = ends[number * ranks + root];
                let parent = match it.parent {
                    ROOT => root as u32,
                    parent => ends[parent as usize * ranks + root],
                };
                let place = self.place(root, it.tree);
                let source = if ready == NONE {
                    Slot::input(Rank(child), place)
                } else {
                    self.sum_slot(&sums, number, Rank(child), root, it.tree)
                };
                let target = self.sum_slot(&sums, sum, Rank(parent), root, it.tree);
                let mut transfer = Transfer::reduce(source, target, 1);
                transfer.path = Some(it.direction * ranks as u32 + child);
                let id = self.builder.add(transfer);
                if ready != NONE {
                    self.builder.wait(id.sent(), TransferId(ready + root as u32).arrived());
                }
                self.builder.wait(id.arrived(), TransferId(last + root as u32).arrived());
            }
            sums.last[sum] = first;
        }
        self.summed.copy_from_slice(&sums.last[pattern.moves.len()..]);
    }

    /// At every rank, begins the sum that the move adds to with a copy of the rank's own input.
    fn start_sums(&mut self, sums: &mut Sums, it: &Move, ends: &[u32]) {
        let sum = sums.index(it);
        sums.last[sum] = self.next_id();
        for root in 0..self.ranks {
            let rank = match it.parent {
                ROOT => Rank::from_index(root),
                parent => Rank(ends[parent as usize * self.ranks + root]),
            };
            let own = Slot::input(rank, self.place(root, it.tree));
            let slot = self.sum_slot(sums, sum, rank, root, it.tree);
            self.builder.add(Transfer::copy(own, slot, 1));
        }
    }

    fn sum_slot(&self, sums: &Sums, sum: usize, rank: Rank, root: usize, tree: u32) -> Slot {
        match (self.kind, sums.slot[sum]) {
            (CollectiveKind::AllReduce, _) => Slot::output(rank, self.place(root, tree)),
            (_, NONE) => Slot::output(rank, tree),
            (_, slot) => Slot::scratch(rank, slot),
        }
    }
}

/// The sums: for each move the one at its end (if other moves go on from there), then for each tree the one
/// at the root.
struct Sums {
    moves: usize,
    /// Per sum: its place in scratch; [`NONE`] if it is in the output.
    slot: Vec<u32>,
    /// Per sum: the last transfer into it so far, for the data of rank 0; [`NONE`] before the first.
    last: Vec<u32>,
    /// Chunks of scratch per rank.
    scratch: u32,
}

impl Sums {
    fn of(pattern: &Pattern, trees: usize, kind: CollectiveKind) -> Self {
        let moves = pattern.moves.len();
        let mut slot = vec![NONE; moves + trees];
        let mut scratch = 0;
        if kind == CollectiveKind::ReduceScatter {
            for it in pattern.moves.iter().filter(|it| it.parent != ROOT) {
                let slot = &mut slot[it.parent as usize];
                if *slot == NONE {
                    *slot = scratch;
                    scratch += 1;
                }
            }
        }
        Self { moves, slot, last: vec![NONE; moves + trees], scratch }
    }

    /// The sum that a move adds to.
    const fn index(&self, it: &Move) -> usize {
        match it.parent {
            ROOT => self.moves + it.tree as usize,
            parent => parent as usize,
        }
    }
}
