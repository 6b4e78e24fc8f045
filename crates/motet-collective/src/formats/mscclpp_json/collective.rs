//! Which collective a plan is for, and how finely its chunks are cut here.
//!
//! A threadblock group shares out the range of an operation among its blocks. Chunks are cut so
//! finely that each block's part is a whole number of them: every count of the plan times the
//! least common multiple of the group sizes. (The executor gives the remainder of a range that
//! does not divide evenly to the first blocks; plans are judged for sizes that do.)

use std::collections::BTreeMap;

use motet_graph::lcm;
use motet_units::{Rank, brief};

use super::model::{ExecutionPlan, PlanOp};
use super::steps::{PlanStepKind, PlanSteps};
use crate::collective::{Collective, CollectiveKind, MAX_CHUNKS};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Buffer, Slot, Transfer};

/// Finest cut: group sizes in use are powers of two up to 32.
const MAX_REFINEMENT: u64 = 1 << 12;

/// How many parts each chunk of the plan is cut into here.
pub(super) fn refinement(plan: &ExecutionPlan, report: &mut Report) -> Option<u32> {
    let mut parts = 1u64;
    let blocks = plan.gpus.iter().flat_map(|it| &it.threadblocks);
    let ops = blocks.flat_map(|it| &it.ops).flat_map(|it| std::iter::once(it).chain(&it.ops));
    for group in ops.filter_map(|it: &PlanOp| it.tbg_info) {
        // A size of 0 is reported where the operation is read.
        let size = u64::from(group.tbg_size.max(1));
        parts = lcm(parts, size).unwrap_or(u64::MAX);
        if parts > MAX_REFINEMENT {
            report.push(Diagnostic::not_judged(format!(
                "threadblock groups of such sizes (`tbg_info`) cut a chunk into more than \
                 {MAX_REFINEMENT} parts"
            )));
            return None;
        }
    }
    u32::try_from(parts).ok()
}

/// The collective, in refined chunks; `None` (with a word in the report) if it is not one that
/// can be judged. SendRecv does not say who sends to whom: see [`send_recv`].
pub(super) fn collective(
    plan: &ExecutionPlan,
    parts: u32,
    report: &mut Report,
) -> Option<Collective> {
    let ranks = plan.gpus.len() as u32;
    let Ok(kind) = plan.collective.parse() else {
        report.push(Diagnostic::not_judged(format!(
            "the collective `{}` is not one whose result is known",
            brief(&plan.collective)
        )));
        return None;
    };
    let first = plan.gpus.first()?;
    let share = |chunks: u32| if chunks.is_multiple_of(ranks) { chunks / ranks } else { chunks };
    let chunks = match kind {
        CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => share(first.input_chunks),
        CollectiveKind::AllGather | CollectiveKind::AllReduce | CollectiveKind::SendRecv => {
            first.input_chunks
        }
        _ => {
            report.push(Diagnostic::not_judged(format!(
                "a plan for {kind} does not say what the collective needs to be judged (its root or counts)"
            )));
            return None;
        }
    };
    let chunks = chunks.saturating_mul(parts).min(MAX_CHUNKS + 1);
    let made = if kind == CollectiveKind::SendRecv {
        Collective::send_recv(chunks, vec![None; ranks as usize])
    } else {
        Collective::new(kind, ranks, chunks)
    };
    match made {
        Ok(collective) => {
            sizes(plan, parts, &collective, report);
            Some(collective)
        }
        Err(error) => {
            report.push(Diagnostic::error(Finding::OutOfRange, error.to_string()));
            None
        }
    }
}

/// Whether every GPU's buffers are those of the collective. In-place plans may leave the output
/// out (old ones do).
fn sizes(plan: &ExecutionPlan, parts: u32, collective: &Collective, report: &mut Report) {
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        let rank = Rank::from_index(rank);
        let no_output = plan.inplace && gpu.output_chunks == 0;
        let sides = [
            ("input", gpu.input_chunks, collective.input_chunks(rank), false),
            ("output", gpu.output_chunks, collective.output_chunks(rank), no_output),
        ];
        for (side, given, expected, left_out) in sides {
            let expected = expected / parts;
            if given != expected && !left_out {
                let message = format!(
                    "{given} {side} chunks; {} over {} ranks with {} chunks per part has {expected}",
                    collective.kind(),
                    collective.ranks(),
                    collective.chunks() / parts,
                );
                let diagnostic = Diagnostic::error(Finding::Mismatch, message);
                report.push(diagnostic.from_origin(format!("gpu {rank}")));
            }
        }
    }
}

/// Transfers looked at to find who sends to whom; beyond any real plan.
const MAX_WORK: usize = 1 << 24;

/// The SendRecv that `steps` does: a rank sends to the one whose output its input comes to, by
/// itself or through scratch. Not judged if that does not show.
pub(super) fn send_recv(
    collective: &Collective,
    steps: &PlanSteps,
    report: &mut Report,
) -> Option<Collective> {
    let mut writers: BTreeMap<(Rank, Buffer), Vec<Transfer>> = BTreeMap::new();
    for step in steps.blocks.iter().flat_map(|it| &it.steps) {
        let mut add =
            |it: Transfer| writers.entry((it.dst.rank, it.dst.buffer)).or_default().push(it);
        match &step.kind {
            PlanStepKind::Moves(it) => it.moves.iter().for_each(|it| add(it.transfer)),
            PlanStepKind::Posts(it) => it.iter().for_each(|it| add(it.what.transfer)),
            _ => {}
        }
    }
    let mut peers: Vec<Option<Rank>> = vec![None; collective.ranks() as usize];
    let mut work = 0;
    let mut clear = true;
    for rank in (0..collective.ranks()).map(Rank) {
        match origin(&writers, Slot::output(rank, 0), &mut work) {
            Ok(Some(sender)) => {
                let peer = &mut peers[sender.index()];
                clear &= peer.is_none();
                *peer = Some(rank);
            }
            Ok(None) => {}
            Err(()) => clear = false,
        }
    }
    let made = Collective::send_recv(collective.chunks(), peers).ok().filter(|_| clear);
    if made.is_none() {
        report.push(Diagnostic::not_judged(
            "the plan is a sendrecv and does not show which rank sends to which",
        ));
    }
    made
}

/// Whose input comes to `slot`, if anything does; an error if there is more than one way.
fn origin(
    writers: &BTreeMap<(Rank, Buffer), Vec<Transfer>>,
    mut slot: Slot,
    work: &mut usize,
) -> Result<Option<Rank>, ()> {
    const MAX_HOPS: usize = 64;
    for hop in 0..MAX_HOPS {
        if slot.buffer == Buffer::Input {
            return Ok(Some(slot.rank));
        }
        let list = writers.get(&(slot.rank, slot.buffer)).map_or(&[][..], Vec::as_slice);
        *work += list.len();
        if *work > MAX_WORK {
            return Err(());
        }
        let hits =
            |it: &&Transfer| it.dst.offset <= slot.offset && slot.offset - it.dst.offset < it.count;
        let mut found = list.iter().filter(hits);
        match (found.next(), found.next()) {
            (Some(it), None) => {
                slot = Slot { offset: it.src.offset + slot.offset - it.dst.offset, ..it.src }
            }
            (None, None) if hop == 0 => return Ok(None),
            _ => return Err(()),
        }
    }
    Err(())
}
