//! Which events of a lane are one step of its thread block.
//!
//! A block can forward data while it receives it: copy it, add it to its own data, and send the result,
//! all in one step. NCCL's own kernels do so with all children of a tree at once; MSCCL has steps for one
//! peer on either side (`rcs`, `rrs`, `rrcs`). Events are one step if
//!
//! - first there may be a copy within the GPU to the place that is then added to,
//! - then data arrive there, from one or several ranks,
//! - then they are sent on from there, to one or several ranks,
//!
//! and none but the first waits for anything, none but the last is awaited by another lane (a step
//! waits before it begins and tells others when it is over). Everything else is a step for itself: a
//! sending, an arrival, or a transfer whose two events follow each other in the lane.

use motet_collective::program::Lane;
use motet_collective::{Action, Event, Program, Slot, Transfer};

/// Finds the steps of lanes.
pub(super) struct Fuser<'a> {
    pub(super) program: &'a Program,
    /// By event: whether another lane waits for it.
    pub(super) awaited: &'a [bool],
}

impl Fuser<'_> {
    /// How many events each step of the lane has, in order.
    pub(super) fn steps(&self, lane: &Lane) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut rest = lane.events.as_slice();
        while !rest.is_empty() {
            let length = self.step(rest).clamp(1, rest.len());
            lengths.push(length);
            rest = &rest[length..];
        }
        lengths
    }

    /// How many of `events` are its first step.
    fn step(&self, events: &[Event]) -> usize {
        let first = self.transfer(events[0]);
        let whole =
            events.len() > 1 && events[0].is_sent() && events[1] == events[0].transfer().arrived();
        if whole {
            // One that stays here, or that one side does alone; a copy may go on as a sum.
            let stages = first.is_local() && first.action == Action::Copy && first.src != first.dst;
            let sum = stages.then(|| self.arrivals(events, 2, first.dst, first.count, true));
            return match sum {
                Some(sum) if sum > 2 => self.sendings(events, sum, first.dst, first.count),
                _ => 2,
            };
        }
        if events[0].is_sent() {
            return 1;
        }
        let arrived = self.arrivals(events, 1, first.dst, first.count, false);
        self.sendings(events, arrived, first.dst, first.count)
    }

    fn transfer(&self, event: Event) -> &Transfer {
        self.program.transfer(event.transfer())
    }

    /// Whether the event at `at` can belong to the step of the one before it.
    fn joins(&self, events: &[Event], at: usize) -> bool {
        !self.awaited[events[at - 1].index()] && self.program.deps(events[at]).is_empty()
    }

    /// The end of the run of arrivals from `at` on that are summed into a slot. From one rank there
    /// is one only, unless nothing has arrived yet (`staged`).
    fn arrivals(&self, events: &[Event], at: usize, slot: Slot, count: u32, staged: bool) -> usize {
        let mut end = at;
        while end < events.len() && !events[end].is_sent() && self.joins(events, end) {
            let it = self.transfer(events[end]);
            let from = |other: &Event| self.transfer(*other).src.rank;
            let seen = if staged { &events[at..end] } else { &events[at - 1..end] };
            let fits = !it.is_local()
                && it.action == Action::Reduce
                && (it.dst, it.count) == (slot, count)
                && seen.iter().all(|other| from(other) != it.src.rank);
            if !fits {
                break;
            }
            end += 1;
        }
        end
    }

    /// The end of the run of sendings from `at` on that send what lies in a slot, to a rank once.
    fn sendings(&self, events: &[Event], at: usize, slot: Slot, count: u32) -> usize {
        let mut end = at;
        while end < events.len() && events[end].is_sent() && self.joins(events, end) {
            let it = self.transfer(events[end]);
            let to = |other: &Event| self.transfer(*other).dst.rank;
            // A transfer that one side does alone is no answer to what arrived.
            let alone = events.get(end + 1) == Some(&events[end].transfer().arrived());
            let fits = !it.is_local()
                && !alone
                && (it.src, it.count) == (slot, count)
                && events[at..end].iter().all(|other| to(other) != it.dst.rank);
            if !fits {
                break;
            }
            end += 1;
        }
        end
    }
}
