//! Messages between the stages of a pipeline.
//!
//! In 1F1B a stage sends an activation to the next stage and receives a gradient from it about the same time.
//! Both frameworks that we know post the two as one exchange (PyTorch's `Schedule1F1B`, Megatron-LM's
//! `send_forward_recv_backward`), so that neither message starts before both are ready. That does not delay
//! compute, because either stage uses what it receives only after it has computed what it sends; but it
//! decides when the rail is used. Other schedules send each message as soon as it is ready.

use motet_collective::CollectiveKind;

use super::{Builder, Context};
use crate::iteration::{Communication, Work};
use crate::layout::{Group, Parallelism, Reduction, Schedule};
use crate::schedule::{Direction, Pass};

/// A message: its direction, the chunk that it goes to (over all stages) and its micro-batch.
pub(super) type Key = (Direction, u32, u32);

/// A message that is ready to go.
pub(super) struct Message {
    context: Context,
    /// The operations of its own stage that it waits for.
    waits: Vec<u32>,
}

impl Builder<'_> {
    /// The chunk's number along the whole pipeline.
    const fn place(&self, stage: u32, chunk: u32) -> u32 {
        chunk * self.job.layout().pp + stage
    }

    /// The message that a pass needs as its input. Forward passes of the first chunk and backward passes of
    /// the last chunk need none, nor do passes for gradients of weights.
    pub(super) fn input(&self, stage: u32, pass: Pass) -> Option<Key> {
        let here = self.place(stage, pass.chunk);
        let comes = match pass.direction {
            Direction::Forward => here > 0,
            Direction::Backward => here + 1 < self.job.chunks(),
            Direction::Weights => false,
        };
        comes.then_some((pass.direction, here, pass.micro_batch))
    }

    pub(super) fn is_ready(&self, stage: u32, pass: Pass) -> bool {
        self.input(stage, pass).is_none_or(|it| self.hops.contains_key(&it))
    }

    /// Sends activations to the next chunk, or their gradients to the previous one. A message that is
    /// exchanged for another is kept until that one is ready too.
    pub(super) fn send(&mut self, context: Context, pass: Pass) {
        let here = self.place(context.stage, pass.chunk);
        let to = match pass.direction {
            Direction::Forward => Some(here + 1).filter(|it| *it < self.job.chunks()),
            Direction::Backward => here.checked_sub(1),
            Direction::Weights => None,
        };
        let Some(to) = to else { return };
        let key = (pass.direction, to, pass.micro_batch);
        let reduced = self.reduction() == Reduction::BeforeSend;
        let ends = self.ends(context.stage);
        let data = ends.data.filter(|_| reduced && pass.direction == Direction::Backward);
        let message = Message { context, waits: ends.line.into_iter().chain(data).collect() };
        match self.partner(key) {
            None => self.post(key, &message, &[]),
            Some(other) => match self.unpaired.remove(&other) {
                None => {
                    self.unpaired.insert(key, message);
                }
                Some(theirs) => {
                    self.post(other, &theirs, &message.waits);
                    self.post(key, &message, &theirs.waits);
                }
            },
        }
    }

    /// The message that goes the other way in the same exchange, if there is one. The activation of
    /// micro-batch i is exchanged for the gradient of micro-batch i − n, where n is how many forward passes
    /// the receiver does before its first backward pass.
    fn partner(&self, (direction, to, micro_batch): Key) -> Option<Key> {
        let layout = self.job.layout();
        if layout.schedule != Schedule::OneForwardOneBackward || !layout.exchange {
            return None;
        }
        let micro_batches = self.job.micro_batches();
        match direction {
            Direction::Forward => {
                let first = (layout.pp - to).min(micro_batches);
                let back = micro_batch.checked_sub(first)?;
                Some((Direction::Backward, to - 1, back))
            }
            Direction::Backward => {
                let first = (layout.pp - to - 1).min(micro_batches);
                let there = micro_batch + first;
                (there < micro_batches).then_some((Direction::Forward, to + 1, there))
            }
            Direction::Weights => None,
        }
    }

    fn post(&mut self, key: Key, message: &Message, others: &[u32]) {
        let communication = Communication {
            parallelism: Parallelism::Pp,
            kind: CollectiveKind::SendRecv,
            group: Group::Hop { to: key.1 % self.job.layout().pp },
            bytes: self.job.hop(),
        };
        let waits = message.waits.iter().chain(others).copied();
        let id = self.push(message.context, Work::Communicate(communication), waits);
        self.ends(message.context.stage).sent = Some(id);
        self.hops.insert(key, id);
    }
}
