//! `motet agent train`: from the simulated world to a policy's file, with checkpoints and a curve.

use std::path::Path;

use motet_agent::env::{Atlas, Family, Scenario, Split};
use motet_agent::lstm::{Shape, Variant};
use motet_agent::reward::Weights;
use motet_agent::train::{Judgement, Scenarios, Settings, Stage, Trainer, curve, judge};
use motet_runtime::Checksum;
use motet_units::Seed;
use serde::Serialize;

use super::refused;
use crate::args::agent::train::{Part, TrainArgs};
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::progress::Bar;
use crate::table::{Table, Values};

/// Calls of a scenario that the policy is judged on at the end.
const JUDGED_CALLS: u64 = 1000;

#[derive(Serialize)]
struct Found {
    seed: u64,
    updates: u64,
    /// After how many updates the policy was that is kept.
    kept_after: u64,
    weights: usize,
    checksum: String,
    /// On scenarios that are never trained on.
    families: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    family: String,
    calls: u64,
    /// Mean of time over the best action's, less one.
    over_best_percent: f64,
    /// The same for NCCL's own choice.
    nccl_over_best_percent: f64,
    /// Calls within 1 % of the best.
    as_best_percent: f64,
}

pub(crate) fn run(args: &TrainArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let settings = settings(args);
    let checkpoint = format!("{}.training", args.out);
    let mut trainer = begin(args, settings, &checkpoint)?;
    let atlas = Atlas::default();
    let draw = |stage: Stage, seed: Seed| stage_of(stage).draw(&atlas, seed, args.calls).ok();
    let world = Scenarios { draw, weights: Weights::default() };
    let bar = Bar::start(printer, settings.updates, "updates");
    while !trainer.is_done() {
        trainer.advance(&world);
        let done = trainer.updates();
        bar.set(done);
        if let Some(point) = trainer.curve().last() {
            bar.say(format!("regret {:.3}, entropy {:.2}", point.regret, point.entropy));
        }
        if done.is_multiple_of(args.every.max(1)) || trainer.is_done() {
            files::write(&checkpoint, &trainer.write(), printer)?;
        }
    }
    drop(bar);
    let text = trainer.policy().write();
    files::write(&args.out, &text, printer)?;
    files::write(&format!("{}.csv", args.out), &curve::csv(trainer.curve()), printer)?;
    files::write(&format!("{}.svg", args.out), &plot(&trainer).svg(), printer)?;
    let found = Found {
        seed: args.seed,
        updates: trainer.updates(),
        kept_after: trainer.policy().updates,
        weights: trainer.policy().net.weights().len(),
        checksum: Checksum::of(text.as_bytes()).to_string(),
        families: judged(&trainer, &atlas, args.judges),
    };
    print(&found, &args.out, printer)?;
    Ok(Status::Done)
}

const fn stage_of(stage: Stage) -> Family {
    match stage {
        Stage::One => Family::Stage1,
        Stage::Two => Family::Stage2,
        Stage::Three => Family::Stage3,
    }
}

fn settings(args: &TrainArgs) -> Settings {
    let with = |part: Part| !args.without.contains(&part);
    let memory = with(Part::Memory);
    let width = usize::from(args.hidden);
    Settings {
        seed: args.seed,
        updates: args.budget,
        lives: args.lives,
        shape: Shape { encoder: width, hidden: width },
        variant: Variant {
            recurrent: memory && with(Part::Recurrence),
            last: memory,
            ledger: memory && with(Part::Ledger),
            experts: with(Part::Experts),
            nominal: with(Part::Nominal),
            trigger: with(Part::Trigger),
        },
        curriculum: with(Part::Curriculum),
        imitation: args.imitate,
        full: with(Part::Costs),
        judges: args.judges,
        rate: Settings::default().rate,
    }
}

/// A new run, or the one of the checkpoint.
fn begin(args: &TrainArgs, settings: Settings, checkpoint: &str) -> Result<Trainer, Failure> {
    if !args.resume {
        return Ok(Trainer::new(settings));
    }
    if !Path::new(checkpoint).exists() {
        return Err(Failure::unreadable("there is no checkpoint to go on from")
            .in_file(checkpoint)
            .with_remedy("leave `--resume` out to begin"));
    }
    let trainer =
        Trainer::read(&files::read(checkpoint)?).map_err(|it| refused(checkpoint, &it))?;
    if *trainer.settings() == settings {
        return Ok(trainer);
    }
    Err(Failure::wrong("the checkpoint is of a run with other options")
        .in_file(checkpoint)
        .with_remedy("give the options that the run was begun with, or leave `--resume` out"))
}

/// The policy on every held-out family, by time alone.
fn judged(trainer: &Trainer, atlas: &Atlas, judges: u64) -> Vec<Row> {
    let policy = trainer.policy();
    let seeds: Vec<Seed> =
        (0..judges).map(|it| Seed::new(policy.seed).named("held out").numbered(it)).collect();
    let time = Weights { switch: 0.0, sms: 0.0, tier: 0.0, ..Weights::default() };
    let of = |family: Family| {
        let draw = |_: Stage, seed: Seed| -> Option<Scenario> {
            family.draw(atlas, seed, JUDGED_CALLS).ok()
        };
        let world = Scenarios { draw, weights: time };
        row(family, &judge(&world, &policy, Stage::One, &seeds))
    };
    if judges == 0 { Vec::new() } else { Family::of(Split::HeldOut).map(of).collect() }
}

fn row(family: Family, judged: &Judgement) -> Row {
    // Regrets are means of logarithms.
    let percent = |it: f32| (f64::from(it).exp() - 1.0) * 100.0;
    Row {
        family: family.name().to_owned(),
        calls: judged.calls,
        over_best_percent: percent(judged.regret),
        nccl_over_best_percent: percent(judged.default_regret),
        as_best_percent: f64::from(judged.as_best) * 100.0,
    }
}

fn plot(trainer: &Trainer) -> Plot {
    let line = |name: &str, of: fn(&curve::Point) -> f32| Line {
        name: name.to_owned(),
        points: trainer
            .curve()
            .iter()
            .map(|it| (it.update as f64, f64::from(of(it))))
            .filter(|it| it.1 < f64::from(f32::MAX))
            .collect(),
    };
    Plot {
        title: "learning curve: regret of a call's cost, as a logarithm".to_owned(),
        x: "update".to_owned(),
        y: "mean log of cost over the best action's".to_owned(),
        log_x: false,
        lines: vec![
            line("drawn actions", |it| it.regret),
            line("NCCL's own choice", |it| it.default_regret),
            line("best policy, judged", |it| it.best),
        ],
    }
}

fn print(found: &Found, out: &str, printer: &mut Printer) -> Result<(), Failure> {
    if printer.is_json() {
        return printer.json(found);
    }
    let Found { seed, updates, kept_after, weights, checksum, families } = found;
    printer.out(&format!(
        "{out}: {weights} weights, kept after {kept_after} of {updates} updates, seed {seed}, checksum {checksum}\n"
    ))?;
    if families.is_empty() {
        return Ok(());
    }
    let number = |of: &dyn Fn(&Row) -> f64| Values::Number(families.iter().map(of).collect(), 1);
    let calls = families.iter().map(|it| i64::try_from(it.calls).unwrap_or(i64::MAX));
    let table = Table::new()
        .with("held out", Values::Words(families.iter().map(|it| it.family.clone()).collect()))
        .with("calls", Values::Whole(calls.collect()))
        .with("% over best", number(&|it| it.over_best_percent))
        .with("NCCL's %", number(&|it| it.nccl_over_best_percent))
        .with("% as best", number(&|it| it.as_best_percent));
    printer.out(&format!("\n{}", table.text()))
}
