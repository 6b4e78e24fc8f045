//! `motet rails sim`: a training step on optical rails, beside packet switches and circuits that stay.

use std::fmt::Write as _;

use motet_rails::knobs::Algorithms;
use motet_rails::optical::{Delay, Fixed, Switched, Switching};
use motet_rails::{RailsError, TrainingStep};
use motet_units::Duration;
use motet_workload::Run;
use motet_workload::simulate::Reason;
use serde::Serialize;

use super::knobs::Hands;
use super::machine::machine;
use super::{failure, knobs};
use crate::args::rails::RailsSimArgs;
use crate::commands::workload::input::{Workload, read};
use crate::commands::workload::time;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// A step under one delay, without and with provisioning.
struct Row {
    delay: Duration,
    late: Switched,
    early: Switched,
}

struct Found {
    step: TrainingStep,
    electrical: Run,
    rows: Vec<Row>,
    /// Ports shared out evenly and in the best way, or why that cannot be.
    fixed: Result<(Fixed, Fixed), String>,
    ports: u32,
    knobs: Option<WithKnobs>,
}

/// The same with a knobs hand: the last of many steps, and their mean.
struct WithKnobs {
    policy: &'static str,
    steps: u32,
    /// AllReduces that the hand could choose for.
    tasks: usize,
    electrical: Steps,
    /// For each delay, provisioned.
    switched: Vec<Steps>,
}

#[derive(Clone, Copy)]
struct Steps {
    last: Duration,
    mean: Duration,
}

impl Steps {
    fn of(runs: &[Run]) -> Self {
        let sum: u128 = runs.iter().map(|it| u128::from(it.time().as_ps())).sum();
        let mean = sum / runs.len().max(1) as u128;
        Self {
            last: runs.last().map_or(Duration::ZERO, Run::time),
            mean: Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX)),
        }
    }
}

/// Runs the step with a knobs hand, on packet switches and under every delay; each with a hand that has seen nothing.
fn with_knobs(
    args: &RailsSimArgs,
    step: &TrainingStep,
    switchings: &[Switching],
) -> Result<Option<WithKnobs>, Failure> {
    let Some(name) = &args.agent else { return Ok(None) };
    let policy = knobs::policy(name)?;
    let tasks = motet_rails::knobs::tasks(step).map_err(failure)?;
    let runs = |run: &dyn Fn(&Algorithms) -> Result<Run, RailsError>| {
        let mut hand = Hands::new(policy, &tasks)?;
        let runs = motet_rails::knobs::steps(step, &tasks, args.steps, &mut hand, run);
        Ok::<_, Failure>(Steps::of(&runs.map_err(failure)?))
    };
    let electrical = runs(&|by| step.electrical_by(by))?;
    let switched = switchings
        .iter()
        .map(|it| runs(&|by| Ok(step.switched_by(it, by)?.run)))
        .collect::<Result<_, _>>()?;
    let (policy, steps, tasks) = (policy.name, args.steps, tasks.len());
    Ok(Some(WithKnobs { policy, steps, tasks, electrical, switched }))
}

pub(crate) fn run(args: &RailsSimArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let Workload::Job(job) = read(std::slice::from_ref(&args.job), &args.layout, printer)? else {
        return Err(Failure::wrong("is a trace, and a training job is wanted here")
            .in_file(&args.job)
            .with_remedy("give a job's file (docs/workloads.md) or a model's name"));
    };
    let machine = machine(&args.machine, Some(&job.draft().gpu.name))?;
    let step = TrainingStep::new(*job, machine).map_err(failure)?;
    let electrical = step.electrical().map_err(failure)?;
    let (mut rows, mut provisioned) = (Vec::new(), Vec::new());
    for optics in &args.delay {
        let delay = Delay { command: args.command_delay, optics: *optics, link_up: args.link_up };
        let switching = |provisioned| Switching {
            ports: args.ports,
            delay,
            provisioned,
            granularity: args.granularity.into(),
            offload: args.offload,
        };
        let late = step.switched(&switching(false)).map_err(failure)?;
        let early = step.switched(&switching(true)).map_err(failure)?;
        rows.push(Row { delay: delay.total(), late, early });
        provisioned.push(switching(true));
    }
    let knobs = with_knobs(args, &step, &provisioned)?;
    let fixed = step.fixed(args.ports).map_err(|it| it.to_string());
    let found = Found { step, electrical, rows, fixed, ports: args.ports, knobs };
    found.write(args, printer)?;
    if printer.is_json() {
        printer.json(&found.json())?;
    } else {
        printer.out(&found.text())?;
    }
    Ok(Status::Done)
}

#[derive(Serialize)]
struct FoundJson {
    electrical_us: f64,
    mfu: f64,
    tokens_per_s: f64,
    exposed: Vec<ExposedJson>,
    switched: Vec<RowJson>,
    fixed: Option<FixedJson>,
    fixed_refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    knobs: Option<KnobsJson>,
}

#[derive(Serialize)]
struct KnobsJson {
    policy: &'static str,
    steps: u32,
    /// AllReduces that it could choose for.
    tasks: usize,
    electrical: StepsJson,
    /// For each delay, provisioned.
    switched: Vec<StepsJson>,
}

#[derive(Serialize)]
struct StepsJson {
    last_us: f64,
    mean_us: f64,
}

impl From<&Steps> for StepsJson {
    fn from(it: &Steps) -> Self {
        Self { last_us: it.last.as_us_f64(), mean_us: it.mean.as_us_f64() }
    }
}

#[derive(Serialize)]
struct ExposedJson {
    stage: u32,
    computed_us: f64,
    communication_us: f64,
    bubble_us: f64,
}

#[derive(Serialize)]
struct RowJson {
    delay_us: f64,
    time_us: f64,
    provisioned_time_us: f64,
    longer_percent: f64,
    provisioned_longer_percent: f64,
    changes: u64,
    provisioned_changes: u64,
}

#[derive(Serialize)]
struct FixedJson {
    even_us: f64,
    even_ports: Vec<(&'static str, u32)>,
    best_us: f64,
    best_ports: Vec<(&'static str, u32)>,
}

impl Found {
    fn percent(&self, it: Duration) -> f64 {
        (it.as_ps() as f64 / self.electrical.time().as_ps() as f64 - 1.0) * 100.0
    }

    fn write(&self, args: &RailsSimArgs, printer: &mut Printer) -> Result<(), Failure> {
        if let (Some(file), Some(row)) = (&args.trace, self.rows.first()) {
            let title = format!("{} with circuits changed in {}", args.job, row.delay);
            let trace = row.early.run.to_perfetto(&self.step.iteration, &title);
            files::write(file, &trace, printer)?;
        }
        if let Some(file) = &args.files.csv {
            self.table().write(file, printer)?;
        }
        if let Some(file) = &args.files.svg {
            files::write(file, &self.plot().svg(), printer)?;
        }
        Ok(())
    }

    fn json(&self) -> FoundJson {
        let job = &self.step.job;
        let exposed = |stage| {
            let exposed = self.electrical.exposed(&self.step.iteration, stage);
            ExposedJson {
                stage,
                computed_us: self.electrical.computed(&self.step.iteration, stage).as_us_f64(),
                communication_us: exposed.communication().as_us_f64(),
                bubble_us: (exposed.of(Reason::Bubble) + exposed.of(Reason::Done)).as_us_f64(),
            }
        };
        let row = |it: &Row| RowJson {
            delay_us: it.delay.as_us_f64(),
            time_us: it.late.run.time().as_us_f64(),
            provisioned_time_us: it.early.run.time().as_us_f64(),
            longer_percent: self.percent(it.late.run.time()),
            provisioned_longer_percent: self.percent(it.early.run.time()),
            changes: it.late.changes,
            provisioned_changes: it.early.changes,
        };
        let fixed = self.fixed.as_ref().ok().map(|(even, best)| FixedJson {
            even_us: even.time().as_us_f64(),
            even_ports: even.shares.clone(),
            best_us: best.time().as_us_f64(),
            best_ports: best.shares.clone(),
        });
        FoundJson {
            electrical_us: self.electrical.time().as_us_f64(),
            mfu: self.electrical.mfu(job),
            tokens_per_s: self.electrical.tokens_per_s(job),
            exposed: (0..job.layout().pp).map(exposed).collect(),
            switched: self.rows.iter().map(row).collect(),
            fixed,
            fixed_refused: self.fixed.as_ref().err().cloned(),
            knobs: self.knobs.as_ref().map(|it| KnobsJson {
                policy: it.policy,
                steps: it.steps,
                tasks: it.tasks,
                electrical: (&it.electrical).into(),
                switched: it.switched.iter().map(Into::into).collect(),
            }),
        }
    }

    fn text(&self) -> String {
        let run = &self.electrical;
        let mut out = format!(
            "{} on {} GPUs, step of {}, communication on ideal links\n",
            self.step.job.model().name,
            self.step.job.layout().ranks(),
            time(run.time())
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  packet switches  {:>10}  MFU {:.3}, {:.0} tokens/s",
            time(run.time()),
            run.mfu(&self.step.job),
            run.tokens_per_s(&self.step.job)
        );
        self.write_stages(&mut out);
        match &self.fixed {
            Ok((even, best)) => {
                for (name, it) in [("circuits stay", even), ("best that stay", best)] {
                    let shares: Vec<String> =
                        it.shares.iter().map(|(name, ports)| format!("{name} {ports}")).collect();
                    let _ = writeln!(
                        out,
                        "  {name:15}  {:>10}  {:+.2} %, ports: {}",
                        time(it.time()),
                        self.percent(it.time()),
                        shares.join(", ")
                    );
                }
            }
            Err(why) => {
                let _ = writeln!(out, "  circuits stay    refused: {why}");
            }
        }
        let _ = writeln!(
            out,
            "\n  circuits change, {} ports a NIC\n  delay       on demand              provisioned            changes",
            self.ports
        );
        for it in &self.rows {
            let (late, early) = (it.late.run.time(), it.early.run.time());
            let _ = writeln!(
                out,
                "  {:10} {:>10} {:>+8.2} % {:>10} {:>+8.2} % {:6} {:6}",
                time(it.delay),
                time(late),
                self.percent(late),
                time(early),
                self.percent(early),
                it.late.changes,
                it.early.changes
            );
        }
        self.write_knobs(&mut out);
        out
    }

    fn write_knobs(&self, out: &mut String) {
        let Some(it) = &self.knobs else { return };
        let less = |before: Duration, after: Duration| {
            (1.0 - after.as_ps() as f64 / before.as_ps().max(1) as f64) * 100.0
        };
        let _ = writeln!(
            out,
            "\n  with knobs ({}, {} AllReduces to choose for, {} steps)\n  {:16} {:>10}  {:>10}  {:>10}",
            it.policy, it.tasks, it.steps, "", "without", "last step", "mean"
        );
        let provisioned = self.rows.iter().zip(&it.switched);
        let provisioned = provisioned.map(|(row, it)| (time(row.delay), row.early.run.time(), *it));
        let first = ("packet switches".to_owned(), self.electrical.time(), it.electrical);
        for (name, before, it) in [first].into_iter().chain(provisioned) {
            let _ = writeln!(
                out,
                "  {name:16} {:>10}  {:>10}  {:>10}  {:.2} % less",
                time(before),
                time(it.last),
                time(it.mean),
                less(before, it.mean)
            );
        }
    }

    /// Why stages do not compute, on packet switches: the slowest and the fastest say most.
    fn write_stages(&self, out: &mut String) {
        let stages = self.step.job.layout().pp;
        let ends = if stages > 1 { vec![0, stages - 1] } else { vec![0] };
        for stage in ends {
            let exposed = self.electrical.exposed(&self.step.iteration, stage);
            let mut parts: Vec<String> = Vec::new();
            for (reason, it) in &exposed.0 {
                let name = match reason {
                    Reason::Transfer(it) => format!("{} communication", it.name()),
                    Reason::Held(it) => format!("{} held", it.name()),
                    Reason::Bubble => "bubble".to_owned(),
                    Reason::Done => "done".to_owned(),
                };
                parts.push(format!("{name} {}", time(*it)));
            }
            let computed = time(self.electrical.computed(&self.step.iteration, stage));
            let _ = writeln!(
                out,
                "    stage {stage:<3} computes {computed}, waits: {}",
                parts.join(", ")
            );
        }
    }

    fn table(&self) -> Table {
        let number =
            |of: &dyn Fn(&Row) -> f64| Values::Number(self.rows.iter().map(of).collect(), 4);
        Table::new()
            .with("delay_ms", number(&|it| it.delay.as_us_f64() / 1e3))
            .with("time_ms", number(&|it| it.late.run.time().as_us_f64() / 1e3))
            .with("provisioned_time_ms", number(&|it| it.early.run.time().as_us_f64() / 1e3))
            .with("longer_percent", number(&|it| self.percent(it.late.run.time())))
            .with("provisioned_longer_percent", number(&|it| self.percent(it.early.run.time())))
    }

    fn plot(&self) -> Plot {
        let line = |name: &str, of: &dyn Fn(&Row) -> Duration| Line {
            name: name.to_owned(),
            points: self
                .rows
                .iter()
                .map(|it| (it.delay.as_us_f64() / 1e3, of(it).as_us_f64() / 1e6))
                .collect(),
        };
        Plot {
            title: "time of a step over the switching delay".to_owned(),
            x: "delay, ms".to_owned(),
            y: "step, s".to_owned(),
            log_x: false,
            lines: vec![
                line("packet switches", &|_| self.electrical.time()),
                line("on demand", &|it| it.late.run.time()),
                line("provisioned", &|it| it.early.run.time()),
            ],
        }
    }
}
