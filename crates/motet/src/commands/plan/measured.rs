//! `motet plan CLUSTER --backend nccl -o FOLDER`: a plan of NCCL's settings, measured on the GPUs that it is for.
//!
//! Points are written down as they are measured, so that a run that is stopped, or whose budget ends, goes on where it was with the
//! same command; the plan is written in any case, and says which of its times were measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use motet_collective::CollectiveKind;
use motet_live::{Call, LiveError, Mode};
use motet_nccl::{Basis, TunedCollective};
use motet_net::Network;
use motet_runtime::Checksum;
use motet_tune::calibrate::nccl::store;
use motet_tune::measure::plan::{MEASURED, Measurements, calls, plan};
use motet_tune::measure::{Bench, Point, Setting, Task, Tried, Walk, WalkEvent, walk};
use motet_tune::plan::{Plan, Request, TunedTask, journal, table};
use motet_units::{Bytes, Duration};
use serde::Serialize;

use super::make;
use super::store::Store;
use crate::args::plan::MakeArgs;
use crate::commands::bench::nccl_tests;
use crate::commands::live::{Session, Wanted, collective, failure};
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::progress::Bar;

/// The file of a plan that has every time of every round, so that the same command can go on.
const POINTS: &str = "nccl/points.jsonl";

#[derive(Serialize)]
struct PlanJson<'a> {
    folder: &'a str,
    backend: &'static str,
    network: &'a str,
    signature: String,
    ranks: u32,
    nodes: u32,
    nccl: &'a str,
    gpu: &'a str,
    tasks: usize,
    /// Of them, those that were measured; the others are modelled.
    measured: usize,
    /// How many of these gain over NCCL's own choice, on two communicators.
    tuned: usize,
    /// Settings that gave wrong results.
    wrong: usize,
    /// Geometric means over measured tasks, up to 1 MiB and above.
    gain_up_to_1_mib: Option<f64>,
    gain_above_1_mib: Option<f64>,
    resumed: usize,
}

pub(super) fn run(
    args: &MakeArgs,
    network: &Network,
    output: &str,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    only_nccl(args)?;
    let request = make::request(args, network)?;
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let mut tasks = tasks(&request)?;
    // Of the smallest calls there is nothing for every one of very many ranks.
    tasks.retain(|it| call(*it, ranks).is_some());
    let largest = tasks.iter().filter_map(|it| call(*it, ranks)).map(|it| it.bytes(ranks)).max();
    let bar = Bar::start(printer, tasks.len() as u64, "points measured");
    bar.say("starting ranks");
    let wanted = Wanted { ranks, tuner: true, plan: None, bytes: largest.unwrap_or(0) };
    let Some(session) = Session::start(&args.live, wanted)? else { return Ok(Status::Done) };
    let fingerprint = fingerprint(args, network, &request, &session);
    let store = Store::<Point>::open(output, &fingerprint, &bar)?;
    if let Some(note) = store.passed_over() {
        printer.note(note);
    }
    let mut known = latest(store.known());
    if known.is_empty() {
        // A run whose budget has ended has left its points in the plan.
        known = latest(&earlier(output, &fingerprint));
        known.iter().for_each(|it| store.keep(it));
    }
    let resumed = known.len();
    if resumed > 0 {
        printer.note(&format!(
            "{resumed} points are known from an earlier run; give another folder to measure all of them anew"
        ));
    }
    let mut bench = Live::new(session, args, printer);
    known.iter().for_each(|_| store.count());
    let points = walk(&mut bench, Walk { tasks, known }, &mut |event| tell(&event, &store, &bar))
        .map_err(|it| failure(&it))?;
    let wrong = points.iter().map(|it| it.wrong.len()).sum();
    let (nccl, gpu) = (bench.session.nccl.clone(), bench.session.gpu.clone());
    let measured = Measurements { nccl: nccl.clone(), nodes: bench.nodes, points };
    bench.session.end()?;
    let made = plan(network, &request, &measured).map_err(|it| Failure::wrong(it.to_string()))?;
    let extra = BTreeMap::from([
        (MEASURED.to_owned(), store::write(&calls(&measured, ranks))),
        (POINTS.to_owned(), lines(&fingerprint, &measured.points)),
    ]);
    make::write(args, network, &made, extra, store)?;
    drop(bar);
    note(&made, printer);
    let about = About { nccl: &nccl, gpu: &gpu, wrong, resumed };
    if printer.is_json() {
        printer.json(&json(output, &made, &about))?;
    } else {
        printer.out(&text(output, &made, &about))?;
    }
    Ok(if wrong == 0 { Status::Done } else { Status::Wrong })
}

/// What there is to say beside the plan.
struct About<'a> {
    nccl: &'a str,
    gpu: &'a str,
    wrong: usize,
    resumed: usize,
}

/// Options for programs have no place in a plan of NCCL's settings.
fn only_nccl(args: &MakeArgs) -> Result<(), Failure> {
    let given = [
        ("--runtime", args.runtime.is_some()),
        ("--sketch", args.sketch.is_some()),
        ("--in-place", args.in_place),
        ("--terms", args.terms.is_some()),
        ("--max-blocks", args.max_blocks.is_some()),
        ("--write-candidates", args.write_candidates.is_some()),
    ];
    match given.into_iter().find(|it| it.1) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::unreadable(format!(
            "`{name}` is for programs, and `--backend nccl` measures NCCL's own algorithms"
        ))
        .with_remedy(format!("leave `{name}` away, or make a second plan by models for programs"))),
    }
}

fn tasks(request: &Request) -> Result<Vec<Task>, Failure> {
    let unknown = |it: &&(CollectiveKind, Vec<Bytes>)| TunedCollective::of(it.0).is_none();
    if let Some((kind, _)) = request.tasks.iter().find(unknown) {
        return Err(Failure::unreadable(format!("NCCL chooses no algorithm for {kind}"))
            .with_remedy("it does for allreduce, allgather, reducescatter, broadcast and reduce"));
    }
    let of = |(kind, sizes): &(CollectiveKind, Vec<Bytes>)| {
        let kind = *kind;
        sizes.iter().map(move |size| Task { kind, size: *size }).collect::<Vec<_>>()
    };
    Ok(request.tasks.iter().flat_map(of).collect())
}

/// The call that a task is.
fn call(task: Task, ranks: u32) -> Option<Call> {
    let (_, count) = nccl_tests::size(task.kind, ranks, task.size);
    let count = usize::try_from(count).ok().filter(|it| *it > 0)?;
    Some(Call { collective: collective(task.kind)?, count, in_place: false })
}

/// All points, as a journal of this run.
fn lines(fingerprint: &str, points: &[Point]) -> String {
    let points = points.iter().map(journal::line);
    std::iter::once(journal::header(fingerprint)).chain(points).collect()
}

/// The points of the plan that is there, if it was made by the same command on the same machine.
fn earlier(output: &str, fingerprint: &str) -> Vec<Point> {
    let Ok(text) = std::fs::read(std::path::Path::new(output).join(POINTS)) else {
        return Vec::new();
    };
    match journal::read(&text, fingerprint) {
        journal::Found::Ours(known) => known.tasks,
        _ => Vec::new(),
    }
}

/// What tells apart journals of different runs.
fn fingerprint(args: &MakeArgs, network: &Network, request: &Request, session: &Session) -> String {
    let plan = journal::fingerprint(env!("CARGO_PKG_VERSION"), network, request);
    let Session { nccl, gpu, .. } = session;
    let text = format!("{plan} {nccl} {gpu} {:?} {}", args.live.env, args.live.graphs);
    Checksum::of(text.as_bytes()).to_string()
}

/// Of each task what was written last: a point that was confirmed stands twice in the journal.
fn latest(known: &[Point]) -> Vec<Point> {
    let last: BTreeMap<Task, &Point> = known.iter().map(|it| (it.task(), it)).collect();
    last.into_values().cloned().collect()
}

fn tell(event: &WalkEvent<'_>, store: &Store<'_, Point>, bar: &Bar) {
    match event {
        WalkEvent::Measuring(Task { kind, size }) => bar.say(format!("{kind} of {size}")),
        WalkEvent::Confirming(Task { kind, size }) => bar.say(format!("{kind} of {size}, again")),
        WalkEvent::Measured(point) => {
            store.keep(point);
            store.count();
        }
        WalkEvent::Confirmed(point) => store.keep(point),
    }
}

/// The GPUs behind a walk.
struct Live<'a> {
    session: Session,
    begun: Instant,
    budget: Duration,
    graphs: bool,
    printer: &'a Printer,
    nodes: Option<u32>,
}

impl<'a> Live<'a> {
    fn new(session: Session, args: &MakeArgs, printer: &'a Printer) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
        let begun = Instant::now();
        let (budget, graphs) = (args.budget, args.live.graphs);
        Self { session, begun, budget, graphs, printer, nodes: None }
    }

    fn call(&self, task: Task) -> Result<Call, LiveError> {
        call(task, self.session.ranks()).ok_or(LiveError::NoRoom)
    }
}

fn mode(setting: Setting) -> Mode {
    match setting {
        Setting::Own => Mode::Default,
        Setting::Asked { algorithm, protocol, channels } => {
            let (algorithm, protocol) = table::runtime(algorithm, protocol);
            Mode::Forced { algorithm, protocol, channels, chunk: None }
        }
    }
}

/// What NCCL does by itself, as the tuner has noted it.
fn setting(mode: Mode) -> Option<Setting> {
    let Mode::Forced { algorithm, protocol, .. } = mode else { return None };
    let all = motet_nccl::Algorithm::ALL
        .into_iter()
        .flat_map(|algorithm| motet_nccl::Protocol::ALL.map(|protocol| (algorithm, protocol)));
    let (algorithm, protocol) =
        all.into_iter().find(|it| table::runtime(it.0, it.1) == (algorithm, protocol))?;
    Some(Setting::Asked { algorithm, protocol, channels: None })
}

impl Bench for Live<'_> {
    type Error = LiveError;

    fn try_once(&mut self, task: Task, asked: Setting) -> Result<Tried, LiveError> {
        let call = self.call(task)?;
        let checked = match self.session.check(call, mode(asked)) {
            Ok(checked) => checked,
            Err(error) if asked == Setting::Own => return Err(error),
            Err(error) => {
                // A setting that NCCL offers and that fails or hangs: the others need ranks that run.
                let Task { kind, size } = task;
                self.printer
                    .warning(&format!("{kind} of {size} under {asked} does not run: {error}"));
                self.session.begin()?;
                return Ok(Tried::NotOffered);
            }
        };
        self.nodes = checked.shape.map(|it| it.1).or(self.nodes);
        Ok(match checked {
            _ if checked.refused => Tried::NotOffered,
            _ if checked.wrong > 0 => {
                let Task { kind, size } = task;
                let elements = checked.wrong;
                self.printer.warning(&format!(
                    "{kind} of {size} under {asked}: {elements} elements are wrong; it is left out"
                ));
                Tried::Wrong
            }
            _ => Tried::Right(checked.own.and_then(setting)),
        })
    }

    fn time(
        &mut self,
        task: Task,
        settings: &[Setting],
        calls: u32,
    ) -> Result<Vec<Duration>, LiveError> {
        let modes: Vec<Mode> = settings.iter().copied().map(mode).collect();
        let call = self.call(task)?;
        self.session.time(call, &modes, calls, self.graphs)
    }

    fn renew(&mut self) -> Result<(), LiveError> {
        self.session.begin()
    }

    fn left(&self) -> Duration {
        let spent = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.budget - Duration::from_ps(spent.saturating_mul(1000))
    }
}

/// A cluster file that promises less than was measured is worth a word.
fn note(plan: &Plan, printer: &Printer) {
    let faster =
        plan.tasks.iter().filter(|it| it.is_measured() && it.pick.time_ps < it.bound_ps).count();
    if faster > 0 {
        printer.note(&format!(
            "{faster} measured times are below the bound of {}: the cluster file says less than there is",
            plan.network
        ));
    }
}

/// The geometric mean of what the plan gains where it was measured.
fn gain(plan: &Plan, small: bool) -> Option<f64> {
    let of = |it: &&TunedTask| it.is_measured() && (it.size_bytes <= 1 << 20) == small;
    let gains = plan.tasks.iter().filter(of).filter_map(|it| it.gain(it.nccl.as_ref()));
    let (count, logs) = gains.fold((0, 0.0), |(count, sum), it| (count + 1, sum + it.ln()));
    (count > 0).then(|| (logs / f64::from(count)).exp())
}

fn tuned(plan: &Plan) -> usize {
    plan.tasks.iter().filter(|it| it.is_measured() && !it.leaves_to_nccl(&it.pick)).count()
}

fn json<'a>(folder: &'a str, plan: &'a Plan, about: &About<'a>) -> PlanJson<'a> {
    PlanJson {
        folder,
        backend: "nccl",
        network: &plan.network,
        signature: plan.signature.to_string(),
        ranks: plan.ranks,
        nodes: plan.nodes,
        nccl: about.nccl,
        gpu: about.gpu,
        tasks: plan.tasks.len(),
        measured: plan.tasks.iter().filter(|it| it.pick.basis == Basis::Measured).count(),
        tuned: tuned(plan),
        wrong: about.wrong,
        gain_up_to_1_mib: gain(plan, true),
        gain_above_1_mib: gain(plan, false),
        resumed: about.resumed,
    }
}

fn text(folder: &str, plan: &Plan, about: &About<'_>) -> String {
    let Plan { network, ranks, nodes, tasks, .. } = plan;
    let mut out =
        format!("plan for {network}: {} tasks over {ranks} ranks on {nodes} nodes\n", tasks.len());
    let mut line = |word: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {word:9}  {text}");
    };
    let measured = tasks.iter().filter(|it| it.is_measured()).count();
    line(
        "measured",
        format!("{measured} of {} tasks, NCCL {} on {}", tasks.len(), about.nccl, about.gpu),
    );
    if measured < tasks.len() {
        line(
            "modelled",
            format!(
                "{}; the budget did not reach them: run it again with more",
                tasks.len() - measured
            ),
        );
    }
    line("tuned", format!("{}; the rest is best left to NCCL", tuned(plan)));
    for (small, what) in [(true, "up to 1 MiB"), (false, "above 1 MiB")] {
        if let Some(gain) = gain(plan, small) {
            line("gain", format!("{gain:.3} times NCCL's own choices in the mean, {what}"));
        }
    }
    if about.wrong > 0 {
        line("WRONG", format!("{} settings gave wrong results and are left out", about.wrong));
    }
    line("written", format!("{folder} (source {folder}/nccl/env in the job; docs/nccl-plugin.md)"));
    out
}
