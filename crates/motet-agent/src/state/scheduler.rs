//! [`Scheduler`]: the scheduling context of a call: its pipeline stage and role, its priority, and who shares the GPU
//! (s_scheduler of Fig. 14). Next: [`model`](super::model).

use motet_workload::Parallelism;

use super::encoding::Row;
use crate::words::category;

category! {
    /// What a call is for in a pipeline.
    Role {
        /// No pipeline, or the role is not known.
        None = "none",
        /// Activations within a stage: small and frequent.
        IntraStage = "intra_stage_AR",
        /// Gradients of a stage over its replicas: bulk.
        InterStage = "inter_stage_AR",
        ActivationSend = "activation_send",
        ActivationRecv = "activation_recv",
    }
}

impl Role {
    /// The role of a communication that serves this parallelism; a message of the pipeline is seen by one rank that
    /// sends it and one that receives it.
    #[must_use]
    pub const fn of(parallelism: Parallelism, receives: bool) -> Self {
        match parallelism {
            Parallelism::Tp | Parallelism::Cp | Parallelism::Ep => Self::IntraStage,
            Parallelism::Dp => Self::InterStage,
            Parallelism::Pp if receives => Self::ActivationRecv,
            Parallelism::Pp => Self::ActivationSend,
        }
    }
}

category! {
    /// Who else uses the GPU.
    Sharing { Dedicated = "dedicated", Mps = "mps", Mig = "mig", TimeSlice = "time-slice" }
}

/// The scheduling context of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The pipeline stage that calls, from 0.
    pub stage: u32,
    pub role: Role,
    /// The priority class that a flow scheduler (Mercury, Geryon) gave it; 0 without one.
    pub priority: u16,
    pub sharing: Sharing,
    /// Whether the pipeline is an instance of a template that may be replaced (Oobleck, SWARM).
    pub template: bool,
}

impl Scheduler {
    /// No pipeline, no priorities, nobody else on the GPU.
    pub const NONE: Self = Self {
        stage: 0,
        role: Role::None,
        priority: 0,
        sharing: Sharing::Dedicated,
        template: false,
    };

    pub(super) fn encode(&self, row: &mut Row) {
        row.log2("scheduler.stage", u64::from(self.stage), 16);
        row.one_hot("scheduler.role", self.role.index(), Role::ALL, |it| it.name());
        row.log2("scheduler.priority", u64::from(self.priority), 16);
        row.one_hot("scheduler.sharing", self.sharing.index(), Sharing::ALL, |it| it.name());
        row.flag("scheduler.template", self.template);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_from_what_a_call_serves() {
        assert_eq!(Role::of(Parallelism::Tp, false), Role::IntraStage);
        assert_eq!(Role::of(Parallelism::Dp, false), Role::InterStage);
        assert_eq!(Role::of(Parallelism::Pp, false), Role::ActivationSend);
        assert_eq!(Role::of(Parallelism::Pp, true), Role::ActivationRecv);
    }
}
