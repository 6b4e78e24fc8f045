//! How the time to make a program grows with the number of ranks: AllGather of 1 GiB by `auto`, seed
//! 1, on meshes, tori, DGX A100 and two datacenters, as a Markdown table and as a picture:
//!
//! ```text
//! cargo run --release -p motet-synth --example growth -- [-o FILE.svg]
//! ```
//!
//! *CPU* is of all threads, as the kernel counts it (Linux; elsewhere wall time stands in for it);
//! *wall* has rayon's threads side by side. Small cases are repeated for a second and averaged. The
//! exponent is that of the growth since the row above: 1 is linear in the ranks, 2 in their pairs.
//! Proving is not in the times; its simulation gives *time ÷ bound*.

#[path = "clock/mod.rs"]
mod clock;

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clock::{cpu_seconds, now};
use motet_collective::CollectiveKind;
use motet_net::builders::{Params, find};
use motet_synth::{Effort, Goal, Method, Task, synthesize};
use motet_units::{Bytes, Seed};

/// Networks that differ in size only: `{}` in the words for the template stands for the size.
struct Series {
    name: &'static str,
    template: &'static str,
    words: &'static str,
    sizes: &'static [u32],
    colour: &'static str,
}

const GRID: &str = "rows={} columns={} bandwidth=50GiB/s latency=500ns";

/// The colours are Okabe and Ito's, which people with any colour vision tell apart.
const SERIES: [Series; 4] = [
    Series {
        name: "mesh",
        template: "mesh",
        words: GRID,
        sizes: &[4, 8, 16, 32],
        colour: "#d55e00",
    },
    Series {
        name: "torus",
        template: "torus-2d",
        words: GRID,
        sizes: &[4, 8, 16, 32],
        colour: "#009e73",
    },
    Series {
        name: "DGX A100",
        template: "dgx-a100",
        words: "count={}",
        sizes: &[2, 4, 8, 16, 32, 64, 128],
        colour: "#0072b2",
    },
    Series {
        name: "two-dc, logical",
        template: "two-dc",
        words: "fabric=logical gpus={} borders=8 wan-links=paired",
        sizes: &[8, 16, 32],
        colour: "#cc79a7",
    },
];

/// What one network took, times in seconds.
struct Point {
    ranks: u32,
    cpu: f64,
    wall: f64,
    over_bound: f64,
    transfers: usize,
    method: &'static str,
}

#[expect(clippy::print_stderr, reason = "an example")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example")]
fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let picture = match &arguments[..] {
        [] => None,
        [option, file] if option == "-o" => Some(file),
        _ => return Err("usage: growth [-o FILE.svg]".into()),
    };
    println!(
        "| network | ranks | CPU ms | wall ms | exponent | time ÷ bound | transfers | method |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut lines = Vec::new();
    for series in &SERIES {
        let mut points: Vec<Point> = Vec::new();
        for size in series.sizes {
            let it =
                measure(series, *size).map_err(|why| format!("{} {size}: {why}", series.name))?;
            let exponent = points.last().map_or_else(|| "–".to_owned(), |last| exponent(last, &it));
            println!(
                "| {} | {} | {:.2} | {:.2} | {exponent} | {:.4} | {} | {} |",
                series.name,
                it.ranks,
                it.cpu * 1e3,
                it.wall * 1e3,
                it.over_bound,
                it.transfers,
                it.method
            );
            points.push(it);
        }
        lines.push((series, points));
    }
    if let Some(peak) = peak_memory() {
        println!("\npeak memory, proofs included: {peak}");
    }
    if let Some(file) = picture {
        std::fs::write(file, svg(&lines)?).map_err(|why| format!("{file}: {why}"))?;
    }
    Ok(())
}

/// Makes programs for a second, at least one, and proves the last.
fn measure(series: &Series, size: u32) -> Result<Point, Box<dyn Error>> {
    let words = series.words.replace("{}", &size.to_string());
    let network = find(series.template)?.build(&Params::from_words(words.split_whitespace())?)?;
    let ranks = u32::try_from(network.ranks().len())?;
    let task = Task::new(&network, Goal::new(CollectiveKind::AllGather, ranks)?, Bytes::gib(1));
    let effort = Effort::unlimited(Seed::new(1));
    let (started, used) = (now(), cpu_seconds());
    let mut runs = 0.0;
    let draft = loop {
        let draft = synthesize(&task, Method::Auto, &effort)?;
        runs += 1.0;
        if started.elapsed() >= Duration::from_secs(1) {
            break draft;
        }
    };
    let wall = started.elapsed().as_secs_f64() / runs;
    let cpu = used.zip(cpu_seconds()).map_or(wall, |(before, after)| (after - before) / runs);
    let made = draft.prove(&task)?;
    let bound = task.bound()?.program_time(task.size);
    Ok(Point {
        ranks,
        cpu,
        wall,
        over_bound: made.time.as_ps() as f64 / bound.as_ps() as f64,
        transfers: made.program.transfers().len(),
        method: made.method.name(),
    })
}

fn exponent(from: &Point, to: &Point) -> String {
    let ranks = f64::from(to.ranks) / f64::from(from.ranks);
    format!("{:.1}", (to.cpu / from.cpu).ln() / ranks.ln())
}

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    let kib: f64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.2} GiB", kib / f64::from(1 << 20)))
}

const LEFT: f64 = 70.0;
const RIGHT: f64 = 500.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 350.0;

/// Where ranks and seconds are in the picture, both logarithmic.
struct Axes {
    /// Powers of ten at the ends of the vertical axis.
    low: f64,
    high: f64,
}

impl Axes {
    fn around(lines: &[(&Series, Vec<Point>)]) -> Self {
        let times = || lines.iter().flat_map(|it| &it.1).map(|it| it.cpu);
        let low = times().fold(f64::INFINITY, f64::min).max(1e-6).log10().floor();
        Self { low, high: times().fold(1e-6, f64::max).log10().ceil().max(low + 1.0) }
    }

    /// The ranks of all series are 16 to 1,024, which is six doublings.
    fn x(&self, ranks: f64) -> f64 {
        LEFT + (ranks.log2() - 4.0) / 6.0 * (RIGHT - LEFT)
    }

    fn y(&self, seconds: f64) -> f64 {
        let part = (seconds.max(1e-6).log10() - self.low) / (self.high - self.low);
        BOTTOM - part * (BOTTOM - TOP)
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        for power in self.low as i32..=self.high as i32 {
            let (seconds, x) = (10f64.powi(power), LEFT - 6.0);
            let y = self.y(seconds);
            writeln!(out, r##"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke="#ddd"/>"##)?;
            writeln!(
                out,
                r#"<text x="{x}" y="{:.1}" text-anchor="end">{seconds}</text>"#,
                y + 4.0
            )?;
        }
        for ranks in (4..=10).map(|it| 1 << it) {
            let (x, y) = (self.x(f64::from(ranks)), BOTTOM + 18.0);
            writeln!(out, r##"<path d="M{x:.1} {TOP}V{BOTTOM}" stroke="#ddd"/>"##)?;
            writeln!(out, r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{ranks}</text>"#)?;
        }
        // What linear and quadratic growth look like, to compare slopes with.
        for (name, exponent) in [("n", 1), ("n²", 2)] {
            let least = 10f64.powf(self.low);
            let (x, y) = (RIGHT + 5.0, self.y(least * 64f64.powi(exponent)));
            let line = format!("M{LEFT} {BOTTOM}L{RIGHT} {y:.1}");
            writeln!(out, r##"<path d="{line}" stroke="#999" stroke-dasharray="3 3"/>"##)?;
            writeln!(out, r##"<text x="{x}" y="{:.1}" fill="#666">{name}</text>"##, y + 4.0)?;
        }
        Ok(())
    }
}

/// CPU seconds over ranks, a line for each series.
fn svg(lines: &[(&Series, Vec<Point>)]) -> Result<String, std::fmt::Error> {
    let axes = Axes::around(lines);
    let mut out = String::from(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 390" font-family="sans-serif" font-size="12">
<rect width="660" height="390" fill="#fff"/>
<text x="70" y="22" font-size="15">CPU seconds to make an AllGather of 1 GiB</text>
<text x="285" y="384" text-anchor="middle">ranks</text>
"##,
    );
    axes.draw(&mut out)?;
    for (row, (series, points)) in (0u32..).zip(lines) {
        let colour = series.colour;
        let at = |it: &Point| (axes.x(f64::from(it.ranks)), axes.y(it.cpu));
        let course: Vec<String> =
            points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let course = course.join(" ");
        writeln!(
            out,
            r#"<polyline points="{course}" fill="none" stroke="{colour}" stroke-width="2"/>"#
        )?;
        for it in points {
            let (x, y) = at(it);
            let told = format!("{} ranks, {}: {:.2} ms", it.ranks, it.method, it.cpu * 1e3);
            writeln!(
                out,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"><title>{told}</title></circle>"#
            )?;
        }
        let (x, y) = (RIGHT + 30.0, TOP + 12.0 + 20.0 * f64::from(row));
        writeln!(out, r#"<path d="M{x} {y}h20" stroke="{colour}" stroke-width="2"/>"#)?;
        writeln!(out, r#"<text x="{}" y="{}">{}</text>"#, x + 26.0, y + 4.0, series.name)?;
    }
    out.push_str("</svg>\n");
    Ok(out)
}
