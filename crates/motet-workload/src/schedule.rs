//! The order in which a pipeline stage runs forward and backward passes ([`order`]).
//!
//! 1F1B: as many forward passes as there are later stages, then one forward and one backward pass in turn,
//! then the remaining backward passes. Interleaved: the same with several chunks of layers per stage, and
//! micro-batches in groups of as many as there are stages (Megatron-LM). Zero bubble: 1F1B in which a
//! backward pass computes only the gradients of inputs, for which the previous stage waits. Gradients of
//! weights, for which no stage waits, are computed later and fill idle time (ZB-H1 of Qi et al., which keeps
//! no more activations than the first stage of 1F1B). Stage n delays them by n micro-batches, since later
//! stages have memory for more activations.
//!
//! [`crate::iteration`] makes each pass into compute and communication.

use crate::layout::{Layout, Schedule};

/// What a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Forward,
    /// Gradients of inputs, and of weights too unless the schedule computes these separately.
    Backward,
    /// Gradients of weights, if the schedule computes them separately.
    Weights,
}

/// One micro-batch through one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub direction: Direction,
    pub chunk: u32,
    pub micro_batch: u32,
}

/// The passes of a stage, in order.
#[must_use]
pub fn order(layout: &Layout, stage: u32, micro_batches: u32) -> Vec<Pass> {
    let behind = layout.pp - stage - 1;
    match layout.schedule {
        Schedule::OneForwardOneBackward => alternate(behind, micro_batches, |_, it| (0, it)),
        Schedule::Interleaved { chunks } => {
            let warm = 2 * behind + (chunks - 1) * layout.pp;
            let place = |direction, index: u32| {
                let chunk = index % (layout.pp * chunks) / layout.pp;
                let group = index / (layout.pp * chunks);
                let chunk =
                    if direction == Direction::Forward { chunk } else { chunks - 1 - chunk };
                (chunk, group * layout.pp + index % layout.pp)
            };
            alternate(warm, micro_batches * chunks, place)
        }
        Schedule::ZeroBubble => {
            let passes = alternate(behind, micro_batches, |_, it| (0, it));
            let weights = |it| Pass { direction: Direction::Weights, chunk: 0, micro_batch: it };
            let mut all = Vec::with_capacity(passes.len() + micro_batches as usize);
            for pass in passes {
                all.push(pass);
                if pass.direction == Direction::Backward && pass.micro_batch >= stage {
                    all.push(weights(pass.micro_batch - stage));
                }
            }
            all.extend((micro_batches.saturating_sub(stage)..micro_batches).map(weights));
            all
        }
    }
}

/// `warm` forward passes, then forward and backward in turn, `count` of each; `place` says which chunk
/// and micro-batch the n-th of a direction is.
fn alternate(warm: u32, count: u32, place: impl Fn(Direction, u32) -> (u32, u32)) -> Vec<Pass> {
    let warm = warm.min(count);
    let pass = |direction, index| {
        let (chunk, micro_batch) = place(direction, index);
        Pass { direction, chunk, micro_batch }
    };
    let mut all: Vec<Pass> = (0..warm).map(|it| pass(Direction::Forward, it)).collect();
    for index in 0..count {
        if warm + index < count {
            all.push(pass(Direction::Forward, warm + index));
        }
        all.push(pass(Direction::Backward, index));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// When all is done, if a forward pass of all chunks of a stage takes 12, a backward pass with
    /// weights 24 and half of it without, and sending takes no time.
    fn makespan(layout: &Layout, micro_batches: u32) -> u32 {
        let chunks = layout.schedule.chunks();
        let apart = layout.schedule == Schedule::ZeroBubble;
        let (unit, last) = (12 / chunks, layout.pp * chunks - 1);
        let orders: Vec<_> = (0..layout.pp).map(|it| order(layout, it, micro_batches)).collect();
        let mut next = vec![0; layout.pp as usize];
        let mut free = vec![0; layout.pp as usize];
        let mut done: BTreeMap<(Direction, u32, u32), u32> = BTreeMap::new();
        let mut left: usize = orders.iter().map(Vec::len).sum();
        while left > 0 {
            let before = left;
            for stage in 0..layout.pp as usize {
                let Some(pass) = orders[stage].get(next[stage]) else { continue };
                let (Pass { direction, chunk, micro_batch }, here) =
                    (*pass, pass.chunk * layout.pp + stage as u32);
                assert!(chunk < chunks);
                let needs = match direction {
                    Direction::Forward if here == 0 => None,
                    Direction::Forward => Some((Direction::Forward, here - 1, micro_batch)),
                    Direction::Backward if here == last => {
                        Some((Direction::Forward, here, micro_batch))
                    }
                    Direction::Backward => Some((Direction::Backward, here + 1, micro_batch)),
                    Direction::Weights => Some((Direction::Backward, here, micro_batch)),
                };
                let ready = match needs.map(|it| done.get(&it).copied()) {
                    None => 0,
                    Some(None) => continue,
                    Some(Some(at)) => at,
                };
                let takes =
                    if direction == Direction::Backward && !apart { 2 * unit } else { unit };
                free[stage] = free[stage].max(ready) + takes;
                let key = (direction, here, micro_batch);
                assert_eq!(done.insert(key, free[stage]), None, "twice: {key:?}");
                next[stage] += 1;
                left -= 1;
            }
            assert!(left < before, "the stages wait for each other");
        }
        let directions = if apart { 3 } else { 2 };
        assert_eq!(done.len() as u32, directions * micro_batches * layout.pp * chunks);
        free.into_iter().max().unwrap()
    }

    fn layout(pp: u32, schedule: Schedule) -> Layout {
        Layout { pp, schedule, ..Layout::default() }
    }

    /// The published bubbles: (p − 1)(F + B), over the number of chunks if interleaved, and
    /// (p − 1)(F + B − 2W) with B counting weights, for ZB-H1.
    #[test]
    fn bubbles_are_the_published_ones() {
        for pp in 1..=6u32 {
            for micro_batches in pp..=3 * pp {
                let work = 36 * micro_batches;
                let one = layout(pp, Schedule::OneForwardOneBackward);
                assert_eq!(makespan(&one, micro_batches), work + 36 * (pp - 1));
                let zero = layout(pp, Schedule::ZeroBubble);
                assert_eq!(makespan(&zero, micro_batches), work + 12 * (pp - 1));
            }
        }
        for (pp, chunks, micro_batches) in [(2, 2, 4), (4, 2, 8), (4, 3, 4), (3, 4, 9)] {
            let it = layout(pp, Schedule::Interleaved { chunks });
            assert_eq!(makespan(&it, micro_batches), 36 * micro_batches + 36 * (pp - 1) / chunks);
        }
    }

    #[test]
    fn fewer_micro_batches_than_stages_still_end() {
        for schedule in [Schedule::OneForwardOneBackward, Schedule::ZeroBubble] {
            for micro_batches in 1..8 {
                assert!(makespan(&layout(8, schedule), micro_batches) >= 36 * micro_batches);
            }
        }
    }
}
