//! [`Iteration`]: one training step as a DAG of compute and communication.
//!
//! Ranks of one pipeline stage do the same at the same time, each in its own groups, so one of them
//! represents all: the DAG has one line of operations per *stage*, and 16,384 GPUs in 16 stages cost as much
//! as 16. Which ranks take part in a communication of a given rank is
//! [`Layout::members`](crate::layout::Layout::members). An operation waits only for operations before it in
//! the list, so the list itself is a valid order of execution.
//!
//! Dependencies: compute of a stage is one line, in the order of [`crate::schedule`]. Communication of
//! tensor, context and expert parallelism is in that line, because the next operator needs its result.
//! Data-parallel communication has a line of its own beside it: parameters are gathered while the previous
//! part computes; gradients are reduced while the next part computes, or all of them after the pass. Messages
//! between stages (hops) wait for their sender's compute, and the receiver's compute for them; in 1F1B an
//! activation and the gradient that goes the other way are exchanged at once.
//!
//! [`crate::build`] makes the DAG; [`crate::closed_form`] computes by formula what its sums must be.

use motet_collective::CollectiveKind;
use motet_graph::Rows;
use motet_units::{Bytes, Duration};

use crate::gpu::Gpu;
use crate::layout::{Group, Layout, Parallelism};
use crate::model::Part;

/// Part of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Forward,
    /// Gradients of inputs, and of weights too unless the schedule computes these separately.
    Backward,
    /// Gradients of weights, if the schedule computes them separately.
    Weights,
    Optimizer,
}

/// A communication of one rank of a stage with its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Communication {
    pub parallelism: Parallelism,
    pub kind: CollectiveKind,
    pub group: Group,
    /// Size in nccl-tests' sense: the whole array for AllGather and ReduceScatter, the buffer for
    /// AllReduce, what one rank sends in all (to itself too) for AllToAll, the message for SendRecv.
    pub bytes: Bytes,
}

impl Communication {
    /// The bytes that a rank passes to the call, which is what traces record: its shard for an AllGather, all
    /// otherwise.
    #[must_use]
    pub fn input(&self, layout: &Layout) -> Bytes {
        match self.kind {
            CollectiveKind::AllGather => self.bytes.div_ceil(u64::from(layout.size(self.group))),
            _ => self.bytes,
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Floating-point operations, and bytes of memory read and written where those are what takes time.
    Compute {
        flops: u64,
        memory: Bytes,
    },
    /// Time of the host for which the GPU waits.
    Host(Duration),
    Communicate(Communication),
}

/// One node of the DAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The stage whose ranks do it; for a hop the sender's stage, for groups over stages the first stage of
    /// the group.
    pub stage: u32,
    pub phase: Phase,
    /// The part of the model that it belongs to; `None` if it belongs to no single part.
    pub part: Option<Part>,
    pub micro_batch: Option<u32>,
    pub work: Work,
}

impl Operation {
    /// The communication, if it is one.
    #[must_use]
    pub const fn communication(&self) -> Option<&Communication> {
        match &self.work {
            Work::Communicate(it) => Some(it),
            Work::Compute { .. } | Work::Host(_) => None,
        }
    }

    /// The time of compute or host work; 0 for communication, whose time the simulation finds.
    #[must_use]
    pub fn compute_time(&self, gpu: &Gpu) -> Duration {
        match self.work {
            Work::Compute { flops, memory } => gpu.time(flops, memory),
            Work::Host(time) => time,
            Work::Communicate(_) => Duration::ZERO,
        }
    }
}

/// One step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    pub(crate) operations: Vec<Operation>,
    /// For each operation, those that it waits for, all of them before it.
    pub(crate) waits: Rows,
}

impl Iteration {
    /// All operations, each after what it waits for.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations that operation `index` waits for.
    #[must_use]
    pub fn waits(&self, index: usize) -> &[u32] {
        self.waits.row(index)
    }

    /// All communications, with the number of the operation.
    pub fn communications(&self) -> impl Iterator<Item = (usize, &Operation, &Communication)> {
        let all = self.operations.iter().enumerate();
        all.filter_map(|(index, it)| it.communication().map(|what| (index, it, what)))
    }

    /// How long the step would take if communication took no time: the least that any network reaches.
    #[must_use]
    pub fn compute_bound(&self, gpu: &Gpu) -> Duration {
        let mut ends: Vec<Duration> = Vec::with_capacity(self.operations.len());
        for (index, it) in self.operations.iter().enumerate() {
            let start = self.waits(index).iter().map(|before| ends[*before as usize]).max();
            ends.push(start.unwrap_or(Duration::ZERO) + it.compute_time(gpu));
        }
        ends.into_iter().max().unwrap_or(Duration::ZERO)
    }
}
