//! Ranks of a real NCCL, for the commands that take `--backend nccl`.
//!
//! [`Session`] starts them and asks for times; `follow` is what processes do that srun, mpirun or torchrun have started beside the
//! first; `rank` is the process of one rank.

mod follow;
pub(crate) mod rank;
mod session;

pub(crate) use session::{Session, Wanted};

use motet_collective::CollectiveKind;
use motet_live::LiveError;
use motet_runtime::Collective;

use crate::failure::Failure;

/// What is wrong with ranks is wrong with the machine or the job, not with what the user wrote.
pub(crate) fn failure(error: &LiveError) -> Failure {
    let failure = Failure::unreadable(error.to_string());
    match error {
        LiveError::Cuda(_) => failure.with_remedy(
            "run this where the GPUs are, or leave `--backend nccl` away to work with models",
        ),
        _ => failure,
    }
}

/// A collective in the words of the run-time half, if NCCL is asked to run it.
pub(crate) fn collective(kind: CollectiveKind) -> Option<Collective> {
    let runs = [
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllReduce,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
        CollectiveKind::AllToAll,
    ];
    runs.contains(&kind).then(|| kind.name().parse().ok())?
}
