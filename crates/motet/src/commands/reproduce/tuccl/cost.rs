//! Figure 5b: what a search costs against timing every setting, and how that grows with the cluster.
//!
//! For each task the program of the plan is timed under every setting of its knobs once, so that
//! the truth is known. Then MRACO searches the same settings through noise until its own rule stops
//! it, from several seeds, and the search that plans use does so without noise.

use motet_collective::CollectiveKind;
use motet_tune::clusters::V100;
use motet_tune::plan::candidates::CandidateProgram;
use motet_tune::profile::{Measured, Profiler, Recorded, Simulated};
use motet_tune::search::{Method, Outcome, Search, Settings};
use motet_tune::space::{KnobLimits, KnobSpace};
use motet_units::{Bytes, Duration};

use super::super::claims::{Claim, Span};
use super::super::report::Report;
use super::setting::{ASSUMED, KINDS, Planned};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// Small, middle and large.
const SIZES: [Bytes; 3] = [Bytes::kib(32), Bytes::mib(1), Bytes::mib(32)];

/// The noise of one iteration, as a part of its time.
const NOISE: f64 = 0.05;

/// Searches of each task, unless `--count` says otherwise.
const SEEDS: u32 = 5;

/// The published cut of profiling time against the grid, in percent.
const CUT: f64 = 90.2;

/// What a search came to.
#[derive(Clone, Copy)]
struct Cost {
    trials: f64,
    time: Duration,
    /// Of the time of the grid, in percent.
    share: f64,
    /// How much longer than the best its choice takes, in percent.
    off: f64,
}

/// One task.
struct Row {
    cluster: &'static str,
    gpus: usize,
    kind: CollectiveKind,
    size: Bytes,
    points: usize,
    /// How many of them take at most [`NOISE`] longer than the best.
    near: usize,
    /// The middle of all seeds, through noise.
    mraco: Cost,
    /// Without noise.
    exact: Cost,
}

pub(in crate::commands::reproduce) fn cost(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let seeds = args.count.unwrap_or(SEEDS);
    let mut rows = Vec::new();
    for cluster in &V100 {
        let planned = Planned::new(cluster, &KINDS, &SIZES, args, printer)?;
        for kind in KINDS {
            let candidates = planned.candidates(kind)?;
            for size in SIZES {
                rows.extend(row(&planned, &candidates, kind, size, seeds)?);
            }
        }
    }
    Report {
        name: "tuccl-fig5b",
        title: "figure 5b: what a search costs against the grid, 1 to 3 servers of 4 V100",
        table: table(&rows),
        claims: claims(&rows),
        usual: &ASSUMED,
        assumed: vec![
            format!(
                "the space is protocol x channels x threads x buffer size for the program of the \
                 plan; an iteration has {:.0} % noise, a setting is run 81 times at full length, the \
                 grid runs all of them; MRACO stops by its own rule; the middle of {seeds} seeds",
                NOISE * 100.0
            ),
            "time is what the collectives take; making communicators anew is left out of both".to_owned(),
            "exact is the search that plans use: no noise, so every setting is run once, as in its grid"
                .to_owned(),
        ],
        plots: vec![("growth".to_owned(), plot(&rows))],
    }
    .finish(args, printer)
}

fn row(
    planned: &Planned,
    candidates: &[CandidateProgram],
    kind: CollectiveKind,
    size: Bytes,
    seeds: u32,
) -> Result<Option<Row>, Failure> {
    let pick = planned.task(kind, size).and_then(|it| it.program.as_ref());
    let Some(way) = pick.and_then(|pick| candidates.iter().find(|it| it.name == pick.way)) else {
        return Ok(None);
    };
    let wrong = |it: String| Failure::wrong(it).in_file(planned.name);
    let space = KnobSpace::new(&[way.family.channels()], KnobLimits::default())
        .map_err(|it| wrong(it.to_string()))?;
    let programs = [way.family.clone()];
    let points = space.space().len();
    let truth = Recorded::of(&Simulated::new(&space, &programs, size), points);
    let search = |settings: Settings, profiler: &mut dyn Profiler| {
        let outcome = Search::new(space.space(), settings).run(profiler);
        outcome.map(|it| judged(&it, &truth)).map_err(|it| wrong(it.to_string()))
    };
    let seed = planned.seed().named(kind.name());
    let mut noisy = Vec::new();
    for number in 0..seeds {
        let seed = seed.numbered(number.into());
        let settings = Settings { method: Method::Mraco, seed: seed.get(), ..Settings::default() };
        let mut profiler = Measured::with_noise(truth.clone(), NOISE, seed);
        noisy.push(search(settings, &mut profiler)?);
    }
    let settings = Settings { seed: seed.get(), ..Settings::exact() };
    let exact = search(settings, &mut Measured::exactly(truth.clone()))?;
    let gpus = planned.network.ranks().len();
    let mraco = middle(&noisy);
    let near = near_best(&truth);
    Ok(Some(Row { cluster: planned.name, gpus, kind, size, points, near, mraco, exact }))
}

/// How many settings take at most [`NOISE`] longer than the best.
fn near_best(truth: &Recorded) -> usize {
    let Some((_, best)) = truth.best() else { return 0 };
    let most = best.as_ps() as f64 * (1.0 + NOISE);
    truth.times().iter().flatten().filter(|it| it.as_ps() as f64 <= most).count()
}

/// What a search cost and found, against all that there is to know.
fn judged(outcome: &Outcome, truth: &Recorded) -> Cost {
    let whole: u128 = truth.times().iter().flatten().map(|it| u128::from(it.as_ps())).sum();
    let whole = whole as f64 * f64::from(outcome.settings.most_iterations);
    let of = |point: usize| truth.times()[point].as_ref().ok().copied();
    let found = outcome.best.and_then(of).map(|it| it.as_ps() as f64);
    let best = truth.best().map(|it| it.1.as_ps() as f64);
    let ratio = found.zip(best).map_or(f64::INFINITY, |(found, best)| found / best);
    Cost {
        trials: f64::from(outcome.cost.trials),
        time: outcome.cost.time,
        share: outcome.cost.time.as_ps() as f64 / whole * 100.0,
        off: (ratio - 1.0) * 100.0,
    }
}

/// Each figure's median.
fn middle(costs: &[Cost]) -> Cost {
    let median = |of: &dyn Fn(&Cost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Cost {
        trials: median(&|it| it.trials),
        time: Duration::from_ps(median(&|it| it.time.as_ps() as f64) as u64),
        share: median(&|it| it.share),
        off: median(&|it| it.off),
    }
}

/// A figure of all tasks of each cluster together, with its GPUs.
fn by_cluster(rows: &[Row], of: impl Fn(&Row) -> f64) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    for row in rows {
        let gpus = row.gpus as f64;
        match found.last_mut().filter(|it| it.0 == gpus) {
            Some(last) => last.1 += of(row),
            None => found.push((gpus, of(row))),
        }
    }
    found
}

impl Row {
    fn name(&self) -> String {
        format!("{} {} {}", self.cluster, self.kind, self.size)
    }
}

/// The row with the most of something.
fn most(rows: &[Row], of: impl Fn(&Row) -> f64) -> Option<&Row> {
    rows.iter().max_by(|a, b| of(a).total_cmp(&of(b)))
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let cut = Span::of(rows.iter().map(|it| 100.0 - it.mraco.share));
    let (low, high) = cut.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
    let off = rows.iter().map(|it| it.mraco.off).fold(0.0, f64::max);
    let mut claims = vec![
        Claim::published(
            "profiling time saved against the grid".to_owned(),
            low >= CUT,
            format!("{low:.1} to {high:.1} %"),
        )
        .beside(format!("up to {CUT} %"))
        .detail(|| {
            let row = most(rows, |it| it.mraco.share)?;
            let (name, trials, points) = (row.name(), row.mraco.trials, row.points);
            Some(format!("least for {name}: {trials:.0} trials, of a grid of {points}"))
        }),
        Claim::published(
            "the choice is as good as the grid's, within 1 %".to_owned(),
            off <= 1.0,
            format!("at most {off:.2} % longer, in the middle of all seeds"),
        )
        .beside("solution quality is preserved")
        .detail(|| {
            let row = most(rows, |it| it.mraco.off)?;
            Some(format!(
                "most for {}, where {} of {} settings are within {:.0} % of the best, which is the \
                 noise of one iteration",
                row.name(),
                row.near,
                row.points,
                NOISE * 100.0
            ))
        }),
    ];
    claims.push(grows(rows, "trials", &|it| it.mraco.trials));
    let time = grows(rows, "profiled times", &|it| it.mraco.time.as_us_f64());
    claims.push(time.detail(|| {
        let per_trial = |it: &Row| it.mraco.time.as_us_f64() / it.mraco.trials.max(1.0);
        let whole: f64 = rows.iter().map(|it| it.mraco.time.as_us_f64()).sum();
        let largest = rows.iter().filter(|it| Some(&it.size) == SIZES.last());
        let largest: f64 = largest.map(|it| it.mraco.time.as_us_f64()).sum();
        Some(format!(
            "trials grow {}, the time of one trial {}; {:.0} % of all profiled time is of the largest \
             size",
            parts(rows, &|it| it.mraco.trials).1,
            parts(rows, &per_trial).1,
            largest / whole * 100.0
        ))
    }));
    claims
}

/// By how much a figure of all tasks grows from the smallest cluster on; also as text.
fn parts(rows: &[Row], of: &dyn Fn(&Row) -> f64) -> (Vec<f64>, String) {
    let found = by_cluster(rows, of);
    let first = found.first().map_or(f64::NAN, |it| it.1);
    let parts: Vec<f64> = found.iter().map(|it| it.1 / first).collect();
    let text: Vec<String> = parts.iter().map(|it| format!("{it:.2}")).collect();
    (parts, text.join(" : "))
}

fn grows(rows: &[Row], what: &str, of: &dyn Fn(&Row) -> f64) -> Claim {
    let (parts, text) = parts(rows, of);
    let linear = |(at, part): (usize, &f64)| *part <= at as f64 + 1.0;
    Claim::published(
        format!("{what} grow no faster than the cluster (1 : 2 : 3 servers)"),
        parts.iter().enumerate().all(linear),
        text,
    )
    .beside("near-linear")
}

fn table(rows: &[Row]) -> Table {
    let words = |of: &dyn Fn(&Row) -> String| Values::Words(rows.iter().map(of).collect());
    let number =
        |of: &dyn Fn(&Row) -> f64, digits| Values::Number(rows.iter().map(of).collect(), digits);
    Table::new()
        .with("cluster", words(&|it| it.cluster.to_owned()))
        .with("collective", words(&|it| it.kind.to_string()))
        .with("size", words(&|it| it.size.to_string()))
        .with("grid_points", number(&|it| it.points as f64, 0))
        .with("mraco_trials", number(&|it| it.mraco.trials, 0))
        .with("mraco_ms", number(&|it| it.mraco.time.as_us_f64() / 1e3, 2))
        .with("percent_of_grid", number(&|it| it.mraco.share, 3))
        .with("percent_off_best", number(&|it| it.mraco.off, 2))
        .with("exact_trials", number(&|it| it.exact.trials, 0))
        .with("exact_percent_of_grid", number(&|it| it.exact.share, 3))
        .with("exact_percent_off_best", number(&|it| it.exact.off, 2))
}

fn plot(rows: &[Row]) -> Plot {
    let relative = |found: Vec<(f64, f64)>| {
        let first = found.first().map_or(1.0, |it| it.1);
        found.into_iter().map(|(gpus, it)| (gpus, it / first)).collect::<Vec<_>>()
    };
    let trials = relative(by_cluster(rows, |it| it.mraco.trials));
    let time = relative(by_cluster(rows, |it| it.mraco.time.as_us_f64()));
    let linear = trials.iter().map(|it| (it.0, it.0 / trials[0].0)).collect();
    Plot {
        title: "what the search of all tasks costs, one server = 1".to_owned(),
        x: "GPUs".to_owned(),
        y: "times one server".to_owned(),
        log_x: false,
        lines: vec![
            Line { name: "trials".to_owned(), points: trials },
            Line { name: "profiled time".to_owned(), points: time },
            Line { name: "linear".to_owned(), points: linear },
        ],
    }
}
