//! Transfers of a lowered program, in the order of its schedule.
//!
//! Where data lies: data that spreads goes from the root's input into everyone's output. Data that is
//! collected is summed at every rank that it passes: at the root in the output, elsewhere in scratch, or, for
//! an AllReduce, in the output, which the result then overwrites. A leaf sends its input as it is. So no
//! input is ever written to, and the program serves calls in place and out of place alike.

use motet_collective::{
    Collective, CollectiveKind, Forms, ProgramBuilder, Slot, Transfer, TransferId, Turns,
};
use motet_units::Rank;

use super::{Lowered, Lowering, Share, Sliced, Trees};
use crate::schedule::Schedule;

/// Which half of an AllReduce an edge belongs to, and which edge it is.
#[derive(Clone, Copy)]
enum EmitStep {
    Collect(usize),
    Spread(usize),
}

/// One share in one slice, while its transfers are made.
struct Piece {
    /// First chunk in the root's part.
    offset: u32,
    count: u32,
    /// The transfer that brought the data to each rank.
    brought: Vec<Option<TransferId>>,
    /// Per rank, if data is collected: where it sums, and which transfers have come there; `None` for a rank
    /// that nothing has come to. Empty if data only spreads.
    sums: Vec<Option<Sum>>,
}

#[derive(Clone)]
struct Sum {
    slot: Slot,
    /// The copy of the rank's own input, then every arrival.
    came: Vec<TransferId>,
}

pub(super) struct Emitter<'a, 'b> {
    lowering: &'b Lowering<'a>,
    builder: ProgramBuilder,
    shares: Vec<Share<'a>>,
    /// The program's number for each path of the forest, reversed: for data that is collected.
    back: Vec<u32>,
    /// The program's number for each path of the forest: for data that spreads.
    forth: Vec<u32>,
    pieces: Vec<Option<Piece>>,
    scratch: Vec<u32>,
    chunks: u32,
    slices: u32,
    window: u32,
}

impl Lowering<'_> {
    /// The program of a schedule.
    pub(crate) fn emit(&self, sliced: Sliced) -> Lowered {
        let Sliced { collective, schedule, slices } = sliced;
        let emitter = Emitter::new(self, collective, slices, schedule.window);
        let program = emitter.run(&schedule).build();
        Lowered { program, makespan: schedule.makespan, slices }
    }
}

impl<'a, 'b> Emitter<'a, 'b> {
    fn new(lowering: &'b Lowering<'a>, collective: Collective, slices: u32, window: u32) -> Self {
        let kind = collective.kind();
        let chunks = collective.chunks();
        let forms = Forms { in_place: true, out_of_place: true };
        let name = format!("{kind}-{}", collective.ranks());
        let mut builder = ProgramBuilder::new(name, collective).forms(forms);
        let paths = match lowering.trees {
            Trees::Spread(forest) | Trees::Collect(forest) => &forest.paths,
            Trees::Both(forest) => &forest.paths,
        };
        let collects = !matches!(lowering.trees, Trees::Spread(_));
        let spreads = !matches!(lowering.trees, Trees::Collect(_));
        let mut add = |wanted: bool, turned: bool| -> Vec<u32> {
            let all = paths.iter().filter(|_| wanted);
            all.map(|it| {
                let mut links = it.clone();
                if turned {
                    links.reverse();
                }
                builder.add_path(links)
            })
            .collect()
        };
        let (forth, back) = (add(spreads, false), add(collects, true));
        let shares = lowering.shares();
        let pieces = (0..shares.len() * slices as usize).map(|_| None).collect();
        let scratch = vec![0; lowering.fabric.rank_count()];
        Self { lowering, builder, shares, back, forth, pieces, scratch, chunks, slices, window }
    }

    fn run(mut self, schedule: &Schedule) -> ProgramBuilder {
        self.keep_own();
        let mut steps: Vec<(u32, u32, EmitStep)> = Vec::with_capacity(schedule.order.len());
        for slice in 0..self.slices {
            for (number, share) in self.shares.iter().enumerate() {
                let at = |step| (slice, number as u32, step);
                if let Some(collect) = share.collect {
                    steps
                        .extend((0..collect.edges.len()).rev().map(|it| at(EmitStep::Collect(it))));
                }
                let only_collects = matches!(self.lowering.trees, Trees::Collect(_));
                steps.extend((0..share.tree.edges.len()).map(|it| {
                    at(if only_collects { EmitStep::Collect(it) } else { EmitStep::Spread(it) })
                }));
            }
        }
        let mut sent = vec![TransferId(0); steps.len()];
        for job in &schedule.order {
            let (slice, share, step) = steps[*job as usize];
            self.send(slice, share as usize, step);
            // The transfer itself is the last one added; copies of a rank's own input may come before it.
            sent[*job as usize] = TransferId::from_index(self.builder.transfers().len() - 1);
        }
        let turns = schedule.turns.iter().map(|it| Turns {
            link: it.link,
            transfers: it.jobs.iter().map(|job| sent[*job as usize]).collect(),
        });
        self.builder.set_turns(turns.collect());
        for (rank, chunks) in self.scratch.iter().enumerate() {
            self.builder.set_scratch(Rank::from_index(rank), *chunks);
        }
        self.builder
    }

    /// Adds the local copies of data that a rank has in its input and must also have in its output.
    fn keep_own(&mut self) {
        let (kind, chunks) = (self.lowering.task.goal.kind(), self.chunks);
        let ranks = self.lowering.task.goal.ranks();
        match (kind, self.lowering.task.goal.root()) {
            (CollectiveKind::AllGather, _) => {
                for rank in (0..ranks).map(Rank) {
                    let own = Slot::output(rank, rank.0 * chunks);
                    self.builder.add(Transfer::copy(Slot::input(rank, 0), own, chunks));
                }
            }
            (CollectiveKind::Broadcast, Some(root)) => {
                let own = Slot::output(root, 0);
                self.builder.add(Transfer::copy(Slot::input(root, 0), own, chunks));
            }
            _ if ranks == 1 => {
                let (from, to) = (Slot::input(Rank(0), 0), Slot::output(Rank(0), 0));
                self.builder.add(Transfer::copy(from, to, chunks));
            }
            _ => {}
        }
    }

    fn send(&mut self, slice: u32, number: usize, step: EmitStep) {
        let index = slice as usize * self.shares.len() + number;
        let mut piece = match self.pieces[index].take() {
            Some(piece) => piece,
            None => self.new_piece(slice, number),
        };
        match step {
            EmitStep::Spread(edge) => self.send_down(&mut piece, number, edge),
            EmitStep::Collect(edge) => {
                let id = self.send_up(&mut piece, number, edge);
                self.hold_back(&piece, id, slice, number, edge);
            }
        }
        self.pieces[index] = Some(piece);
    }

    fn new_piece(&self, slice: u32, number: usize) -> Piece {
        let share = &self.shares[number];
        let ranks = self.lowering.fabric.rank_count();
        Piece {
            offset: share.base * self.slices + slice * share.tree.weight,
            count: share.tree.weight,
            brought: vec![None; ranks],
            sums: vec![
                None;
                if matches!(self.lowering.trees, Trees::Spread(_)) { 0 } else { ranks }
            ],
        }
    }

    /// Where the share's chunks lie in the larger buffer.
    fn place(&self, root: Rank, piece: &Piece) -> u32 {
        match self.lowering.task.goal.kind() {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                root.0 * self.chunks + piece.offset
            }
            _ => piece.offset,
        }
    }

    fn send_down(&mut self, piece: &mut Piece, number: usize, edge: usize) {
        let share = &self.shares[number];
        let (root, edge) = (share.tree.root, share.tree.edges[edge]);
        let place = self.place(root, piece);
        let both = share.collect.is_some();
        let source = if edge.from == root && !both {
            Slot::input(root, piece.offset)
        } else {
            Slot::output(edge.from, place)
        };
        let mut transfer = Transfer::copy(source, Slot::output(edge.to, place), piece.count);
        transfer.path = Some(self.forth[edge.path as usize]);
        let id = self.builder.add(transfer);
        if edge.from == root {
            if let Some(Some(sum)) = piece.sums.get(root.index()) {
                for came in &sum.came {
                    self.builder.wait(id.sent(), came.arrived());
                }
            }
        } else if let Some(before) = piece.brought[edge.from.index()] {
            self.builder.wait(id.sent(), before.arrived());
        }
        piece.brought[edge.to.index()] = Some(id);
    }

    fn send_up(&mut self, piece: &mut Piece, number: usize, edge: usize) -> Option<TransferId> {
        let share = &self.shares[number];
        let tree = share.collect.unwrap_or(share.tree);
        let (root, edge) = (tree.root, tree.edges[edge]);
        let place = self.place(root, piece);
        let (child, parent) = (edge.to, edge.from);
        if piece.sums[parent.index()].is_none() {
            let sum = self.start_sum(piece, root, parent, place);
            piece.sums[parent.index()] = Some(sum);
        }
        let source = match &piece.sums[child.index()] {
            Some(sum) => sum.slot,
            None => Slot::input(child, place),
        };
        let sum = piece.sums[parent.index()].as_mut()?;
        let mut transfer = Transfer::reduce(source, sum.slot, piece.count);
        transfer.path = Some(self.back[edge.path as usize]);
        let id = self.builder.add(transfer);
        if let Some(last) = sum.came.last() {
            self.builder.wait(id.arrived(), last.arrived());
        }
        sum.came.push(id);
        if let Some(own) = &piece.sums[child.index()] {
            for came in &own.came {
                self.builder.wait(id.sent(), came.arrived());
            }
        }
        Some(id)
    }

    /// Keeps to the schedule's window: a leaf sends a slice up only after the result of the slice `window`
    /// before has come down to it.
    fn hold_back(
        &mut self,
        piece: &Piece,
        id: Option<TransferId>,
        slice: u32,
        number: usize,
        edge: usize,
    ) {
        let Some(collect) = self.shares[number].collect else { return };
        let child = collect.edges[edge].to.index();
        let earlier = slice.checked_sub(self.window).filter(|_| piece.sums[child].is_none());
        let Some(earlier) = earlier.map(|it| it as usize * self.shares.len() + number) else {
            return;
        };
        let result = self.pieces[earlier].as_ref().and_then(|it| it.brought[child]);
        if let (Some(id), Some(result)) = (id, result) {
            self.builder.wait(id.sent(), result.arrived());
        }
    }

    /// Chooses where `rank` sums what comes to it, and copies its own input there first.
    fn start_sum(&mut self, piece: &Piece, root: Rank, rank: Rank, place: u32) -> Sum {
        let kind = self.lowering.task.goal.kind();
        let slot = if kind == CollectiveKind::AllReduce || rank == root {
            Slot::output(rank, piece.offset)
        } else {
            let free = &mut self.scratch[rank.index()];
            Slot::scratch(rank, std::mem::replace(free, *free + piece.count))
        };
        let own = Transfer::copy(Slot::input(rank, place), slot, piece.count);
        Sum { slot, came: vec![self.builder.add(own)] }
    }
}
