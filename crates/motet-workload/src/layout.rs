//! [`Layout`]: how a model is distributed over ranks, and the communication groups that follow ([`Group`]).
//!
//! Ranks are numbered as Megatron-LM and TorchTitan number them: tensor-parallel neighbours first,
//! then context, data, and pipeline stages last, so that tensor parallelism stays inside a server and
//! stages lie furthest apart. Expert-parallel groups are neighbours among the data-parallel ranks.

use motet_units::Rank;

/// How many ways a job is split, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Data-parallel ranks (DP): copies of the model, or shards of it.
    pub dp: u32,
    /// Tensor-parallel ranks (TP).
    pub tp: u32,
    /// Pipeline stages (PP).
    pub pp: u32,
    /// Context-parallel ranks (CP): each has a piece of every sequence.
    pub cp: u32,
    /// Expert-parallel ranks (EP), out of the data-parallel ones.
    pub ep: u32,
    /// Whether activations between tensor-parallel blocks are split along the sequence (SP).
    pub sequence_parallel: bool,
    pub sharding: Sharding,
    /// Where sharded parameters are gathered once per step, whether the head's are gathered before all others of its stage (as when the
    /// head is part of FSDP's root module) or in order (as in TorchTitan).
    pub head_first: bool,
    pub schedule: Schedule,
    /// With 1F1B, whether an activation is exchanged together with the gradient in the other direction, instead of being sent as
    /// soon as it is computed.
    pub exchange: bool,
    pub recompute: Recompute,
    /// Whether embedding and head count as a layer each when layers are distributed over stages. In the
    /// training of Llama 3 405B they did, which made 128 of its 126 layers.
    pub ends_count: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            dp: 1,
            tp: 1,
            pp: 1,
            cp: 1,
            ep: 1,
            sequence_parallel: true,
            sharding: Sharding::None,
            head_first: false,
            schedule: Schedule::OneForwardOneBackward,
            exchange: true,
            recompute: Recompute::None,
            ends_count: false,
        }
    }
}

/// What data-parallel ranks split among themselves instead of each holding a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// Nothing: gradients are summed by AllReduce, once per step.
    None,
    /// Optimizer state (ZeRO-1, Megatron-LM's distributed optimizer): gradients by ReduceScatter and
    /// parameters by AllGather, once per step.
    Optimizer,
    /// Gradients too (ZeRO-2): they are reduced after every micro-batch, since none may be kept whole.
    Gradients,
    /// Parameters too (ZeRO-3, FSDP).
    Parameters {
        /// Whether parameters are freed after the forward pass and gathered again for the backward pass, for
        /// every micro-batch; otherwise they are gathered once per step. TorchTitan does the latter under
        /// pipeline parallelism.
        free: bool,
        /// Whether gradients are reduced after every micro-batch instead of once per step.
        each: bool,
        /// When the gradients of a pass are reduced.
        reduction: Reduction,
    },
}

/// When the gradients that a backward pass has made are reduced, where parameters are sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Each part's gradients while the next part computes, as FSDP does by default.
    InPass,
    /// All when the pass is over, and before the pass sends its gradients to the previous stage. PyTorch's
    /// pipelining did so until October 2025: it switched FSDP's own reduction off for every pass, started all
    /// reductions after the last one (`torch/distributed/pipelining/stage.py`: `backward_maybe_with_nosync`),
    /// and let the stream that sends wait for them.
    BeforeSend,
    /// All when the pass is over and has sent its gradients. PyTorch's pipelining does so since
    /// pytorch/pytorch#165106 (`schedules.py`: it waits for messages, then the stage reduces), because
    /// otherwise earlier stages waited for the reduction.
    AfterSend,
}

impl Sharding {
    /// FSDP without a pipeline, as TorchTitan runs it.
    pub const FSDP: Self =
        Self::Parameters { free: true, each: true, reduction: Reduction::InPass };
    /// FSDP in a pipeline, as TorchTitan and today's PyTorch run it.
    pub const FSDP_IN_PIPELINE: Self =
        Self::Parameters { free: false, each: false, reduction: Reduction::AfterSend };
    /// FSDP in a pipeline with PyTorch as it was until October 2025.
    pub const FSDP_IN_PIPELINE_2025: Self =
        Self::Parameters { free: false, each: false, reduction: Reduction::BeforeSend };
}

/// The order in which a pipeline stage processes its micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// 1F1B (PipeDream-flush).
    OneForwardOneBackward,
    /// Each stage has several chunks of layers (Megatron-LM's interleaved 1F1B).
    Interleaved { chunks: u32 },
    /// ZB-H1 of Qi et al. (zero bubble): gradients of weights are computed separately from those of inputs,
    /// and later.
    ZeroBubble,
}

impl Schedule {
    /// Chunks of layers per stage.
    #[must_use]
    pub const fn chunks(self) -> u32 {
        match self {
            Self::Interleaved { chunks } => chunks,
            _ => 1,
        }
    }
}

/// What the backward pass computes again, because it was not kept from the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// Inputs that sequence parallelism had gathered, by gathering them again (Megatron-LM).
    Gathered,
    /// Every layer's forward pass, its collectives included.
    Full,
}

/// The dimension of parallelism that a communication serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parallelism {
    Dp,
    Tp,
    Pp,
    Cp,
    Ep,
}

impl Parallelism {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dp => "DP",
            Self::Tp => "TP",
            Self::Pp => "PP",
            Self::Cp => "CP",
            Self::Ep => "EP",
        }
    }
}

/// A kind of communication group, from the point of view of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Tensor,
    Context,
    /// All ranks with the same parameters: data-parallel and context-parallel ones.
    Data,
    /// The ranks of `Data` that also have the same experts.
    ExpertData,
    Expert,
    /// A rank and its counterpart in another stage.
    Hop {
        to: u32,
    },
    /// The counterparts in all stages.
    Pipeline,
    /// The counterparts in the first and the last stage.
    Ends,
}

/// A rank's index in every dimension of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    tp: u32,
    cp: u32,
    dp: u32,
    pp: u32,
}

impl Layout {
    /// Ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        [self.dp, self.tp, self.pp, self.cp].map(u64::from).iter().product()
    }

    /// How many ranks a group has.
    #[must_use]
    pub const fn size(&self, group: Group) -> u32 {
        match group {
            Group::Tensor => self.tp,
            Group::Context => self.cp,
            Group::Data => self.dp * self.cp,
            Group::ExpertData => self.dp * self.cp / self.ep,
            Group::Expert => self.ep,
            Group::Hop { .. } => 2,
            Group::Pipeline => self.pp,
            Group::Ends => {
                if self.pp > 1 {
                    2
                } else {
                    1
                }
            }
        }
    }

    /// Whether ranks of `stage` take part in a communication whose operation is listed under stage `listed`.
    /// A message counts for its sender only.
    #[must_use]
    pub const fn takes_part(&self, group: Group, listed: u32, stage: u32) -> bool {
        match group {
            Group::Pipeline => true,
            Group::Ends => stage == 0 || stage + 1 == self.pp,
            _ => listed == stage,
        }
    }

    /// The stage of a rank.
    #[must_use]
    pub const fn stage(&self, rank: Rank) -> u32 {
        self.place(rank).pp
    }

    const fn place(&self, rank: Rank) -> Place {
        let (tp, rest) = (rank.0 % self.tp, rank.0 / self.tp);
        let (cp, rest) = (rest % self.cp, rest / self.cp);
        Place { tp, cp, dp: rest % self.dp, pp: rest / self.dp }
    }

    const fn rank(&self, place: Place) -> Rank {
        Rank(place.tp + self.tp * (place.cp + self.cp * (place.dp + self.dp * place.pp)))
    }

    /// The ranks of the group that `rank` belongs to, in order.
    #[must_use]
    pub fn members(&self, group: Group, rank: Rank) -> Vec<Rank> {
        let here = self.place(rank);
        let at = |place: Place| self.rank(place);
        let data = |step: u32, first: u32, count: u32| {
            let places = (0..count).map(move |it| first + it * step);
            places.flat_map(move |dp| (0..self.cp).map(move |cp| Place { cp, dp, ..here }))
        };
        match group {
            Group::Tensor => (0..self.tp).map(|tp| at(Place { tp, ..here })).collect(),
            Group::Context => (0..self.cp).map(|cp| at(Place { cp, ..here })).collect(),
            Group::Data => data(1, 0, self.dp).map(at).collect(),
            Group::ExpertData => {
                data(self.ep, here.dp % self.ep, self.dp / self.ep).map(at).collect()
            }
            Group::Expert => {
                let first = here.dp / self.ep * self.ep;
                (first..first + self.ep).map(|dp| at(Place { dp, ..here })).collect()
            }
            Group::Hop { to } => vec![rank, at(Place { pp: to, ..here })],
            Group::Pipeline => (0..self.pp).map(|pp| at(Place { pp, ..here })).collect(),
            Group::Ends => {
                let mut ends =
                    vec![at(Place { pp: 0, ..here }), at(Place { pp: self.pp - 1, ..here })];
                ends.dedup();
                ends
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(layout: &Layout, group: Group, rank: u32) -> Vec<u32> {
        layout.members(group, Rank(rank)).into_iter().map(|it| it.0).collect()
    }

    /// The numbers of Opus' Fig. 3: rank 8 is stage 1 for rank 0, and ranks 0 and 4 share shards.
    #[test]
    fn groups_of_opus_job() {
        let layout = Layout { tp: 4, dp: 2, pp: 2, ..Layout::default() };
        assert_eq!(ranks(&layout, Group::Tensor, 5), [4, 5, 6, 7]);
        assert_eq!(ranks(&layout, Group::Data, 0), [0, 4]);
        assert_eq!(ranks(&layout, Group::Hop { to: 1 }, 0), [0, 8]);
        assert_eq!(ranks(&layout, Group::Pipeline, 13), [5, 13]);
    }

    /// Every kind of group cuts the ranks into equal parts.
    #[test]
    fn groups_are_partitions() {
        let layout = Layout { tp: 2, cp: 3, dp: 4, pp: 2, ep: 2, ..Layout::default() };
        let kinds = [Group::Tensor, Group::Context, Group::Data, Group::ExpertData, Group::Expert];
        for group in kinds.into_iter().chain([Group::Pipeline, Group::Ends]) {
            let mut seen = [0u32; 48];
            for rank in 0..48 {
                let members = ranks(&layout, group, rank);
                assert_eq!(members.len() as u32, layout.size(group));
                assert!(members.contains(&rank));
                for member in &members {
                    seen[*member as usize] += 1;
                    assert_eq!(ranks(&layout, group, *member), members);
                }
            }
            assert!(seen.iter().all(|it| *it == layout.size(group)));
        }
        assert_eq!(ranks(&layout, Group::Expert, 0), [0, 6]);
        assert_eq!(ranks(&layout, Group::ExpertData, 0), [0, 2, 4, 12, 14, 16]);
    }
}
