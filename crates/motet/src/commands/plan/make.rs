//! `motet plan CLUSTER -o FOLDER`: the main job.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::formats::cluster_toml;
use motet_tune::plan::communicator::Effort;
use motet_tune::plan::make::Nccl;
use motet_tune::plan::{
    Journal, MscclppUse, Pick, Plan, PlanError, Request, Runtime, TunedTask, folder, journal, make,
};
use motet_tune::sketch;
use motet_units::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::considered::Considered;
use super::measured;
use super::report::Report;
use super::sockets;
use super::store::Store;
use super::workload;
use crate::args::plan::{Backend, MakeArgs};
use crate::args::sizes::sizes;
use crate::failure::{Failure, Status};
use crate::files::{self, Cluster};
use crate::printer::Printer;
use crate::progress::Bar;

#[derive(Serialize)]
struct PlanJson<'a> {
    folder: &'a str,
    network: &'a str,
    signature: String,
    ranks: u32,
    seed: u64,
    margin_percent: u32,
    max_blocks: u32,
    tasks: usize,
    /// Of them, those that NCCL has an algorithm for.
    compared: usize,
    /// How many of these a program beats NCCL at its best in, by the margin: in MSCCL's executor, and
    /// in MSCCL++.
    msccl_programs: usize,
    mscclpp_programs: usize,
    /// How many tasks NCCL does better with a tuner than by itself, by the margin.
    tuned: usize,
    /// Geometric means over all tasks.
    gain_over_nccl_best: Option<f64>,
    gain_over_nccl: Option<f64>,
    least_gain_over_nccl_best: Option<f64>,
    most_gain_over_nccl_best: Option<f64>,
    least_gain_over_msccl: Option<f64>,
    most_gain_over_msccl: Option<f64>,
    resumed: usize,
}

pub(crate) fn run(args: &MakeArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let (Some(name), Some(output)) = (&args.cluster, &args.output) else {
        return Err(Failure::unreadable("CLUSTER and `--output` are needed"));
    };
    let Cluster { mut network, format, .. } = files::network(name, &args.read.options(), printer)?;
    // A template calls every network after itself, and `dgx-h100` is not what was asked for with `count=2`.
    if format == "template" && name.split(':').next() == Some(network.name()) {
        network = network.renamed(name.clone());
    }
    if network.name().is_empty() {
        // A plan's folder may be far from the cluster file: it must say itself what it is for.
        network = network.renamed(files::stem(name));
    }
    let network = &network;
    if files::gpus(network, name)? < 2 {
        return Err(Failure::wrong("has 1 GPU: nothing to plan").in_file(name));
    }
    if let Some(job) = &args.workload {
        return workload::run(args, network, job, output, printer);
    }
    if args.backend == Backend::Nccl {
        return measured::run(args, network, output, printer);
    }
    if args.backend == Backend::Tcp {
        return sockets::run(args, network, output, printer);
    }
    let (plan, resumed) =
        one(args, network, &request(args, network)?, output, printer, &Plan::clone)?;
    if printer.is_json() {
        printer.json(&json(output, &plan, resumed))?;
    } else {
        printer.out(&text(output, &plan))?;
    }
    Ok(Status::Done)
}

/// Makes a plan for one network and writes what `kept` leaves of it. Returns all of it, and how many tasks were
/// known from a plan that was stopped.
pub(super) fn one(
    args: &MakeArgs,
    network: &Network,
    request: &Request,
    output: &str,
    printer: &Printer,
    kept: &dyn Fn(&Plan) -> Plan,
) -> Result<(Plan, usize), Failure> {
    let tasks: usize = request.tasks.iter().map(|it| it.1.len()).sum();
    let bar = Bar::start(printer, tasks as u64, "tasks tuned");
    // The first thing that takes time, before any program is made.
    bar.say("searching rings and trees as NCCL does");
    let fingerprint = journal::fingerprint(env!("CARGO_PKG_VERSION"), network, request);
    let store = Store::<TunedTask>::open(output, &fingerprint, &bar)?;
    if let Some(note) = store.passed_over() {
        printer.note(note);
    }
    let resumed = store.known().len();
    if resumed > 0 {
        printer.note(&format!("{resumed} tasks are known from a plan that was stopped"));
    }
    let considered = Considered::new(&store, request, network.ranks().len());
    let journal: &dyn Journal = if args.write_candidates.is_some() { &considered } else { &store };
    let plan = make(network, request, journal).map_err(|it| match (it, &args.cluster) {
        (it @ PlanError::Synth { .. }, Some(name)) => Failure::wrong(it.to_string()).in_file(name),
        (it, _) => Failure::wrong(it.to_string()),
    })?;
    if let Some(folder) = &args.write_candidates {
        let count = considered.write(folder)?;
        printer.note(&format!("{count} plans of MSCCL++ that were considered are in {folder}"));
    }
    let mut extra = BTreeMap::new();
    for it in request.sketches(network) {
        extra.insert(format!("sketches/{}.toml", it.name), it.sketch.write(network));
    }
    write(args, network, &kept(&plan), extra, store)?;
    Ok((plan, resumed))
}

/// Writes a plan into its folder, with its network, a report, and `extra` files.
pub(super) fn write<T: Serialize + DeserializeOwned>(
    args: &MakeArgs,
    network: &Network,
    plan: &Plan,
    mut extra: BTreeMap<String, String>,
    store: Store<'_, T>,
) -> Result<(), Failure> {
    let maker =
        folder::Maker { motet: env!("CARGO_PKG_VERSION").to_owned(), command: command(args) };
    let report = Report { plan, network, maker: &maker };
    extra.insert(folder::NETWORK.to_owned(), cluster_toml::write(network));
    extra.insert("report.html".to_owned(), report.html());
    let nccl = Nccl::new(network, plan.setup);
    let files = folder::files(plan, &maker, nccl.priced(network).as_ref(), extra)
        .map_err(|it| Failure::wrong(it.to_string()))?;
    store.finish(&files)
}

pub(super) fn request(args: &MakeArgs, network: &Network) -> Result<Request, Failure> {
    if args.min == Bytes::ZERO {
        return Err(Failure::unreadable("a call of no bytes needs no plan")
            .with_remedy("give `--min` more than nothing"));
    }
    let sizes = sizes(args.min, args.max, args.factor)?;
    let terms = match &args.terms {
        Some(name) => files::terms(name)?,
        None => MscclppUse::default().terms,
    };
    let sketch = match &args.sketch {
        Some(name) => Some(sketch::Candidate::given(files::sketch(name, network)?, network)),
        None => None,
    };
    let mut collectives = args.collectives.clone();
    collectives.sort_by_key(|it| it.name());
    collectives.dedup();
    let unsuited =
        |it: &&CollectiveKind| matches!(it, CollectiveKind::SendRecv | CollectiveKind::AllToAllV);
    if let Some(kind) = collectives.iter().find(unsuited) {
        return Err(Failure::unreadable(format!(
            "{kind} cannot be planned by size alone: who sends how much to whom differs from call to call"
        ))
        .with_remedy(format!("leave {kind} to NCCL, and plan the others")));
    }
    if args.max_blocks == Some(0) {
        return Err(Failure::unreadable("a program cannot run on 0 thread blocks")
            .with_remedy("give `--max-blocks` at least 1"));
    }
    let tasks = collectives.into_iter().map(|it| (it, sizes.clone())).collect();
    Ok(Request {
        tasks,
        seed: args.seed,
        effort: Effort { method: args.search, trials: args.trials },
        sketch,
        most_blocks: args.max_blocks,
        margin_percent: args.margin,
        mscclpp: MscclppUse {
            ranks_per_gpu: args.ranks_per_gpu.max(1),
            in_place: args.in_place,
            terms,
        },
        runtime: args.runtime.as_deref().map(|it| match it {
            "msccl" => Runtime::Msccl,
            _ => Runtime::Mscclpp,
        }),
    })
}

/// The command that makes this plan again.
fn command(args: &MakeArgs) -> String {
    let mut words = vec!["motet plan".to_owned()];
    words.extend(args.cluster.iter().cloned());
    if let Some(job) = &args.workload {
        words.push(format!("--workload {job}"));
        words.extend(args.layout.words());
    } else {
        let names: Vec<&str> = args.collectives.iter().map(|it| it.name()).collect();
        words.push(format!("--collectives {}", names.join(",")));
        words.push(format!("--min {} --max {}", args.min.get(), args.max.get()));
        words.extend((args.factor != 2).then(|| format!("--factor {}", args.factor)));
    }
    words.extend(args.sketch.iter().map(|it| format!("--sketch {it}")));
    words.push(format!("--margin {}", args.margin));
    words.extend(args.max_blocks.iter().map(|it| format!("--max-blocks {it}")));
    words.extend(args.runtime.iter().map(|it| format!("--runtime {it}")));
    if args.ranks_per_gpu > 1 {
        words.push(format!("--ranks-per-gpu {}", args.ranks_per_gpu));
    }
    if args.in_place {
        words.push("--in-place".to_owned());
    }
    words.extend(args.terms.iter().map(|it| format!("--terms {it}")));
    if args.backend == Backend::Nccl {
        words.push("--backend nccl".to_owned());
        words.extend(args.live.env.iter().map(|(name, value)| format!("--env {name}={value}")));
        words.extend(args.live.graphs.then(|| "--graphs".to_owned()));
        return words.join(" ");
    }
    words.push(format!("--search {} --trials {} --seed {}", args.search, args.trials, args.seed));
    words.join(" ")
}

/// How many of the tasks that NCCL has an algorithm for are done by a program, in MSCCL's executor and
/// in MSCCL++; and how many of those tasks there are.
fn programs(plan: &Plan) -> (usize, usize, usize) {
    let compared = || plan.tasks.iter().filter(|it| it.nccl_best.is_some());
    let msccl = compared().filter(|it| it.pick.is_program()).count();
    (msccl, compared().filter(|it| it.mscclpp.is_some()).count(), compared().count())
}

/// How many tasks NCCL does better with a tuner.
fn tuned(plan: &Plan) -> usize {
    let changed =
        |it: &&TunedTask| plan.kept(it).is_some_and(|kept| it.nccl.as_ref() != Some(kept));
    plan.tasks.iter().filter(changed).count()
}

fn best(task: &TunedTask) -> Option<&Pick> {
    task.nccl_best.as_ref()
}

fn json<'a>(folder: &'a str, plan: &'a Plan, resumed: usize) -> PlanJson<'a> {
    let (nccl, msccl) = (plan.gains(best), plan.gains(|it| it.msccl.as_ref()));
    let (msccl_programs, mscclpp_programs, compared) = programs(plan);
    PlanJson {
        folder,
        network: &plan.network,
        signature: plan.signature.to_string(),
        ranks: plan.ranks,
        seed: plan.seed,
        margin_percent: plan.margin_percent,
        max_blocks: plan.most_blocks,
        tasks: plan.tasks.len(),
        compared,
        msccl_programs,
        mscclpp_programs,
        tuned: tuned(plan),
        gain_over_nccl_best: plan.mean_gain(best),
        gain_over_nccl: plan.mean_gain(|it| it.nccl.as_ref()),
        least_gain_over_nccl_best: nccl.map(|it| it.0),
        most_gain_over_nccl_best: nccl.map(|it| it.1),
        least_gain_over_msccl: msccl.map(|it| it.0),
        most_gain_over_msccl: msccl.map(|it| it.1),
        resumed,
    }
}

fn text(folder: &str, plan: &Plan) -> String {
    let tasks = plan.tasks.len();
    let mut out = format!(
        "plan for {}: {tasks} tasks over {} ranks (seed {})\n",
        plan.network, plan.ranks, plan.seed
    );
    let mut line = |word: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {word:9}  {text}");
    };
    let (msccl, mscclpp, compared) = programs(plan);
    let margin = plan.margin_percent;
    line(
        "programs",
        format!(
            "in {msccl} of {compared} tasks MSCCL's executor runs one faster than NCCL at its best, by \
             more than {margin}%; MSCCL++ in {mscclpp}; the rest is NCCL's"
        ),
    );
    if let (Some((low, high)), Some(mean)) = (plan.gains(best), plan.mean_gain(best)) {
        // As it is printed.
        let below = match low < 0.995 {
            true => format!(
                " (below 1 where NCCL's own choice is kept, as its best gains less than {margin}%)"
            ),
            false => String::new(),
        };
        line(
            "gain",
            format!(
                "{low:.2} to {high:.2} times NCCL at its best setting per call, {mean:.2} in the mean{below}"
            ),
        );
    }
    if let (Some((low, high)), Some(mean)) =
        (plan.gains(|it| it.nccl.as_ref()), plan.mean_gain(|it| it.nccl.as_ref()))
    {
        let tuned = tuned(plan);
        line(
            "",
            format!(
                "{low:.2} to {high:.2} times NCCL by itself, {mean:.2} in the mean (a tuner alone gains \
                 in {tuned} tasks)"
            ),
        );
    }
    if let Some((low, high)) = plan.gains(|it| it.msccl.as_ref()) {
        line("", format!("{low:.2} to {high:.2} times MSCCL with one setting for everything"));
    }
    line(
        "blocks",
        format!("at most {} of a GPU's for a program, as many as NCCL's", plan.most_blocks),
    );
    line(
        "left out",
        format!("{} programs that no runtime can load within that", plan.left_out.len()),
    );
    line(
        "times",
        "kernels modelled by NCCL's own constants (MSCCL++: by terms fitted on an H200), not measured \
         (docs/nccl-model.md)"
            .to_owned(),
    );
    line(
        "written",
        format!("{folder} (report.html for people; `motet plan check {folder}` proves it)"),
    );
    out
}
