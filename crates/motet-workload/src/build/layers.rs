//! The operations of a pass through one part of the model: compute, and the communication of tensor, context
//! and expert parallelism that compute waits for.
//!
//! Tensor parallelism surrounds a layer's two blocks, attention and feed-forward. With sequence parallelism a
//! block begins with an AllGather of activations along the sequence and ends with a ReduceScatter; in the
//! backward pass it begins with the AllGather of the gradient and ends with the ReduceScatter. Without
//! sequence parallelism a block ends with an AllReduce, in the forward pass after its output and in the
//! backward pass after its input's gradient. Context parallelism gathers keys and values before attention,
//! again in the backward pass, and scatters their gradients. Expert parallelism sends tokens to their experts
//! and back, in both passes. Here tokens are gathered over tensor-parallel ranks before they are sent to
//! experts, whose matrices are split over those ranks as dense ones are.

use motet_collective::CollectiveKind::{self, AllGather, AllReduce, AllToAll, ReduceScatter};
use motet_units::Bytes;

use super::{Builder, Context};
use crate::iteration::{Phase, Work};
use crate::layout::{Group, Parallelism, Recompute, Schedule};
use crate::model::Part;

/// AllReduces of a loss over a split vocabulary: the largest logit, the wanted one, the sum.
pub(crate) const LOSS_SUMS: u64 = 3;
/// Bytes of each of them per token.
pub(crate) const LOSS_BYTES: u64 = 4;

impl Builder<'_> {
    pub(super) fn part(&mut self, context: Context, part: Part) {
        match (context.phase, part) {
            (Phase::Forward, Part::Embedding) => self.leave(context),
            (Phase::Forward, Part::Layer(_)) => self.layer_forward(context, part),
            (Phase::Forward, Part::Head) => self.head_forward(context),
            (Phase::Backward, Part::Embedding) => self.leave_backward(context),
            (Phase::Backward, Part::Layer(_)) => {
                if self.job.layout().recompute == Recompute::Full {
                    self.layer_forward(context, part);
                }
                self.layer_backward(context, part);
            }
            (Phase::Backward, Part::Head) => {
                self.gather_again(context);
                let flops = self.job.model().flops(part, self.sequence());
                self.compute(context, flops.rest * self.backward_share());
                self.enter_backward(context);
            }
            (Phase::Weights | Phase::Optimizer, _) => {
                let flops = self.job.model().flops(part, self.sequence());
                self.compute(context, flops.projections + flops.rest);
            }
        }
    }

    fn sequence(&self) -> u64 {
        self.job.draft().batch.sequence
    }

    /// The backward pass as a multiple of the forward pass: the gradients of inputs and of weights cost as
    /// much as the forward pass each. Under zero bubble the gradients of weights are a pass of their own.
    fn backward_share(&self) -> u64 {
        if self.job.layout().schedule == Schedule::ZeroBubble { 1 } else { 2 }
    }

    /// Adds compute of so many operations per token, shared by the tensor-parallel ranks.
    fn compute(&mut self, context: Context, per_token: u64) {
        let tokens = u128::from(self.job.tokens());
        let flops = u128::from(per_token) * tokens / u128::from(self.job.layout().tp);
        let flops = u64::try_from(flops).unwrap_or(u64::MAX);
        if flops > 0 {
            self.push_line(context, Work::Compute { flops, memory: Bytes::ZERO });
        }
    }

    fn tensor(&mut self, context: Context, kind: CollectiveKind) {
        let bytes = self.job.activations();
        self.talk(context, Parallelism::Tp, kind, Group::Tensor, bytes);
    }

    /// The communication at the beginning of a tensor-parallel block.
    fn enter(&mut self, context: Context) {
        if self.job.layout().sequence_parallel {
            self.tensor(context, AllGather);
        }
    }

    /// The communication at the end of a tensor-parallel block.
    fn leave(&mut self, context: Context) {
        let split = self.job.layout().sequence_parallel;
        self.tensor(context, if split { ReduceScatter } else { AllReduce });
    }

    fn enter_backward(&mut self, context: Context) {
        self.leave(context);
    }

    fn leave_backward(&mut self, context: Context) {
        self.enter(context);
    }

    /// Gathers the block's input again in the backward pass, if ranks have kept only their pieces of it.
    fn gather_again(&mut self, context: Context) {
        if self.job.layout().recompute == Recompute::Gathered {
            self.enter(context);
        }
    }

    fn context_parallel(&mut self, context: Context, kind: CollectiveKind) {
        let bytes = self.job.keys_and_values();
        self.talk(context, Parallelism::Cp, kind, Group::Context, bytes);
    }

    /// Sends tokens to experts or back; nothing in layers without experts.
    fn exchange_experts(&mut self, context: Context, part: Part) {
        let bytes = self.job.dispatched(part);
        if bytes > Bytes::ZERO {
            self.talk(context, Parallelism::Ep, AllToAll, Group::Expert, bytes);
        }
    }

    fn layer_forward(&mut self, context: Context, part: Part) {
        let flops = self.job.model().flops(part, self.sequence());
        self.enter(context);
        if self.job.layout().cp > 1 {
            self.compute(context, flops.projections);
            self.context_parallel(context, AllGather);
            self.compute(context, flops.scores);
        } else {
            self.compute(context, flops.projections + flops.scores);
        }
        self.leave(context);
        self.enter(context);
        self.exchange_experts(context, part);
        self.compute(context, flops.rest);
        self.exchange_experts(context, part);
        self.leave(context);
    }

    fn layer_backward(&mut self, context: Context, part: Part) {
        let flops = self.job.model().flops(part, self.sequence());
        let share = self.backward_share();
        self.leave_backward(context);
        self.gather_again(context);
        self.exchange_experts(context, part);
        self.compute(context, flops.rest * share);
        self.exchange_experts(context, part);
        self.enter_backward(context);
        self.leave_backward(context);
        self.gather_again(context);
        self.context_parallel(context, AllGather);
        // Both factors of scores are inputs, so the whole backward pass of scores is gradients of inputs.
        if self.job.layout().cp > 1 {
            self.compute(context, flops.scores * 2);
            self.context_parallel(context, ReduceScatter);
            self.compute(context, flops.projections * share);
        } else {
            self.compute(context, flops.scores * 2 + flops.projections * share);
        }
        self.enter_backward(context);
    }

    fn head_forward(&mut self, context: Context) {
        self.enter(context);
        let flops = self.job.model().flops(Part::Head, self.sequence());
        self.compute(context, flops.rest);
        let bytes = Bytes::new(self.job.tokens() * LOSS_BYTES);
        for _ in 0..LOSS_SUMS {
            self.talk(context, Parallelism::Tp, AllReduce, Group::Tensor, bytes);
        }
    }
}
