//! `motet plan CLUSTER --workload JOB -o FOLDER`: plans for just the calls that a training job makes.
//!
//! Each sort of group gets a plan of its own in a folder below `FOLDER`, because the plugin picks a plan by a
//! communicator's ranks and nodes. `FOLDER/workload.json` says what is where and what a step gains.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use motet_net::{Network, PartError};
use motet_tune::plan::workload::{
    GroupClass, LeftOut, Line, LineTime, Workload, line_time, sorted,
};
use motet_tune::plan::{Plan, Request, folder};
use motet_workload::{Parallelism, Recording};
use serde::Serialize;

use super::make::{one, request};
use crate::args::plan::{Backend, MakeArgs};
use crate::commands::workload::input::{self, Workload as Input};
use crate::commands::workload::{short, time};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

#[derive(Serialize)]
struct WorkloadJson<'a> {
    folder: &'a str,
    network: &'a str,
    workload: &'a str,
    /// What to set so that the plugin finds all plans.
    motet_plan: String,
    plans: Vec<ClassJson>,
    left_to_nccl: Vec<LeftOutJson>,
    /// Ranks that stand for all, the one that communicates longest first.
    ranks: Vec<LineJson<'a>>,
    /// Of the first of them.
    gain_over_nccl: Option<f64>,
    tuner_gain_over_nccl: Option<f64>,
}

#[derive(Serialize)]
struct ClassJson {
    folder: String,
    ranks: u32,
    nodes: u32,
    tasks: usize,
    signature: String,
}

#[derive(Serialize)]
struct LeftOutJson {
    parallelism: Option<&'static str>,
    collective: &'static str,
    calls: u64,
    bytes: u128,
    why: &'static str,
}

#[derive(Serialize)]
struct LineJson<'a> {
    rank: &'a str,
    nccl_us: f64,
    tuned_us: f64,
    planned_us: f64,
    calls_not_modelled: u64,
}

/// The ranks that stand for all, over how many steps.
struct Lines {
    lines: Vec<Line>,
    steps: u64,
}

pub(super) fn run(
    args: &MakeArgs,
    network: &Network,
    job: &str,
    output: &str,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    if args.backend != Backend::Sim {
        return Err(Failure::unreadable(
            "a workload is planned by models, not by `--backend nccl` or `tcp`",
        )
        .with_remedy(
            "leave out `--backend`, or measure with `--collectives`, `--min` and `--max`",
        ));
    }
    let Lines { lines, steps } = lines(args, job, printer)?;
    let workload = sorted(network, &lines).map_err(|it| match it {
        PartError::UnknownRank { rank, ranks } => {
            Failure::wrong(format!("has rank {rank}, and the cluster has {ranks} GPUs"))
                .in_file(job)
                .with_remedy("give a cluster with as many GPUs as the job has ranks")
        }
        other => Failure::wrong(other.to_string()),
    })?;
    if workload.classes.is_empty() {
        return Err(Failure::wrong("makes no call that can be planned for")
            .in_file(job)
            .with_remedy(
                "`motet workload show` has its calls; messages and tiny calls are left to NCCL",
            ));
    }
    folder_for(output)?;
    let mut plans = Vec::new();
    for class in &workload.classes {
        plans.push(planned(args, class, output, printer)?);
    }
    let mut times: Vec<(&str, LineTime)> = lines
        .iter()
        .zip(&workload.uses)
        .map(|(line, uses)| (line.label.as_str(), line_time(&workload, uses, &plans)))
        .collect();
    times.sort_by_key(|it| std::cmp::Reverse(it.1.nccl));
    let report =
        Report { output, network, job, workload: &workload, plans: &plans, times: &times, steps };
    let text = serde_json::to_string_pretty(&report.json())
        .map_err(|it| Failure::wrong(it.to_string()))?;
    let at = Path::new(output).join("workload.json");
    files::write_bytes(&at.to_string_lossy(), format!("{text}\n").as_bytes())?;
    if printer.is_json() {
        printer.json(&report.json())?;
    } else {
        printer.out(&report.text())?;
    }
    Ok(Status::Done)
}

/// The folder of the plans, made if it is not there; a plan's own folder is none.
fn folder_for(output: &str) -> Result<(), Failure> {
    if Path::new(output).join(folder::MANIFEST).exists() {
        return Err(Failure::unreadable("is the folder of one plan, and a workload has several")
            .in_file(output)
            .with_remedy("give `-o` another folder"));
    }
    std::fs::create_dir_all(output)
        .map_err(|it| Failure::unreadable(format!("cannot be made: {it}")).in_file(output))
}

fn planned(
    args: &MakeArgs,
    class: &GroupClass,
    output: &str,
    printer: &Printer,
) -> Result<Plan, Failure> {
    let request = Request { tasks: class.tasks(), ..request(args, &class.network)? };
    let folder = Path::new(output).join(&class.name);
    let kept = |plan: &Plan| class.for_table(plan);
    let folder = folder.to_string_lossy();
    one(args, &class.network, &request, &folder, printer, &kept).map(|it| it.0)
}

fn lines(args: &MakeArgs, name: &str, printer: &Printer) -> Result<Lines, Failure> {
    let line = |label: String, demands| Line { label, demands };
    match input::read(&[name.to_owned()], &args.layout, printer)? {
        Input::Job(job) => {
            let iteration = job.iteration(0).map_err(|it| Failure::wrong(it.to_string()))?;
            let stages = job.layout().pp;
            let label = |stage: u32| match stages {
                1 => "every rank".to_owned(),
                _ => format!("a rank of stage {stage}"),
            };
            let lines = (0..stages).map(|it| line(label(it), job.demands(&iteration, it)));
            Ok(Lines { lines: lines.collect(), steps: 1 })
        }
        Input::Recording(it) => Ok(recorded(&it)),
        Input::Chakra(it) => match it.recording() {
            Some(recording) => Ok(recorded(&recording?)),
            None => {
                Err(Failure::wrong("its traces have no times, and do not say whose steps they are")
                    .in_file(name)
                    .with_remedy("describe the job in a file of its own (docs/workloads.md)"))
            }
        },
        Input::Aicb(it) => {
            let demands = it.demands().ok_or_else(|| {
                Failure::wrong(
                    "does not say how many GPUs there are, or TP, EP and PP do not divide them",
                )
                .in_file(name)
                .with_remedy("make it with an AICB that writes `all_gpus:`")
            })?;
            Ok(Lines { lines: vec![line("rank 0".to_owned(), demands)], steps: 1 })
        }
    }
}

fn recorded(it: &Recording) -> Lines {
    let lines = it
        .ranks()
        .iter()
        .map(|rank| Line { label: format!("rank {rank}"), demands: it.demands(*rank) });
    Lines { lines: lines.collect(), steps: it.steps().len().max(1) as u64 }
}

struct Report<'a> {
    output: &'a str,
    network: &'a Network,
    job: &'a str,
    workload: &'a Workload,
    plans: &'a [Plan],
    times: &'a [(&'a str, LineTime)],
    steps: u64,
}

impl Report<'_> {
    fn folders(&self) -> Vec<String> {
        let classes = self.workload.classes.iter();
        classes
            .map(|it| Path::new(self.output).join(&it.name).to_string_lossy().into_owned())
            .collect()
    }

    fn gain(&self, of: impl Fn(&LineTime) -> motet_units::Duration) -> Option<f64> {
        let it = &self.times.first()?.1;
        let planned = of(it).as_ps();
        (planned > 0).then(|| it.nccl.as_ps() as f64 / planned as f64)
    }

    fn json(&self) -> WorkloadJson<'_> {
        let class = |((class, plan), folder): ((&GroupClass, &Plan), String)| ClassJson {
            folder,
            ranks: plan.ranks,
            nodes: plan.nodes,
            tasks: class.for_table(plan).tasks.len(),
            signature: plan.signature.to_string(),
        };
        let us = |it: motet_units::Duration| it.as_us_f64() / self.steps as f64;
        let left = |it: &LeftOut| LeftOutJson {
            parallelism: it.parallelism.map(Parallelism::name),
            collective: it.kind.name(),
            calls: it.calls,
            bytes: it.bytes,
            why: it.why,
        };
        let plans = self.workload.classes.iter().zip(self.plans).zip(self.folders());
        let lines = self.times.iter().map(|(rank, it)| LineJson {
            rank,
            nccl_us: us(it.nccl),
            tuned_us: us(it.tuned),
            planned_us: us(it.planned),
            calls_not_modelled: it.unknown,
        });
        WorkloadJson {
            folder: self.output,
            network: self.network.name(),
            workload: self.job,
            motet_plan: self.folders().join(":"),
            plans: plans.map(class).collect(),
            left_to_nccl: self.workload.left_out.iter().map(left).collect(),
            ranks: lines.collect(),
            gain_over_nccl: self.gain(|it| it.planned),
            tuner_gain_over_nccl: self.gain(|it| it.tuned),
        }
    }

    fn text(&self) -> String {
        let mut out = format!("plans for {} on {}\n", self.job, self.network.name());
        let mut line = |word: &str, text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {word:14}{text}");
        };
        for (class, plan) in self.workload.classes.iter().zip(self.plans) {
            let kinds: Vec<&str> = class.sizes.keys().map(|it| it.name()).collect();
            line(
                &class.name,
                format!(
                    "{} ranks on {} {}: {} tasks ({})",
                    plan.ranks,
                    plan.nodes,
                    if plan.nodes == 1 { "node" } else { "nodes" },
                    class.for_table(plan).tasks.len(),
                    kinds.join(", ")
                ),
            );
        }
        for it in &self.workload.left_out {
            let of = it.parallelism.map_or("", Parallelism::name);
            let (kind, calls, bytes) = (it.kind.name(), it.calls, short(it.bytes));
            line(
                "left to NCCL",
                format!("{of} {kind}, {calls} calls of {bytes} in all: {}", it.why),
            );
        }
        if let Some((rank, it)) = self.times.first() {
            self.step(rank, it, &mut line);
        }
        line("use", format!("MOTET_PLAN={}", self.folders().join(":")));
        let mut shapes: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for plan in self.plans {
            *shapes.entry((plan.ranks, plan.nodes)).or_default() += 1;
        }
        if shapes.values().any(|it| *it > 1) {
            line(
                "",
                "plans of equal ranks and nodes: the plugin takes the first for both".to_owned(),
            );
        }
        out
    }

    fn step(&self, rank: &str, it: &LineTime, line: &mut dyn FnMut(&str, String)) {
        let each = |it: motet_units::Duration| {
            time(motet_units::Duration::from_ps(it.as_ps() / self.steps.max(1)))
        };
        if it.nccl.is_zero() {
            line("a step", "gains cannot be told: NCCL is not modelled on this network".to_owned());
            return;
        }
        let less =
            |of: motet_units::Duration| 100.0 * (1.0 - of.as_ps() as f64 / it.nccl.as_ps() as f64);
        line("a step", format!("{rank} communicates for {} with NCCL by itself,", each(it.nccl)));
        line("", format!("{} with the tuner ({:.1}% less),", each(it.tuned), less(it.tuned)));
        line(
            "",
            format!("{} with programs too ({:.1}% less):", each(it.planned), less(it.planned)),
        );
        line("", "calls one after the other, each alone on its links, by models".to_owned());
        if it.unknown > 0 {
            line("", format!("{} calls are not modelled and not in it", it.unknown));
        }
    }
}
