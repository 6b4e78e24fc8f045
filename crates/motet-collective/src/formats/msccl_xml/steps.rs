//! From the events of lanes to the steps of threadblocks: the inverse of [`super::read()`].
//!
//! Events that the format can say in one step become one: `rcs` for an arrival that is sent on,
//! `rrc` for a reduction, with the copy before it if there is one, and so on. They must follow
//! each other in the lane, no one may wait for one of them but the last, and none but the first
//! may wait, because a step waits before it begins and publishes after it ends.

use motet_units::Rank;

use super::joint;
use super::limits::MAX_FUSED_REDUCTIONS;
use super::parse::XmlStepKind;
use crate::program::graph::NONE;
use crate::program::{Action, Buffer, Event, Lane, Program, Slot, Transfer};

/// A step to be written.
#[derive(Clone, Debug)]
pub(super) struct OutStep {
    pub(super) kind: XmlStepKind,
    pub(super) src: Slot,
    pub(super) dst: Slot,
    pub(super) count: u32,
    /// How many events of the lane it is.
    events: usize,
    /// (threadblock, step) on the same rank. All but the last become nops before the step.
    pub(super) waits: Vec<(u32, u32)>,
    pub(super) flag: bool,
}

/// The steps of every lane of a program that [`super::lower()`] has made.
#[derive(Debug)]
pub(super) struct XmlSteps {
    /// By lane.
    pub(super) steps: Vec<Vec<OutStep>>,
    /// The number of each lane on its rank.
    pub(super) block_ids: Vec<u32>,
    /// The scratch chunks of each rank less those that `rrs` steps do not need.
    pub(super) scratch: Vec<u32>,
}

impl XmlSteps {
    pub(super) fn new(program: &Program) -> Self {
        let awaited = awaited(program);
        let steps = |with_sends: bool| -> Vec<Vec<OutStep>> {
            let fuser = XmlFuser { program, awaited: &awaited, with_sends };
            program.lanes().iter().map(|it| fuser.steps(it)).collect()
        };
        let mut fused = steps(true);
        if fused_deadlock(program, &fused) {
            fused = steps(false);
        }
        let mut plan = Self { steps: fused, block_ids: block_ids(program), scratch: Vec::new() };
        plan.find_staging(program);
        plan.number_waits(program, &awaited);
        for steps in &mut plan.steps {
            break_reductions(steps);
        }
        plan
    }

    /// How many steps a lane has in the file, nops included.
    pub(super) fn length(&self, lane: usize) -> usize {
        self.steps[lane].iter().map(OutStep::length).sum()
    }

    /// Turns `rrcs` through scratch that nothing else uses into `rrs`, where the scratch lies as
    /// the reader lays it out: behind all other, one place for each threadblock in their order.
    fn find_staging(&mut self, program: &Program) {
        let ranks = program.collective().ranks();
        self.scratch = (0..ranks).map(|it| program.scratch_chunks(Rank(it))).collect();
        let accesses = ScratchAccesses::new(program);
        for lane in (0..self.steps.len()).rev() {
            let rank = program.lanes()[lane].rank;
            let end = self.scratch[rank.index()];
            let staged = |it: &&mut OutStep| {
                it.kind == XmlStepKind::ReceiveReduceCopySend
                    && it.src != it.dst
                    && it.dst.buffer == Buffer::Scratch
            };
            let mut candidates: Vec<&mut OutStep> =
                self.steps[lane].iter_mut().filter(staged).collect();
            let last = candidates.iter().find(|it| it.dst.offset.saturating_add(it.count) == end);
            let Some(start) = last.map(|it| it.dst.offset) else {
                continue;
            };
            candidates.retain(|it| it.dst.offset == start);
            // Each writes its place twice and reads it once.
            if accesses.overlapping(rank, start, end) == candidates.len() * 3 {
                for step in candidates {
                    step.kind = XmlStepKind::ReceiveReduceSend;
                }
                self.scratch[rank.index()] = start;
            }
        }
    }

    fn number_waits(&mut self, program: &Program, awaited: &[bool]) {
        // Where each event's step is, by its number without and then with nops.
        let mut step_of = vec![(NONE, NONE); awaited.len()];
        for (lane, steps) in program.lanes().iter().zip(&mut self.steps) {
            let mut at = 0;
            for step in steps.iter_mut() {
                let events = &lane.events[at..at + step.events];
                at += step.events;
                let waits = program.deps(events[0]).len();
                step.waits = vec![(NONE, NONE); waits];
                step.flag = awaited[events[step.events - 1].index()];
            }
        }
        for (index, (lane, steps)) in program.lanes().iter().zip(&self.steps).enumerate() {
            let (mut at, mut number) = (0, 0);
            for step in steps {
                number += step.length() as u32;
                for event in &lane.events[at..at + step.events] {
                    step_of[event.index()] = (self.block_ids[index], number - 1);
                }
                at += step.events;
            }
        }
        for (lane, steps) in program.lanes().iter().zip(&mut self.steps) {
            let mut at = 0;
            for step in steps {
                let deps = program.deps(lane.events[at]);
                step.waits = deps.iter().map(|it| step_of[it.index()]).collect();
                at += step.events;
            }
        }
    }
}

impl OutStep {
    fn length(&self) -> usize {
        self.waits.len().max(1)
    }
}

/// For each event whether another waits for it.
fn awaited(program: &Program) -> Vec<bool> {
    let mut awaited = vec![false; program.transfers().len() * 2];
    for event in (0..awaited.len()).map(Event::from_index) {
        for it in program.deps(event) {
            awaited[it.index()] = true;
        }
    }
    awaited
}

fn block_ids(program: &Program) -> Vec<u32> {
    let mut next = vec![0; program.collective().ranks() as usize];
    let ids = program.lanes().iter().map(|lane| {
        next[lane.rank.index()] += 1;
        next[lane.rank.index()] - 1
    });
    ids.collect()
}

/// Finds the steps of a lane.
struct XmlFuser<'a> {
    program: &'a Program,
    awaited: &'a [bool],
    /// Whether an arrival and a sending may be one step.
    with_sends: bool,
}

impl XmlFuser<'_> {
    fn steps(&self, lane: &Lane) -> Vec<OutStep> {
        let mut steps = Vec::new();
        let mut at = 0;
        while at < lane.events.len() {
            let step = self.step(&lane.events[at..]);
            at += step.events;
            steps.push(step);
        }
        steps
    }

    /// The step that `events` begin with.
    fn step(&self, events: &[Event]) -> OutStep {
        let first = self.program.transfer(events[0].transfer());
        let step = |kind, events| OutStep {
            kind,
            src: first.src,
            dst: first.dst,
            count: first.count,
            events,
            waits: Vec::new(),
            flag: false,
        };
        if first.is_local() {
            let reduction = (first.action == Action::Copy && first.src != first.dst)
                .then(|| {
                    self.next(events, 1, |it, sent| {
                        !sent
                            && it.action == Action::Reduce
                            && it.dst == first.dst
                            && it.count == first.count
                    })
                })
                .flatten();
            return match reduction {
                Some(_) if self.forwards(events, 2, first) => {
                    step(XmlStepKind::ReceiveReduceCopySend, 4)
                }
                Some(_) => step(XmlStepKind::ReceiveReduceCopy, 3),
                None if first.action == Action::Copy => step(XmlStepKind::Copy, 2),
                None => step(XmlStepKind::Reduce, 2),
            };
        }
        if events[0].is_sent() {
            return step(XmlStepKind::Send, 1);
        }
        let forwards = self.forwards(events, 0, first);
        let (kind, events) = match (first.action, forwards) {
            (Action::Copy, false) => (XmlStepKind::Receive, 1),
            (Action::Copy, true) => (XmlStepKind::ReceiveCopySend, 2),
            (Action::Reduce, false) => (XmlStepKind::ReceiveReduceCopy, 1),
            (Action::Reduce, true) => (XmlStepKind::ReceiveReduceCopySend, 2),
        };
        // A reduction adds to the destination itself; else the source is told for readers only.
        let src = if first.action == Action::Reduce { first.dst } else { first.src };
        OutStep { src, ..step(kind, events) }
    }

    /// Whether the event after `events[last]` sends on what lies where `arrived` put it.
    fn forwards(&self, events: &[Event], last: usize, arrived: &Transfer) -> bool {
        let same =
            |it: &Transfer, sent: bool| sent && it.src == arrived.dst && it.count == arrived.count;
        self.with_sends && self.next(events, last, same).is_some()
    }

    /// The event after `events[last]`, if it can be part of the same step and is a half of a
    /// transfer between ranks that `fits`.
    fn next(
        &self,
        events: &[Event],
        last: usize,
        fits: impl Fn(&Transfer, bool) -> bool,
    ) -> Option<Event> {
        let next = *events.get(last + 1)?;
        let transfer = self.program.transfer(next.transfer());
        let joins = !self.awaited[events[last].index()]
            && self.program.deps(next).is_empty()
            && !transfer.is_local()
            && fits(transfer, next.is_sent());
        joins.then_some(next)
    }
}

/// Whether the program deadlocks with these steps, each of which takes nothing before it has room
/// for what it sends on.
fn fused_deadlock(program: &Program, steps: &[Vec<OutStep>]) -> bool {
    let events = program.lanes().iter().zip(steps).flat_map(|(lane, steps)| {
        let mut at = 0;
        steps.iter().map(move |step| {
            let start = at;
            at += step.events;
            &lane.events[start..at]
        })
    });
    joint::deadlocks(program, events)
}

/// Which scratch each rank touches.
struct ScratchAccesses {
    /// By rank: (first chunk, end).
    ranges: Vec<Vec<(u32, u32)>>,
}

impl ScratchAccesses {
    fn new(program: &Program) -> Self {
        let mut ranges = vec![Vec::new(); program.collective().ranks() as usize];
        for transfer in program.transfers() {
            for slot in [transfer.src, transfer.dst] {
                if slot.buffer == Buffer::Scratch {
                    ranges[slot.rank.index()].push((slot.offset, slot.offset + transfer.count));
                }
            }
        }
        Self { ranges }
    }

    fn overlapping(&self, rank: Rank, start: u32, end: u32) -> usize {
        let overlaps = |it: &&(u32, u32)| it.0 < end && start < it.1;
        self.ranges[rank.index()].iter().filter(overlaps).count()
    }
}

/// Keeps the runtime from fusing local reductions that it must not: with different counts, or
/// more than it has room for. A flag that nobody waits for does it.
fn break_reductions(steps: &mut [OutStep]) {
    let mut length = 1;
    for index in 1..steps.len() {
        let (before, step) = (&steps[index - 1], &steps[index]);
        let fuses = [before, step].iter().all(|it| it.kind == XmlStepKind::Reduce)
            && (before.dst, before.src.buffer) == (step.dst, step.src.buffer)
            && step.waits.is_empty()
            && !before.flag;
        if !fuses {
            length = 1;
        } else if before.count != step.count || length == MAX_FUSED_REDUCTIONS {
            steps[index - 1].flag = true;
            length = 1;
        } else {
            length += 1;
        }
    }
}
