//! Recursive doubling and halving.
//!
//! In step i of doubling, ranks whose numbers differ in bit i alone exchange all they have, so that
//! it doubles: log₂ n steps. Halving is the reverse, with sums. AllReduce has two variants:
//! exchange whole sums in every step (fewest steps), or halving followed by doubling (least data).
//!
//! If n is not a power of two, each of the surplus ranks first gives its data to a partner and gets
//! the result from it at the end.

use motet_collective::{Action, Buffer, CollectiveKind, Slot, Transfer};
use motet_units::Rank;

use super::gather::{self, Gathering, Message};
use super::plan::explained;
use super::steps::{Steps, alike};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};

/// The order of steps that scatters parts over the buffer (far ranks first) is not tried with more
/// ranks than this.
const MOST_SCATTERED: u32 = 256;

pub(super) fn doubling(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    match task.goal.kind() {
        CollectiveKind::AllReduce => whole_sums(task, fabric).map_err(|it| explained(task, it)),
        _ => by_parts(task, fabric),
    }
}

pub(super) fn halving(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    by_parts(task, fabric)
}

/// AllGather tries near ranks first and far ranks first. With near ranks first, messages are
/// consecutive parts; with far ranks first, the long links carry the least.
fn by_parts(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let ranks = task.goal.ranks();
    let near = gather::lower(task, fabric, &gathering(ranks, false))?;
    if ranks > MOST_SCATTERED || task.goal.kind() != CollectiveKind::AllGather {
        return Ok(near);
    }
    let far = gather::lower(task, fabric, &gathering(ranks, true))?;
    Ok(if far.makespan < near.makespan { far } else { near })
}

/// The ranks that take part in the exchange. The first `extra` of them each have a partner that
/// does not: the rank right after them.
struct Core {
    ranks: u32,
    extra: u32,
    bits: u32,
}

impl Core {
    fn new(ranks: u32) -> Self {
        let bits = ranks.max(1).ilog2();
        Self { ranks, extra: ranks - (1 << bits), bits }
    }

    const fn count(&self) -> u32 {
        1 << self.bits
    }

    /// The rank that is number `it` of the exchange.
    const fn rank(&self, it: u32) -> Rank {
        Rank(if it < self.extra { 2 * it } else { it + self.extra })
    }

    /// The parts that numbers `first` to `first + count` − 1 start with: their own and their
    /// partners'.
    fn parts(&self, first: u32, count: u32) -> (u32, u32) {
        let end = first + count;
        let until = if end < self.count() { self.rank(end).0 } else { self.ranks };
        (self.rank(first).0, until - self.rank(first).0)
    }

    /// Each rank of the exchange that has a partner, with the partner.
    fn partners(&self) -> impl Iterator<Item = (Rank, Rank)> {
        (0..self.extra).map(|it| (Rank(2 * it), Rank(2 * it + 1)))
    }
}

fn gathering(ranks: u32, far_first: bool) -> Gathering {
    let core = Core::new(ranks);
    let mut gathering = Gathering::new();
    let given = core.partners();
    gathering.push(given.map(|(to, from)| Message { from, to, first: from.0, count: 1 }).collect());
    for step in 0..core.bits {
        let bit = 1 << if far_first { core.bits - 1 - step } else { step };
        let mut messages = Vec::new();
        for number in 0..core.count() {
            let (from, to) = (core.rank(number), core.rank(number ^ bit));
            if far_first {
                // Numbers that differ from this one in higher bits only.
                for other in (0..core.count()).filter(|it| (it ^ number) & (2 * bit - 1) == 0) {
                    let (first, count) = core.parts(other, 1);
                    messages.push(Message { from, to, first, count });
                }
            } else {
                let (first, count) = core.parts(number & !(bit - 1), bit);
                messages.push(Message { from, to, first, count });
            }
        }
        gathering.push(messages);
    }
    let returned = core.partners().flat_map(|(from, to)| {
        let all_but_own = [(0, to.0), (to.0 + 1, ranks - to.0 - 1)];
        let runs = all_but_own.into_iter().filter(|it| it.1 > 0);
        runs.map(move |(first, count)| Message { from, to, first, count })
    });
    gathering.push(returned.collect());
    gathering
}

/// AllReduce that exchanges whole sums in every step.
fn whole_sums(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let core = Core::new(task.goal.ranks());
    let mut steps = Steps::new(task, fabric, task.goal.collective(1)?, 0);
    let own = |it: Rank| Transfer::copy(Slot::input(it, 0), Slot::output(it, 0), 1);
    steps.step(&fabric.ranks().map(own).collect::<Vec<_>>())?;
    let whole = |action, pair| alike(action, pair, Buffer::Output, 0, 1);
    let given = core.partners().map(|(to, from)| whole(Action::Reduce, (from, to)));
    steps.step(&given.collect::<Vec<_>>())?;
    for bit in (0..core.bits).map(|it| 1 << it) {
        let pair = |it: u32| (core.rank(it), core.rank(it ^ bit));
        let exchange = (0..core.count()).map(|it| whole(Action::Reduce, pair(it)));
        steps.step(&exchange.collect::<Vec<_>>())?;
    }
    let returned = core.partners().map(|it| whole(Action::Copy, it));
    steps.step(&returned.collect::<Vec<_>>())?;
    Ok(steps.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everyone ends with every part, is sent each once, and is sent only what its sender has.
    #[test]
    fn gathers_everything_once() {
        for (ranks, far_first) in (1..40).flat_map(|it| [(it, false), (it, true)]) {
            let mut has: Vec<Vec<bool>> =
                (0..ranks).map(|it| (0..ranks).map(|part| part == it).collect()).collect();
            for messages in gathering(ranks, far_first) {
                let before = has.clone();
                for it in messages {
                    for part in (it.first..it.first + it.count).map(|it| it as usize) {
                        assert!(before[it.from.index()][part], "{ranks} {it:?}");
                        assert!(!has[it.to.index()][part], "{ranks} {it:?}");
                        has[it.to.index()][part] = true;
                    }
                }
            }
            assert!(has.iter().flatten().all(|it| *it), "{ranks}");
        }
    }
}
