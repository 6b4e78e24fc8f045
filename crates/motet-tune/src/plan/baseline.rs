//! What plans are compared with: NCCL left to itself, and MSCCL with one setting for everything.
//!
//! NCCL's choice of algorithm, protocol and threads is [`NcclModel`]'s, which is NCCL's own code
//! followed step by step; how long it takes is simulated on the rings and trees that NCCL would build,
//! so that it stands on the same ground as everything else. What the simulator has no program for (NVLS,
//! CollNet) is taken at what NCCL's model expects.

use motet_collective::CollectiveKind;
use motet_nccl::{Knobs, NcclModel, Protocol, Tuned as Chosen};
use motet_units::Bytes;

use super::Pick;
use super::ways::{Origin, Way};

/// Seed 002, Table III, C₀: Simple, one channel, 512 threads, 4 MB.
#[must_use]
pub fn uniform() -> Knobs {
    Knobs { threads: Some(512), buffer: Some(Bytes::mib(4)), ..Knobs::new(Protocol::Simple) }
}

/// What NCCL would do, and how long that takes.
#[must_use]
pub fn nccl(model: &NcclModel, ways: &[Way], kind: CollectiveKind, size: Bytes) -> Option<Pick> {
    let choice = model.choose(Chosen::of(kind)?, size)?;
    let way = ways.iter().find(|it| it.origin == Origin::Nccl(choice.algorithm));
    let timed = way.and_then(|way| {
        // The program is one channel, or one for each of NCCL's rings; NCCL runs it on more.
        let own = way.knobbed.channels().max(1);
        let instances = (u32::try_from(choice.used_channels).ok()? / own).max(1);
        let plain =
            Knobs { channels: Some(instances.saturating_mul(own)), ..Knobs::new(choice.protocol) };
        // NCCL gives Simple a warp more than the simulator knows of.
        let knobs = [Knobs { threads: Some(choice.threads), ..plain }, plain];
        let timed = knobs.iter().find_map(|it| Some((it, way.knobbed.time(size, it).ok()?)));
        timed.map(|(knobs, time)| Pick::new(way, knobs, time))
    });
    Some(timed.unwrap_or_else(|| Pick {
        way: format!("{kind}-nccl-{}", choice.algorithm.name().to_ascii_lowercase()),
        algorithm: Some(choice.algorithm.name().to_owned()),
        protocol: choice.protocol.name().to_owned(),
        channels: u32::try_from(choice.channels).ok(),
        threads: Some(choice.threads),
        buffer_bytes: None,
        time_ps: choice.duration().as_ps(),
        by_model: true,
    }))
}

/// MSCCL with the uniform setting on the program that sends straight to everyone; of the two that
/// there may be, the faster.
#[must_use]
pub fn msccl(ways: &[Way], size: Bytes) -> Option<Pick> {
    let straight = ways.iter().filter(|it| it.origin == Origin::FullMesh);
    let timed = straight.filter_map(|it| Some((it, it.knobbed.time(size, &uniform()).ok()?)));
    let (way, time) = timed.min_by_key(|it| it.1)?;
    Some(Pick::new(way, &uniform(), time))
}
