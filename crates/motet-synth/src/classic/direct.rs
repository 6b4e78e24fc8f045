//! Direct exchange: every rank sends directly to every other rank what that rank needs.
//!
//! It is one step, so it has the least latency possible where ranks are directly connected, and on
//! a non-blocking switch it also uses the full bandwidth. Each rank starts with the rank after it,
//! so that receivers are not all hit at once; list scheduling keeps that order.
//!
//! AllReduce uses one step (everyone sends everything to everyone) or two (ReduceScatter, then
//! AllGather), whichever is faster.

use motet_collective::collective::Expected;
use motet_collective::{Action, Buffer, Collective, CollectiveKind, Slot, Transfer};
use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::routes::Routes;
use super::steps::Steps;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// The one-step AllReduce is not tried with more ranks than this.
const MOST_IN_ONE_SHOT: usize = 128;

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            plan::lower(task, fabric, |it| stars(task, it))
        }
        CollectiveKind::AllReduce => {
            let two = plan::lower(task, fabric, |it| stars(task, it))?;
            if fabric.rank_count() > MOST_IN_ONE_SHOT {
                return Ok(two);
            }
            let one = one_shot(task, fabric)?;
            Ok(if one.makespan < two.makespan { one } else { two })
        }
        _ => as_expected(task, fabric).map_err(|it| plan::explained(task, it)),
    }
}

fn stars(task: &Task<'_>, fabric: &Fabric) -> Result<Forest, SynthError> {
    let trees: Vec<Sketched> = fabric
        .ranks()
        .map(|root| {
            let steps = others(root, fabric).map(|it| ClassicStep::cheapest(root, it)).collect();
            Sketched { root, weight: 1, steps }
        })
        .collect();
    plan::route(Routes::new(fabric, plan::part_bytes(task)), &trees)
}

/// All ranks but this one, beginning with the next.
fn others(rank: Rank, fabric: &Fabric) -> impl Iterator<Item = Rank> {
    let count = fabric.rank_count();
    (1..count).map(move |it| Rank::from_index((rank.index() + it) % count))
}

fn one_shot(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let mut steps = Steps::new(task, fabric, task.goal.collective(1)?, 0);
    // Sends read from the input buffer, also where the call is in place and the output holds the
    // same data.
    let own = fabric.ranks().map(|it| Transfer::copy(Slot::input(it, 0), Slot::output(it, 0), 1));
    let sent = fabric.ranks().flat_map(|from| {
        others(from, fabric).map(move |to| Transfer {
            action: Action::Reduce,
            ..Transfer::copy(Slot::input(from, 0), Slot::output(to, 0), 1)
        })
    });
    steps.step(&own.chain(sent).collect::<Vec<_>>())?;
    Ok(steps.finish())
}

/// Fills every chunk of every output directly from the rank that has it at the start.
fn as_expected(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let collective = task.goal.collective(1)?;
    let mut wanted: Vec<Vec<Transfer>> = fabric.ranks().map(|_| Vec::new()).collect();
    for rank in fabric.ranks() {
        for transfer in runs_into(&collective, rank) {
            wanted[transfer.src.rank.index()].push(transfer);
        }
    }
    let count = fabric.rank_count();
    for (from, transfers) in wanted.iter_mut().enumerate() {
        transfers.sort_by_key(|it| (it.dst.rank.index() + count - from) % count);
    }
    let mut steps = Steps::new(task, fabric, collective, 0);
    steps.step(&wanted.concat())?;
    Ok(steps.finish())
}

/// The transfers into the output of `rank`; chunks that are consecutive at both ends are one
/// transfer.
fn runs_into(collective: &Collective, rank: Rank) -> Vec<Transfer> {
    let mut runs: Vec<Transfer> = Vec::new();
    for offset in 0..collective.output_chunks(rank) {
        let Expected::Input { rank: source, offset: place } = collective.expected(rank, offset)
        else {
            continue;
        };
        match runs.last_mut() {
            Some(run)
                if run.src == Slot::new(source, Buffer::Input, place.wrapping_sub(run.count))
                    && run.dst.offset + run.count == offset =>
            {
                run.count += 1;
            }
            _ => {
                let (from, to) = (Slot::input(source, place), Slot::output(rank, offset));
                runs.push(Transfer::copy(from, to, 1));
            }
        }
    }
    runs
}
