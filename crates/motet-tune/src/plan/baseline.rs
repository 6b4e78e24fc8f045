//! What plans are compared with: NCCL by itself, NCCL at the best setting that a tuner can choose for
//! the call, and MSCCL with one setting for everything.

use motet_collective::CollectiveKind;
use motet_nccl::{Basis, Knobs, Priced, Protocol, Timed};
use motet_units::Bytes;

use super::candidates::{CandidateProgram, Origin};
use super::{Pick, Runtime};

/// TuCCL, Table III, C₀: Simple, one channel; its 512 threads and 4 MB are NCCL's own.
pub const UNIFORM: Knobs = Knobs::new(Protocol::Simple);

/// What NCCL would do by itself.
#[must_use]
pub fn nccl(priced: &Priced<'_>, kind: CollectiveKind, size: Bytes) -> Option<Pick> {
    priced.default(kind, size).map(of_nccl)
}

/// The best that a tuner can make NCCL do.
#[must_use]
pub fn nccl_best(priced: &Priced<'_>, kind: CollectiveKind, size: Bytes) -> Option<Pick> {
    priced.best(kind, size).map(of_nccl)
}

/// A choice of NCCL's as a pick.
#[must_use]
pub fn of_nccl(timed: Timed) -> Pick {
    let choice = timed.choice;
    let used = u32::try_from(choice.used_channels).unwrap_or(u32::MAX);
    Pick {
        runtime: Runtime::Nccl,
        way: choice.algorithm.name().to_owned(),
        algorithm: Some(choice.algorithm),
        protocol: choice.protocol,
        channels: used,
        asked: choice.asked,
        instances: 1,
        packed: false,
        blocks: used,
        time_ps: timed.time.as_ps(),
        basis: timed.basis,
    }
}

/// A program under the uniform setting: one instance, Simple.
#[must_use]
pub fn uniform(way: &CandidateProgram, size: Bytes) -> Option<Pick> {
    let layout = way.plain.as_ref()?;
    let time = layout.laid.price_under(size, &UNIFORM).ok()?.time;
    Some(Pick {
        runtime: Runtime::Msccl,
        way: way.name.clone(),
        algorithm: None,
        protocol: UNIFORM.protocol,
        channels: layout.laid.channels(),
        asked: false,
        instances: 1,
        packed: layout.packed,
        blocks: layout.blocks(),
        time_ps: time.as_ps(),
        basis: Basis::Kernels,
    })
}

/// MSCCL with the uniform setting on the program that sends straight to everyone; of the two that
/// there may be, the faster. It is taken at every size, also where MSCCL would pass it over for a
/// count that its chunks do not divide: that is kinder to it.
#[must_use]
pub fn msccl(candidates: &[CandidateProgram], size: Bytes) -> Option<Pick> {
    let straight = candidates.iter().filter(|it| it.origin == Origin::FullMesh);
    straight.filter_map(|it| uniform(it, size)).min_by_key(|it| it.time_ps)
}
