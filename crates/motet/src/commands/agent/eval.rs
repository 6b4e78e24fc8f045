//! `motet agent eval`: all policies on held-out scenarios, and on fresh ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use motet_agent::env::{Atlas, Family, Split};
use motet_agent::eval::contender::FROM_FILE;
use motet_agent::eval::{Alarms, Contender, Pace, Score, false_alarms};
use motet_agent::policy::{DEFAULT, MOST_LOST, find, registered};
use motet_units::Seed;
use rayon::prelude::*;
use serde::Serialize;

use super::pictures::{confusion, regret, tiers};
use super::read_policy;
use crate::args::agent::EvalArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct Row {
    /// What the family is for: `held-out`, `fresh` or `training`.
    set: &'static str,
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
    lease: u32,
    default_policy: &'static str,
    results: Vec<Row>,
    /// What the trigger's false alarms cost in the quiet scenarios, where `infer-triggered` and they were asked for.
    false_alarms: Option<AlarmsJson>,
}

#[derive(Serialize)]
struct AlarmsJson {
    alarms: u64,
    calls: u64,
    /// Time with alarms over time without, less one: in the mean of scenarios, and in the worst.
    mean_cost: f64,
    worst_cost: f64,
}

pub(crate) fn run(args: &EvalArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let policies = policies(&args.policy, args.policy_file.as_deref())?;
    let families = families(&args.family)?;
    let progress = Progress::start(printer, "running scenarios");
    let atlas = Atlas::default();
    let pairs: Vec<(Family, &Contender)> =
        families.iter().flat_map(|family| policies.iter().map(|it| (*family, it))).collect();
    let scores = pairs
        .par_iter()
        .map(|(family, policy)| {
            let (size, pace) =
                ((args.seeds, args.calls), Pace { epoch: args.epoch, lease: args.lease });
            Score::new(policy, *family, &atlas, Seed::new(args.seed), size, pace)
        })
        .collect::<Result<Vec<_>, _>>();
    let wrong = |it: motet_agent::env::PlaceError| Failure::wrong(it.to_string());
    let scores = scores.map_err(wrong)?;
    let triggered = policies.iter().any(|it| it.name() == "infer-triggered");
    let alarms = if triggered && families.contains(&Family::Quiet) {
        let size = (args.seeds, args.calls);
        Some(alarms(&false_alarms(&atlas, Seed::new(args.seed), size).map_err(wrong)?))
    } else {
        None
    };
    drop(progress);
    let rows: Vec<Row> = scores.iter().map(row).collect();
    write(args, &scores, &rows, printer)?;
    if printer.is_json() {
        let EvalArgs { seed, seeds, calls, epoch, lease, .. } = *args;
        let (default_policy, results) = (DEFAULT, rows);
        printer.json(&EvalJson {
            seed,
            seeds,
            calls,
            epoch,
            lease,
            default_policy,
            results,
            false_alarms: alarms,
        })?;
        return Ok(Status::Done);
    }
    print(args, &rows, alarms.as_ref(), printer)?;
    Ok(Status::Done)
}

/// The files that were asked for.
fn write(
    args: &EvalArgs,
    scores: &[Score],
    rows: &[Row],
    printer: &mut Printer,
) -> Result<(), Failure> {
    if let Some(file) = &args.output {
        table(&rows.iter().collect::<Vec<_>>()).write(file, printer)?;
    }
    if let Some(file) = &args.plot {
        files::write(file, &regret(scores).svg(), printer)?;
    }
    // The default if it was run, else the first.
    let Some(first) = scores.first() else { return Ok(()) };
    let policy = scores.iter().find(|it| it.policy == DEFAULT).unwrap_or(first).policy;
    let own: Vec<&Score> = scores.iter().filter(|it| it.policy == policy).collect();
    if let Some(file) = &args.plot_confusion {
        files::write(file, &confusion(policy, &own).svg(), printer)?;
    }
    if let Some(file) = &args.plot_tiers {
        files::write(file, &tiers(policy, &own).svg(), printer)?;
    }
    Ok(())
}

fn print(
    args: &EvalArgs,
    rows: &[Row],
    alarms: Option<&AlarmsJson>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let sets: BTreeSet<&str> = rows.iter().map(|it| it.set).collect();
    let splits = Split::ALL.iter().map(|it| it.name()).filter(|it| sets.contains(it));
    for set in splits {
        let own: Vec<&Row> = rows.iter().filter(|it| it.set == set).collect();
        if sets.len() > 1 {
            printer.out(&format!("{set}:\n"))?;
        }
        printer.out(&table(&own).text())?;
        printer.out("\n")?;
    }
    printer.out(&format!(
        "{} scenarios of {} calls for each, seed {}; times are true means, as shares of the oracle's and of NCCL's default.\n\
         matters: over NCCL's where the oracle is 15% below it or more; back: calls after an abrupt change until within 10% of \
         the oracle's (median); probing: what probes took above what was held to be the best.\n",
        args.seeds, args.calls, args.seed
    ))?;
    let own = rows.iter().filter(|it| it.policy == DEFAULT);
    let worst = own.map(|it| it.worst_over_nccl).fold(0.0, f64::max);
    if worst > 0.0 {
        let held = if worst <= 1.0 + MOST_LOST { "within" } else { "not within" };
        printer.out(&format!(
            "The default is {DEFAULT}: at worst {worst:.3} of NCCL's own choice here, {held} the {:.0}% that it may lose.\n",
            100.0 * MOST_LOST
        ))?;
    }
    if let Some(it) = alarms {
        printer.out(&format!(
            "False alarms (quiet, infer-triggered against the same that hears none): {} in {} calls cost {:.2}%, at worst {:.2}%.\n",
            it.alarms,
            it.calls,
            100.0 * it.mean_cost,
            100.0 * it.worst_cost
        ))?;
    }
    Ok(())
}

fn alarms(all: &[Alarms]) -> AlarmsJson {
    AlarmsJson {
        alarms: all.iter().map(|it| it.alarms).sum(),
        calls: all.iter().map(|it| it.calls).sum(),
        mean_cost: all.iter().map(Alarms::cost).sum::<f64>() / all.len().max(1) as f64,
        worst_cost: all.iter().map(Alarms::cost).fold(f64::NEG_INFINITY, f64::max),
    }
}

/// The policies of these names; without names all, and the LSTM where there is a file of it.
fn policies(names: &[String], file: Option<&str>) -> Result<Vec<Contender>, Failure> {
    // Read before anything is run, so that a file that is refused leaves nothing half done.
    let lstm = file.map(read_policy).transpose()?.map(Arc::new);
    if names.is_empty() {
        let all = registered().iter().map(Contender::from);
        return Ok(all.chain(lstm.map(Contender::Lstm)).collect());
    }
    let known = || {
        let all = registered().iter().map(|it| it.name).chain(FROM_FILE);
        format!("there are {}", all.collect::<Vec<_>>().join(", "))
    };
    let one = |name: &String| match (name.as_str(), &lstm) {
        ("lstm", Some(it)) => Ok(Contender::Lstm(Arc::clone(it))),
        ("lstm-bare", Some(it)) => Ok(Contender::Bare(Arc::clone(it))),
        ("lstm" | "lstm-bare", None) => {
            Err(Failure::unreadable(format!("the policy `{name}` is a trained one"))
                .with_remedy("name its file by `--policy-file`; `motet agent train` writes one"))
        }
        (name, _) => find(name)
            .map(Contender::from)
            .ok_or_else(|| Failure::unreadable(format!("no policy `{name}`")).with_remedy(known())),
    };
    names.iter().map(one).collect()
}

/// The families of these names, of families or of all that are for one thing; without names those held out and the
/// fresh ones.
fn families(names: &[String]) -> Result<Vec<Family>, Failure> {
    if names.is_empty() {
        return Ok(Family::of(Split::HeldOut).chain(Family::of(Split::Fresh)).collect());
    }
    let mut found: Vec<Family> = Vec::new();
    for name in names {
        let asked = |it: &Family| it.name() == name || it.split().name() == name;
        let all: Vec<Family> = Family::ALL.iter().copied().filter(asked).collect();
        if all.is_empty() {
            let splits = Split::ALL.iter().map(|it| it.name());
            let known = splits.chain(Family::ALL.iter().map(|it| it.name()));
            let remedy = format!("there are {}", known.collect::<Vec<_>>().join(", "));
            return Err(
                Failure::unreadable(format!("no family of scenarios `{name}`")).with_remedy(remedy)
            );
        }
        for it in all {
            if !found.contains(&it) {
                found.push(it);
            }
        }
    }
    Ok(found)
}

fn row(score: &Score) -> Row {
    let matters = score.where_it_matters();
    Row {
        set: score.family.split().name(),
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

fn table(rows: &[&Row]) -> Table {
    let words =
        |of: fn(&Row) -> &str| Values::Words(rows.iter().map(|it| of(it).to_owned()).collect());
    let numbers = |of: fn(&Row) -> f64| Values::Number(rows.iter().map(|it| of(it)).collect(), 3);
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
