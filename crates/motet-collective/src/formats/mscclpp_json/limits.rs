//! What the executor can load (mscclpp 0.9.0), checked on plans read and on plans to be written.

use motet_units::{Bytes, Rank};

use super::model::{BufferType, ChannelType, ExecutionPlan, PlanGpu, PlanOp, Threadblock};
use super::{Gpu, Options};
use crate::collective::Collective;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{LaneKind, Program, Protocol};

pub(super) const MAX_OPS: usize = 64;
pub(super) const MAX_CHANNELS: usize = 16;
pub(super) const MAX_CHANNELS_PER_OP: usize = 8;
pub(super) const MAX_BUFFERS_PER_OP: usize = 10;
pub(super) const MAX_BARRIERS: u32 = 16;
pub(super) const MAX_SEMAPHORES_PER_OP: usize = 16;
pub(super) const MAX_THREADS: u32 = 1024;
/// Transfers that a threadblock's operations can hold, however they are put together.
const MAX_TRANSFERS: usize = MAX_OPS * 2 * MAX_BUFFERS_PER_OP;
/// The largest GPU of today, for plans of which it is not known where they run: a B200.
pub(super) const LARGEST: Gpu = Gpu { multiprocessors: 148, ranks: 1 };
/// The executor's offsets and sizes have 32 bits.
const MAX_OFFSET: u64 = u32::MAX as u64;
/// Sizes of calls are multiples of so many bytes for every chunk.
pub(super) const ALIGNMENT: u64 = 16;

/// Whether the executor can run a plan on such a GPU.
pub(super) fn check(plan: &ExecutionPlan, gpu: Gpu, report: &mut Report) {
    if plan.num_threads_per_block == 0 || plan.num_threads_per_block > MAX_THREADS {
        let threads = plan.num_threads_per_block;
        push(report, format!("{threads} threads per block; a block has 1 to {MAX_THREADS}"), None);
    } else {
        let blocks: Vec<u32> = plan.gpus.iter().map(|it| it.threadblocks.len() as u32).collect();
        resident(&blocks, plan.num_threads_per_block, gpu, report);
    }
    if let Some(bytes) = plan.gpus.iter().find_map(|it| misaligned(plan, it)) {
        let message = format!(
            "scratch for calls of up to {} bytes takes {bytes}, whose half is no multiple of {ALIGNMENT}: \
             packets of every second call are misaligned if buffers are so large",
            plan.max_message_size
        );
        report.push(Diagnostic::warning(Finding::Limit, message));
    }
    for gpu in &plan.gpus {
        for block in &gpu.threadblocks {
            Check { gpu: gpu.id, block, report }.block();
        }
    }
    if let Some(at) = plan.gpus.iter().find_map(misnamed) {
        let message = "`ppkt` over a port names its source by the kind of buffer alone: right only for the \
                       first buffers that a process runs a plan with, other data for all others; use `rppkt`";
        report.push(Diagnostic::warning(Finding::Limit, message).from_origin(at));
    }
}

/// Where a GPU posts packets by an operation of which the executor (0.9.0 to 0.10) leaves out where the numbers
/// of this call's buffers begin. `rppkt` adds that.
fn misnamed(gpu: &PlanGpu) -> Option<String> {
    let wrong = |it: &PlanOp| it.name == "ppkt" && it.channel_type == Some(ChannelType::Port);
    gpu.threadblocks.iter().find_map(|block| {
        let place = block.ops.iter().position(wrong)?;
        Some(format!("gpu {}, threadblock {}, operation {place}", gpu.id, block.id))
    })
}

/// Refuses to write what the executor (0.9.0 to 0.10) gets wrong: of a `get` it takes the two offsets for each
/// other's, so that both must be the same.
pub(super) fn check_gets(plan: &ExecutionPlan, report: &mut Report) {
    let moved = |op: &PlanOp| {
        let pairs = op.src_buff.iter().zip(&op.dst_buff);
        op.name == "get" && pairs.into_iter().any(|(src, dst)| src.index != dst.index)
    };
    for gpu in &plan.gpus {
        let blocks = gpu.threadblocks.iter();
        if let Some(block) = blocks.into_iter().find(|it| it.ops.iter().any(moved)) {
            let message = "reads from another place of a peer's buffer than it writes to at home, which the \
                           executor exchanges; let the source write instead";
            let at = format!("gpu {}, threadblock {}", gpu.id, block.id);
            push(report, message.to_owned(), Some(at));
            return;
        }
    }
}

/// The bytes of a GPU's doubled scratch, if its halves are misaligned.
fn misaligned(plan: &ExecutionPlan, gpu: &PlanGpu) -> Option<u64> {
    let chunks = u64::from(if gpu.input_chunks > 0 { gpu.input_chunks } else { gpu.output_chunks });
    let doubled = plan.use_double_scratch_buffer && plan.max_message_size <= MAX_OFFSET;
    if !doubled || chunks == 0 {
        return None;
    }
    let packets = if plan.protocol == "LL" { 2 } else { 1 };
    let chunk = plan.max_message_size.div_ceil(chunks);
    let bytes = chunk * u64::from(gpu.scratch_chunks) * packets * 2;
    let bytes = bytes.next_multiple_of(ALIGNMENT);
    (bytes / 2 % ALIGNMENT != 0).then_some(bytes)
}

/// Whether each threadblock has place for its transfers. Seen from the lanes alone, before any work.
pub(super) fn check_lanes(program: &Program, report: &mut Report) {
    for (index, lane) in program.lanes().iter().enumerate() {
        let transfers = lane.events.len() / 2;
        if transfers > MAX_TRANSFERS {
            let rank = lane.rank;
            let message = format!(
                "lane {index} of rank {rank} has {transfers} transfers; a threadblock does at most \
                 {MAX_TRANSFERS}"
            );
            push(report, message, None);
        }
    }
}

/// Whether all threadblocks of each GPU can run at once. Seen from the lanes alone, before any work.
pub(super) fn check_resident(program: &Program, options: &Options, report: &mut Report) {
    let mut blocks = vec![0u32; program.collective().ranks() as usize];
    for lane in program.lanes().iter().filter(|it| it.kind == LaneKind::Block) {
        blocks[lane.rank.index()] += 1;
    }
    resident(&blocks, options.threads_per_block, options.gpu, report);
}

fn resident(blocks: &[u32], threads: u32, gpu: Gpu, report: &mut Report) {
    let most = gpu.blocks(threads);
    for (rank, count) in blocks.iter().enumerate().filter(|it| *it.1 > most) {
        let shared = match gpu.ranks {
            0 | 1 => String::new(),
            ranks => format!(" if {ranks} ranks share it"),
        };
        let message = format!(
            "rank {rank} has {count} threadblocks; a GPU of {} multiprocessors runs at most {most} of \
             {threads} threads at once{shared}, and blocks wait for one another",
            gpu.multiprocessors
        );
        push(report, message, None);
    }
}

/// The largest call whose every offset has 32 bits, in nccl-tests' sense of size. Packets take twice
/// the room of their data, in scratch that is doubled.
pub(super) fn largest_size(program: &Program) -> Bytes {
    let packets = if program.hints().protocol == Protocol::Ll { 4 } else { 1 };
    let collective = program.collective();
    let ranks = (0..collective.ranks()).map(Rank);
    let chunks = ranks.flat_map(|rank| {
        let scratch = u64::from(program.scratch_chunks(rank)) * packets;
        let (input, output) = (collective.input_chunks(rank), collective.output_chunks(rank));
        [u64::from(input), u64::from(output), scratch]
    });
    let most = chunks.max().unwrap_or(0).max(1);
    let chunk = MAX_OFFSET / most / ALIGNMENT * ALIGNMENT;
    Bytes::new(chunk * u64::from(collective.size_chunks()))
}

/// What a GPU may have in the scratch that plans with `reuse_resources` share, without the flags of packets: the
/// executor has 128 MiB for it, halves them for calls in turn, and packets are twice their data.
const MAX_SHARED_SCRATCH: u64 = 32 << 20;

/// Whether a plan can share its scratch with others (`reuse_resources`), so that the executor sets it up once and
/// not anew for every pair of buffers: it must reach no other memory of its peers, and reach that without proxies.
/// Only for packets: a flag of theirs belongs to one call, whatever plan it is of.
pub(super) fn shares_scratch(plan: &ExecutionPlan) -> bool {
    let memory = |kind: &ChannelType| *kind == ChannelType::Memory;
    plan.gpus.iter().all(|gpu| {
        let channels = gpu.channels.iter().all(|it| memory(&it.channel_type));
        let mut buffers = gpu.remote_buffers.iter();
        channels
            && buffers.all(|it| {
                it.buffer == BufferType::Scratch && it.access_channel_types.iter().all(memory)
            })
    })
}

/// The largest call, in nccl-tests' sense of size, whose packets fit shared scratch.
pub(super) fn shared_size(program: &Program) -> Bytes {
    let collective = program.collective();
    let ranks = (0..collective.ranks()).map(Rank);
    let most = ranks.map(|it| program.scratch_chunks(it)).max().unwrap_or(0).max(1);
    let chunk = MAX_SHARED_SCRATCH / u64::from(most);
    Bytes::new(chunk * u64::from(collective.size_chunks()))
}

/// The largest size of the program's hints that a plan may state: no offset beyond 32 bits, and whole 16
/// bytes for every chunk. The executor sizes scratch by it and halves that for packets; a half that
/// is no multiple of 16 is a misaligned address in every second call.
pub(super) fn stated_size(program: &Program) -> Bytes {
    let largest = largest_size(program);
    let asked = program.hints().max_size.map_or(largest, |it| it.min(largest));
    whole_chunks(asked, program.collective())
}

/// The largest size up to `size` that is whole 16 bytes for every chunk.
#[must_use]
pub fn whole_chunks(size: Bytes, collective: &Collective) -> Bytes {
    let grain = ALIGNMENT * u64::from(collective.size_chunks()).max(1);
    Bytes::new(size.get() / grain * grain)
}

/// What the sizes of calls must be a multiple of. `collective` may be cut finer than the plan, whose thread
/// block groups share chunks.
pub(super) fn divisor(plan: &ExecutionPlan, collective: &Collective) -> u64 {
    let of_plan = plan.gpus.iter().map(|it| it.input_chunks.max(it.output_chunks)).max();
    let ranks = (0..collective.ranks()).map(Rank);
    let of_program = ranks.map(|it| collective.input_chunks(it).max(collective.output_chunks(it)));
    let finer = of_program.max().unwrap_or(1).max(1) / of_plan.unwrap_or(1).max(1);
    ALIGNMENT * u64::from(collective.size_chunks()).div_ceil(u64::from(finer.max(1))).max(1)
}

/// Why a call of the size that is asked for cannot be run; `None` if it can.
pub(super) fn unfit(plan: &ExecutionPlan, program: &Program, size: Bytes) -> Option<Diagnostic> {
    let (asked, largest) = (size.get(), largest_size(program).get());
    if asked > largest {
        let message = format!(
            "{asked} bytes are beyond {largest}, above which the executor's offsets of 32 bits wrap \
             round; make several smaller calls"
        );
        return Some(Diagnostic::error(Finding::TooLarge, message));
    }
    if asked > plan.max_message_size {
        let most = plan.max_message_size;
        let message = format!("the program is for calls of up to {most} bytes, not of {asked}");
        return Some(Diagnostic::error(Finding::Limit, message));
    }
    let divisor = divisor(plan, program.collective());
    (!asked.is_multiple_of(divisor)).then(|| {
        let message = format!(
            "{asked} bytes do not divide by {divisor}: the executor wants {ALIGNMENT} bytes times the \
             chunks that a plan names"
        );
        Diagnostic::error(Finding::Limit, message)
    })
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
