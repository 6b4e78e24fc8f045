//! `motet sim` as a runtime's kernels run a program: what was asked, and what it comes to.
//!
//! A file of MSCCL or MSCCL++ is taken as it is written. Any other program is laid out first, as
//! `motet export --to msccl` would do it.

use motet_collective::Program;
use motet_collective::formats::ProgramFormat;
use motet_nccl::kernel::{Laid, Price};
use motet_nccl::mscclpp::{PlanCost, PlanTerms, Sharing};
use motet_nccl::{Knobs, Protocol};
use motet_sim::{Outcome, Routed};
use motet_tune::layouts::Family;
use motet_tune::plan::make::Nccl;
use motet_tune::plan::{Runtime, Setup};
use motet_units::{Bytes, Duration};
use serde::Serialize;

use crate::args::sim::{KnobArgs, ProtocolArg, SimArgs};
use crate::failure::Failure;
use crate::files;
use crate::printer::exact;

/// A run as a runtime's kernels do it: the settings, the time, and what the time is made of.
pub(super) struct Under {
    pub(super) outcome: Outcome,
    runtime: Runtime,
    knobs: Knobs,
    parts: Parts,
    channels: u32,
    instances: u32,
    blocks: u32,
}

/// What the time of a run is made of.
struct Parts {
    time: Duration,
    launch: Duration,
    latency: Duration,
    data: Duration,
    iterations: u32,
    simulated: u32,
    /// What one thread block moves, in GB/s.
    block_gbps: f64,
}

impl From<&Price> for Parts {
    fn from(price: &Price) -> Self {
        Self {
            time: price.time,
            launch: price.launch,
            latency: price.latency,
            data: price.data,
            iterations: price.iterations,
            simulated: price.simulated,
            block_gbps: price.terms.block.as_gb_per_s_f64(),
        }
    }
}

impl Parts {
    /// Of a plan of MSCCL++, whose executor runs it once.
    fn of_plan(cost: &PlanCost, size: Bytes) -> Option<Self> {
        let terms = PlanTerms::H200;
        let parts = cost.parts(size, &terms)?;
        let micros = |it: f64| Duration::from_ps((it * 1e6).round() as u64);
        Some(Self {
            time: parts.time(),
            launch: micros(parts.launch),
            latency: micros(parts.chain),
            data: micros(parts.shared),
            iterations: 1,
            simulated: 1,
            block_gbps: terms.block_gbytes_per_s(cost.outline.threads),
        })
    }
}

impl Under {
    /// Which time scale the time is on.
    pub(super) fn time_scale(&self) -> String {
        match self.runtime {
            Runtime::Mscclpp => "by MSCCL++'s operations, with terms fitted on an H200".to_owned(),
            other => format!("by {}'s kernels as modelled", other.name()),
        }
    }
}

/// The knobs, and what the time is made of.
#[derive(Serialize)]
pub(super) struct KnobsJson {
    runtime: &'static str,
    protocol: &'static str,
    channels: u32,
    threads: Option<u32>,
    buffer_bytes: Option<u64>,
    instances: u32,
    blocks: u32,
    iterations: u32,
    iterations_simulated: u32,
    launch_us: f64,
    latency_us: f64,
    data_us: f64,
    block_gbps: f64,
}

impl KnobsJson {
    pub(super) fn new(it: &Under) -> Self {
        let parts = &it.parts;
        Self {
            runtime: it.runtime.name(),
            protocol: it.knobs.protocol.name(),
            channels: it.channels,
            threads: it.knobs.threads,
            buffer_bytes: it.knobs.buffer.map(Bytes::get),
            instances: it.instances,
            blocks: it.blocks,
            iterations: parts.iterations,
            iterations_simulated: parts.simulated,
            launch_us: parts.launch.as_us_f64(),
            latency_us: parts.latency.as_us_f64(),
            data_us: parts.data.as_us_f64(),
            block_gbps: parts.block_gbps,
        }
    }
}

impl KnobArgs {
    /// Whether any of them was given.
    pub(super) const fn is_given(&self) -> bool {
        self.kernels
            || self.protocol.is_some()
            || self.channels.is_some()
            || self.threads.is_some()
            || self.buffer_size.is_some()
    }
}

/// Runs the program by kernels if that is asked for.
pub(super) fn run(
    args: &SimArgs,
    format: ProgramFormat,
    routed: &Routed<'_>,
) -> Result<Option<Under>, Failure> {
    if !args.knobs.is_given() {
        return Ok(None);
    }
    let failure = |it: String| Failure::wrong(it).in_file(&args.file);
    let knobs = knobs(&args.knobs, routed.program());
    let (network, program) = (routed.network(), routed.program());
    let kernels = Nccl::new(network, Setup::default()).kernels;
    let plus = format == ProgramFormat::Mscclpp;
    let laid_out = plus || format == ProgramFormat::Msccl;
    let (laid, instances) = if laid_out {
        (Laid::new(routed, kernels).map_err(|it| failure(it.to_string()))?, 1)
    } else {
        let most = kernels.resident_blocks();
        let family = Family::new(program, network, &kernels, most).map_err(failure)?;
        let own = family.channels();
        let channels = knobs.channels.unwrap_or(own);
        if channels == 0 || !channels.is_multiple_of(own) {
            return Err(failure(format!(
                "{channels} channels are no whole number of instances of the program, which has {own}; \
                 use a multiple of that"
            )));
        }
        let layout = family.in_instances(channels / own).ok_or_else(|| {
            let most = family.layouts.iter().map(|it| it.instances).max().unwrap_or(1);
            let problem = format!(
                "{} instances of the program are not tried; use a power of two up to {most}",
                channels / own
            );
            failure(problem)
        })?;
        (layout.laid.clone(), layout.instances)
    };
    let parts = if plus {
        let text = files::read(&args.file)?;
        let cost = PlanCost::on_network(&text, program, network, Sharing::NONE).map_err(failure)?;
        Parts::of_plan(&cost, args.size)
            .ok_or_else(|| failure("its thread blocks wait for one another for ever".to_owned()))?
    } else {
        let price = laid.price_under(args.size, &knobs);
        Parts::from(&price.map_err(|it| failure(it.to_string()))?)
    };
    Ok(Some(Under {
        outcome: outcome(args.size, &laid, &parts, &knobs, program),
        runtime: if plus { Runtime::Mscclpp } else { Runtime::Msccl },
        knobs,
        channels: laid.channels(),
        instances,
        blocks: laid.blocks().1,
        parts,
    }))
}

fn knobs(args: &KnobArgs, program: &Program) -> Knobs {
    let KnobArgs { protocol, channels, threads, buffer_size: buffer, .. } = *args;
    let protocol = match protocol {
        None => program.hints().protocol,
        Some(ProtocolArg::Simple) => Protocol::Simple,
        Some(ProtocolArg::Ll) => Protocol::Ll,
        Some(ProtocolArg::Ll128) => Protocol::Ll128,
    };
    Knobs { protocol, channels, threads, buffer }
}

fn outcome(size: Bytes, laid: &Laid, parts: &Parts, knobs: &Knobs, program: &Program) -> Outcome {
    let collective = program.collective();
    let chunk = collective.chunk_bytes(size);
    Outcome {
        time: parts.time,
        chunk,
        rounded_up: chunk.checked_mul(u64::from(collective.size_chunks())) != Some(size),
        transfers: program.transfers().len(),
        events: laid.steps() as u64 * u64::from(parts.simulated),
        links: laid.usage(size, knobs),
    }
}

/// The knobs as they were set or taken.
pub(super) fn text(it: &Under) -> String {
    let mut out =
        format!("{}, {}, {}", it.runtime.name(), it.knobs.protocol, count(it.channels, "channel"));
    if let Some(threads) = it.knobs.threads {
        out += &format!(", {threads} threads");
    }
    if let Some(buffer) = it.knobs.buffer {
        out += &format!(", buffers of {buffer}");
    }
    format!("{out}; {} on the busiest GPU", count(it.blocks, "thread block"))
}

/// What the time is made of.
pub(super) fn parts_text(it: &Under) -> String {
    let Parts { launch, latency, data, iterations, .. } = &it.parts;
    format!(
        "{} launch, {} latency, {} data in {} of {}",
        exact(*launch),
        exact(*latency),
        exact(*data),
        count(*iterations, "iteration"),
        count(it.instances, "instance")
    )
}

fn count(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
