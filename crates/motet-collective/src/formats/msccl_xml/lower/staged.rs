//! Transfers that would hold up others on their connection, delivered into scratch instead.
//!
//! A connection delivers in the order sent and has room for little. A transfer whose destination
//! may not be written yet keeps back all that is sent after it; if what it waits for is among
//! them, nothing ever arrives. In scratch of its own it can be put at once, and goes on from there
//! when its destination is free, at the price of a local step.

use std::collections::BTreeSet;

use motet_units::Rank;

use crate::program::{Event, Program, Slot, Transfer, TransferId};

/// The same program without lanes, with these transfers going by way of scratch.
pub(super) fn stage(program: &Program, staged: &BTreeSet<TransferId>) -> Program {
    let mut builder = program.emptied();
    for transfer in program.transfers() {
        builder.add(*transfer);
    }
    let mut scratch: Vec<u32> =
        (0..program.collective().ranks()).map(|it| program.scratch_chunks(Rank(it))).collect();
    // The local half of each transfer, where it has one.
    let mut second: Vec<Option<TransferId>> = vec![None; program.transfers().len()];
    for id in staged {
        let whole = *program.transfer(*id);
        let end = &mut scratch[whole.dst.rank.index()];
        let between = Slot::scratch(whole.dst.rank, *end);
        *end = end.saturating_add(whole.count);
        *builder.transfer_mut(*id) =
            Transfer { dst: between, ..Transfer { action: crate::Action::Copy, ..whole } };
        let local = builder.add(Transfer { src: between, path: None, ..whole });
        builder.wait(local.sent(), id.arrived());
        second[id.index()] = Some(local);
    }
    for (rank, chunks) in scratch.into_iter().enumerate() {
        builder.set_scratch(Rank::from_index(rank), chunks);
    }
    let local = |event: Event| second.get(event.transfer().index()).copied().flatten();
    for event in (0..program.transfers().len() * 2).map(Event::from_index) {
        // A local step waits before it begins, and is awaited when it is over.
        let waiting = local(event).filter(|_| !event.is_sent()).map_or(event, TransferId::sent);
        for awaited in program.deps(event) {
            let to = local(*awaited).filter(|_| !awaited.is_sent());
            builder.wait(waiting, to.map_or(*awaited, TransferId::arrived));
        }
    }
    builder.build()
}
