//! The default that plans are compared with, put right: the program that sends straight to everyone
//! as it is made for little data, in one piece and, for AllReduce, everything at once.
//!
//! A plan makes that program for 4 MiB. Where its ways share links the synthesizer then cuts chunks
//! into many pieces, each of which pays a protocol's latency in turn: 1 KiB takes 554 µs on two A100
//! servers of four GPUs, and 26 µs in one piece. A default that no one would run makes large gains,
//! so at each size the faster of both counts.

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_sim::nccl::{KnobModel, Knobs, Protocol};
use motet_sim::{Knobbed, Routed, SwitchForwarding};
use motet_synth::{Effort, Goal, Method, Task, synthesize};
use motet_tune::plan::baseline::uniform;
use motet_tune::plan::{Origin, Pick, Tuned, Way};
use motet_units::{Bytes, Rank, Seed};

/// So little that nothing is worth cutting.
const SMALL: Bytes = Bytes::kib(1);

const CHANNELS: [u32; 5] = [1, 2, 4, 8, 16];

/// The program of a collective, or why there is none.
pub(super) fn in_one_piece(
    network: &Network,
    kind: CollectiveKind,
    model: KnobModel,
    seed: Seed,
) -> Result<Way, String> {
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let goal = Goal::rooted(kind, ranks, Rank(0)).map_err(|it| it.to_string())?;
    let task = Task::new(network, goal, SMALL).by_numbers();
    let method: Method = "direct".parse().map_err(|it| format!("{it}"))?;
    let draft = synthesize(&task, method, &Effort::unlimited(seed)).map_err(|it| it.to_string())?;
    let about = draft.explanation.clone();
    let program = draft.prove(&task).map_err(|it| it.to_string())?.program;
    let knobbed = {
        let routed = Routed::new(&program, network, SwitchForwarding::CutThrough);
        Knobbed::new(&routed.map_err(|it| it.to_string())?, model)
    };
    let name = format!("{kind}-direct-in-one-piece");
    Ok(Way { name, origin: Origin::FullMesh, about, program, knobbed })
}

/// Enters what the program does where it is faster than what the plan compared itself with.
pub(super) fn put_right(task: &mut Tuned, way: &Way) {
    let size = task.size();
    let plain = timed(way, size, &uniform());
    faster(&mut task.msccl, plain);
    faster(&mut task.sketch_only, task.msccl.clone());
    faster(&mut task.knobs_only, task.msccl.clone());
    for protocol in Protocol::ALL {
        for channels in CHANNELS {
            let knobs = Knobs { channels: Some(channels), ..Knobs::new(protocol) };
            faster(&mut task.knobs_only, timed(way, size, &knobs));
        }
    }
}

fn timed(way: &Way, size: Bytes, knobs: &Knobs) -> Option<Pick> {
    let time = way.knobbed.time(size, knobs).ok()?;
    Some(Pick {
        way: way.name.clone(),
        algorithm: None,
        protocol: knobs.protocol.name().to_owned(),
        channels: knobs.channels,
        threads: knobs.threads,
        buffer_bytes: knobs.buffer.map(Bytes::get),
        time_ps: time.as_ps(),
        by_model: false,
    })
}

fn faster(kept: &mut Option<Pick>, other: Option<Pick>) {
    let time = |it: &Option<Pick>| it.as_ref().map_or(u64::MAX, |it| it.time_ps);
    if time(&other) < time(kept) {
        *kept = other;
    }
}

#[cfg(test)]
mod tests {
    use motet_sim::nccl::NcclOptions;
    use motet_tune::clusters::find;

    use super::*;

    #[test]
    fn little_data_is_not_cut() {
        let network = find("a100-4-x2").unwrap().network().unwrap();
        let model = KnobModel::new(&network, &NcclOptions::default());
        let way = in_one_piece(&network, CollectiveKind::AllGather, model, Seed::new(1)).unwrap();
        // Eight ranks, each to all of them and itself.
        assert_eq!(way.program.transfers().len(), 64);
        let slow = Pick { time_ps: u64::MAX - 1, ..timed(&way, SMALL, &uniform()).unwrap() };
        let mut task = Tuned {
            collective: "allgather".to_owned(),
            size_bytes: SMALL.get(),
            bound_ps: 0,
            picks: Vec::new(),
            nccl: None,
            msccl: Some(slow),
            sketch_only: None,
            knobs_only: None,
            trials: 0,
            progress: Vec::new(),
        };
        put_right(&mut task, &way);
        let us = |it: &Option<Pick>| it.as_ref().unwrap().time().as_us_f64();
        assert!(us(&task.msccl) < 50.0 && us(&task.knobs_only) < us(&task.msccl));
        assert_eq!(task.sketch_only, task.msccl);
    }
}
