//! [`Job::closed_form`]: calls and bytes of one step by formula, without a DAG.
//!
//! For one rank of a stage with `n` layers, of which `x` have experts, and `m` micro-batches; `A` is a
//! micro-batch's activations on the rank, s·b·h/c numbers, and `P` the rank's parameters:
//!
//! | parallelism | calls and bytes |
//! | --- | --- |
//! | DP | AllReduce of P gradients, once per part |
//! | ZeRO-1 | ReduceScatter of P gradients and AllGather of P parameters, once per part |
//! | ZeRO-2 | the same with m times the ReduceScatters |
//! | ZeRO-3, FSDP | AllGather of P parameters once, or 2m times if freed; ReduceScatter of P gradients once, or m times |
//! | TP with SP | per layer and micro-batch 4 AllGathers and 4 ReduceScatters of A; embedding and head one of each |
//! | TP without | per layer and micro-batch 4 AllReduces of A; embedding and head one |
//! | CP | per layer and micro-batch 2 AllGathers and 1 ReduceScatter of 2·s·b·(kv heads/t)·(head's width) |
//! | EP | per layer with experts and micro-batch 4 AllToAlls of A times the experts per token |
//! | PP | per chunk and micro-batch one message of A (A/t with SP) to the next chunk and one back |
//!
//! Recomputing adds 2 AllGathers per layer (inputs only), or a layer's forward communication once more
//! (full). A loss over a split vocabulary adds 3 AllReduces of a number per token, and the end of the
//! step sums of one number (the gradients' norm, the loss) and of what tensor-parallel ranks hold alike.

use motet_collective::CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv};

use crate::build::{LOSS_BYTES, LOSS_SUMS, SCALAR};
use crate::job::Job;
use crate::layout::{Parallelism, Recompute, Sharding};
use crate::model::{Part, Shape};
use crate::sync::SyncMode;
use crate::volume::Volumes;

/// The numbers that the formulas are made of, for one stage.
struct Stage {
    /// Micro-batches.
    m: u64,
    /// Layers, and those with experts.
    n: u64,
    x: u64,
    embedding: u64,
    head: u64,
    /// Bytes of a micro-batch's activations.
    a: u128,
}

impl Job {
    /// Calls and bytes of one rank of a stage in step number `step`.
    #[must_use]
    pub fn closed_form(&self, stage: u32, step: u32) -> Volumes {
        let parts = self.stage_parts(stage);
        let count = |of: fn(&Part) -> bool| parts.iter().filter(|it| of(it)).count() as u64;
        let batch = self.draft().batch;
        let tokens = u128::from(batch.sequence * batch.micro / u64::from(self.layout().cp));
        let hidden = match &self.model().shape {
            Shape::Transformer(it) => it.hidden,
            Shape::Opaque { .. } => 0,
        };
        let its = Stage {
            m: batch.global / batch.micro / u64::from(self.layout().dp),
            n: count(|it| matches!(it, Part::Layer(_))),
            x: parts.iter().filter(|it| self.model().experts(**it).is_some()).count() as u64,
            embedding: count(|it| *it == Part::Embedding),
            head: count(|it| *it == Part::Head),
            a: tokens * u128::from(hidden * self.draft().precision.compute),
        };
        let mut all = Volumes::default();
        if self.layout().tp > 1 {
            self.tensor_form(&its, &parts, &mut all);
        }
        self.context_form(&its, &mut all);
        self.expert_form(&its, &mut all);
        self.pipeline_form(&its, stage, &mut all);
        self.data_form(&its, &parts, step, &mut all);
        all
    }

    fn tensor_form(&self, its: &Stage, parts: &[Part], all: &mut Volumes) {
        let Stage { m, n, embedding, head, a, .. } = *its;
        let add = |all: &mut Volumes, kind, calls: u64, each: u128| {
            all.add((Parallelism::Tp, kind), calls, u128::from(calls) * each);
        };
        let full = if self.layout().recompute == Recompute::Full { 2 } else { 0 };
        let again = u64::from(self.layout().recompute == Recompute::Gathered);
        if self.layout().sequence_parallel {
            let gathers = n * (4 + full + 2 * again) + head * (1 + again) + embedding;
            add(all, AllGather, m * gathers, a);
            add(all, ReduceScatter, m * (n * (4 + full) + head + embedding), a);
            let copied: u64 = parts.iter().map(|it| self.on_rank(*it).copied).sum();
            add(all, AllReduce, 1, u128::from(copied * self.draft().precision.gradients));
        } else {
            add(all, AllReduce, m * (n * (4 + full) + head + embedding), a);
        }
        add(all, AllReduce, m * head * LOSS_SUMS, u128::from(self.tokens() * LOSS_BYTES));
        add(all, AllReduce, 1, SCALAR.get().into());
    }

    fn context_form(&self, its: &Stage, all: &mut Volumes) {
        let Shape::Transformer(model) = &self.model().shape else { return };
        if self.layout().cp > 1 {
            let batch = self.draft().batch;
            let width = model.attention.context_width(self.layout().tp.into());
            let each = u128::from(batch.sequence * batch.micro)
                * u128::from(width * self.draft().precision.compute);
            let full = u64::from(self.layout().recompute == Recompute::Full);
            let gathers = its.m * its.n * (2 + full);
            all.add((Parallelism::Cp, AllGather), gathers, u128::from(gathers) * each);
            let scatters = its.m * its.n;
            all.add((Parallelism::Cp, ReduceScatter), scatters, u128::from(scatters) * each);
        }
    }

    fn expert_form(&self, its: &Stage, all: &mut Volumes) {
        let Shape::Transformer(model) = &self.model().shape else { return };
        if self.layout().ep > 1 {
            let full = if self.layout().recompute == Recompute::Full { 2 } else { 0 };
            let calls = its.m * its.x * (4 + full);
            let active = model.experts.map_or(0, |it| it.active);
            let bytes = u128::from(calls) * its.a * u128::from(active);
            all.add((Parallelism::Ep, AllToAll), calls, bytes);
            if self.layout().sharding == Sharding::None {
                all.add((Parallelism::Ep, AllReduce), 1, SCALAR.get().into());
            }
        }
    }

    fn pipeline_form(&self, its: &Stage, stage: u32, all: &mut Volumes) {
        let layout = self.layout();
        if layout.pp == 1 {
            return;
        }
        let chunks = u64::from(layout.schedule.chunks());
        let (first, last) = (stage == 0, stage + 1 == layout.pp);
        // Every chunk sends both ways, except that the pipeline's two ends send only one way.
        let sends = its.m * (2 * chunks - u64::from(first) - u64::from(last));
        let pieces = if layout.sequence_parallel { layout.tp } else { 1 };
        let bytes = u128::from(sends) * (its.a / u128::from(pieces));
        all.add((Parallelism::Pp, SendRecv), sends, bytes);
        all.add((Parallelism::Pp, AllReduce), 1, SCALAR.get().into());
        let tied = self.model().tied(layout.tp.into());
        if tied > 0 && (first || last) {
            let bytes = tied * self.draft().precision.gradients;
            all.add((Parallelism::Pp, AllReduce), 1, bytes.into());
        }
    }

    fn data_form(&self, its: &Stage, parts: &[Part], step: u32, all: &mut Volumes) {
        let (layout, precision) = (self.layout(), self.draft().precision);
        // How often parameters are gathered, and gradients (or averages) combined by which collective.
        let (gathers, kind, combined) = match layout.sharding {
            Sharding::None => (0, AllReduce, 1),
            Sharding::Optimizer => (1, ReduceScatter, 1),
            Sharding::Gradients => (1, ReduceScatter, its.m),
            Sharding::Parameters { free, each, .. } => {
                (if free { 2 * its.m } else { 1 }, ReduceScatter, if each { its.m } else { 1 })
            }
        };
        let combined = match self.draft().sync {
            SyncMode::EveryStep => combined,
            it @ SyncMode::Local { .. } => u64::from(it.averages(step)),
        };
        for (group, numbers) in parts.iter().flat_map(|it| self.shared(*it)) {
            if layout.size(group) > 1 && numbers > 0 {
                let gathered = u128::from(gathers) * u128::from(numbers * precision.compute);
                all.add((Parallelism::Dp, AllGather), gathers, gathered);
                let ranks = layout.size(group);
                let packing = self.draft().compression;
                let (kind, bytes) = packing.apply(kind, numbers, precision.gradients, ranks);
                let bytes = u128::from(combined) * u128::from(bytes.get());
                all.add((Parallelism::Dp, kind), combined, bytes);
            }
        }
        if layout.dp * layout.cp > 1 {
            let sums =
                u64::from(layout.sharding != Sharding::None) + u64::from(self.has_loss(parts));
            all.add((Parallelism::Dp, AllReduce), sums, u128::from(sums * SCALAR.get()));
        }
    }

    /// Is the model's end among these parts?
    fn has_loss(&self, parts: &[Part]) -> bool {
        self.model().parts().last().is_some_and(|it| parts.contains(&it))
    }
}
