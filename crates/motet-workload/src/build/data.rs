//! Data parallelism: gathering parameters before they are used, reducing gradients when they have been
//! computed, and the operations at the end of the step.

use motet_collective::CollectiveKind::{self, AllGather, AllReduce, ReduceScatter};
use motet_units::Bytes;

use super::{Builder, Context};
use crate::iteration::{Communication, Phase, Work};
use crate::layout::{Group, Parallelism, Reduction, Schedule, Sharding};
use crate::model::Part;
use crate::schedule::{Direction, Pass};
use crate::sync::SyncMode;

/// Bytes of an AllReduce of one number: gradient norms and losses are FP32.
pub(crate) const SCALAR: Bytes = Bytes::new(4);
/// Adam reads and writes an FP32 parameter and two moments.
const ADAM_BYTES: u64 = 2 * 3 * 4;

impl Builder<'_> {
    /// Adds a communication to a stage's data-parallel line. It waits for the stage's compute so far.
    fn push_data(
        &mut self,
        context: Context,
        kind: CollectiveKind,
        group: Group,
        bytes: Bytes,
    ) -> u32 {
        let ends = self.ends(context.stage);
        let mut waits = ends.pending.clone();
        waits.extend(ends.line);
        waits.extend(ends.data);
        let it = Communication { parallelism: Parallelism::Dp, kind, group, bytes };
        let id = self.push(context, Work::Communicate(it), waits);
        self.ends(context.stage).data = Some(id);
        id
    }

    /// Whether a part's parameters must be gathered: they are sharded, and freed after every use or not
    /// gathered yet.
    fn is_to_gather(&mut self, context: Context, part: Part) -> bool {
        let Sharding::Parameters { free, .. } = self.job.layout().sharding else {
            return false;
        };
        let is_there = self.ends(context.stage).gathered.contains_key(&part);
        context.phase != Phase::Weights && (free || !is_there)
    }

    /// Whether the head's parameters are gathered before all others of their stage.
    pub(super) const fn gathers_head_first(&self) -> bool {
        let layout = self.job.layout();
        layout.head_first && matches!(layout.sharding, Sharding::Parameters { free: false, .. })
    }

    /// Gathers a part's parameters if they are sharded and not there.
    pub(super) fn gather(&mut self, context: Context, part: Part) {
        if !self.is_to_gather(context, part) {
            return;
        }
        for (group, numbers) in self.job.shared(part) {
            if self.job.is_sent(group, numbers) {
                let bytes = Bytes::new(numbers * self.job.draft().precision.compute);
                let id = self.push_data(context, AllGather, group, bytes);
                self.ends(context.stage).gathered.insert(part, id);
            }
        }
    }

    /// Before the first gather of a pass the rank's shard is cast and copied into one buffer, and compute
    /// waits for that. The shards of later parts are copied while earlier parts compute, so their copying
    /// takes no time here.
    pub(super) fn pack_first(&mut self, context: Context, part: Part) {
        if !self.is_to_gather(context, part) {
            return;
        }
        let precision = self.job.draft().precision;
        let shard = |(group, numbers): (Group, u64)| {
            let ranks = self.job.layout().size(group);
            if ranks > 1 { numbers.div_ceil(u64::from(ranks)) } else { 0 }
        };
        let numbers: u64 = self.job.shared(part).into_iter().map(shard).sum();
        // The optimizer's FP32 numbers are read (4 bytes) and written in compute precision, which is then
        // copied: read and written once more.
        self.touch(context, numbers * (4 + 3 * precision.compute));
    }

    /// Adds reading and writing of so many bytes of memory to a stage's line.
    fn touch(&mut self, context: Context, bytes: u64) {
        if bytes > 0 {
            let memory = Bytes::new(bytes);
            self.push_line(context, Work::Compute { flops: 0, memory });
        }
    }

    /// When gradients are reduced. Without sharded parameters they are reduced in the pass.
    pub(super) const fn reduction(&self) -> Reduction {
        match self.job.layout().sharding {
            Sharding::Parameters { reduction, .. } => reduction,
            _ => Reduction::InPass,
        }
    }

    /// Reduces a part's gradients if this pass has completed them: after every micro-batch or after the last
    /// one, depending on the sharding.
    pub(super) fn reduce(&mut self, context: Context, part: Part, pass: Pass) {
        let apart = self.job.layout().schedule == Schedule::ZeroBubble;
        let made = if apart { Direction::Weights } else { Direction::Backward };
        let last = pass.micro_batch + 1 == self.job.micro_batches();
        let (kind, due) = match self.job.layout().sharding {
            Sharding::None => (AllReduce, last),
            Sharding::Optimizer => (ReduceScatter, last),
            Sharding::Gradients => (ReduceScatter, true),
            Sharding::Parameters { each, .. } => (ReduceScatter, last || each),
        };
        if pass.direction == made && due && self.job.draft().sync == SyncMode::EveryStep {
            if self.reduction() != Reduction::InPass {
                self.pack_gradients(context, part);
            }
            self.combine(context, part, kind);
        }
    }

    /// Gradients are copied into one buffer as soon as the previous reduction no longer uses it, as FSDP2
    /// does. (During a pass this copying is part of what keeps compute below its peak, and is not counted
    /// separately.)
    fn pack_gradients(&mut self, context: Context, part: Part) {
        // PyTorch's 1F1B first waits until its message has been sent; its other schedules wait for that at
        // the end of the step.
        let waits = self.reduction() == Reduction::AfterSend
            && self.job.layout().schedule == Schedule::OneForwardOneBackward;
        let ends = self.ends(context.stage);
        ends.pending.extend(ends.data);
        ends.pending.extend(ends.sent.filter(|_| waits));
        let sent = |it: &(Group, u64)| self.job.is_sent(it.0, it.1);
        let numbers: u64 = self.job.shared(part).iter().filter(|it| sent(it)).map(|it| it.1).sum();
        self.touch(context, numbers * 2 * self.job.draft().precision.gradients);
    }

    /// Sums a part's gradients, or parameters, over replicas, compressed as the job says.
    fn combine(&mut self, context: Context, part: Part, kind: CollectiveKind) {
        for (group, numbers) in self.job.shared(part) {
            if self.job.is_sent(group, numbers) {
                let (width, ranks) =
                    (self.job.draft().precision.gradients, self.job.layout().size(group));
                let (kind, bytes) = self.job.draft().compression.apply(kind, numbers, width, ranks);
                self.push_data(context, kind, group, bytes);
            }
        }
    }

    /// The end of the step, on all stages.
    pub(super) fn optimizer(&mut self, step: u32) {
        let stages = self.job.layout().pp;
        let at = |stage| Context { stage, phase: Phase::Optimizer, part: None, micro_batch: None };
        for stage in 0..stages {
            // All gradients must have been reduced, and the stage's last message must have been sent.
            let ends = self.ends(stage);
            ends.pending.extend(ends.data);
            ends.pending.extend(ends.sent);
            self.sum_copied(at(stage));
        }
        let tied = self.job.model().tied(self.job.layout().tp.into());
        if tied > 0 && stages > 1 {
            let bytes = Bytes::new(tied * self.job.draft().precision.gradients);
            self.over_stages(at(0), Group::Ends, bytes, &[0, stages - 1]);
        }
        for stage in 0..stages {
            self.norm(at(stage));
        }
        if stages > 1 {
            let all: Vec<u32> = (0..stages).collect();
            self.over_stages(at(0), Group::Pipeline, SCALAR, &all);
        }
        for stage in 0..stages {
            self.update(at(stage), step);
        }
        // Only the last stage knows the loss; its ranks average it for the log.
        self.call(at(stages - 1), Parallelism::Dp, Group::Data, SCALAR);
    }

    /// With sequence parallelism each tensor-parallel rank has seen only a piece of the sequence, so the
    /// gradients of parameters that all these ranks hold (norms, routers) must be summed over them.
    fn sum_copied(&mut self, context: Context) {
        if self.job.layout().sequence_parallel {
            let parts = self.job.stage_parts(context.stage);
            let copied: u64 = parts.into_iter().map(|it| self.job.on_rank(it).copied).sum();
            let bytes = Bytes::new(copied * self.job.draft().precision.gradients);
            self.call(context, Parallelism::Tp, Group::Tensor, bytes);
        }
    }

    /// An AllReduce at the end of a step, before which the GPU waits for the host to call it.
    fn call(&mut self, context: Context, parallelism: Parallelism, group: Group, bytes: Bytes) {
        if self.job.layout().size(group) > 1 {
            self.host(context);
        }
        self.talk(context, parallelism, AllReduce, group, bytes);
    }

    fn host(&mut self, context: Context) {
        let time = self.job.draft().host.call;
        if !time.is_zero() {
            self.push_line(context, Work::Host(time));
        }
    }

    /// A sum over stages: all of them wait for it.
    fn over_stages(&mut self, context: Context, group: Group, bytes: Bytes, stages: &[u32]) {
        let mut waits = Vec::new();
        for stage in stages {
            self.host(Context { stage: *stage, ..context });
            let ends = self.ends(*stage);
            waits.append(&mut ends.pending);
            waits.extend(ends.line);
        }
        let parallelism = Parallelism::Pp;
        let it = Communication { parallelism, kind: AllReduce, group, bytes };
        let id = self.push(context, Work::Communicate(it), waits);
        for stage in stages {
            self.ends(*stage).line = Some(id);
        }
    }

    /// The norm of all gradients, summed over every dimension in which ranks hold different ones; the
    /// sum over stages follows.
    fn norm(&mut self, context: Context) {
        let bytes = self.owned(context.stage) * self.job.draft().precision.gradients;
        self.touch(context, bytes);
        if self.job.layout().sharding == Sharding::None {
            self.call(context, Parallelism::Ep, Group::Expert, SCALAR);
        } else {
            self.call(context, Parallelism::Dp, Group::Data, SCALAR);
        }
        self.call(context, Parallelism::Tp, Group::Tensor, SCALAR);
    }

    /// Numbers that a rank of a stage updates.
    fn owned(&self, stage: u32) -> u64 {
        let sharding = self.job.layout().sharding;
        let owned = |(group, numbers): (Group, u64)| match sharding {
            Sharding::None => numbers,
            _ => numbers.div_ceil(u64::from(self.job.layout().size(group))),
        };
        let parts = self.job.stage_parts(stage);
        parts.into_iter().flat_map(|it| self.job.shared(it)).map(owned).sum()
    }

    /// Updates the parameters, and adds the communication that makes them equal on all replicas.
    fn update(&mut self, context: Context, step: u32) {
        let sharding = self.job.layout().sharding;
        let precision = self.job.draft().precision;
        let parts = self.job.stage_parts(context.stage);
        // Gradients are read and written to be clipped, and read once more.
        let each = ADAM_BYTES + 3 * precision.gradients + precision.compute;
        self.touch(context, self.owned(context.stage) * each);
        let averages = self.job.draft().sync.averages(step);
        for part in parts {
            let context = Context { part: Some(part), ..context };
            if averages {
                self.combine(context, part, AllReduce);
            }
            if matches!(sharding, Sharding::Optimizer | Sharding::Gradients) {
                self.spread(context, part);
            }
        }
    }

    /// Gathers the parameters of which each rank has updated a shard.
    fn spread(&mut self, context: Context, part: Part) {
        for (group, numbers) in self.job.shared(part) {
            if self.job.is_sent(group, numbers) {
                let bytes = Bytes::new(numbers * self.job.draft().precision.compute);
                self.push_data(context, AllGather, group, bytes);
            }
        }
    }
}
