//! [`Job`]: a consistent combination of model, layout, GPU and batch, and the quantities derived from it.
//!
//! A [`Job`] is made only by [`Draft::check`] (in [`crate::check`]), which refuses inconsistent settings, so that later code may
//! divide without checking. [`crate::iteration`] builds a job's DAG, [`crate::closed_form`] computes its totals by formula.

use motet_units::{Bytes, Duration};

use crate::gpu::Gpu;
use crate::layout::{Group, Layout};
use crate::model::{Model, OnRank, Part, Shape};
use crate::sync::{Compression, SyncMode};

/// What one step trains on, in sequences and tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Tokens per sequence.
    pub sequence: u64,
    /// Sequences per micro-batch.
    pub micro: u64,
    /// Sequences per step, over all data-parallel ranks.
    pub global: u64,
}

/// Bytes per number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Bytes per number of activations, and of parameters as they are gathered and used in compute.
    pub compute: u64,
    /// Bytes per number of gradients as they are summed.
    pub gradients: u64,
}

impl Default for Precision {
    /// BF16, with gradients summed in FP32: what TorchTitan and Megatron-LM do by default.
    fn default() -> Self {
        Self { compute: 2, gradients: 4 }
    }
}

/// The time of the host (the CPU that launches all work) where the GPU has to wait for it.
///
/// During the passes the host runs ahead of the GPU, by milliseconds to whole passes, so its time is hidden. At the end of a step it
/// is not: frameworks read the loss or the gradient norm there, which waits for the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The host's time per communication call at the end of a step; zero by default. 0.15 to 0.2 ms were
    /// measured for the call itself, 0.7 to 1.1 ms from one call to the next (`benches/workload/results`).
    pub call: Duration,
}

/// A training job as asked for; [`Draft::check`] makes it a [`Job`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub model: Model,
    pub gpu: Gpu,
    pub layout: Layout,
    pub batch: Batch,
    pub precision: Precision,
    pub sync: SyncMode,
    pub compression: Compression,
    /// The number of GPUs, if it is known; the layout must use them all.
    pub gpus: Option<u64>,
    pub host: Host,
}

impl Draft {
    /// A job in the usual precision, that synchronizes in every step and compresses nothing.
    #[must_use]
    pub fn new(model: Model, gpu: Gpu, layout: Layout, batch: Batch) -> Self {
        Self {
            model,
            gpu,
            layout,
            batch,
            precision: Precision::default(),
            sync: SyncMode::EveryStep,
            compression: Compression::None,
            gpus: None,
            host: Host::default(),
        }
    }
}

/// A consistent training job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    draft: Draft,
}

impl Job {
    /// Only for [`Draft::check`], after all its checks.
    pub(crate) const fn checked(draft: Draft) -> Self {
        Self { draft }
    }

    #[must_use]
    pub const fn draft(&self) -> &Draft {
        &self.draft
    }

    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.draft.model
    }

    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.draft.layout
    }

    /// Micro-batches per step and data-parallel rank.
    #[must_use]
    pub fn micro_batches(&self) -> u32 {
        let Batch { micro, global, .. } = self.draft.batch;
        u32::try_from(global / (micro * u64::from(self.layout().dp))).unwrap_or(u32::MAX)
    }

    /// Tokens of a micro-batch on one rank: its piece of each sequence.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.draft.batch.sequence / u64::from(self.layout().cp) * self.draft.batch.micro
    }

    /// Chunks of layers along the pipeline, over all stages.
    #[must_use]
    pub const fn chunks(&self) -> u32 {
        self.draft.layout.pp * self.draft.layout.schedule.chunks()
    }

    /// The parts of chunk `chunk` of a stage, in the order of the forward pass.
    #[must_use]
    pub fn parts(&self, stage: u32, chunk: u32) -> Vec<Part> {
        let all = self.chunks();
        let here = chunk * self.layout().pp + stage;
        let (first, last) = (here == 0, here + 1 == all);
        let ends = u32::from(self.layout().ends_count);
        let layers = self.model().layers;
        let each = (layers + 2 * ends) / all;
        let from = (here * each).saturating_sub(ends);
        let to = ((here + 1) * each - ends).min(layers);
        let transformer = matches!(self.model().shape, Shape::Transformer(_));
        let embedding = (first && transformer).then_some(Part::Embedding);
        let head = (last && transformer).then_some(Part::Head);
        embedding.into_iter().chain((from..to).map(Part::Layer)).chain(head).collect()
    }

    /// The bytes of a micro-batch's activations between layers, for all tokens of this rank, whether or not
    /// sequence parallelism splits them.
    #[must_use]
    pub fn activations(&self) -> Bytes {
        match &self.model().shape {
            Shape::Transformer(it) => {
                Bytes::new(self.tokens() * it.hidden * self.draft.precision.compute)
            }
            Shape::Opaque { .. } => Bytes::ZERO,
        }
    }

    /// The bytes that one rank sends to the next stage for a micro-batch: with sequence parallelism its piece
    /// of the activations, otherwise all of them.
    #[must_use]
    pub fn hop(&self) -> Bytes {
        let pieces = if self.layout().sequence_parallel { self.layout().tp } else { 1 };
        Bytes::new(self.activations().get() / u64::from(pieces))
    }

    /// The bytes of the keys and values of all context-parallel ranks together, for one layer and
    /// micro-batch.
    #[must_use]
    pub fn keys_and_values(&self) -> Bytes {
        let Shape::Transformer(it) = &self.model().shape else {
            return Bytes::ZERO;
        };
        let tokens = self.tokens() * u64::from(self.layout().cp);
        let width = it.attention.context_width(u64::from(self.layout().tp));
        Bytes::new(tokens * width * self.draft.precision.compute)
    }

    /// The bytes that one rank sends to experts in one layer, also to its own: each token goes to each of the
    /// experts that it uses.
    #[must_use]
    pub fn dispatched(&self, part: Part) -> Bytes {
        let active = self.model().experts(part).map_or(0, |it| it.active);
        Bytes::new(self.activations().get() * active)
    }

    /// Parameters of a part on one rank. A head that shares the embedding's matrix has a copy of it only if
    /// embedding and head are on different stages.
    #[must_use]
    pub fn on_rank(&self, part: Part) -> OnRank {
        let (tp, ep) = (u64::from(self.layout().tp), u64::from(self.layout().ep));
        let mut here = self.model().on_rank(part, tp, ep);
        if part == Part::Head && self.layout().pp == 1 {
            here.split -= self.model().tied(tp);
        }
        here
    }

    /// Parameters of a part on one rank, by the group that shares them: the data-parallel group or, for
    /// experts, the ranks with the same experts.
    #[must_use]
    pub fn shared(&self, part: Part) -> [(Group, u64); 2] {
        let here = self.on_rank(part);
        [(Group::Data, here.dense()), (Group::ExpertData, here.experts)]
    }

    /// Whether the group has other members and there is anything to send.
    #[must_use]
    pub const fn is_sent(&self, group: Group, numbers: u64) -> bool {
        self.draft.layout.size(group) > 1 && numbers > 0
    }

    /// All parts of a stage, over its chunks.
    #[must_use]
    pub fn stage_parts(&self, stage: u32) -> Vec<Part> {
        let chunks = 0..self.layout().schedule.chunks();
        chunks.flat_map(|chunk| self.parts(stage, chunk)).collect()
    }
}
