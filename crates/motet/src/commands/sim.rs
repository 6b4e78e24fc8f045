//! `motet sim`: how long a program takes on a network, how far that is from the bound, and what
//! every link does meanwhile.

mod knobs;

use std::fmt::Write as _;
use std::time::Instant as Clock;

use motet_collective::bound;
use motet_collective::formats::ProgramFormat;
use motet_collective::{Program, Verified};
use motet_net::formats::svg;
use motet_net::{Network, NetworkState};
use motet_sim::utilization::{busiest, by_class, picture};
use motet_sim::{
    Discipline, Outcome, Prepared, Routed, SimError, SimOptions, Simulation, SwitchForwarding,
    Timeline, Utilization,
};
use motet_units::{Duration, Instant, LinkId};
use serde::Serialize;

use crate::args::sim::{SimArgs, Turns};
use crate::commands::{reroute, verify};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::{Printer, exact};
use crate::progress::Progress;
use knobs::{KnobsJson, Under};

#[derive(Serialize)]
struct SimJson {
    program: String,
    collective: &'static str,
    ranks: u32,
    size_bytes: u64,
    time_us: f64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    /// The least time any program could take, and how much of it that is: 1 at the bound.
    bound_time_us: Option<f64>,
    ratio_to_bound: Option<f64>,
    transfers: usize,
    events: u64,
    /// What the simulation itself took.
    wall_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    knobs: Option<KnobsJson>,
    classes: Vec<ClassJson>,
    link_utilization: Vec<LinkJson>,
}

#[derive(Serialize)]
struct ClassJson {
    class: &'static str,
    links: usize,
    used: usize,
    mean: f64,
    most: f64,
}

#[derive(Serialize)]
struct LinkJson {
    link: u32,
    from: String,
    to: String,
    class: &'static str,
    utilization: f64,
    bytes: u64,
    crossings: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_time: Option<Vec<f64>>,
}

pub(crate) fn run(args: &SimArgs, printer: &mut Printer) -> Result<Status, Failure> {
    for (what, flag, name) in [("trace", "--trace", &args.trace), ("picture", "--svg", &args.svg)] {
        if name.as_deref() == Some("-") {
            return Err(Failure::unreadable(format!(
                "the {what} cannot go to stdout, where the result goes"
            ))
            .with_remedy(format!("give `{flag}` the name of a file")));
        }
    }
    let network = files::network(&args.cluster, &args.read.options(), printer)?.network;
    let progress = Progress::start(printer, format!("simulating {}", args.file));
    let (format, program) = program(args, &network)?;
    let Changed { network, state, left } = Changed::new(args, network, &program, printer)?;
    let options = options(args, format);
    let switches = if args.store_and_forward {
        SwitchForwarding::StoreAndForward
    } else {
        SwitchForwarding::CutThrough
    };
    let routed = Routed::new(&program, &network, switches)
        .map_err(|it| Failure::wrong(it.to_string()).in_file(&args.file))?;
    avoids_failed(&routed, &state).map_err(|it| it.in_file(&args.file))?;
    let prepared = Prepared::new(&routed);
    let simulation = || Simulation::new(&prepared, args.size).state(&state).options(options);
    let failure = |it: SimError| Failure::wrong(it.to_string()).in_file(&args.file);
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let clock = Clock::now();
    let under = knobs::run(args, format, &routed)?;
    let outcome = match &under {
        Some(under) => under.outcome.clone(),
        None => simulation().run().map_err(failure)?,
    };
    let wall_seconds = clock.elapsed().as_secs_f64();
    // Being observed costs time and events, so what is reported above comes from a run that is not.
    if let Some(name) = &args.trace {
        let mut timeline = Timeline::new(&routed);
        simulation().run_with(&mut timeline).map_err(failure)?;
        files::write(name, &timeline.to_perfetto(), printer)?;
    }
    let mut utilization = None;
    if args.over_time.is_some() {
        let found = utilization.insert(Utilization::new(&network));
        simulation().run_with(found).map_err(failure)?;
    }
    let bound = bound_time(&program, &left, &outcome, args, printer);
    if let Some(bound) = bound.filter(|it| under.is_none() && outcome.time < *it) {
        let (name, time) = (program.name(), outcome.time);
        let problem = format!(
            "program {name} would take {time}, less than the {bound} that any takes: a fault in \
             Motet, please report it"
        );
        return Err(Failure::wrong(problem).in_file(&args.file));
    }
    drop(progress);
    let (program, network) = (&*program, &network);
    let result = Simulated { args, program, network, outcome, under, utilization, bound };
    if result.outcome.rounded_up {
        printer.note(&format!(
            "{} do not divide into chunks; they were rounded up to {} each",
            args.size, result.outcome.chunk
        ));
    }
    if let Some(name) = &args.svg {
        files::write(name, &result.svg(), printer)?;
    }
    if printer.is_json() {
        printer.json(&result.json(wall_seconds))?;
    } else {
        printer.out(&result.text())?;
    }
    Ok(Status::Done)
}

/// The network under `--fail` and `--scale`.
struct Changed {
    /// The network that the program runs on.
    network: Network,
    /// What the links of that network carry.
    state: NetworkState,
    /// What is left of the network, for the bound.
    left: Network,
}

impl Changed {
    /// A program with routes keeps them: they name links of the whole network, some of which are
    /// slower or down now. Any other program is routed over what is left.
    fn new(
        args: &SimArgs,
        network: Network,
        program: &Program,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let change = args.what_if.of(&network, printer)?;
        let left = change.network(&network).map_err(|it| Failure::unreadable(it.to_string()))?;
        if program.paths().is_empty() {
            let state = NetworkState::nominal(&left);
            return Ok(Self { network: left.clone(), state, left });
        }
        if !change.is_empty() && args.knobs.is_given() {
            let problem = "the kernels' model takes links at their own bandwidth, so it cannot \
                           run a program with routes under `--fail` or `--scale`";
            return Err(Failure::unreadable(problem)
                .with_remedy("export the program first and simulate the exported file"));
        }
        let state = change.state(&network);
        Ok(Self { network, state, left })
    }
}

/// Refuses a program whose routes need a link that is down.
fn avoids_failed(routed: &Routed<'_>, state: &NetworkState) -> Result<(), Failure> {
    let network = routed.network();
    let transfers = 0..routed.program().transfers().len();
    let mut hops = transfers.flat_map(|it| routed.hops(it));
    let Some(hop) = hops.find(|it| !state.is_up(it.link)) else { return Ok(()) };
    let link = network.link(hop.link);
    let (from, to) = (&network.node(link.from).name, &network.node(link.to).name);
    Err(Failure::wrong(format!("the program sends over {from} -> {to}, which `--fail` takes down"))
        .with_remedy("make a program that does without it: `motet synth` takes `--fail` too"))
}

fn program(
    args: &SimArgs,
    network: &Network,
) -> Result<(ProgramFormat, Verified<Program>), Failure> {
    let (format, mut imported) = verify::read(&args.file)?;
    if args.reroute {
        imported.program = reroute::without_routes(&imported.program);
    }
    let remedy = reroute::remedy(&imported.program, network);
    let proved = imported.verify(Some(network)).map_err(|rejected| {
        let report = rejected.report.to_string();
        let problem = "the program is not right on this network, so it is not simulated";
        let failure =
            Failure::wrong(format!("{problem}:\n{}", report.trim_end())).in_file(&args.file);
        match remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        }
    })?;
    Ok((format, proved))
}

/// By default a program of ours keeps its own order on links. A runtime's file lists transfers by thread block,
/// which says nothing about the order in which a link carries them, so its transfers share links fairly.
fn options(args: &SimArgs, format: ProgramFormat) -> SimOptions {
    let usual = if format == ProgramFormat::Motet { Turns::ProgramOrder } else { Turns::Fair };
    SimOptions {
        discipline: match args.discipline.unwrap_or(usual) {
            Turns::ProgramOrder => Discipline::ProgramOrder,
            Turns::Fifo => Discipline::Fifo,
            Turns::Fair => Discipline::FairShare,
        },
        ..SimOptions::default()
    }
}

/// The least time, if there is one that holds for this program.
fn bound_time(
    program: &Program,
    network: &Network,
    outcome: &Outcome,
    args: &SimArgs,
    printer: &Printer,
) -> Option<Duration> {
    let time = match bound::bound(network, program.collective()) {
        Ok(bound) => bound.least(bound.held_against(program), args.size),
        Err(error) => {
            printer.note(&format!("no bound: {error}"));
            return None;
        }
    };
    // The bound is of a group whose ranks alone relay; a program may pass through other GPUs.
    let all = program.collective().ranks() as usize == network.ranks().len();
    if outcome.time < time && !all {
        printer.note("no bound: the program passes through GPUs that are none of its ranks");
        return None;
    }
    Some(time)
}

/// Everything that the text, the JSON and the picture are made from.
struct Simulated<'a> {
    args: &'a SimArgs,
    program: &'a Program,
    network: &'a Network,
    outcome: Outcome,
    /// If it ran under knobs.
    under: Option<Under>,
    utilization: Option<Utilization>,
    bound: Option<Duration>,
}

impl Simulated<'_> {
    fn algbw(&self) -> f64 {
        self.outcome.algbw_gb_per_s(self.args.size)
    }

    fn busbw(&self) -> f64 {
        let (numerator, denominator) = self.program.collective().busbw_factor();
        self.algbw() * f64::from(numerator) / f64::from(denominator)
    }

    /// 1 at the bound, less the slower the program is.
    fn ratio(&self) -> Option<f64> {
        let time = self.outcome.time.as_ps();
        let bound = self.bound.filter(|it| !it.is_zero() && time > 0)?;
        Some(bound.as_ps() as f64 / time as f64)
    }

    fn over_time(&self, link: LinkId) -> Option<Vec<f64>> {
        let parts = self.args.over_time? as usize;
        let utilization = self.utilization.as_ref()?;
        Some(utilization.over_time(link, Instant::START, &self.outcome, parts))
    }

    fn json(&self, wall_seconds: f64) -> SimJson {
        let (outcome, collective) = (&self.outcome, self.program.collective());
        let class = |it: motet_sim::utilization::ClassUse| ClassJson {
            class: it.class.name(),
            links: it.links,
            used: it.used,
            mean: it.mean,
            most: it.most,
        };
        SimJson {
            program: self.program.name().to_owned(),
            collective: collective.kind().name(),
            ranks: collective.ranks(),
            size_bytes: self.args.size.get(),
            time_us: outcome.time.as_us_f64(),
            algbw_gbps: self.algbw(),
            busbw_gbps: self.busbw(),
            bound_time_us: self.bound.map(Duration::as_us_f64),
            ratio_to_bound: self.ratio(),
            transfers: outcome.transfers,
            events: outcome.events,
            wall_seconds,
            knobs: self.under.as_ref().map(KnobsJson::new),
            classes: by_class(self.network, outcome).into_iter().map(class).collect(),
            link_utilization: busiest(outcome).into_iter().map(|it| self.link(it)).collect(),
        }
    }

    fn link(&self, id: LinkId) -> LinkJson {
        let (link, usage) = (self.network.link(id), &self.outcome.links[id.index()]);
        let name = |id| self.network.node(id).name.clone();
        LinkJson {
            link: id.0,
            from: name(link.from),
            to: name(link.to),
            class: link.spec.class.name(),
            utilization: self.outcome.utilization(id),
            bytes: usage.bytes.get(),
            crossings: usage.crossings,
            over_time: self.over_time(id),
        }
    }

    /// What ran, without its time.
    fn heading(&self) -> String {
        let collective = self.program.collective();
        let (kind, ranks) = (collective.kind(), collective.ranks());
        format!("{kind} of {} over {ranks} ranks", self.args.size)
    }

    /// Which time scale a time here is on (docs/nccl-model.md).
    fn time_scale(&self) -> String {
        match &self.under {
            None => "on ideal links".to_owned(),
            Some(under) => under.time_scale(),
        }
    }

    /// The network with what every link did.
    fn svg(&self) -> String {
        let outcome = &self.outcome;
        let (time, name) = (exact(outcome.time), self.program.name());
        let (heading, scale) = (self.heading(), self.time_scale());
        let caption = format!("{heading} in {time} {scale}: {name}");
        svg::write_utilization(self.network, &caption, |id| svg::Traffic {
            utilization: outcome.utilization(id),
            bytes: outcome.links[id.index()].bytes,
        })
    }

    fn text(&self) -> String {
        let outcome = &self.outcome;
        let heading = self.heading();
        let mut out = format!("{}: {}\n", Printer::strong(&heading), self.program.name());
        // Writing to a string cannot fail.
        let mut line = |word: &str, text: String| {
            let _ = writeln!(out, "  {word:9}  {text}");
        };
        line("time", format!("{} {}", exact(outcome.time), self.time_scale()));
        line("algbw", format!("{:.2} GB/s", self.algbw()));
        line("busbw", format!("{:.2} GB/s", self.busbw()));
        if let (Some(bound), Some(ratio)) = (self.bound, self.ratio()) {
            let (bound, percent) = (exact(bound), ratio * 100.0);
            line(
                "bound",
                format!("{bound} at least; the program reaches {percent:.1}% of that speed"),
            );
        }
        if let Some(under) = &self.under {
            line("knobs", knobs::text(under));
            line("made of", knobs::parts_text(under));
        }
        line("transfers", format!("{} in {} events", outcome.transfers, outcome.events));
        let _ = writeln!(out, "{}", Printer::strong("links"));
        let parts = |id| self.over_time(id).unwrap_or_default();
        let over_time: Option<&dyn Fn(LinkId) -> Vec<f64>> =
            if self.utilization.is_some() { Some(&parts) } else { None };
        out.push_str(&picture(self.network, outcome, self.args.top, over_time));
        out
    }
}
