//! The lists that operations refer into: channels and remote buffers, of each GPU and, by
//! position, of each threadblock.

use std::collections::BTreeMap;

use motet_units::Rank;

use super::model::{ChannelType, ExecutionPlan, PlanGpu, Threadblock};
use super::steps::{ChannelEnd, Counter};
use super::switch::{self, SwitchGroup};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::Buffer;

/// A buffer of another GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) rank: Rank,
    pub(super) buffer: Buffer,
}

/// The lists of one GPU. Entries that are wrong in the file are `None`, so that positions stay.
#[derive(Debug)]
pub(super) struct GpuTable {
    memory: Vec<Option<ChannelEnd>>,
    port: Vec<Option<ChannelEnd>>,
    switch: Vec<Option<SwitchGroup>>,
    remote: Vec<(Option<Remote>, Vec<ChannelType>)>,
}

/// The lists of one threadblock, by what its operations call them.
#[derive(Debug, Default)]
pub(super) struct BlockTable {
    memory: Vec<Option<ChannelEnd>>,
    port: Vec<Option<ChannelEnd>>,
    switch: Vec<Option<SwitchGroup>>,
    memory_buffers: Vec<Option<Remote>>,
    port_buffers: Vec<Option<Remote>>,
}

impl BlockTable {
    /// Channel `index` of the threadblock; the outer `None` if there is none.
    pub(super) fn channel(&self, kind: ChannelType, index: u32) -> Option<Option<ChannelEnd>> {
        let list = if kind == ChannelType::Port { &self.port } else { &self.memory };
        list.get(index as usize).copied()
    }

    /// Switch channel `index` of the threadblock; the outer `None` if there is none.
    pub(super) fn switch(&self, index: u32) -> Option<Option<SwitchGroup>> {
        self.switch.get(index as usize).cloned()
    }

    pub(super) fn buffer(&self, kind: ChannelType, index: u32) -> Option<Option<Remote>> {
        let port = kind == ChannelType::Port;
        let list = if port { &self.port_buffers } else { &self.memory_buffers };
        list.get(index as usize).copied()
    }
}

/// The tables of all GPUs; reports channels and buffers of ranks that do not exist, and channels
/// that one side has more of than the other.
pub(super) fn gpus(plan: &ExecutionPlan, report: &mut Report) -> Vec<GpuTable> {
    let mut counts: BTreeMap<(ChannelType, u32, u32), u32> = BTreeMap::new();
    let mut tables = Vec::with_capacity(plan.gpus.len());
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        tables.push(gpu_table(plan, rank as u32, gpu, &mut counts, report));
    }
    for ((kind, rank, peer), count) in &counts {
        let back = counts.get(&(*kind, *peer, *rank)).copied().unwrap_or(0);
        // The executor makes the missing ends up, but nothing can use them.
        if *count > back {
            let message = format!(
                "gpu {rank} has {count} {} channels to gpu {peer}, which has {back} back",
                kind.name()
            );
            report.push(Diagnostic::warning(Finding::Mismatch, message));
        }
    }
    tables
}

fn gpu_table(
    plan: &ExecutionPlan,
    rank: u32,
    gpu: &PlanGpu,
    counts: &mut BTreeMap<(ChannelType, u32, u32), u32>,
    report: &mut Report,
) -> GpuTable {
    let ranks = plan.gpus.len() as u64;
    let (switch, unsound) = switch::groups(gpu, rank, ranks);
    let mut table = GpuTable { memory: Vec::new(), port: Vec::new(), switch, remote: Vec::new() };
    let mut wrong = |message: String| {
        let diagnostic = Diagnostic::error(Finding::OutOfRange, message);
        report.push(diagnostic.from_origin(format!("gpu {rank}")));
    };
    for message in unsound {
        wrong(message);
    }
    for channel in &gpu.channels {
        let kind = channel.channel_type;
        let list = match kind {
            ChannelType::Memory => &mut table.memory,
            ChannelType::Port => &mut table.port,
            ChannelType::None | ChannelType::Switch => continue,
        };
        for peer in &channel.connected_to {
            if *peer == rank || u64::from(*peer) >= ranks {
                wrong(format!("a channel is connected to gpu {peer}, which is not another gpu"));
                list.push(None);
                continue;
            }
            let count = counts.entry((kind, rank, *peer)).or_insert(0);
            let (rank, peer) = (Rank(rank), Rank(*peer));
            list.push(Some(ChannelEnd { rank, kind, peer, ordinal: *count }));
            *count += 1;
        }
    }
    for buffer in &gpu.remote_buffers {
        let known = buffer.rank != rank && u64::from(buffer.rank) < ranks;
        if !known {
            wrong(format!("a remote buffer is at gpu {}, which is not another gpu", buffer.rank));
        }
        let remote = Remote { rank: Rank(buffer.rank), buffer: buffer.buffer.into() };
        table.remote.push((known.then_some(remote), buffer.access_channel_types.clone()));
    }
    table
}

/// The table of one threadblock; reports references to what is not in the GPU's lists.
pub(super) fn block(
    table: &GpuTable,
    block: &Threadblock,
    at: &str,
    report: &mut Report,
) -> BlockTable {
    let mut wrong = |message: String| {
        report.push(Diagnostic::error(Finding::OutOfRange, message).from_origin(at));
    };
    let mut own = BlockTable::default();
    for refs in &block.channels {
        let kind = refs.channel_type;
        if kind == ChannelType::Switch {
            for id in &refs.channel_ids {
                let group = table.switch.get(*id as usize);
                if group.is_none() {
                    wrong(format!("switch channel {id} of {} does not exist", table.switch.len()));
                }
                own.switch.push(group.cloned().flatten());
            }
            continue;
        }
        let (from, to) = match kind {
            ChannelType::Memory => (&table.memory, &mut own.memory),
            ChannelType::Port => (&table.port, &mut own.port),
            ChannelType::None | ChannelType::Switch => continue,
        };
        for id in &refs.channel_ids {
            let end = from.get(*id as usize);
            if end.is_none() {
                wrong(format!("{} channel {id} of {} does not exist", kind.name(), from.len()));
            }
            to.push(end.copied().flatten());
        }
    }
    for refs in &block.remote_buffer_refs {
        let kind = refs.access_channel_type;
        let to = match kind {
            ChannelType::Memory => &mut own.memory_buffers,
            ChannelType::Port => &mut own.port_buffers,
            ChannelType::None | ChannelType::Switch => continue,
        };
        for id in &refs.remote_buffer_ids {
            let buffer = match table.remote.get(*id as usize) {
                Some((buffer, access)) if access.contains(&kind) => *buffer,
                Some(_) => {
                    wrong(format!("remote buffer {id} has no access by {} channel", kind.name()));
                    None
                }
                None => {
                    let buffers = table.remote.len();
                    wrong(format!("remote buffer {id} of {buffers} does not exist"));
                    None
                }
            };
            to.push(buffer);
        }
    }
    own
}

/// Every counter of the plan, with its start value.
pub(super) fn counters(plan: &ExecutionPlan, tables: &[GpuTable]) -> BTreeMap<Counter, i64> {
    let ends = tables.iter().flat_map(|it| it.memory.iter().chain(&it.port).flatten());
    let mut counters: BTreeMap<Counter, i64> = ends.map(|it| (Counter::Inbound(*it), 0)).collect();
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        for (id, semaphore) in gpu.semaphores.iter().enumerate() {
            let counter = Counter::Semaphore { rank: Rank::from_index(rank), id: id as u32 };
            counters.insert(counter, i64::from(semaphore.init_value));
        }
    }
    counters
}
