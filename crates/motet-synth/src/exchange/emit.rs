//! The program of a plan.
//!
//! Data goes from the sender's input, through scratch at the ranks that forward it, to the receiver's output.
//! No place is written to twice, so the only waits are of forwarded data for its arrival.

use motet_collective::{
    CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId, Turns,
};
use motet_units::Rank;

use super::demand::Demands;
use super::plan::{ExchangePlan, NONE};
use super::timing::{Cutting, Timing};

/// The program whose transfers are numbered in the order of the timing.
pub(super) fn emit(
    demands: &Demands,
    plan: &ExchangePlan,
    cutting: &Cutting,
    timing: &Timing,
) -> Program {
    let collective = demands.collective.clone();
    let kind = collective.kind();
    // In the other collectives a call in place lets input and output overlap in more than a rank's own part, so
    // arriving data would overwrite data that has not been sent yet.
    let in_place = matches!(kind, CollectiveKind::Gather | CollectiveKind::Scatter);
    let forms = Forms { in_place, out_of_place: true };
    let name = format!("{kind}-{}", collective.ranks());
    let mut builder = ProgramBuilder::new(name, collective).forms(forms);
    for path in &plan.paths {
        builder.add_path(path.clone());
    }
    for own in &demands.own {
        let (from, to) =
            (Slot::input(Rank(own.src), own.input), Slot::output(Rank(own.dst), own.output));
        builder.add(Transfer::copy(from, to, own.chunks));
    }
    let scratch = lay_out(demands.ranks(), plan);
    for (rank, chunks) in scratch.sizes.iter().enumerate() {
        builder.set_scratch(Rank::from_index(rank), *chunks);
    }
    let mut ids = vec![TransferId(NONE); cutting.jobs()];
    for (leg, nth) in &timing.order {
        let it = &plan.legs[*leg as usize];
        let (start, end) = cutting.range(plan, *leg, *nth);
        let src = match it.after {
            NONE => Slot::input(Rank(it.from), it.input + start),
            after => {
                let shift = it.input - plan.legs[after as usize].input;
                Slot::scratch(Rank(it.from), scratch.place[after as usize] + shift + start)
            }
        };
        let dst = match it.output {
            NONE => Slot::scratch(Rank(it.to), scratch.place[*leg as usize] + start),
            output => Slot::output(Rank(it.to), output + start),
        };
        let mut transfer = Transfer::copy(src, dst, end - start);
        transfer.path = Some(it.path);
        let id = builder.add(transfer);
        if let Some((first, last)) = cutting.awaited(plan, *leg, *nth) {
            let before = cutting.first[it.after as usize];
            for job in before + first..=before + last {
                builder.wait(id.sent(), ids[job as usize].arrived());
            }
        }
        ids[(cutting.first[*leg as usize] + nth) as usize] = id;
    }
    let turns = timing.turns.iter().map(|it| Turns {
        link: it.link,
        transfers: it.jobs.iter().map(|job| ids[*job as usize]).collect(),
    });
    builder.set_turns(turns.collect());
    builder.build()
}

/// Where forwarded data waits.
struct Scratch {
    /// Per leg: the first chunk in the scratch of its end; [`NONE`] if it ends in the output.
    place: Vec<u32>,
    /// Per rank: chunks of scratch.
    sizes: Vec<u32>,
}

fn lay_out(ranks: usize, plan: &ExchangePlan) -> Scratch {
    let mut sizes = vec![0u32; ranks];
    let place = plan.legs.iter().map(|leg| match leg.output {
        NONE => {
            let free = &mut sizes[leg.to as usize];
            std::mem::replace(free, free.saturating_add(leg.chunks))
        }
        _ => NONE,
    });
    Scratch { place: place.collect(), sizes }
}
