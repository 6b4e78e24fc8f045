//! When one iteration of a `pipeline` stands for all of them.
//!
//! A pipeline runs its operations for one slice after the other of the chunks they name. Slices
//! are disjoint, so that the program of each is the same and by itself, if
//! - every operation works on `num_chunks` chunks, and any two ranges of all pipelines are the
//!   same or apart (then slice i of one never meets slice j of another),
//! - scratch is not reused (the executor then maps slices onto the same memory),
//! - what a pipeline signals is waited for in a pipeline cut alike, by one block from one block
//!   (then the k-th of iteration i meets the k-th of iteration i).
//!
//! Each further iteration only adds steps after those of the one before, so that no deadlock and
//! no race comes in that one iteration does not have. Where this does not hold, the pipeline is
//! not judged.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::model::IterContext;
use super::resolve::{Address, Context};
use super::steps::{Counter, PlanStepKind, PlanSteps};
use crate::diagnostic::{Diagnostic, Report};
use crate::program::{Buffer, Transfer};

/// What a counter or barrier is used by.
#[derive(Debug, Default)]
struct Uses {
    cuts: BTreeSet<Option<IterContext>>,
    raisers: BTreeSet<usize>,
    takers: BTreeSet<usize>,
}

pub(super) fn check(context: &Context<'_>, steps: &PlanSteps, report: &mut Report) {
    let (plan, parts) = (context.plan, context.parts);
    let in_pipelines = || {
        let blocks = steps.blocks.iter().enumerate();
        blocks.flat_map(|(index, block)| block.steps.iter().map(move |step| (index, block, step)))
    };
    let mut counters: BTreeMap<Counter, Uses> = BTreeMap::new();
    let mut barriers: BTreeMap<(Rank, u32), BTreeSet<Option<IterContext>>> = BTreeMap::new();
    let mut ranges: BTreeSet<(Address, u32)> = BTreeSet::new();
    let mut faults: BTreeSet<&'static str> = BTreeSet::new();
    for (index, block, step) in in_pipelines() {
        let cut = step.pipeline;
        let (raised, taken): (Vec<Counter>, Vec<Counter>) = match &step.kind {
            PlanStepKind::Raise(it) => (it.iter().map(|it| it.counter).collect(), Vec::new()),
            PlanStepKind::Take(it) => (Vec::new(), it.iter().map(|it| it.counter).collect()),
            PlanStepKind::Posts(it) => (it.iter().filter_map(|it| it.signal).collect(), Vec::new()),
            _ => (Vec::new(), Vec::new()),
        };
        for (list, raises) in [(raised, true), (taken, false)] {
            for counter in list {
                let uses = counters.entry(counter).or_default();
                uses.cuts.insert(cut);
                let blocks = if raises { &mut uses.raisers } else { &mut uses.takers };
                blocks.insert(index);
            }
        }
        if let PlanStepKind::Barrier { id, .. } = step.kind {
            barriers.entry((block.rank, id)).or_default().insert(cut);
        }
        if let Some(cut) = cut {
            for transfer in transfers(&step.kind) {
                if u64::from(transfer.count) != u64::from(cut.num_chunks) * u64::from(parts) {
                    faults.insert("an operation of another size than `num_chunks`");
                }
                for slot in [transfer.src, transfer.dst] {
                    if plan.reuse_resources && slot.buffer == Buffer::Scratch {
                        faults.insert("scratch together with `reuse_resources`");
                    }
                    ranges.insert((context.address(slot), transfer.count));
                }
            }
        }
    }
    if counters.values().any(|it| it.cuts.len() > 1) || barriers.values().any(|it| it.len() > 1) {
        faults.insert("a signal, semaphore or barrier between loops that are cut differently");
    }
    let shared = |it: &Uses| it.raisers.len() > 1 || it.takers.len() > 1;
    if counters.values().any(|it| it.cuts.iter().any(Option::is_some) && shared(it)) {
        faults.insert("a signal or semaphore that several threadblocks share");
    }
    let ranges: Vec<_> = ranges.into_iter().collect();
    if ranges.windows(2).any(|it| overlap(it[0], it[1])) {
        faults.insert("ranges that overlap in part");
    }
    for fault in faults {
        report.push(Diagnostic::not_judged(format!("`pipeline` over {fault}")));
    }
}

fn transfers(kind: &PlanStepKind) -> Vec<Transfer> {
    match kind {
        PlanStepKind::Moves(it) => it.moves.iter().map(|it| it.transfer).collect(),
        PlanStepKind::Posts(it) => it.iter().map(|it| it.what.transfer).collect(),
        _ => Vec::new(),
    }
}

/// Whether two different ranges, the first not after the second, overlap.
fn overlap((a, count): (Address, u32), (b, _): (Address, u32)) -> bool {
    (a.0, a.1) == (b.0, b.1) && a.2 + u64::from(count) > b.2
}
