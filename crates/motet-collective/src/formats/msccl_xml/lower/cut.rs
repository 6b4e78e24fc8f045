//! Cuts transfers that move more chunks than one step of the runtime can into several transfers, each
//! of which is a step.

use crate::program::{Event, Program, TransferId};

/// The same program with no transfer of more than `most` chunks. What waited for a transfer waits for
/// all its parts, and they for what it waited for. Lanes, which would have to be changed with them, go.
pub(super) fn cut(program: &Program, most: u32) -> Program {
    let mut builder = program.emptied();
    let mut parts: Vec<(u32, u32)> = Vec::with_capacity(program.transfers().len());
    for transfer in program.transfers() {
        let first = builder.transfers().len() as u32;
        let mut done = 0;
        loop {
            let count = (transfer.count - done).min(most);
            let mut part = *transfer;
            part.src.offset += done;
            part.dst.offset += done;
            part.count = count;
            builder.add(part);
            done += count;
            if done >= transfer.count {
                break;
            }
        }
        parts.push((first, builder.transfers().len() as u32));
    }
    let of = |event: Event| {
        let (first, end) = parts[event.transfer().index()];
        (first..end).map(TransferId).map(move |it| match event.is_sent() {
            true => it.sent(),
            false => it.arrived(),
        })
    };
    for event in (0..program.transfers().len() * 2).map(Event::from_index) {
        for awaited in program.deps(event) {
            for waiting in of(event) {
                for awaited in of(*awaited) {
                    builder.wait(waiting, awaited);
                }
            }
        }
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use motet_units::Rank;

    use super::cut;
    use crate::collective::{Collective, CollectiveKind};
    use crate::program::{ProgramBuilder, Slot, Transfer};
    use crate::verify::Verified;

    #[test]
    fn parts_do_what_the_whole_did() {
        let collective = Collective::rooted(CollectiveKind::Broadcast, 3, 10, Rank(0)).unwrap();
        let mut builder = ProgramBuilder::new("chain", collective);
        let at = |rank| Slot::output(Rank(rank), 0);
        builder.add(Transfer::copy(Slot::input(Rank(0), 0), at(0), 10));
        let first = builder.add(Transfer::copy(Slot::input(Rank(0), 0), at(1), 10));
        builder.add_after(Transfer::copy(at(1), at(2), 10), &[first]);
        let whole = builder.build();
        assert!(Verified::new(whole.clone(), None).is_ok());
        let parts = Verified::new(cut(&whole, 4), None).unwrap();
        let counts: Vec<u32> = parts.transfers().iter().map(|it| it.count).collect();
        assert_eq!(counts, [4, 4, 2, 4, 4, 2, 4, 4, 2]);
        assert_eq!(cut(&whole, 10), whole);
    }
}
