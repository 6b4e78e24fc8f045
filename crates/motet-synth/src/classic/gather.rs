//! [`Gathering`]: an AllGather written as steps of messages, and the programs that follow from it.
//!
//! AllGather is the gathering itself. ReduceScatter is its reverse: the last message first, each
//! from its receiver back to its sender, who adds it to its own data. AllReduce is one after the
//! other.

use motet_collective::{Action, Buffer, CollectiveKind, Slot, Transfer};
use motet_units::Rank;

use super::plan::explained;
use super::steps::{Steps, alike};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};

/// Parts `first` to `first + count` − 1, sent by a rank that has them to one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The steps, in order; all messages of a step may travel at once.
pub(super) type Gathering = Vec<Vec<Message>>;

/// `count` parts from `first` on, wrapping around after the last of `ranks` parts: one run of
/// consecutive parts, or two.
pub(super) fn runs(first: u32, count: u32, ranks: u32) -> impl Iterator<Item = (u32, u32)> {
    let before = count.min(ranks - first);
    [(first, before), (0, count - before)].into_iter().filter(|it| it.1 > 0)
}

/// The program of a gathering for the task.
pub(super) fn lower(
    task: &Task<'_>,
    fabric: &Fabric,
    gathering: &Gathering,
) -> Result<Lowered, SynthError> {
    let ranks = task.goal.ranks();
    let made = match task.goal.kind() {
        CollectiveKind::AllGather => all_gather(task, fabric, gathering),
        CollectiveKind::ReduceScatter => reduce_scatter(task, fabric, gathering, ranks),
        _ => all_reduce(task, fabric, gathering, ranks),
    };
    made.map_err(|it| explained(task, it))
}

fn all_gather(
    task: &Task<'_>,
    fabric: &Fabric,
    gathering: &Gathering,
) -> Result<Lowered, SynthError> {
    let mut steps = Steps::new(task, fabric, task.goal.collective(1)?, 0);
    let own = |it: Rank| Transfer::copy(Slot::input(it, 0), Slot::output(it, it.0), 1);
    steps.step(&fabric.ranks().map(own).collect::<Vec<_>>())?;
    for messages in gathering {
        steps.step(&forth(messages))?;
    }
    Ok(steps.finish())
}

/// Partial sums are kept in scratch, one place per part, so that consecutive parts can travel as
/// one message.
fn reduce_scatter(
    task: &Task<'_>,
    fabric: &Fabric,
    gathering: &Gathering,
    ranks: u32,
) -> Result<Lowered, SynthError> {
    let mut steps = Steps::new(task, fabric, task.goal.collective(1)?, ranks);
    let own = |it: Rank| Transfer::copy(Slot::input(it, 0), Slot::scratch(it, 0), ranks);
    steps.step(&fabric.ranks().map(own).collect::<Vec<_>>())?;
    for messages in gathering.iter().rev() {
        steps.step(&back(messages, Buffer::Scratch))?;
    }
    let result = |it: Rank| Transfer::copy(Slot::scratch(it, it.0), Slot::output(it, 0), 1);
    steps.step(&fabric.ranks().map(result).collect::<Vec<_>>())?;
    Ok(steps.finish())
}

fn all_reduce(
    task: &Task<'_>,
    fabric: &Fabric,
    gathering: &Gathering,
    ranks: u32,
) -> Result<Lowered, SynthError> {
    let mut steps = Steps::new(task, fabric, task.goal.collective(ranks)?, 0);
    let own = |it: Rank| Transfer::copy(Slot::input(it, 0), Slot::output(it, 0), ranks);
    steps.step(&fabric.ranks().map(own).collect::<Vec<_>>())?;
    for messages in gathering.iter().rev() {
        steps.step(&back(messages, Buffer::Output))?;
    }
    for messages in gathering {
        steps.step(&forth(messages))?;
    }
    Ok(steps.finish())
}

fn forth(messages: &[Message]) -> Vec<Transfer> {
    let copy =
        |it: &Message| alike(Action::Copy, (it.from, it.to), Buffer::Output, it.first, it.count);
    messages.iter().map(copy).collect()
}

fn back(messages: &[Message], buffer: Buffer) -> Vec<Transfer> {
    let reduce = |it: &Message| alike(Action::Reduce, (it.to, it.from), buffer, it.first, it.count);
    messages.iter().map(reduce).collect()
}
