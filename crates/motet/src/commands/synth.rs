//! `motet synth`: makes a program for a collective on a network, proves it right, and says how far it is from
//! the bound.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration as Wall, Instant as Clock};

use motet_collective::bound::HeldAgainst;
use motet_collective::formats::program_json;
use motet_collective::{Bound, BoundError, CollectiveError, CollectiveKind, MadeFor};
use motet_net::Network;
use motet_synth::{Effort, Goal, Method, SynthError, Synthesis, Task, synthesize};
use motet_tune::plan::Runtime;
use motet_tune::within::{Within, within};
use motet_units::{Bytes, Rank, Seed};
use serde::Serialize;

use crate::args::synth::{RuntimeArg, SynthArgs, methods};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::{Printer, exact};
use crate::progress::Progress;

#[derive(Serialize)]
struct SynthJson {
    method: &'static str,
    collective: &'static str,
    ranks: u32,
    size_bytes: u64,
    /// Chunks per part.
    chunks: u32,
    transfers: usize,
    time_us: f64,
    algbw_gbps: f64,
    bound_time_us: f64,
    bound_algbw_gbps: f64,
    /// Which bound that is: `programs`, `in-switch` or `any`.
    bound_of: &'static str,
    /// 1 at the bound, less the slower the program is.
    ratio_to_bound: f64,
    /// Making the program, without proving it right.
    synth_seconds: f64,
    /// Proving it right, and simulating it.
    verify_seconds: f64,
    seed: u64,
    explanation: String,
    tried: Vec<TriedJson>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "for")]
    limits: Option<Limits>,
}

#[derive(Serialize)]
struct TriedJson {
    method: &'static str,
    time_us: Option<f64>,
    why_not: Option<String>,
}

pub(crate) fn run(args: &SynthArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if args.list {
        return list(printer);
    }
    args.output.as_deref().map_or(Ok(()), ours)?;
    let (Some(cluster), Some(size), Some(_)) = (&args.cluster, args.size, args.collective) else {
        return Err(Failure::unreadable("a cluster, a collective and a size are needed"));
    };
    let network = files::network(cluster, &args.read.options(), printer)?.network;
    let change = args.what_if.of(&network, printer)?;
    let task = task(args, cluster, &network, size)?.in_state(change.state(&network));
    // Of traffic between pairs the bound alone may take seconds.
    let progress = Progress::start(printer, "looking for the bound");
    let bound = task.bound().map_err(|it| failure(&it, &task).in_file(cluster))?;
    progress.say(format!("synthesizing with {}", args.method.name()));
    let told = |it: &motet_synth::Progress| progress.say(trying(it));
    let clock = now();
    let deadline = args.budget.map(Wall::from_secs_f64);
    let out_of_time = || deadline.is_some_and(|it| clock.elapsed() >= it);
    let seed = Seed::new(args.seed);
    let effort = match args.effort.0 {
        Some(times) => Effort::times_normal(seed, times),
        None => Effort::unlimited(seed),
    };
    let effort = Effort { out_of_time: &out_of_time, progress: &told, ..effort };
    let wrong = |it: SynthError| failure(&it, &task);
    let (made, limits, synth_seconds, verify_seconds) = match args.within {
        None => {
            let draft = synthesize(&task, args.method, &effort).map_err(wrong)?;
            let synth_seconds = clock.elapsed().as_secs_f64();
            let clock = now();
            let made = draft.at_least(bound.program_time(size)).prove(&task).map_err(wrong)?;
            (made, None, synth_seconds, clock.elapsed().as_secs_f64())
        }
        Some(runtime) => {
            let found = within(&task, runtime.into(), args.method, &effort).map_err(wrong)?;
            let limits = Limits::new(runtime.into(), &found);
            (found.synthesis, Some(limits), clock.elapsed().as_secs_f64(), 0.0)
        }
    };
    drop(progress);
    if let Some(name) = &args.output {
        let made_for = MadeFor { cluster: cluster.clone(), size };
        let program = (*made.program).clone().with_made_for(made_for);
        files::write(name, &program_json::write(&program), printer)?;
    }
    let result = Made { args, size, bound: &bound, made: &made, limits };
    if printer.is_json() {
        printer.json(&result.json(synth_seconds, verify_seconds))?;
    } else {
        printer.out(&result.text(&task, synth_seconds, verify_seconds))?;
    }
    Ok(Status::Done)
}

/// Refuses to write Motet's own format under the name of another.
fn ours(output: &str) -> Result<(), Failure> {
    let ending = Path::new(output).extension().map(OsStr::to_ascii_lowercase);
    if ending.as_deref() != Some(OsStr::new("xml")) {
        return Ok(());
    }
    Err(Failure::unreadable("Motet writes its own programs as JSON, not as .xml")
        .in_file(output)
        .with_remedy(
            "end the name in .json; `motet export FILE --to msccl` then writes MSCCL's XML",
        ))
}

/// A share to be printed in tenths of a percent, without a sign before zero.
fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0 + 0.0
}

/// What synthesis is at, in one line.
fn trying(it: &motet_synth::Progress) -> String {
    let method = it.method.name();
    let Some((best, time)) = it.best else { return format!("trying {method}") };
    let ratio = time.as_us_f64() / it.least.as_us_f64().max(f64::MIN_POSITIVE);
    let best = best.name();
    format!("trying {method}; best so far {best}: {}, {ratio:.3} times the bound", exact(time))
}

fn now() -> Clock {
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    Clock::now()
}

fn list(printer: &mut Printer) -> Result<Status, Failure> {
    let methods: Vec<Method> = methods().collect();
    if printer.is_json() {
        let names: Vec<&str> = methods.iter().map(|it| it.name()).collect();
        printer.json(&names)?;
        return Ok(Status::Done);
    }
    let width = methods.iter().map(|it| it.name().len()).max().unwrap_or(0);
    let mut out = String::new();
    for method in methods {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:width$}  {}", method.name(), method.about());
    }
    printer.out(&out)?;
    Ok(Status::Done)
}

fn task<'a>(
    args: &SynthArgs,
    cluster: &str,
    network: &'a Network,
    size: Bytes,
) -> Result<Task<'a>, Failure> {
    let gpus = files::gpus(network, cluster)?;
    let ranks = args.ranks.unwrap_or(gpus);
    let goal = goal(args, ranks)?;
    let mut task = Task::new(network, goal, size);
    // What is made for a runtime's file is timed as that file, which in-switch programs cannot be yet.
    task.in_switch = args.within.is_none();
    if let Some(name) = &args.sketch {
        task.allowed = files::sketch(name, network)?.allowed_for(size);
    }
    Ok(task)
}

fn goal(args: &SynthArgs, ranks: u32) -> Result<Goal, Failure> {
    let kind = args.collective.unwrap_or(CollectiveKind::AllGather);
    let made = match (kind, &args.counts) {
        (CollectiveKind::AllToAllV, Some(name)) => {
            let text = files::read(name)?;
            Goal::all_to_all_v(ranks, counts(&text).map_err(|it| it.in_file(name))?)
        }
        (CollectiveKind::AllToAllV, None) => {
            return Err(Failure::unreadable("alltoallv needs a count for each pair of ranks")
                .with_remedy("give `--counts` a file with one row of numbers per sending rank"));
        }
        (CollectiveKind::SendRecv, _) => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        _ => Goal::rooted(kind, ranks, Rank(args.root)),
    };
    made.map_err(|error| match error {
        CollectiveError::RootOutOfRange { .. } => Failure::unreadable(error.to_string())
            .with_remedy(format!("give `--root` a rank from 0 to {}", ranks - 1)),
        _ => Failure::unreadable(error.to_string()),
    })
}

/// Whole numbers, separated by commas, blanks or line ends.
fn counts(text: &str) -> Result<Vec<u32>, Failure> {
    let words = text.split(|it: char| it == ',' || it.is_whitespace()).filter(|it| !it.is_empty());
    words
        .map(|it| {
            it.parse().map_err(|_| {
                Failure::unreadable(format!("`{it}` is no whole number below 2^32"))
                    .with_remedy("write one row of counts per sending rank, separated by commas")
            })
        })
        .collect()
}

fn failure(error: &SynthError, task: &Task<'_>) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match (error, task.usable_network()) {
        (SynthError::Impossible(BoundError::Unreachable(it)), Some(network)) => {
            failure.with_remedy(format!("the cut that proves it: {}", it.cut.describe(&network)))
        }
        _ => failure,
    }
}

/// Everything that the text and the JSON are made from.
struct Made<'a> {
    args: &'a SynthArgs,
    size: Bytes,
    bound: &'a Bound,
    made: &'a Synthesis,
    /// With `--for`.
    limits: Option<Limits>,
}

/// What a runtime's limits make of a program.
#[derive(Clone, Serialize)]
struct Limits {
    runtime: Runtime,
    /// Thread blocks of the GPU that has most.
    blocks: u32,
    /// Times on ideal links: of the runtime's file, which has no routes and no order on links, and of the best
    /// program if there were no limits.
    file_time_us: f64,
    unlimited_time_us: f64,
    /// By how much more time the file takes than that: 0 is nothing, 1 is twice as long.
    limit_cost: f64,
    /// The name of the one-sided program, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    one_sided: Option<String>,
    /// By the model of MSCCL++'s kernels: the file, and the best program that is not one-sided.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_time_us: Option<f64>,
    /// In plans whose blocks have so many threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_kernel_time_us: Option<f64>,
}

impl Limits {
    fn new(runtime: Runtime, found: &Within) -> Self {
        let (file, unlimited) = (found.file_time.as_us_f64(), found.unlimited.time.as_us_f64());
        Self {
            runtime,
            blocks: found.blocks,
            file_time_us: file,
            unlimited_time_us: unlimited,
            limit_cost: if unlimited > 0.0 { file / unlimited - 1.0 } else { 0.0 },
            one_sided: found.kernels.as_ref().and_then(|it| it.one_sided.clone()),
            kernel_time_us: found.kernels.as_ref().map(|it| it.time.as_us_f64()),
            threads: found.kernels.as_ref().map(|it| it.threads),
            other_kernel_time_us: found
                .kernels
                .as_ref()
                .and_then(|it| it.other)
                .map(motet_units::Duration::as_us_f64),
        }
    }
}

impl From<RuntimeArg> for Runtime {
    fn from(it: RuntimeArg) -> Self {
        match it {
            RuntimeArg::Msccl => Self::Msccl,
            RuntimeArg::Mscclpp => Self::Mscclpp,
        }
    }
}

impl Made<'_> {
    /// What made the program.
    fn method(&self) -> &'static str {
        match &self.limits {
            Some(Limits { one_sided: Some(_), .. }) => "one-sided",
            _ => self.made.method.name(),
        }
    }

    /// In GB/s.
    fn algbw(&self, time: motet_units::Duration) -> f64 {
        if time.is_zero() { 0.0 } else { self.size.get() as f64 / (time.as_us_f64() * 1e3) }
    }

    /// Programs that ask switches to copy and reduce have a bound of their own.
    fn held_against(&self) -> HeldAgainst {
        self.bound.held_against(&self.made.program)
    }

    fn least(&self) -> motet_units::Duration {
        self.bound.least(self.held_against(), self.size)
    }

    fn ratio(&self) -> f64 {
        let time = self.made.time.as_ps();
        if time == 0 { 1.0 } else { self.least().as_ps() as f64 / time as f64 }
    }

    fn json(&self, synth_seconds: f64, verify_seconds: f64) -> SynthJson {
        let collective = self.made.program.collective();
        SynthJson {
            method: self.method(),
            collective: collective.kind().name(),
            ranks: collective.ranks(),
            size_bytes: self.size.get(),
            chunks: collective.chunks(),
            transfers: self.made.program.transfers().len(),
            time_us: self.made.time.as_us_f64(),
            algbw_gbps: self.algbw(self.made.time),
            bound_time_us: self.least().as_us_f64(),
            bound_algbw_gbps: self.algbw(self.least()),
            bound_of: self.held_against().name(),
            ratio_to_bound: self.ratio(),
            synth_seconds,
            verify_seconds,
            seed: self.args.seed,
            explanation: self.made.explanation.clone(),
            limits: self.limits.clone(),
            tried: self.made.tried.iter().map(tried_json).collect(),
        }
    }

    fn text(&self, task: &Task<'_>, synth_seconds: f64, verify_seconds: f64) -> String {
        let program = &self.made.program;
        let (kind, ranks) = (program.collective().kind(), program.collective().ranks());
        let heading = format!("{kind} of {} over {ranks} ranks", self.size);
        let mut out = format!("{}: {}\n", Printer::strong(&heading), self.made.explanation);
        let mut line = |word: &str, text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {word:9}  {text}");
        };
        let (time, least) = (self.made.time, self.least());
        let (time, algbw) = (exact(time), self.algbw(time));
        line("time", format!("{time} on ideal links, {algbw:.2} GB/s"));
        line(
            "bound",
            format!(
                "{} at least; the program takes {:.3} times that",
                exact(least),
                if self.ratio() > 0.0 { 1.0 / self.ratio() } else { 1.0 },
            ),
        );
        match (self.held_against(), task.usable_network()) {
            (HeldAgainst::WholeGroup, _) => line(
                "bound of",
                format!(
                    "{}; {} of {}",
                    HeldAgainst::WholeGroup.words(),
                    exact(self.bound.program_time(self.size)),
                    HeldAgainst::Programs.words()
                ),
            ),
            (_, Some(network)) => line("set by", self.bound.describe(&network)),
            (_, None) => {}
        }
        line("program", format!("{} transfers, verified", program.transfers().len()));
        if let Some(it) = &self.limits {
            let name = it.runtime.name();
            line(
                "for",
                format!(
                    "{name}, {} thread blocks a GPU; its file takes {:.3} µs, {:.1}% more than the best \
                     program without limits ({:.3} µs)",
                    it.blocks,
                    it.file_time_us,
                    percent(it.limit_cost),
                    it.unlimited_time_us
                ),
            );
            if let Some(time) = it.kernel_time_us {
                let made = match &it.one_sided {
                    Some(name) => format!("{name}, a one-sided program"),
                    None => "faster than every one-sided program".to_owned(),
                };
                let other = it.other_kernel_time_us.filter(|_| it.one_sided.is_some());
                let other = other.map_or_else(String::new, |it| {
                    format!("; the best that is not one-sided takes {it:.2} µs")
                });
                line("kernels", format!("{time:.2} µs by the model of {name}'s: {made}{other}"));
                let threads = it.threads.unwrap_or_default();
                line("export", format!("`motet export --to mscclpp --mscclpp-threads {threads}`"));
            }
        }
        line("took", format!("{synth_seconds:.3} s, and {verify_seconds:.3} s to prove it"));
        line("seed", self.args.seed.to_string());
        for tried in &self.made.tried {
            let result = match (&tried.time, &tried.why_not) {
                (Some(time), _) => exact(*time),
                (None, Some(why)) => why.clone(),
                (None, None) => String::new(),
            };
            line("tried", format!("{:16} {result}", tried.method.name()));
        }
        out
    }
}

fn tried_json(tried: &motet_synth::Tried) -> TriedJson {
    TriedJson {
        method: tried.method.name(),
        time_us: tried.time.map(motet_units::Duration::as_us_f64),
        why_not: tried.why_not.clone(),
    }
}
