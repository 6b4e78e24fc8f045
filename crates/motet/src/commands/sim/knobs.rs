//! `motet sim` under knobs: what was asked, and what it comes to.

use motet_nccl::{KnobModel, Knobs, NcclOptions, Protocol};
use motet_nccl::{KnobOutcome, Knobbed};
use motet_sim::Routed;
use serde::Serialize;

use crate::args::{KnobArgs, ProtocolArg, SimArgs};
use crate::failure::Failure;

/// The knobs, and what follows from them.
#[derive(Serialize)]
pub(super) struct KnobsJson {
    protocol: &'static str,
    channels: u32,
    threads: u32,
    buffer_bytes: u64,
    instances: u32,
    blocks: u32,
    places: u32,
    place_bytes: u64,
    iterations: u32,
    iterations_simulated: u32,
    launch_us: f64,
    block_gbps: f64,
}

impl KnobsJson {
    pub(super) fn new(it: &KnobOutcome) -> Self {
        let terms = &it.terms;
        Self {
            protocol: terms.protocol.name(),
            channels: it.channels,
            threads: terms.threads,
            buffer_bytes: terms.buffer.get(),
            instances: it.instances,
            blocks: it.blocks,
            places: terms.places,
            place_bytes: terms.place.get(),
            iterations: it.iterations,
            iterations_simulated: it.simulated,
            launch_us: terms.launch.as_us_f64(),
            block_gbps: terms.block_rate.as_gb_per_s_f64(),
        }
    }
}

impl KnobArgs {
    const fn is_given(&self) -> bool {
        self.protocol.is_some()
            || self.channels.is_some()
            || self.threads.is_some()
            || self.buffer_size.is_some()
    }
}

/// Runs the program under the knobs that are given; `None` if none is.
pub(super) fn run(args: &SimArgs, routed: &Routed<'_>) -> Result<Option<KnobOutcome>, Failure> {
    if !args.knobs.is_given() {
        return Ok(None);
    }
    let KnobArgs { protocol, channels, threads, buffer_size: buffer } = args.knobs;
    let knobs = Knobs {
        protocol: match protocol {
            None => routed.program().hints().protocol.into(),
            Some(ProtocolArg::Simple) => Protocol::Simple,
            Some(ProtocolArg::Ll) => Protocol::Ll,
            Some(ProtocolArg::Ll128) => Protocol::Ll128,
        },
        channels,
        threads,
        buffer,
    };
    let model = KnobModel::new(routed.network(), &NcclOptions::default());
    let outcome = Knobbed::new(routed, model).run(args.size, &knobs);
    outcome.map(Some).map_err(|it| Failure::wrong(it.to_string()).in_file(&args.file))
}

/// The knobs as they were set or taken.
pub(super) fn text(it: &KnobOutcome) -> String {
    let terms = &it.terms;
    let channels = count(it.channels, "channel");
    format!(
        "{}, {channels}, {} threads, buffers of {}; {} on the busiest GPU",
        terms.protocol,
        terms.threads,
        terms.buffer,
        count(it.blocks, "thread block")
    )
}

/// How chunks are cut and sent.
pub(super) fn cut_text(it: &KnobOutcome) -> String {
    let (iterations, instances) =
        (count(it.iterations, "iteration"), count(it.instances, "instance"));
    format!("{iterations} of {instances}, through {} places of {}", it.terms.places, it.terms.place)
}

fn count(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
