//! `motet rails windows`: the time between phases of traffic on a rail, simulated or recorded.

use std::fmt::Write as _;

use motet_rails::TrainingStep;
use motet_units::{Duration, Rank};
use motet_workload::windows::{Call, View, Windows, estimate};
use serde::Serialize;

use super::failure;
use super::machine::machine;
use crate::args::rails::WindowsArgs;
use crate::commands::workload::input::{Workload, read};
use crate::commands::workload::{short, time};
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// Windows, and what is known of the step that they are of.
struct Found {
    windows: Windows,
    seen: String,
    /// Of a job: the time of its step, and the estimate of windows.
    step: Option<(Duration, u64)>,
}

#[derive(Serialize)]
struct FoundJson {
    seen: String,
    step_us: Option<f64>,
    phases: usize,
    windows: usize,
    over_1ms: usize,
    overlapping: usize,
    estimate: Option<u64>,
    by_traffic: Vec<BeforeJson>,
    lengths_us: Vec<f64>,
}

#[derive(Serialize)]
struct BeforeJson {
    traffic: String,
    windows: u64,
    mean_us: f64,
    longest_us: f64,
    most_bytes: u64,
}

pub(crate) fn run(args: &WindowsArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let found = find(args, printer)?;
    if let Some(file) = &args.files.csv {
        table(&found.windows).write(file, printer)?;
    }
    if let Some(file) = &args.files.svg {
        files::write(file, &distribution("windows", &[("all", &found.windows)]).svg(), printer)?;
    }
    if printer.is_json() {
        printer.json(&found.json())?;
    } else {
        printer.out(&found.text())?;
    }
    Ok(Status::Done)
}

fn find(args: &WindowsArgs, printer: &Printer) -> Result<Found, Failure> {
    let recording = match read(&args.inputs, &args.layout, printer)? {
        Workload::Job(job) => {
            let machine = machine(&args.machine, Some(&job.draft().gpu.name))?;
            let stages = job.layout().pp;
            if let Some(stage) = args.stage.filter(|it| *it >= stages) {
                return Err(Failure::unreadable(format!("there is no stage {stage}"))
                    .with_remedy(format!("stages are 0 to {}", stages - 1)));
            }
            let step = TrainingStep::new(*job, machine).map_err(failure)?;
            let run = step.electrical().map_err(failure)?;
            let (view, seen) = match args.stage {
                Some(it) => (View::Stage(it), format!("the ranks of stage {it}")),
                None => (View::Rail, "all ranks of a rail".to_owned()),
            };
            let windows = windows(args, &step.calls(&run, view));
            let counted = estimate(step.job.micro_batches());
            return Ok(Found { windows, seen, step: Some((run.time(), counted)) });
        }
        Workload::Recording(it) => it,
        Workload::Chakra(traces) => traces.recording().unwrap_or_else(|| {
            Err(Failure::wrong("these Chakra traces have no times")
                .with_remedy("give traces that were recorded, or the job that they were made of"))
        })?,
        Workload::Aicb(_) => {
            return Err(Failure::wrong("an AICB workload says what is sent, and not when")
                .with_remedy("give a training job, or recorded traces"));
        }
    };
    let placement = machine(&args.machine, None)?.placement();
    if args.rail >= placement.domain {
        return Err(Failure::unreadable(format!("there is no rail {}", args.rail))
            .with_remedy(format!("there are as many as GPUs in a domain, {}", placement.domain)));
    }
    let calls = recording.rail_calls(placement, args.rail, args.rank.map(Rank));
    if calls.is_empty() {
        printer.note(&format!(
            "no call of these traces leaves a scale-up domain of {} GPUs; `--domain` says how many there are",
            placement.domain
        ));
    }
    let seen = match args.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("all ranks of rail {}", args.rail),
    };
    Ok(Found { windows: windows(args, &calls), seen, step: None })
}

fn windows(args: &WindowsArgs, calls: &[Call]) -> Windows {
    if args.collectives { Windows::of_collectives(calls) } else { Windows::of(calls) }
}

impl Found {
    fn json(&self) -> FoundJson {
        let windows = &self.windows;
        let before = |(traffic, it): (String, motet_workload::windows::Before)| BeforeJson {
            traffic,
            windows: it.count,
            mean_us: it.mean().as_us_f64(),
            longest_us: it.longest.as_us_f64(),
            most_bytes: it.bytes.get(),
        };
        FoundJson {
            seen: self.seen.clone(),
            step_us: self.step.map(|it| it.0.as_us_f64()),
            phases: windows.phases.len(),
            windows: windows.all().len(),
            over_1ms: windows.over(Duration::from_ms(1)),
            overlapping: overlapping(windows),
            estimate: self.step.map(|it| it.1),
            by_traffic: windows.by_traffic().into_iter().map(before).collect(),
            lengths_us: windows.sorted().into_iter().map(Duration::as_us_f64).collect(),
        }
    }

    fn text(&self) -> String {
        let windows = &self.windows;
        let (count, over) = (windows.all().len(), windows.over(Duration::from_ms(1)));
        let mut out = format!(
            "{count} windows between {} phases, seen by {}\n",
            windows.phases.len(),
            self.seen
        );
        // Writing to a string cannot fail.
        if count > 0 {
            let overlapping = overlapping(windows);
            let share = |of: usize| 100.0 * over as f64 / of.max(1) as f64;
            let _ = writeln!(
                out,
                "  over 1 ms    {over} ({:.0} %; {:.0} % of those in which the rail is idle)\n  \
                 overlapping  {overlapping} (no time between, or traffic of both at once)",
                share(count),
                share(count - overlapping)
            );
        }
        if let Some((step, counted)) = self.step {
            let _ = writeln!(
                out,
                "  step         {}\n  estimate     {counted} for a rank: 4 per micro-batch less 1, if parameters are gathered for every one",
                time(step)
            );
        }
        let sorted = windows.sorted();
        if !sorted.is_empty() {
            out.push_str("\n  shortest to longest, by tenths:");
            for tenth in 0..=10 {
                let _ = write!(out, " {}", time(sorted[(sorted.len() - 1) * tenth / 10]));
            }
            out.push_str("\n\n  before             windows        mean     longest   at most\n");
        }
        for (traffic, it) in windows.by_traffic() {
            let (mean, longest) = (time(it.mean()), time(it.longest));
            let bytes = short(it.bytes.get().into());
            let _ =
                writeln!(out, "  {traffic:18} {:7} {mean:>11} {longest:>11} {bytes:>9}", it.count);
        }
        out
    }
}

fn overlapping(windows: &Windows) -> usize {
    windows.all().filter(|it| it.length().is_zero()).count()
}

/// Every window, in order.
pub(crate) fn table(windows: &Windows) -> Table {
    let ms = |it: u64| it as f64 / 1e9;
    let number = |of: &dyn Fn(&motet_workload::windows::Window<'_>) -> f64| {
        Values::Number(windows.all().map(|it| of(&it)).collect(), 6)
    };
    let words = |of: &dyn Fn(&motet_workload::windows::Window<'_>) -> String| {
        Values::Words(windows.all().map(|it| of(&it)).collect())
    };
    Table::new()
        .with("opens_ms", number(&|it| ms(it.before.end.as_ps())))
        .with("window_ms", number(&|it| ms(it.length().as_ps())))
        .with("overlap_ms", number(&|it| ms(it.overlap().as_ps())))
        .with("before", words(&|it| it.before.traffic()))
        .with("after", words(&|it| it.after.traffic()))
        .with("calls", Values::Whole(windows.all().map(|it| it.after.calls as i64).collect()))
        .with(
            "bytes",
            Values::Whole(windows.all().map(|it| it.after.bytes().get() as i64).collect()),
        )
}

/// The share of windows that are at most so long.
pub(crate) fn distribution(title: &str, all: &[(&str, &Windows)]) -> Plot {
    let line = |(name, windows): &(&str, &Windows)| {
        let sorted = windows.sorted();
        let count = sorted.len().max(1) as f64;
        // A logarithmic axis has no zero; a microsecond stands for it.
        let at = |it: &Duration| (it.as_us_f64() / 1e3).max(1e-3);
        let points = sorted.iter().enumerate();
        let points = points.map(|(place, it)| (at(it), (place + 1) as f64 / count * 100.0));
        Line { name: (*name).to_owned(), points: points.collect() }
    };
    Plot {
        title: title.to_owned(),
        x: "at most so long, ms".to_owned(),
        y: "% of windows".to_owned(),
        log_x: true,
        lines: all.iter().map(line).collect(),
    }
}
