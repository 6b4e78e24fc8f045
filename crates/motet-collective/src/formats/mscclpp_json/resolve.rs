//! From the file to [`PlanSteps`]: every operation's channels, buffers and ranges looked up, groups of
//! threadblocks shared out, pipelines unrolled to one iteration ([`super::pipeline`] says when that
//! is allowed). What each operation does is in [`super::operations`].

use motet_units::Rank;

use super::model::{ChannelType, ExecutionPlan, GroupInfo, IterContext, PlanChunk, PlanOp};
use super::operations;
use super::steps::{Block, ChannelEnd, PlanStep, PlanStepKind, PlanSteps};
use super::tables::{self, BlockTable};
use crate::collective::{Collective, InPlace};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::formats::Place;
use crate::program::{Buffer, Slot};

/// Operations in one threadblock beyond which a plan is not looked at further: sixteen times what
/// the executor loads.
const MAX_OPS_LOOKED_AT: usize = 1024;

/// A range of chunks, refined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) slot: Slot,
    pub(super) count: u32,
}

/// What all operations share.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) plan: &'a ExecutionPlan,
    pub(super) parts: u32,
    pub(super) collective: Option<&'a Collective>,
}

/// Where an operation stands and what it may refer to.
pub(super) struct PlanReader<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) rank: Rank,
    pub(super) table: BlockTable,
    pub(super) place: Place,
    pub(super) group: Option<GroupInfo>,
    pub(super) pipeline: Option<IterContext>,
    pub(super) steps: Vec<PlanStep>,
    /// Switch chunks that operations of this GPU have taken so far.
    pub(super) switch_slots: u32,
    pub(super) report: &'a mut Report,
}

/// The steps of every threadblock.
pub(super) fn resolve(context: &Context<'_>, report: &mut Report) -> PlanSteps {
    let plan = context.plan;
    let gpus = tables::gpus(plan, report);
    let counters = tables::counters(plan, &gpus);
    let mut steps = PlanSteps { blocks: Vec::new(), counters, switch: Vec::new() };
    for (rank, (gpu, table)) in plan.gpus.iter().zip(&gpus).enumerate() {
        let rank = Rank::from_index(rank);
        if gpu.id != rank.0 {
            let message = format!("the gpu at position {rank} has id {}", gpu.id);
            report.push(Diagnostic::error(Finding::Mismatch, message));
        }
        let mut switch_slots = 0;
        for (index, block) in gpu.threadblocks.iter().enumerate() {
            let at = format!("gpu {rank}, threadblock {}", block.id);
            if block.id as usize != index {
                let message = format!("the threadblock at position {index} has id {}", block.id);
                report.push(Diagnostic::error(Finding::Mismatch, message).from_origin(&at));
            }
            let ops: usize = block.ops.iter().map(|it| 1 + it.ops.len()).sum();
            if ops > MAX_OPS_LOOKED_AT {
                let message = format!("{ops} operations are too many to look at");
                report.push(Diagnostic::error(Finding::TooLarge, message).from_origin(&at));
                continue;
            }
            let table = tables::block(table, block, &at, report);
            let place = Place { rank, block: block.id, step: 0, line: None };
            let mut reader = PlanReader {
                context,
                rank,
                table,
                place,
                group: None,
                pipeline: None,
                steps: Vec::new(),
                switch_slots,
                report,
            };
            for (step, op) in block.ops.iter().enumerate() {
                reader.place.step = step as u32;
                reader.op_or_pipeline(op);
            }
            switch_slots = reader.switch_slots;
            steps.blocks.push(Block { rank, id: block.id, steps: reader.steps });
        }
        steps.switch.push(switch_slots);
    }
    steps
}

impl PlanReader<'_> {
    fn op_or_pipeline(&mut self, op: &PlanOp) {
        if op.name != "pipeline" {
            return operations::read(self, op);
        }
        let Some(context) = op.iter_context else {
            return self.wrong(Finding::OutOfRange, "`pipeline` without `iter_context`");
        };
        self.pipeline = Some(context);
        for inner in &op.ops {
            if inner.name == "pipeline" {
                self.not_judged("`pipeline` inside a `pipeline`");
            } else {
                operations::read(self, inner);
            }
        }
        self.pipeline = None;
    }

    pub(super) fn at(&self) -> String {
        let Place { rank, block, step, .. } = self.place;
        format!("gpu {rank}, threadblock {block}, operation {step}")
    }

    pub(super) fn wrong(&mut self, finding: Finding, message: impl Into<String>) {
        let at = self.at();
        self.report.push(Diagnostic::error(finding, message).from_origin(at));
    }

    pub(super) fn not_judged(&mut self, message: impl Into<String>) {
        let at = self.at();
        self.report.push(Diagnostic::not_judged(message).from_origin(at));
    }

    pub(super) fn push(&mut self, kind: PlanStepKind) {
        self.steps.push(PlanStep { place: self.place, pipeline: self.pipeline, kind });
    }

    /// A range of this GPU.
    pub(super) fn local(&mut self, chunk: &PlanChunk) -> Option<Range> {
        match (chunk.buffer, chunk.buffer_id) {
            (Some(buffer), None) => self.range(self.rank, buffer.into(), chunk),
            _ => {
                self.wrong(Finding::OutOfRange, "a range that must be local has no `type`");
                None
            }
        }
    }

    /// A range of another GPU, through a channel of type `kind`.
    pub(super) fn remote(&mut self, chunk: &PlanChunk, kind: ChannelType) -> Option<Range> {
        let Some(id) = chunk.buffer_id else {
            self.wrong(Finding::OutOfRange, "a range that must be remote has no `buffer_id`");
            return None;
        };
        match self.table.buffer(kind, id) {
            // Wrong in the list it stands in, and reported there.
            Some(None) => None,
            Some(Some(remote)) => self.range(remote.rank, remote.buffer, chunk),
            None => {
                let message = format!(
                    "the threadblock refers to no remote buffer {id} by {} channel",
                    kind.name()
                );
                self.wrong(Finding::OutOfRange, message);
                None
            }
        }
    }

    pub(super) fn range(&mut self, rank: Rank, buffer: Buffer, chunk: &PlanChunk) -> Option<Range> {
        let gpu = &self.context.plan.gpus[rank.index()];
        let size = match buffer {
            Buffer::Input => gpu.input_chunks,
            Buffer::Output => gpu.output_chunks,
            Buffer::Scratch => gpu.scratch_chunks,
            // No operation names them by a buffer of the file.
            Buffer::Switch => 0,
        };
        let end = u64::from(chunk.index) + u64::from(chunk.size);
        if chunk.size == 0 || end > u64::from(size) {
            let message = format!(
                "{} chunks from {} of the {} of gpu {rank}, which has {size}",
                chunk.size,
                chunk.index,
                buffer.name()
            );
            self.wrong(Finding::OutOfRange, message);
            return None;
        }
        let parts = self.context.parts;
        let refined = |chunks: u32| chunks.checked_mul(parts);
        let (Some(mut offset), Some(mut count)) = (refined(chunk.index), refined(chunk.size))
        else {
            self.wrong(Finding::TooLarge, "a range beyond 2^32 parts of chunks");
            return None;
        };
        if let Some(GroupInfo { tb_id, tbg_size }) = self.group {
            if tb_id >= tbg_size {
                let message = format!("threadblock {tb_id} of a group of {tbg_size}");
                self.wrong(Finding::OutOfRange, message);
                return None;
            }
            // Whole: the refinement is a multiple of every group size.
            count /= tbg_size;
            offset += tb_id * count;
        }
        Some(Range { slot: Slot::new(rank, buffer, offset), count })
    }

    /// The channels of an operation that goes through some.
    pub(super) fn channels(&mut self, op: &PlanOp, kind: ChannelType) -> Vec<Option<ChannelEnd>> {
        let mut ends = Vec::with_capacity(op.channel_ids.len());
        for id in &op.channel_ids {
            let end = self.table.channel(kind, *id);
            if end.is_none() {
                let message = format!("the threadblock has no {} channel {id}", kind.name());
                self.wrong(Finding::OutOfRange, message);
            }
            ends.push(end.flatten());
        }
        ends
    }
}

/// Where a chunk really lies: the rank, whether in scratch, and the place there.
pub(super) type Address = (Rank, bool, u64);

impl Context<'_> {
    pub(super) fn address(&self, slot: Slot) -> Address {
        address(self.collective.filter(|_| self.plan.inplace), slot)
    }
}

/// The address of a slot; with `in_place` it is the same for input and output where an in-place
/// call of that collective makes them one.
pub(super) fn address(in_place: Option<&Collective>, slot: Slot) -> Address {
    let offset = u64::from(slot.offset);
    let far = 1u64 << 40;
    let at = match (slot.buffer, in_place.and_then(|it| it.in_place(slot.rank))) {
        (Buffer::Scratch, _) => return (slot.rank, true, offset),
        (Buffer::Switch, _) => return (slot.rank, true, offset + far),
        (Buffer::Input, Some(InPlace::InputInOutput { offset: start }))
        | (Buffer::Output, Some(InPlace::OutputInInput { offset: start })) => {
            offset + u64::from(start)
        }
        (Buffer::Output, None | Some(InPlace::Apart)) => offset + far,
        _ => offset,
    };
    (slot.rank, false, at)
}
