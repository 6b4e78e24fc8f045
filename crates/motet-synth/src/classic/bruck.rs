//! Bruck's algorithms: ⌈log₂ n⌉ steps of doubling distance, for any number of ranks (Bruck et al.,
//! 1997).
//!
//! AllGather: in step i every rank sends all it has to the rank 2^i before it. After the step each
//! rank has the parts of 2^(i+1) consecutive ranks, beginning with its own. AllToAll: a part whose
//! destination is d ranks further on moves 2^i ranks in step i if bit i of d is set. All parts that
//! move in a step travel as one message.

use motet_collective::{Action, Buffer, CollectiveKind, Slot, Transfer};
use motet_units::Rank;

use super::gather::{self, Gathering, Message, runs};
use super::plan::explained;
use super::steps::{Steps, alike};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    match task.goal.kind() {
        CollectiveKind::AllToAll => all_to_all(task, fabric).map_err(|it| explained(task, it)),
        _ => gather::lower(task, fabric, &gathering(task.goal.ranks())),
    }
}

fn gathering(ranks: u32) -> Gathering {
    let mut gathering = Gathering::new();
    let mut has = 1;
    while has < ranks {
        let more = has.min(ranks - has);
        let messages = (0..ranks).flat_map(|from| {
            let to = Rank((from + ranks - has) % ranks);
            runs(from, more, ranks).map(move |(first, count)| Message {
                from: Rank(from),
                to,
                first,
                count,
            })
        });
        gathering.push(messages.collect());
        has += more;
    }
    gathering
}

/// Chunk j of a rank's scratch buffer holds the part that still has to move j ranks further; at the
/// end it holds what came from j ranks before.
fn all_to_all(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let ranks = task.goal.ranks();
    let mut steps = Steps::new(task, fabric, task.goal.collective(1)?, ranks);
    let turned = fabric.ranks().flat_map(|rank| {
        runs(rank.0, ranks, ranks).map(move |(first, count)| {
            let place = (first + ranks - rank.0) % ranks;
            Transfer::copy(Slot::input(rank, first), Slot::scratch(rank, place), count)
        })
    });
    steps.step(&turned.collect::<Vec<_>>())?;
    let mut distance = 1;
    while distance < ranks {
        let mut transfers = Vec::new();
        for from in 0..ranks {
            let pair = (Rank(from), Rank((from + distance) % ranks));
            // Runs of consecutive chunks whose index has this bit set.
            for first in (distance..ranks).step_by(2 * distance as usize) {
                let count = distance.min(ranks - first);
                transfers.push(alike(Action::Copy, pair, Buffer::Scratch, first, count));
            }
        }
        steps.step(&transfers)?;
        distance *= 2;
    }
    let placed = fabric.ranks().flat_map(|rank| {
        (0..ranks).map(move |place| {
            let source = (rank.0 + ranks - place) % ranks;
            Transfer::copy(Slot::scratch(rank, place), Slot::output(rank, source), 1)
        })
    });
    steps.step(&placed.collect::<Vec<_>>())?;
    Ok(steps.finish())
}
