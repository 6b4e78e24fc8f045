//! Figures 4 and 5 of Xiong et al.: completion time by chunk size and by WAN delay.

use std::fmt::Write as _;
use std::time::Instant;

use motet_wan::Mode;
use serde::Serialize;

use super::super::claims::{Claim, Whose};
use super::claims::{Result as PointResult, claims};
use super::setting::{ASSUMED, Setting};
use super::{gain, seconds};
use crate::args::reproduce::ReproduceArgs;
use crate::commands::wan::{Outcome, bottleneck_table, distribution};
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// What a figure goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Chunk,
    Delay,
}

impl Axis {
    const fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk size, MB",
            Self::Delay => "WAN delay, µs",
        }
    }

    const fn points(self) -> &'static [Point] {
        match self {
            Self::Chunk => CHUNKS,
            Self::Delay => DELAYS,
        }
    }

    /// What the paper says.
    const fn published(self) -> &'static str {
        match self {
            Self::Chunk => {
                "base slowest, routes better than programs alone, both best, about 33% less than \
                 base; nearly linear in the chunk size"
            }
            Self::Delay => {
                "base slowest, routes better than programs alone, both best, 30 to 35% less than \
                 base; less time with less delay"
            }
        }
    }
}

/// One of the figures.
pub(in crate::commands::reproduce) struct Figure {
    name: &'static str,
    title: &'static str,
    /// Of each datacenter.
    gpus: u32,
    axis: Axis,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    chunk: &'static str,
    delay: &'static str,
}

const fn chunk(megabytes: f64, chunk: &'static str) -> Point {
    Point { x: megabytes, chunk, delay: "1 ms" }
}

const fn delay(microseconds: f64, delay: &'static str) -> Point {
    Point { x: microseconds, chunk: "32 MB", delay }
}

const CHUNKS: &[Point] = &[
    chunk(8.0, "8 MB"),
    chunk(16.0, "16 MB"),
    chunk(24.0, "24 MB"),
    chunk(32.0, "32 MB"),
    chunk(48.0, "48 MB"),
    chunk(64.0, "64 MB"),
];
const DELAYS: &[Point] = &[
    delay(10.0, "10 us"),
    delay(100.0, "100 us"),
    delay(1_000.0, "1 ms"),
    delay(10_000.0, "10 ms"),
];

pub(in crate::commands::reproduce) const FIG_4A: Figure = Figure {
    name: "wan-fig4a",
    title: "AllGather, 8 GPUs in two regions, by chunk size",
    gpus: 4,
    axis: Axis::Chunk,
};
pub(in crate::commands::reproduce) const FIG_4B: Figure = Figure {
    name: "wan-fig4b",
    title: "AllGather, 8 GPUs in two regions, by WAN delay",
    gpus: 4,
    axis: Axis::Delay,
};
pub(in crate::commands::reproduce) const FIG_5A: Figure = Figure {
    name: "wan-fig5a",
    title: "AllGather, 16 GPUs in two regions, by chunk size",
    gpus: 8,
    axis: Axis::Chunk,
};
pub(in crate::commands::reproduce) const FIG_5B: Figure = Figure {
    name: "wan-fig5b",
    title: "AllGather, 16 GPUs in two regions, by WAN delay",
    gpus: 8,
    axis: Axis::Delay,
};

#[derive(Serialize)]
struct FigureJson {
    figure: &'static str,
    seed: u64,
    collectives: u32,
    published: &'static str,
    points: Vec<PointJson>,
    claims: Vec<Claim>,
}

#[derive(Serialize)]
struct PointJson {
    x: f64,
    wall_seconds: f64,
    modes: Vec<ModeJson>,
}

#[derive(Serialize)]
struct ModeJson {
    mode: &'static str,
    completion_s: f64,
    gain_percent: f64,
}

/// Runs a figure. That programs are verified, that no link is oversubscribed and that the account
/// adds up is checked in every run, and ends it with an error where it is not so.
pub(in crate::commands::reproduce) fn figure(
    figure: &Figure,
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let count = args.count.unwrap_or(100_000);
    let mut ran = Ran { figure, seed: args.seed, count, results: Vec::new(), walls: Vec::new() };
    for point in figure.axis.points() {
        let setting = Setting::new(figure.name, figure.gpus, point.chunk, point.delay);
        printer.note(&format!("{}: chunk {}, delay {}", figure.name, point.chunk, point.delay));
        let started = Instant::now();
        let outcomes = setting.run(args, count, printer)?;
        ran.walls.push(started.elapsed().as_secs_f64());
        if let Some(folder) = &args.output {
            ran.write_point(folder, &setting, point, &outcomes, printer)?;
        }
        ran.results.push((*point, outcomes));
        // The picture of a point is drawn; one by one, changes are not needed any more.
        for (_, account) in ran.results.iter_mut().flat_map(|it| &mut it.1) {
            account.events = Vec::new();
        }
    }
    let claims = claims(figure.axis, &ran.results);
    if let Some(folder) = &args.output {
        let file = |ending: &str| format!("{folder}/{}.{ending}", figure.name);
        for ending in ["csv", "parquet"] {
            ran.table().write(&file(ending), printer)?;
        }
        files::write(&file("svg"), &ran.plot().svg(), printer)?;
    }
    if printer.is_json() {
        printer.json(&ran.json(claims))?;
    } else {
        printer.out(&ran.text(&claims))?;
    }
    Ok(Status::Done)
}

/// A figure that was run.
struct Ran<'a> {
    figure: &'a Figure,
    seed: u64,
    count: u32,
    results: Vec<PointResult>,
    /// Seconds that each point took us.
    walls: Vec<f64>,
}

impl Ran<'_> {
    /// The distribution of times and the bottlenecks of a point.
    fn write_point(
        &self,
        folder: &str,
        setting: &Setting,
        point: &Point,
        outcomes: &[Outcome],
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        std::fs::create_dir_all(folder)
            .map_err(|it| Failure::unreadable(format!("cannot be made: {it}")).in_file(folder))?;
        let name = format!("{folder}/{}-{}", self.figure.name, point.x);
        let title = format!("{}: chunk {}, delay {}", self.figure.name, point.chunk, point.delay);
        let plot = distribution(&title, outcomes);
        files::write(&format!("{name}-cdf.svg"), &plot.svg(), printer)?;
        let network = setting.network()?;
        bottleneck_table(&network, outcomes).write(&format!("{name}-bottlenecks.csv"), printer)
    }

    fn json(&self, claims: Vec<Claim>) -> FigureJson {
        let point = |((point, accounts), wall): (&PointResult, &f64)| PointJson {
            x: point.x,
            wall_seconds: *wall,
            modes: accounts
                .iter()
                .map(|it| ModeJson {
                    mode: it.0.name(),
                    completion_s: seconds(accounts, it.0),
                    gain_percent: gain(accounts, it.0),
                })
                .collect(),
        };
        FigureJson {
            figure: self.figure.name,
            seed: self.seed,
            collectives: self.count,
            published: self.figure.axis.published(),
            points: self.results.iter().zip(&self.walls).map(point).collect(),
            claims,
        }
    }

    fn text(&self, claims: &[Claim]) -> String {
        let mut out = format!("{}\n", Printer::strong(self.figure.title));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  total seconds of {} collectives, and how much less than base (seed {})\n",
            self.count, self.seed
        );
        let _ = write!(out, "  {:>14}", self.figure.axis.name());
        for mode in Mode::ALL {
            let _ = write!(out, " {:>18}", mode.name());
        }
        let _ = writeln!(out, " {:>8}", "run in");
        for ((point, accounts), wall) in self.results.iter().zip(&self.walls) {
            let _ = write!(out, "  {:>14}", point.x);
            for mode in Mode::ALL {
                let cell = format!("{:.1} {:.1}%", seconds(accounts, mode), gain(accounts, mode));
                let _ = write!(out, " {cell:>18}");
            }
            let _ = writeln!(out, " {wall:>6.1} s");
        }
        let _ = writeln!(out, "\n  published: {}", self.figure.axis.published());
        for whose in [Whose::Published, Whose::Ours] {
            let _ = match whose {
                Whose::Published => writeln!(out, "  whether that comes out here:"),
                Whose::Ours => writeln!(out, "  what Motet holds itself to:"),
            };
            for it in claims.iter().filter(|it| it.whose == whose) {
                let word = if it.holds { "yes" } else { "no" };
                let _ = writeln!(out, "    {word:4} {}: {}", it.statement, it.ours);
            }
        }
        let _ = writeln!(
            out,
            "  checked in every run: programs verified, no link oversubscribed, the account adds up"
        );
        let _ = writeln!(out, "\n  assumed, where the paper is silent:\n{ASSUMED}");
        out
    }

    fn table(&self) -> Table {
        let rows =
            || self.results.iter().flat_map(|(point, of)| of.iter().map(move |it| (point, of, it)));
        let number = |of: &dyn Fn(&Point, &[Outcome], &Outcome) -> f64, digits| {
            Values::Number(rows().map(|(point, all, one)| of(point, all, one)).collect(), digits)
        };
        let mode = Values::Words(rows().map(|it| it.2.0.name().to_owned()).collect());
        Table::new()
            .with("x", number(&|point, _, _| point.x, 0))
            .with("mode", mode)
            .with("completion_s", number(&|_, all, one| seconds(all, one.0), 6))
            .with("gain_percent", number(&|_, all, one| gain(all, one.0), 3))
            .with(
                "mean_us",
                number(
                    &|_, all, one| seconds(all, one.0) * 1e6 / one.1.times.len().max(1) as f64,
                    3,
                ),
            )
            .with("p50_us", number(&|_, _, one| one.1.quantile(0.5).as_us_f64(), 3))
            .with("p99_us", number(&|_, _, one| one.1.quantile(0.99).as_us_f64(), 3))
            .with("route_moves", number(&|_, _, one| one.1.route_moves as f64, 0))
            .with("program_moves", number(&|_, _, one| one.1.program_moves as f64, 0))
            .with("flaps", number(&|_, _, one| one.1.flaps() as f64, 0))
            .with("moves_per_hour", number(&|_, _, one| one.1.moves_per_hour(), 1))
    }

    fn plot(&self) -> Plot {
        let line = |mode: Mode| Line {
            name: mode.name().to_owned(),
            points: self.results.iter().map(|(at, it)| (at.x, seconds(it, mode))).collect(),
        };
        Plot {
            title: self.figure.title.to_owned(),
            x: self.figure.axis.name().to_owned(),
            y: "total completion time, s".to_owned(),
            log_x: self.figure.axis == Axis::Delay,
            lines: Mode::ALL.into_iter().map(line).collect(),
        }
    }
}
