//! What the executor can load (mscclpp 0.9.0), checked on plans read and on plans to be written.

use super::model::{ChannelType, ExecutionPlan, PlanOp, Threadblock};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{LaneKind, Program};

pub(super) const MAX_OPS: usize = 64;
pub(super) const MAX_CHANNELS: usize = 16;
pub(super) const MAX_CHANNELS_PER_OP: usize = 8;
pub(super) const MAX_BUFFERS_PER_OP: usize = 10;
pub(super) const MAX_BARRIERS: u32 = 16;
pub(super) const MAX_SEMAPHORES_PER_OP: usize = 16;
const MAX_THREADS: u32 = 1024;
/// Threads that the largest GPU of today keeps running at once: the executor's kernel fills a
/// multiprocessor with 1024 (64 registers each), and an H100 has 132 of them. Blocks wait for one another,
/// so that all must run at once; where they do not fit, the GPU hangs.
const MAX_RESIDENT_THREADS: u32 = 132 * MAX_THREADS;

pub(super) fn check(plan: &ExecutionPlan, report: &mut Report) {
    if plan.num_threads_per_block == 0 || plan.num_threads_per_block > MAX_THREADS {
        let threads = plan.num_threads_per_block;
        push(report, format!("{threads} threads per block; a block has 1 to {MAX_THREADS}"), None);
    }
    for gpu in &plan.gpus {
        for block in &gpu.threadblocks {
            Check { gpu: gpu.id, block, report }.block();
        }
    }
}

/// Whether all threadblocks of each GPU can run at once. Seen from the lanes alone, before any work.
pub(super) fn check_resident(program: &Program, threads: u32, report: &mut Report) {
    let most = MAX_RESIDENT_THREADS / threads.clamp(1, MAX_THREADS);
    let mut blocks = vec![0u32; program.collective().ranks() as usize];
    for lane in program.lanes().iter().filter(|it| it.kind == LaneKind::Block) {
        blocks[lane.rank.index()] += 1;
    }
    for (rank, count) in blocks.into_iter().enumerate().filter(|it| it.1 > most) {
        let message = format!(
            "rank {rank} has {count} threadblocks; a GPU runs at most {most} of {threads} threads at once"
        );
        push(report, message, None);
    }
}

fn push(report: &mut Report, message: String, origin: Option<String>) {
    let diagnostic = Diagnostic::error(Finding::Limit, message);
    report.push(match origin {
        Some(origin) => diagnostic.from_origin(origin),
        None => diagnostic,
    });
}

struct Check<'a> {
    gpu: u32,
    block: &'a Threadblock,
    report: &'a mut Report,
}

impl Check<'_> {
    fn block(&mut self) {
        let at = format!("gpu {}, threadblock {}", self.gpu, self.block.id);
        let ops: usize = self.block.ops.iter().map(|it| 1 + it.ops.len()).sum();
        self.most(ops, MAX_OPS, "operations in a threadblock", &at);
        for kind in [ChannelType::Memory, ChannelType::Port, ChannelType::Switch] {
            let refs = self.block.channels.iter().filter(|it| it.channel_type == kind);
            let channels = refs.map(|it| it.channel_ids.len()).sum();
            let what = format!("{} channels in a threadblock", kind.name());
            self.most(channels, MAX_CHANNELS, &what, &at);
            let refs = self.block.remote_buffer_refs.iter();
            let refs = refs.filter(|it| it.access_channel_type == kind);
            let buffers = refs.map(|it| it.remote_buffer_ids.len()).sum();
            let what = format!("remote buffers by {} channel in a threadblock", kind.name());
            self.most(buffers, MAX_CHANNELS, &what, &at);
        }
        let block = self.block;
        for (index, op) in block.ops.iter().enumerate() {
            let at = format!("{at}, operation {index}");
            self.op(op, &at);
            for inner in &op.ops {
                self.op(inner, &at);
            }
        }
    }

    fn op(&mut self, op: &PlanOp, at: &str) {
        self.most(op.channel_ids.len(), MAX_CHANNELS_PER_OP, "channels in an operation", at);
        self.most(op.src_buff.len(), MAX_BUFFERS_PER_OP, "source ranges in an operation", at);
        self.most(op.dst_buff.len(), MAX_BUFFERS_PER_OP, "destination ranges in an operation", at);
        self.most(op.semaphore_ids.len(), MAX_SEMAPHORES_PER_OP, "semaphores in an operation", at);
        if let Some(id) = op.barrier_id.filter(|it| *it >= MAX_BARRIERS) {
            let message =
                format!("barrier {id}; the executor has barriers 0 to {}", MAX_BARRIERS - 1);
            push(self.report, message, Some(at.to_owned()));
        }
    }

    fn most(&mut self, given: usize, most: usize, what: &str, at: &str) {
        if given > most {
            let message = format!("{given} {what}; the executor takes at most {most}");
            push(self.report, message, Some(at.to_owned()));
        }
    }
}
