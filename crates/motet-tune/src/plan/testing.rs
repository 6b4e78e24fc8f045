//! What the unit tests of plans share.

use motet_collective::CollectiveKind;
use motet_nccl::{Basis, Protocol};

use super::{Pick, Runtime, TunedTask};

/// An AllGather that a ring of MSCCL was picked for.
pub(super) fn tuned(size_bytes: u64) -> TunedTask {
    let pick = Pick {
        runtime: Runtime::Msccl,
        way: "ring".to_owned(),
        algorithm: None,
        protocol: Protocol::Simple,
        channels: 4,
        asked: false,
        instances: 4,
        packed: false,
        blocks: 4,
        time_ps: 1000,
        basis: Basis::Kernels,
    };
    TunedTask {
        collective: CollectiveKind::AllGather,
        size_bytes,
        bound_ps: 900,
        program: Some(pick.clone()),
        pick,
        mscclpp: None,
        nccl: None,
        nccl_best: None,
        msccl: None,
        sketch_only: None,
        knobs_only: None,
        trials: 7,
    }
}
