//! Journeys into programs. A piece that ranks forward waits there in scratch.

use motet_collective::{Collective, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId};
use motet_units::Rank;

use super::pieces::Piece;
use super::{Journey, NONE};
use crate::greedy::overlay::Overlay;

/// The program in which pieces go as the journey says.
pub(super) fn program(
    collective: Collective,
    overlay: &Overlay,
    pieces: &[Piece],
    journey: &Journey,
) -> Program {
    let name = format!("{}-{}", collective.kind(), collective.ranks());
    // In place an output may be written before the input that lies there has been sent.
    let mut builder = ProgramBuilder::new(name, collective).forms(Forms::OUT_OF_PLACE);
    for way in 0..overlay.ways.len() {
        builder.add_path(overlay.path(way));
    }
    for it in pieces.iter().filter(|it| it.from == it.to) {
        let (from, to) = (Slot::input(it.from, it.input), Slot::output(it.to, it.output));
        builder.add(Transfer::copy(from, to, it.count));
    }
    let mut scratch = vec![0u32; builder_ranks(overlay, pieces)];
    let mut at: Vec<Slot> = pieces.iter().map(|it| Slot::input(it.from, it.input)).collect();
    let mut brought = vec![NONE; pieces.len()];
    for step in &journey.steps {
        let (number, piece) = (step.piece as usize, &pieces[step.piece as usize]);
        let rank = Rank(overlay.ways[step.way as usize].to);
        let to = if rank == piece.to {
            Slot::output(rank, piece.output)
        } else {
            let free = &mut scratch[rank.index()];
            Slot::scratch(rank, std::mem::replace(free, free.saturating_add(piece.count)))
        };
        let mut transfer = Transfer::copy(at[number], to, piece.count);
        transfer.path = Some(step.way);
        let id = builder.add(transfer);
        if brought[number] != NONE {
            builder.wait(id.sent(), TransferId(brought[number]).arrived());
        }
        (brought[number], at[number]) = (id.0, to);
    }
    for (rank, chunks) in scratch.iter().enumerate() {
        builder.set_scratch(Rank::from_index(rank), *chunks);
    }
    builder.build()
}

/// One more than the highest rank that any piece comes to.
fn builder_ranks(overlay: &Overlay, pieces: &[Piece]) -> usize {
    let passed = overlay.ways.iter().map(|it| it.from.max(it.to) as usize + 1);
    let ends = pieces.iter().map(|it| it.from.index().max(it.to.index()) + 1);
    passed.chain(ends).max().unwrap_or(0)
}
