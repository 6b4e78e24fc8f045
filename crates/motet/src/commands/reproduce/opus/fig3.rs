//! Figure 3: who communicates when on a rail, for two and three pipeline stages.

use motet_rails::Step;
use motet_rails::opus::{Setting, measured};
use motet_units::Duration;
use motet_workload::Run;
use motet_workload::windows::{Phase, View, Windows};

use super::super::claims::Claim;
use super::super::report::Report;
use super::SILENT;
use crate::args::reproduce::ReproduceArgs;
use crate::commands::rails::failure;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::table::{Table, Values};

/// One of the figure's two halves.
struct Part {
    name: &'static str,
    step: Step,
    run: Run,
    /// Phases of each stage's ranks.
    stages: Vec<Windows>,
}

pub(in crate::commands::reproduce) fn fig3(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let mut parts = Vec::new();
    for (name, stages) in [("a", 2), ("b", 3)] {
        let setting = Setting { stages, micro_batches: 4, ..Setting::default() };
        let step = measured(&setting).map_err(failure)?;
        let run = step.electrical().map_err(failure)?;
        let of = |it| step.windows(&run, View::Stage(it));
        let stages = (0..stages).map(of).collect();
        parts.push(Part { name, step, run, stages });
    }
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder)
            .map_err(|it| Failure::unreadable(format!("cannot be made: {it}")).in_file(folder))?;
        for it in &parts {
            let trace = it.run.to_perfetto(&it.step.iteration, &format!("figure 3({})", it.name));
            files::write(&format!("{folder}/opus-fig3-{}.json", it.name), &trace, printer)?;
        }
    }
    Report {
        name: "opus-fig3",
        title: "Opus, figure 3: traffic on a rail in one step, by stage",
        table: table(&parts),
        claims: claims(&parts),
        usual: &SILENT,
        assumed: vec![
            "four micro-batches; with three stages the model has 33 layers, since stages are equal here".to_owned(),
            "`-o FOLDER` also writes both steps as timelines for ui.perfetto.dev".to_owned(),
        ],
        plots: Vec::new(),
    }
    .finish(args, printer)
}

fn table(parts: &[Part]) -> Table {
    let mut rows: Vec<(&str, usize, &Phase)> = Vec::new();
    for part in parts {
        for (stage, windows) in part.stages.iter().enumerate() {
            rows.extend(windows.phases.iter().map(|it| (part.name, stage, it)));
        }
    }
    let ms = |of: &dyn Fn(&Phase) -> u64| {
        Values::Number(rows.iter().map(|it| of(it.2) as f64 / 1e9).collect(), 1)
    };
    Table::new()
        .with("figure", Values::Words(rows.iter().map(|it| format!("3({})", it.0)).collect()))
        .with("stage", Values::Whole(rows.iter().map(|it| it.1 as i64).collect()))
        .with("traffic", Values::Words(rows.iter().map(|it| it.2.traffic()).collect()))
        .with("from_ms", ms(&|it| it.start.as_ps()))
        .with("to_ms", ms(&|it| it.end.as_ps()))
        .with("calls", Values::Whole(rows.iter().map(|it| it.2.calls as i64).collect()))
        .with(
            "MiB",
            Values::Number(
                rows.iter().map(|it| it.2.bytes().get() as f64 / f64::from(1 << 20)).collect(),
                1,
            ),
        )
}

fn claims(parts: &[Part]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for part in parts {
        let first: Vec<String> =
            part.stages.iter().filter_map(|it| Some(it.phases.first()?.traffic())).collect();
        let lazy = first
            .iter()
            .enumerate()
            .all(|(stage, it)| *it == if stage == 0 { "DP allgather" } else { "PP sendrecv" });
        claims.push(Claim::published(
            format!("3({}): a stage gathers parameters only when its input has come", part.name),
            lazy,
            first.join(", then "),
        ));
        let overlap: Duration = part
            .stages
            .iter()
            .flat_map(|it| it.all().map(|it| it.overlap()).collect::<Vec<_>>())
            .sum();
        claims.push(
            Claim::published(
                format!("3({}): traffic of one rank for DP and for PP does not overlap", part.name),
                overlap.is_zero(),
                format!("{:.2} ms of a step overlap", overlap.as_us_f64() / 1e3),
            )
            .detail(|| {
                Some(
                    "the last gradients go to the stage before while the last layers' ReduceScatter still runs: each has a stream of \
                     its own, and nothing orders the two"
                        .to_owned(),
                )
            }),
        );
    }
    if let Some(part) = parts.last() {
        let beside = beside(part);
        claims.push(Claim::published(
            "3(b): the last stage's AllGathers run while other stages send to each other"
                .to_owned(),
            !beside.is_zero(),
            format!("{:.1} ms of such messages", beside.as_us_f64() / 1e3),
        ));
    }
    claims
}

/// How long messages between stages that are not the last run while the last one gathers.
fn beside(part: &Part) -> Duration {
    let Some(last) = part.stages.last() else { return Duration::ZERO };
    let gathers = last.phases.iter().filter(|it| it.traffic() == "DP allgather");
    let others = part.step.iteration.communications().filter(|(_, operation, what)| {
        let to = match what.group {
            motet_workload::Group::Hop { to } => to,
            _ => return false,
        };
        let end = part.stages.len() as u32 - 1;
        operation.stage != end && to != end
    });
    let spans: Vec<_> = others.map(|it| part.run.spans()[it.0]).collect();
    gathers
        .flat_map(|phase| {
            spans.iter().map(|it| it.end.min(phase.end).since(it.start.max(phase.start)))
        })
        .sum()
}
