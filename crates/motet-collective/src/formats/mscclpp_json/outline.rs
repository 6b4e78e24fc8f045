//! [`Outline`]: what the executor does for a plan, operation by operation, in what costs time: bytes read
//! and written, signals, waits and meetings of threads.
//!
//! A program that is read from a plan says what moves where and in which order, but no longer in which
//! operations, and nothing of what only keeps calls apart. Whoever prices a plan needs both.

use std::collections::BTreeMap;

use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank};

use super::model::ChannelType;
use super::resolve::{self, Context};
use super::steps::{Counter, Move, Moves, PlanStepKind, Post, Touch};
use super::{collective, limits, model};
use crate::collective::Collective;
use crate::diagnostic::Report;
use crate::program::{Action, Buffer};

/// A plan as its operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What it is for; chunks as the program has them that is read from the plan.
    pub collective: Collective,
    /// Threads of each block.
    pub threads: u32,
    /// Whether it is for calls in place.
    pub in_place: bool,
    pub blocks: Vec<OutlineBlock>,
    /// What the scratch of a rank takes, in chunks; packets take two for their data, and double buffering as
    /// much again.
    pub scratch_chunks: u64,
    /// How many counters there are: ends of channels and semaphores.
    pub counters: u32,
    /// Calls must be a multiple of so many bytes (in nccl-tests' sense of size).
    pub divisor: u64,
    /// The largest call that is not refused.
    pub largest: Bytes,
}

/// The operations of one thread block, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineBlock {
    pub rank: Rank,
    pub steps: Vec<OutlineStep>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutlineStep {
    /// The threads of the block meet (`nop`).
    Meet,
    /// The threads of so many blocks of the GPU meet.
    Barrier { id: u32, blocks: u32 },
    /// Threads move data themselves.
    Move(Work),
    /// Data that a proxy moves; the counter is raised behind it. Packets go to the scratch of `to`, from this
    /// chunk on.
    Post { to: Rank, chunks: u32, raises: Option<u32>, flush: bool, packets: Option<u32> },
    /// Counters are raised: a signal to another GPU or, if `near`, to a block of this one. Unless it is
    /// `relaxed`, not before the other side sees what this block has written. `by_port`: a proxy does it.
    Raise { counters: Vec<u32>, near: bool, relaxed: bool, by_port: bool },
    /// Counters are waited for, each until it was raised once more.
    Take { counters: Vec<u32>, near: bool },
}

/// What the threads of a block do in one operation, for each of `chunks` chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub chunks: u32,
    /// One after the other (copies to several places), or all for each element (a sum).
    pub passes: u32,
    /// Reads and writes of each element in one pass.
    pub reads: u32,
    pub writes: u32,
    /// Of these: from and to other GPUs, all passes together.
    pub read_from: Vec<Rank>,
    pub write_to: Vec<Rank>,
    /// Whether packets are read, which waits until they are there, and written.
    pub reads_packets: bool,
    pub writes_packets: bool,
    /// The packets that are read: who wrote them, as (rank of the scratch, its first chunk).
    pub awaits: Vec<(Rank, u32)>,
    /// The packets that are written, likewise.
    pub provides: Vec<(Rank, u32)>,
}

/// The outline of a plan's text; `None` if it has operations that are not known, or that work in a
/// switch, which has no price yet.
///
/// # Errors
/// If the text is no plan.
pub fn outline(text: &str) -> Result<Option<Outline>, ReadError> {
    let plan = model::parse(text)?;
    let mut report = Report::default();
    let Some(parts) = collective::refinement(&plan, &mut report) else { return Ok(None) };
    let Some(known) = collective::collective(&plan, parts, &mut report) else { return Ok(None) };
    let context = Context { plan: &plan, parts, collective: Some(&known) };
    let steps = resolve::resolve(&context, &mut report);
    let in_switch = steps.blocks.iter().flat_map(|it| &it.steps).any(|it| uses_switch(&it.kind));
    if !report.is_right() || in_switch {
        return Ok(None);
    }
    let mut counters = Counters::default();
    let blocks = steps.blocks.iter().map(|block| {
        let steps = block.steps.iter().flat_map(|it| counters.steps(&it.kind)).collect();
        OutlineBlock { rank: block.rank, steps }
    });
    let blocks = blocks.collect();
    let divisor = limits::divisor(&plan, &known);
    Ok(Some(Outline {
        divisor,
        collective: known,
        threads: plan.num_threads_per_block,
        in_place: plan.inplace,
        blocks,
        scratch_chunks: scratch_chunks(&plan, parts),
        counters: counters.numbers.len() as u32,
        largest: Bytes::new(plan.max_message_size),
    }))
}

/// What the scratch of the rank takes that has most, in chunks of the program: `parts` to one of the plan.
fn scratch_chunks(plan: &model::ExecutionPlan, parts: u32) -> u64 {
    let most = plan.gpus.iter().map(|it| it.scratch_chunks).max().unwrap_or(0);
    let packets = if plan.protocol == "LL" { 2 } else { 1 };
    let buffers = if plan.use_double_scratch_buffer { 2 } else { 1 };
    u64::from(most) * u64::from(parts) * packets * buffers
}

fn uses_switch(kind: &PlanStepKind) -> bool {
    let PlanStepKind::Moves(moves) = kind else { return false };
    let ends = moves.moves.iter().flat_map(|it| [it.transfer.src, it.transfer.dst]);
    ends.into_iter().any(|it| it.buffer == Buffer::Switch)
}

/// Counters by number, in the order in which they are met.
#[derive(Default)]
struct Counters {
    numbers: BTreeMap<Counter, u32>,
}

impl Counters {
    fn number(&mut self, counter: Counter) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(counter).or_insert(next)
    }

    fn touches(&mut self, touches: &[Touch]) -> (Vec<u32>, bool) {
        let near = touches.iter().any(|it| matches!(it.counter, Counter::Semaphore { .. }));
        (touches.iter().map(|it| self.number(it.counter)).collect(), near)
    }

    fn steps(&mut self, kind: &PlanStepKind) -> Vec<OutlineStep> {
        match kind {
            PlanStepKind::Sync => vec![OutlineStep::Meet],
            PlanStepKind::Barrier { id, blocks } => {
                vec![OutlineStep::Barrier { id: *id, blocks: *blocks }]
            }
            PlanStepKind::Moves(moves) => vec![OutlineStep::Move(work(moves))],
            PlanStepKind::Posts(posts) => {
                let post = |it: &Post| OutlineStep::Post {
                    to: it.end.peer,
                    chunks: it.what.transfer.count,
                    raises: it.signal.map(|it| self.number(it)),
                    flush: it.flush,
                    packets: it.what.writes_packets.then_some(it.what.transfer.dst.offset),
                };
                let posted: Vec<OutlineStep> = posts.iter().map(post).collect();
                looked_at(posts).map(OutlineStep::Move).into_iter().chain(posted).collect()
            }
            PlanStepKind::Raise(touches) => {
                let (counters, near) = self.touches(touches);
                let relaxed = touches.iter().all(|it| it.relaxed);
                let port = |it: &Touch| it.end.is_some_and(|it| it.kind == ChannelType::Port);
                let by_port = touches.iter().any(port);
                vec![OutlineStep::Raise { counters, near, relaxed, by_port }]
            }
            PlanStepKind::Take(touches) => {
                let (counters, near) = self.touches(touches);
                vec![OutlineStep::Take { counters, near }]
            }
        }
    }
}

/// What threads do before packets are posted: they look at all of them, until all are there.
fn looked_at(posts: &[Post]) -> Option<Work> {
    let Move { transfer, .. } = posts.iter().map(|it| it.what).find(|it| it.reads_packets)?;
    Some(Work {
        chunks: transfer.count,
        passes: 1,
        reads: 1,
        reads_packets: true,
        awaits: vec![(transfer.src.rank, transfer.src.offset)],
        ..Work::default()
    })
}

fn work(moves: &Moves) -> Work {
    let mut work = Work::default();
    let Some(first) = moves.moves.first() else { return work };
    work.chunks = moves.moves.iter().map(|it| it.transfer.count).max().unwrap_or(0);
    for it in &moves.moves {
        remote(&mut work, it);
    }
    if !moves.chained {
        work.passes = moves.moves.len() as u32;
        (work.reads, work.writes) = (1, 1);
        return work;
    }
    work.passes = 1;
    let sum = first.transfer.dst;
    let added = moves.moves.iter().filter(|it| it.transfer.dst == sum).count() as u32;
    // Unless it is overwritten first, the destination is one of the summands.
    let own = u32::from(first.transfer.action == Action::Reduce);
    work.reads = added + own;
    work.writes = 1 + moves.moves.len() as u32 - added;
    work
}

/// Notes what one move has to do with other GPUs and with packets.
fn remote(work: &mut Work, it: &Move) {
    let (src, dst) = (it.transfer.src, it.transfer.dst);
    if src.rank != dst.rank {
        match it.transfer.action {
            Action::Reduce => work.read_from.push(src.rank),
            Action::Copy => work.write_to.push(dst.rank),
        }
    }
    if it.reads_packets {
        work.reads_packets = true;
        work.awaits.push((src.rank, src.offset));
    }
    if it.writes_packets {
        work.writes_packets = true;
        work.provides.push((dst.rank, dst.offset));
    }
}

impl Outline {
    /// Thread blocks of the rank that has most.
    #[must_use]
    pub fn most_blocks(&self) -> u32 {
        let mut counts = vec![0u32; self.collective.ranks() as usize];
        for block in &self.blocks {
            counts[block.rank.index()] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// Whether the executor takes a call of this size.
    #[must_use]
    pub const fn takes(&self, size: Bytes) -> bool {
        size.get().is_multiple_of(self.divisor) && size.get() <= self.largest.get()
    }
}
