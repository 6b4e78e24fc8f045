//! Figure 3: who communicates when on a rail, for two and three pipeline stages.

use motet_rails::TrainingStep;
use motet_rails::opus::{Setting, measured};
use motet_units::Duration;
use motet_workload::windows::{Phase, View, Windows};
use motet_workload::{Group, Run};

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
    step: TrainingStep,
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
                let mut found = Vec::new();
                for (stage, windows) in part.stages.iter().enumerate() {
                    let all = windows.all().filter(|it| !it.overlap().is_zero());
                    found.extend(all.map(|it| {
                        let (before, after) = (it.before.traffic(), it.after.traffic());
                        format!("{before} with {after} on stage {stage}")
                    }));
                }
                Some(found.join(", "))
            }),
        );
    }
    if let Some(part) = parts.last() {
        let beside = beside(part);
        claims.push(Claim::published(
            "3(b): while one stage has DP traffic, others send to each other".to_owned(),
            !beside.is_zero(),
            format!("{:.1} ms of such messages", beside.as_us_f64() / 1e3),
        ));
    }
    claims
}

/// How long messages run beside DP traffic of a stage that is at neither end of them. This is why circuits must change
/// group by group.
fn beside(part: &Part) -> Duration {
    let mut all = Duration::ZERO;
    for (index, operation, what) in part.step.iteration.communications() {
        let Group::Hop { to } = what.group else { continue };
        let span = part.run.spans()[index];
        for (stage, windows) in (0..).zip(&part.stages) {
            if stage != operation.stage && stage != to {
                let data = windows.phases.iter().filter(|it| it.class == "DP");
                all += data.map(|it| span.end.min(it.end).since(span.start.max(it.start))).sum();
            }
        }
    }
    all
}
