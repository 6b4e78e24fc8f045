//! [`Job::iteration`]: builds the DAG of one training step of a job.
//!
//! Each stage runs its passes in the order of [`crate::schedule`]. Stages are advanced as soon as the input of their next
//! pass exists, so that every operation is listed after those it waits for. The operations of a pass are made in `layers` (tensor,
//! context and expert parallelism), `data` (gathering, reducing, the optimizer) and `hops` (messages between stages).

mod data;
mod hops;
mod layers;

pub(crate) use data::SCALAR;
pub(crate) use layers::{LOSS_BYTES, LOSS_SUMS};

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_graph::Rows;
use motet_units::Bytes;

use crate::iteration::{Communication, Iteration, Operation, Phase, Work};
use crate::job::Job;
use crate::layout::{Group, Parallelism, Reduction};
use crate::model::Part;
use crate::schedule::{Direction, Pass, order};

/// A deadlock between pipeline stages: a fault in Motet, since no schedule allows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stages of the pipeline wait for each other with {left} passes left; this is a fault in Motet"
)]
pub struct Stuck {
    left: usize,
}

impl Job {
    /// Step number `step` of the job, from 0. Steps differ only under local SGD.
    pub fn iteration(&self, step: u32) -> Result<Iteration, Stuck> {
        let micro_batches = self.micro_batches();
        let stages = 0..self.layout().pp;
        let orders: Vec<_> = stages.map(|it| order(self.layout(), it, micro_batches)).collect();
        let mut left: usize = orders.iter().map(Vec::len).sum();
        let mut orders: Vec<_> = orders.into_iter().map(|it| it.into_iter().peekable()).collect();
        let mut builder = Builder::new(self);
        while left > 0 {
            let before = left;
            for (stage, passes) in orders.iter_mut().enumerate() {
                while let Some(pass) = passes.next_if(|it| builder.is_ready(stage as u32, *it)) {
                    builder.pass(stage as u32, pass);
                    left -= 1;
                }
            }
            if left == before {
                return Err(Stuck { left });
            }
        }
        builder.optimizer(step);
        Ok(Iteration { operations: builder.operations, waits: builder.waits })
    }
}

/// The stage, phase and so on that new operations belong to.
#[derive(Clone, Copy)]
struct Context {
    stage: u32,
    phase: Phase,
    part: Option<Part>,
    micro_batch: Option<u32>,
}

/// The last operations of one stage so far, behind which new ones are added.
#[derive(Clone, Default)]
struct Ends {
    /// The last operation of the stage's main line: compute, and the communication that compute waits for.
    line: Option<u32>,
    /// The last data-parallel communication.
    data: Option<u32>,
    /// The last message sent.
    sent: Option<u32>,
    /// Further operations that the next one of the main line must wait for.
    pending: Vec<u32>,
    /// The last communication that gathered each part, where parameters are sharded.
    gathered: BTreeMap<Part, u32>,
}

struct Builder<'a> {
    job: &'a Job,
    operations: Vec<Operation>,
    waits: Rows,
    ends: Vec<Ends>,
    /// The message operations sent so far, by direction, receiving chunk (counted over all stages) and micro-batch.
    hops: BTreeMap<hops::Key, u32>,
    /// Messages that are ready but wait for the opposite message with which they are exchanged.
    unpaired: BTreeMap<hops::Key, hops::Message>,
}

impl<'a> Builder<'a> {
    fn new(job: &'a Job) -> Self {
        let ends = vec![Ends::default(); job.layout().pp as usize];
        let waits = Rows::default();
        let (hops, unpaired) = (BTreeMap::new(), BTreeMap::new());
        Self { job, operations: Vec::new(), waits, ends, hops, unpaired }
    }

    fn ends(&mut self, stage: u32) -> &mut Ends {
        &mut self.ends[stage as usize]
    }

    /// Adds an operation that waits for others.
    fn push(&mut self, context: Context, work: Work, waits: impl IntoIterator<Item = u32>) -> u32 {
        let Context { stage, phase, part, micro_batch } = context;
        let id = self.operations.len() as u32;
        self.operations.push(Operation { stage, phase, part, micro_batch, work });
        self.waits.push_row(waits);
        id
    }

    /// Adds an operation at the end of a stage's line.
    fn push_line(&mut self, context: Context, work: Work) {
        let ends = self.ends(context.stage);
        let mut waits = std::mem::take(&mut ends.pending);
        waits.extend(ends.line);
        let id = self.push(context, work, waits);
        self.ends(context.stage).line = Some(id);
    }

    /// Adds a communication to a stage's line, unless the group is one rank.
    fn talk(
        &mut self,
        context: Context,
        parallelism: Parallelism,
        kind: CollectiveKind,
        group: Group,
        bytes: Bytes,
    ) {
        if self.job.layout().size(group) > 1 {
            let it = Communication { parallelism, kind, group, bytes };
            self.push_line(context, Work::Communicate(it));
        }
    }

    /// One micro-batch through one chunk.
    fn pass(&mut self, stage: u32, pass: Pass) {
        let hop = self.input(stage, pass).and_then(|it| self.hops.get(&it).copied());
        self.ends(stage).pending.extend(hop);
        let mut parts = self.job.parts(stage, pass.chunk);
        let phase = match pass.direction {
            Direction::Forward => Phase::Forward,
            Direction::Backward => Phase::Backward,
            Direction::Weights => Phase::Weights,
        };
        if pass.direction != Direction::Forward {
            parts.reverse();
        }
        let context = Context { stage, phase, part: None, micro_batch: Some(pass.micro_batch) };
        let at = |part: &Part| Context { part: Some(*part), ..context };
        // Parameters are prefetched one part ahead; those of the first part when the input has arrived.
        let head = parts.iter().filter(|it| **it == Part::Head && self.gathers_head_first());
        let ahead: Vec<Part> = head.chain(parts.first()).copied().collect();
        if let Some(first) = ahead.first() {
            self.pack_first(at(first), *first);
        }
        for part in &ahead {
            self.gather(at(part), *part);
        }
        for (index, part) in parts.iter().enumerate() {
            if let Some(next) = parts.get(index + 1) {
                self.gather(at(next), *next);
            }
            let gathered = self.ends(stage).gathered.get(part).copied();
            self.ends(stage).pending.extend(gathered);
            self.part(at(part), *part);
            if self.reduction() == Reduction::InPass {
                self.reduce(at(part), *part, pass);
            }
        }
        if self.reduction() == Reduction::AfterSend {
            self.send(context, pass);
        }
        if self.reduction() != Reduction::InPass {
            for part in &parts {
                self.reduce(at(part), *part, pass);
            }
        }
        if self.reduction() != Reduction::AfterSend {
            self.send(context, pass);
        }
    }
}
