//! The experiments of seed 000 §V, ours beside what the paper says.
//!
//! The paper gives its results as figures without numbers and as sentences; the sentences are what
//! ours are held against. What it leaves open is assumed here, said in the output, and varied by
//! `wan-sensitivity`.

use std::fmt::Write as _;

use motet_net::Network;
use motet_net::builders::{self, Params};
use motet_units::Seed;
use motet_wan::formats::ScenarioFile;
use motet_wan::{Account, Mode, Scenario};
use serde::Serialize;

use crate::args::ReproduceArgs;
use crate::commands::wan::run_modes;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;

/// One of the figures.
pub(super) struct Figure {
    name: &'static str,
    title: &'static str,
    /// Of each datacenter.
    gpus: u32,
    x: &'static str,
    points: &'static [Point],
    published: &'static str,
}

struct Point {
    x: f64,
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

const BY_CHUNK: &str = "base slowest, routes better than programs alone, both best, about 33% \
                        less than base; nearly linear in the chunk size";
const BY_DELAY: &str = "base slowest, routes better than programs alone, both best, 30 to 35% less \
                        than base; less time with less delay";

pub(super) const FIG_4A: Figure = Figure {
    name: "wan-fig4a",
    title: "AllGather, 8 GPUs in two regions, by chunk size",
    gpus: 4,
    x: "chunk size, MB",
    points: CHUNKS,
    published: BY_CHUNK,
};
pub(super) const FIG_4B: Figure = Figure {
    name: "wan-fig4b",
    title: "AllGather, 8 GPUs in two regions, by WAN delay",
    gpus: 4,
    x: "WAN delay, µs",
    points: DELAYS,
    published: BY_DELAY,
};
pub(super) const FIG_5A: Figure = Figure {
    name: "wan-fig5a",
    title: "AllGather, 16 GPUs in two regions, by chunk size",
    gpus: 8,
    x: "chunk size, MB",
    points: CHUNKS,
    published: BY_CHUNK,
};
pub(super) const FIG_5B: Figure = Figure {
    name: "wan-fig5b",
    title: "AllGather, 16 GPUs in two regions, by WAN delay",
    gpus: 8,
    x: "WAN delay, µs",
    points: DELAYS,
    published: BY_DELAY,
};

/// What the paper leaves open, and what is assumed for it.
const ASSUMED: &str = "\
  two border routers in each region, each joined to both of the other; the logical graph of §III
  (a link between any two GPUs of a region and from each GPU to each border router); every link
  drawn anew for every collective; base is a ring in rank order over whole chunks; routes at the
  start by a hash over the shortest ways; a rebuilt program stays for 10 collectives; moves are free";

/// The settings of a run that the sensitivity varies.
#[derive(Clone)]
struct Setting {
    name: String,
    cluster: String,
    chunk: String,
    variation: String,
    routes: String,
    programs: String,
}

impl Setting {
    fn new(name: &str, gpus: u32, chunk: &str, delay: &str) -> Self {
        Self {
            name: name.to_owned(),
            cluster: format!("gpus={gpus},fabric=logical,borders=2,wan-latency={delay}"),
            chunk: chunk.to_owned(),
            variation: "kind = \"uniform\"".to_owned(),
            routes: "every = 1".to_owned(),
            programs: "every = 10".to_owned(),
        }
    }

    fn text(&self, count: u32) -> String {
        format!(
            "name = \"{}\"\ncluster = \"two-dc:{}\"\ncount = {count}\n\
             [[collective]]\nkind = \"allgather\"\nchunk = \"{}\"\n\
             [variation]\n{}\nintra = [\"20 Gbit/s\", \"200 Gbit/s\"]\n\
             wan = [\"10 Gbit/s\", \"100 Gbit/s\"]\n\
             [routes]\n{}\n[programs]\n{}\n",
            self.name, self.cluster, self.chunk, self.variation, self.routes, self.programs
        )
    }

    fn network(&self) -> Result<Network, Failure> {
        let mut params = Params::new();
        for pair in self.cluster.split(',') {
            if let Some((key, value)) = pair.split_once('=') {
                params.set(key, value);
            }
        }
        Ok(builders::find("two-dc")?.build(&params)?)
    }

    fn run(
        &self,
        args: &ReproduceArgs,
        count: u32,
        printer: &Printer,
    ) -> Result<Vec<(Mode, Account)>, Failure> {
        let network = self.network()?;
        let file = ScenarioFile::read(&self.text(count))?;
        let scenario: Scenario<'_> = file.resolve(&network, None, Seed::new(args.seed))?;
        run_modes(&scenario, &Mode::ALL, printer).map_err(|it| Failure::wrong(it.to_string()))
    }
}

#[derive(Serialize)]
struct FigureJson {
    figure: &'static str,
    seed: u64,
    collectives: u32,
    published: &'static str,
    points: Vec<PointJson>,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct PointJson {
    x: f64,
    modes: Vec<ModeJson>,
}

#[derive(Serialize)]
struct ModeJson {
    mode: &'static str,
    completion_s: f64,
    gain_percent: f64,
}

/// One statement, and whether it came out.
#[derive(Serialize)]
struct Check {
    statement: String,
    holds: bool,
}

fn seconds(account: &Account) -> f64 {
    account.completion().as_us_f64() / 1e6
}

fn of(accounts: &[(Mode, Account)], mode: Mode) -> f64 {
    accounts.iter().find(|it| it.0 == mode).map_or(f64::NAN, |it| seconds(&it.1))
}

/// How much less than base, in percent.
fn gain(accounts: &[(Mode, Account)], mode: Mode) -> f64 {
    (1.0 - of(accounts, mode) / of(accounts, Mode::Base)) * 100.0
}

const REMAP: [Mode; 2] =
    [Mode::Programs(motet_wan::Strength::Remap), Mode::Both(motet_wan::Strength::Remap)];
const SYNTH: [Mode; 2] =
    [Mode::Programs(motet_wan::Strength::Synth), Mode::Both(motet_wan::Strength::Synth)];

pub(super) fn figure(
    figure: &Figure,
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let count = args.count.unwrap_or(100_000);
    let mut results = Vec::new();
    for point in figure.points {
        let setting = Setting::new(figure.name, figure.gpus, point.chunk, point.delay);
        printer.note(&format!("{}: chunk {}, delay {}", figure.name, point.chunk, point.delay));
        results.push((point.x, setting.run(args, count, printer)?));
    }
    let checks = checks(&results);
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder)
            .map_err(|it| Failure::unreadable(format!("cannot be made: {it}")).in_file(folder))?;
        let file = |ending: &str| format!("{folder}/{}.{ending}", figure.name);
        files::write(&file("csv"), &csv(&results), printer)?;
        files::write(&file("svg"), &plot(figure, &results).svg(), printer)?;
    }
    if printer.is_json() {
        let modes = |accounts: &[(Mode, Account)]| {
            let mode = |it: &(Mode, Account)| ModeJson {
                mode: it.0.name(),
                completion_s: seconds(&it.1),
                gain_percent: gain(accounts, it.0),
            };
            accounts.iter().map(mode).collect()
        };
        let point = |(x, accounts): &(f64, Vec<(Mode, Account)>)| PointJson {
            x: *x,
            modes: modes(accounts),
        };
        printer.json(&FigureJson {
            figure: figure.name,
            seed: args.seed,
            collectives: count,
            published: figure.published,
            points: results.iter().map(point).collect(),
            checks,
        })?;
    } else {
        printer.out(&text(figure, args, count, &results, &checks))?;
    }
    Ok(Status::Done)
}

type Results = [(f64, Vec<(Mode, Account)>)];
/// Whether a statement holds at a point.
type Holds<'a> = &'a dyn Fn(&[(Mode, Account)]) -> bool;

/// The paper's sentences, on our figures.
fn checks(results: &Results) -> Vec<Check> {
    let all = |holds: Holds<'_>| results.iter().all(|it| holds(&it.1));
    let mut checks = Vec::new();
    for (strength, [programs, both]) in [("remap", REMAP), ("synth", SYNTH)] {
        let mut check = |statement: &str, holds: Holds<'_>| {
            let statement = format!("{strength}: {statement}");
            checks.push(Check { statement, holds: all(holds) });
        };
        check("base is slowest at every point", &|it| {
            let base = of(it, Mode::Base);
            [Mode::Routes, programs, both].iter().all(|mode| of(it, *mode) < base)
        });
        check("routes are better than programs alone at every point", &|it| {
            of(it, Mode::Routes) < of(it, programs)
        });
        check("both are best at every point", &|it| {
            of(it, both) <= of(it, Mode::Routes) && of(it, both) <= of(it, programs)
        });
        check("both gain 30 to 35% at every point", &|it| (30.0..=35.0).contains(&gain(it, both)));
        check("both gain at least 30% at every point", &|it| gain(it, both) >= 30.0);
    }
    checks
}

fn text(
    figure: &Figure,
    args: &ReproduceArgs,
    count: u32,
    results: &Results,
    checks: &[Check],
) -> String {
    let mut out = format!("{}\n", Printer::strong(figure.title));
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "  total seconds of {count} collectives, and how much less than base (seed {})\n",
        args.seed
    );
    let _ = write!(out, "  {:>14}", figure.x);
    for mode in Mode::ALL {
        let _ = write!(out, " {:>18}", mode.name());
    }
    out.push('\n');
    for (x, accounts) in results {
        let _ = write!(out, "  {x:>14}");
        for mode in Mode::ALL {
            let cell = format!("{:.1} {:.1}%", of(accounts, mode), gain(accounts, mode));
            let _ = write!(out, " {cell:>18}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "\n  published: {}", figure.published);
    for check in checks {
        let _ = writeln!(out, "  {:4} {}", if check.holds { "yes" } else { "no" }, check.statement);
    }
    let _ = writeln!(out, "\n  assumed, where the paper is silent:\n{ASSUMED}");
    out
}

fn csv(results: &Results) -> String {
    let mut out = String::from("x,mode,completion_s,gain_percent,mean_us,p50_us,p99_us\n");
    for (x, accounts) in results {
        for (mode, account) in accounts {
            let _ = writeln!(
                out,
                "{x},{},{:.6},{:.3},{:.3},{:.3},{:.3}",
                mode.name(),
                seconds(account),
                gain(accounts, *mode),
                seconds(account) * 1e6 / account.times.len().max(1) as f64,
                account.quantile(0.5).as_us_f64(),
                account.quantile(0.99).as_us_f64(),
            );
        }
    }
    out
}

fn plot(figure: &Figure, results: &Results) -> Plot {
    let line = |mode: Mode| Line {
        name: mode.name().to_owned(),
        points: results.iter().map(|(x, it)| (*x, of(it, mode))).collect(),
    };
    Plot {
        title: figure.title.to_owned(),
        x: figure.x.to_owned(),
        y: "total completion time, s".to_owned(),
        log_x: figure.points[0].x * 100.0 < figure.points[figure.points.len() - 1].x,
        lines: Mode::ALL.into_iter().map(line).collect(),
    }
}

#[derive(Serialize)]
struct SensitivityJson {
    seed: u64,
    collectives: u32,
    settings: Vec<SettingJson>,
}

#[derive(Serialize)]
struct SettingJson {
    setting: String,
    gains_percent: Vec<(&'static str, f64)>,
    ordering: bool,
    near_33: bool,
}

/// Every assumption varied by itself, at 8 GPUs, 32 MB and 1 ms.
pub(super) fn sensitivity(args: &ReproduceArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let count = args.count.unwrap_or(10_000);
    let mut found = Vec::new();
    for setting in settings() {
        printer.note(&setting.name);
        let accounts = setting.run(args, count, printer)?;
        let [programs, both] = REMAP;
        let (base, routes) = (of(&accounts, Mode::Base), of(&accounts, Mode::Routes));
        let (programs, best) = (of(&accounts, programs), of(&accounts, both));
        found.push(SettingJson {
            setting: setting.name.clone(),
            gains_percent: Mode::ALL.iter().map(|it| (it.name(), gain(&accounts, *it))).collect(),
            ordering: base > programs && programs > routes && routes >= best,
            near_33: (30.0..=36.0).contains(&gain(&accounts, both)),
        });
    }
    if printer.is_json() {
        printer.json(&SensitivityJson { seed: args.seed, collectives: count, settings: found })?;
        return Ok(Status::Done);
    }
    let heading = "How much less than base, in percent, as each assumption varies";
    let mut out = format!("{}\n", Printer::strong(heading));
    let _ = writeln!(out, "  8 GPUs, 32 MB, 1 ms, {count} collectives (seed {})", args.seed);
    let _ = write!(out, "  {:34}", "");
    for mode in &Mode::ALL[1..] {
        let _ = write!(out, " {:>17}", mode.name());
    }
    out.push_str("  ordering  30–36%\n");
    for it in &found {
        let _ = write!(out, "  {:34}", it.setting);
        for (_, gain) in &it.gains_percent[1..] {
            let _ = write!(out, " {gain:>17.1}");
        }
        let word = |it: bool| if it { "yes" } else { "no" };
        let _ = writeln!(out, "  {:8}  {}", word(it.ordering), word(it.near_33));
    }
    let _ = writeln!(
        out,
        "  ordering, 30–36%: the paper's, for the remapping hand (what a user of NCCL can do)"
    );
    printer.out(&out)?;
    Ok(Status::Done)
}

fn settings() -> Vec<Setting> {
    let base = Setting::new("as in the figures", 4, "32 MB", "1 ms");
    let mut all = vec![base.clone()];
    let mut vary = |name: &str, change: &dyn Fn(&mut Setting)| {
        let mut setting = Setting { name: name.to_owned(), ..base.clone() };
        change(&mut setting);
        all.push(setting);
    };
    vary("one border router each", &|it| it.cluster = it.cluster.replace("borders=2", "borders=1"));
    vary("four border routers each", &|it| {
        it.cluster = it.cluster.replace("borders=2", "borders=4");
    });
    vary("border routers joined in pairs", &|it| it.cluster.push_str(",wan-links=paired"));
    vary("leaf and spine inside", &|it| it.cluster = it.cluster.replace("logical", "leaf-spine"));
    vary("leaf and spine, four borders", &|it| {
        it.cluster = it.cluster.replace("logical,borders=2", "leaf-spine,borders=4");
    });
    vary("16 GPUs", &|it| it.cluster = it.cluster.replace("gpus=4", "gpus=8"));
    vary("flows split over two ways", &|it| it.routes.push_str("\nsplit = 2"));
    vary("all start on the first way", &|it| it.routes.push_str("\nstart = \"first\""));
    vary("base: two rings", &|it| it.programs.push_str("\nbase = \"ring-bidirectional\""));
    vary("base: NCCL's rings as modelled", &|it| it.programs.push_str("\nbase = \"nccl-ring\""));
    vary("programs rebuilt every time", &|it| it.programs = "every = 1".to_owned());
    vary("programs rebuilt every 100", &|it| it.programs = "every = 100".to_owned());
    vary("bandwidth correlated, 0.9", &|it| {
        it.variation = "kind = \"correlated\"\ncorrelation = 0.9".to_owned();
    });
    vary("bandwidth correlated, 0.99", &|it| {
        it.variation = "kind = \"correlated\"\ncorrelation = 0.99".to_owned();
    });
    all
}
