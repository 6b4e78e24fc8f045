//! `motet plan CLUSTER -o FOLDER`: the main job.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_net::formats::cluster_toml;
use motet_net::{Network, Signature};
use motet_runtime::Checksum;
use motet_tune::plan::tune::Effort;
use motet_tune::plan::{Plan, PlanError, Request, folder, make};
use motet_tune::sketch;
use motet_units::Bytes;
use serde::Serialize;

use super::report::Report;
use super::store::Store;
use crate::args::plan::MakeArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Bar;

#[derive(Serialize)]
struct PlanJson<'a> {
    folder: &'a str,
    network: &'a str,
    signature: String,
    ranks: u32,
    seed: u64,
    tasks: usize,
    /// How many tasks a program of ours is best for.
    custom: usize,
    programs: usize,
    least_gain_over_nccl: Option<f64>,
    most_gain_over_nccl: Option<f64>,
    least_gain_over_msccl: Option<f64>,
    most_gain_over_msccl: Option<f64>,
    resumed: usize,
}

pub(crate) fn run(args: &MakeArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let (Some(name), Some(output)) = (&args.cluster, &args.output) else {
        return Err(Failure::unreadable("CLUSTER and `--output` are needed"));
    };
    let cluster = files::network(name, &args.read.options(), printer)?;
    let network = &cluster.network;
    if network.ranks().len() < 2 {
        let gpus = network.ranks().len();
        return Err(Failure::wrong(format!("has {gpus} GPUs: nothing to plan")).in_file(name));
    }
    let request = request(args, network)?;
    let tasks = request.collectives.len() * request.sizes.len();
    let bar = Bar::start(printer, tasks as u64, "tasks tuned");
    let store = Store::open(output, &fingerprint(network, &request), &bar)?;
    let resumed = store.resumed();
    if resumed > 0 {
        printer.note(&format!("{resumed} tasks are known from a plan that was stopped"));
    }
    let plan = make(network, &request, &store).map_err(|it| match it {
        PlanError::Synth { .. } => Failure::wrong(it.to_string()).in_file(name),
        _ => Failure::wrong(it.to_string()),
    })?;
    let mut extra = BTreeMap::from([
        ("network.toml".to_owned(), cluster_toml::write(network)),
        ("report.html".to_owned(), Report { plan: &plan, network }.html()),
    ]);
    for it in request.sketches(network) {
        extra.insert(format!("sketches/{}.toml", it.name), it.sketch.write(network));
    }
    let files = folder::files(&plan, gpus_per_server(network), extra)
        .map_err(|it| Failure::wrong(it.to_string()))?;
    store.finish(&files)?;
    drop(bar);
    if printer.is_json() {
        printer.json(&json(output, &plan, resumed))?;
    } else {
        printer.out(&text(output, &plan))?;
    }
    Ok(Status::Done)
}

fn request(args: &MakeArgs, network: &Network) -> Result<Request, Failure> {
    if args.max < args.min || args.min == Bytes::ZERO {
        return Err(Failure::unreadable(format!("{} to {} are no sizes", args.min, args.max))
            .with_remedy("give `--max` at least what `--min` is, and more than nothing"));
    }
    let mut sizes = vec![args.min];
    while let Some(next) =
        sizes.last().and_then(|it| it.checked_mul(2)).filter(|it| *it <= args.max)
    {
        sizes.push(next);
    }
    let sketch = match &args.sketch {
        Some(name) => Some(sketch::Candidate::given(files::sketch(name, network)?, network)),
        None => None,
    };
    let mut collectives = args.collectives.clone();
    collectives.sort_by_key(|it| it.name());
    collectives.dedup();
    let effort = Effort { method: args.search, trials: args.trials };
    Ok(Request { collectives, sizes, seed: args.seed, effort, sketch })
}

/// What the tuning of a task depends on.
fn fingerprint(network: &Network, request: &Request) -> String {
    let text = format!("{} {} {request:?}", env!("CARGO_PKG_VERSION"), Signature::of(network));
    Checksum::of(text.as_bytes()).to_string()
}

/// How many consecutive ranks a server has, if all have as many.
fn gpus_per_server(network: &Network) -> Option<u32> {
    let servers: Vec<_> =
        network.ranks().iter().map(|it| network.node(*it).location.server.as_deref()).collect();
    let first = servers.first().copied().flatten()?;
    let per = servers.iter().take_while(|it| **it == Some(first)).count();
    let even = servers.chunks(per).all(|it| it.len() == per && it.iter().all(|s| *s == it[0]));
    even.then(|| u32::try_from(per).unwrap_or(u32::MAX))
}

fn custom(plan: &Plan) -> usize {
    let best = plan.tasks.iter().filter_map(|it| it.best());
    best.filter(|it| it.algorithm.is_none()).count()
}

fn json<'a>(folder: &'a str, plan: &'a Plan, resumed: usize) -> PlanJson<'a> {
    let (nccl, msccl) = (plan.gains(|it| it.nccl.as_ref()), plan.gains(|it| it.msccl.as_ref()));
    PlanJson {
        folder,
        network: &plan.network,
        signature: plan.signature.to_string(),
        ranks: plan.ranks,
        seed: plan.seed,
        tasks: plan.tasks.len(),
        custom: custom(plan),
        programs: plan.programs.len(),
        least_gain_over_nccl: nccl.map(|it| it.0),
        most_gain_over_nccl: nccl.map(|it| it.1),
        least_gain_over_msccl: msccl.map(|it| it.0),
        most_gain_over_msccl: msccl.map(|it| it.1),
        resumed,
    }
}

fn text(folder: &str, plan: &Plan) -> String {
    let mut out = format!(
        "plan for {}: {} tasks over {} ranks (seed {})\n",
        plan.network,
        plan.tasks.len(),
        plan.ranks,
        plan.seed
    );
    let (own, custom) = (plan.tasks.len() - custom(plan), custom(plan));
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "  best       NCCL itself for {own} tasks, a program of the plan for {custom}"
    );
    let gains = [
        ("NCCL's own choice", plan.gains(|it| it.nccl.as_ref())),
        ("MSCCL, one setting", plan.gains(|it| it.msccl.as_ref())),
    ];
    for (name, span) in gains {
        if let Some((low, high)) = span {
            let _ =
                writeln!(out, "  gain       {low:.2} to {high:.2} times over {name}, simulated");
        }
    }
    let _ = writeln!(out, "  left out   {} programs that cannot be used", plan.left_out.len());
    let _ = writeln!(out, "  written    {folder} ({folder}/report.html for people)");
    out
}
