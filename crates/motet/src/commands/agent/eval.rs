//! `motet agent eval`: all policies on held-out scenarios.

use motet_agent::env::{Atlas, Family, Split};
use motet_agent::eval::score::PARTS;
use motet_agent::eval::{Pace, Score};
use motet_agent::policy::{Registered, find, registered};
use motet_units::Seed;
use rayon::prelude::*;
use serde::Serialize;

use crate::args::agent::EvalArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct Row {
    family: &'static str,
    policy: &'static str,
    over_oracle: f64,
    per_call_over_oracle: f64,
    over_nccl: f64,
    worst_over_nccl: f64,
    /// Where the oracle is at least 15% below NCCL's default.
    over_nccl_where_knobs_matter: Option<f64>,
    scenarios_where_knobs_matter: usize,
    recovery_calls: Option<u64>,
    probe_share: f64,
    probe_cost: f64,
    /// Time above the oracle's, by the oracle's whole time, up to each fiftieth of the scenario.
    regret: Vec<f64>,
}

#[derive(Serialize)]
struct EvalJson {
    seed: u64,
    seeds: u64,
    calls: u64,
    epoch: u64,
    results: Vec<Row>,
}

pub(crate) fn run(args: &EvalArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let policies = policies(&args.policy)?;
    let families = families(&args.family)?;
    let progress = Progress::start(printer, "running scenarios");
    let atlas = Atlas::default();
    let pairs: Vec<(Family, &'static Registered)> =
        families.iter().flat_map(|family| policies.iter().map(|it| (*family, *it))).collect();
    let scores = pairs
        .par_iter()
        .map(|(family, policy)| {
            let (size, pace) = ((args.seeds, args.calls), Pace { epoch: args.epoch });
            Score::new(policy, *family, &atlas, Seed::new(args.seed), size, pace)
        })
        .collect::<Result<Vec<_>, _>>();
    drop(progress);
    let scores = scores.map_err(|it| Failure::wrong(it.to_string()))?;
    let rows: Vec<Row> = scores.iter().map(row).collect();
    let table = table(&rows);
    if let Some(file) = &args.output {
        table.write(file, printer)?;
    }
    if let Some(file) = &args.plot {
        files::write(file, &regret(&rows).svg(), printer)?;
    }
    if printer.is_json() {
        let EvalArgs { seed, seeds, calls, epoch, .. } = *args;
        printer.json(&EvalJson { seed, seeds, calls, epoch, results: rows })?;
        return Ok(Status::Done);
    }
    printer.out(&table.text())?;
    printer.out(&format!(
        "\n{} scenarios of {} calls for each, seed {}; times are true means, as shares of the oracle's and of NCCL's default.\n\
         matters: over NCCL's where the oracle is 15% below it or more; back: calls after an abrupt change until within 10% of \
         the oracle's (median); probing: what probes took above what was held to be the best.\n",
        args.seeds, args.calls, args.seed
    ))?;
    Ok(Status::Done)
}

fn policies(names: &[String]) -> Result<Vec<&'static Registered>, Failure> {
    if names.is_empty() {
        return Ok(registered().iter().collect());
    }
    let known = || registered().iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    let one = |it: &String| {
        let remedy = || format!("there are {}", known());
        find(it)
            .ok_or_else(|| Failure::unreadable(format!("no policy `{it}`")).with_remedy(remedy()))
    };
    names.iter().map(one).collect()
}

fn families(names: &[String]) -> Result<Vec<Family>, Failure> {
    if names.is_empty() {
        return Ok(Family::of(Split::HeldOut).collect());
    }
    let known = || Family::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
    let one = |it: &String| {
        let found = Family::ALL.iter().copied().find(|family| family.name() == it);
        let remedy = || format!("there are {}", known());
        found.ok_or_else(|| {
            Failure::unreadable(format!("no family of scenarios `{it}`")).with_remedy(remedy())
        })
    };
    names.iter().map(one).collect()
}

fn row(score: &Score) -> Row {
    let matters = score.where_it_matters();
    Row {
        family: score.family.name(),
        policy: score.policy,
        over_oracle: score.over_oracle(),
        per_call_over_oracle: score.per_call_over_oracle(),
        over_nccl: score.over_default(),
        worst_over_nccl: score.worst_over_default(),
        over_nccl_where_knobs_matter: matters.map(|it| it.0),
        scenarios_where_knobs_matter: matters.map_or(0, |it| it.1),
        recovery_calls: score.recovery(),
        probe_share: score.probes(),
        probe_cost: score.probing(),
        regret: score.regret(),
    }
}

fn table(rows: &[Row]) -> Table {
    let words =
        |of: fn(&Row) -> &str| Values::Words(rows.iter().map(|it| of(it).to_owned()).collect());
    let numbers = |of: fn(&Row) -> f64| Values::Number(rows.iter().map(of).collect(), 3);
    let back = rows.iter().map(|it| it.recovery_calls.map_or(f64::NAN, |it| it as f64));
    Table::new()
        .with("family", words(|it| it.family))
        .with("policy", words(|it| it.policy))
        .with("oracle", numbers(|it| it.over_oracle))
        .with("per call", numbers(|it| it.per_call_over_oracle))
        .with("nccl", numbers(|it| it.over_nccl))
        .with("worst", numbers(|it| it.worst_over_nccl))
        .with("matters", numbers(|it| it.over_nccl_where_knobs_matter.unwrap_or(f64::NAN)))
        .with("back", Values::Number(back.collect(), 0))
        .with("probing", numbers(|it| it.probe_cost))
}

/// Regret of each policy, on the mean of all families.
fn regret(rows: &[Row]) -> Plot {
    let mut names: Vec<&'static str> = Vec::new();
    for it in rows.iter().filter(|it| it.policy != "oracle") {
        if !names.contains(&it.policy) {
            names.push(it.policy);
        }
    }
    let line = |name: &&'static str| {
        let own: Vec<&Row> = rows.iter().filter(|it| it.policy == *name).collect();
        let mean = |part: usize| {
            own.iter().map(|it| it.regret[part]).sum::<f64>() / own.len().max(1) as f64
        };
        let points = (0..PARTS).map(|it| ((it + 1) as f64 / PARTS as f64, 100.0 * mean(it)));
        Line { name: (*name).to_owned(), points: points.collect() }
    };
    Plot {
        title: "Regret over time".to_owned(),
        x: "share of the scenario's calls".to_owned(),
        y: "time above the oracle's, % of its whole".to_owned(),
        log_x: false,
        lines: names.iter().map(line).collect(),
    }
}
