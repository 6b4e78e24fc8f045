//! [`TrainedModel`]: what is trained, how it is spread over ranks, and what happens when some of them fail
//! (s_LLM of Fig. 14). Next: [`call`](super::call).

use motet_workload::{Job, Layout, Sharding};

use super::encoding::Row;
use crate::words::category;

category! {
    /// How a model is spread over ranks. `motet_workload::Parallelism` is what one communication serves; this is the
    /// job's whole arrangement.
    Spread {
        Dp = "dp",
        Pp = "pp",
        Tp = "tp",
        Fsdp = "fsdp",
        /// Data, tensor and pipeline parallelism together.
        ThreeD = "3d",
        Moe = "moe",
    }
}

impl Spread {
    /// The first of these that applies to a layout: experts, all three dimensions, pipeline, tensor, sharded,
    /// plain.
    #[must_use]
    pub const fn of(layout: &Layout) -> Self {
        if layout.ep > 1 {
            Self::Moe
        } else if is_three_d(layout) {
            Self::ThreeD
        } else if layout.pp > 1 {
            Self::Pp
        } else if layout.tp > 1 {
            Self::Tp
        } else if matches!(layout.sharding, Sharding::Parameters { .. }) {
            Self::Fsdp
        } else {
            Self::Dp
        }
    }
}

const fn is_three_d(layout: &Layout) -> bool {
    layout.dp > 1 && layout.tp > 1 && layout.pp > 1
}

category! {
    /// What a job does when ranks fail.
    FaultTolerance {
        None = "none",
        /// An AllReduce that tolerates faults.
        Ftar = "ftar",
        Swarm = "swarm",
        Oobleck = "oobleck",
    }
}

/// The model that a job trains, and its parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainedModel {
    pub spread: Spread,
    pub parameters: u64,
    pub fault_tolerance: FaultTolerance,
    /// Whether data, tensor and pipeline parallelism are used at once. It is apart from `spread` because a
    /// mixture-of-experts model can have all three too.
    pub three_d: bool,
}

impl TrainedModel {
    /// The model of a job. Jobs say nothing of fault tolerance, so there is none.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self {
            spread: Spread::of(job.layout()),
            parameters: job.model().parameters(),
            fault_tolerance: FaultTolerance::None,
            three_d: is_three_d(job.layout()),
        }
    }

    pub(super) fn encode(&self, row: &mut Row) {
        row.one_hot("model.spread", self.spread.index(), Spread::ALL, |it| it.name());
        // Up to a quadrillion parameters.
        row.log10("model.parameters", self.parameters, 15);
        let tolerance = self.fault_tolerance.index();
        row.one_hot("model.fault_tolerance", tolerance, FaultTolerance::ALL, |it| it.name());
        row.flag("model.three_d", self.three_d);
    }
}

#[cfg(test)]
mod tests {
    use motet_workload::formats::job_toml;

    use super::*;

    #[test]
    fn a_job_says_how_its_model_is_spread() {
        let text = |layout: &str| {
            let batch = "[batch]\nsequence = 4096\nmicro = 1\nglobal = 16\n";
            format!("model = \"llama3-8b\"\ngpu = \"h100\"\n[layout]\n{layout}\n{batch}")
        };
        let of = |layout: &str| {
            TrainedModel::of(&job_toml::read(&text(layout)).unwrap().check().unwrap())
        };
        let whole = of("tp = 2\ndp = 2\npp = 2");
        assert_eq!((whole.spread, whole.three_d), (Spread::ThreeD, true));
        assert!((7_000_000_000..9_000_000_000).contains(&whole.parameters));
        assert_eq!(of("tp = 2\ndp = 2").spread, Spread::Tp);
        assert_eq!(of("dp = 2").spread, Spread::Dp);
        assert!(!of("dp = 2").three_d);
    }
}
