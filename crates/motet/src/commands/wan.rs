//! `motet wan`: the reconfiguration modes of seed 000 over many collectives.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use motet_net::Network;
use motet_units::{Duration, LinkId, Seed};
use motet_wan::account::What;
use motet_wan::formats::ScenarioFile;
use motet_wan::yardstick::{self, Yardstick};
use motet_wan::{Account, Mode, RunError, Scenario, run_mode};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::WanArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::progress::Bar;

/// The seed where neither the command line nor the scenario gives one.
const DEFAULT_SEED: u64 = 1;

#[derive(Serialize)]
struct WanJson {
    scenario: String,
    seed: u64,
    collectives: u32,
    modes: Vec<ModeJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    yardstick: Option<YardstickJson>,
    cut: Option<String>,
}

#[derive(Serialize)]
struct ModeJson {
    mode: &'static str,
    /// Collectives, and what moving cost them.
    completion_s: f64,
    /// How much less than base, in percent.
    gain_percent: f64,
    mean_us: f64,
    median_us: f64,
    p99_us: f64,
    stalls_s: f64,
    pauses_s: f64,
    route_moves: u64,
    flows_moved: u64,
    program_moves: u64,
    flaps: u64,
    moves_per_hour: f64,
    bottlenecks: Vec<BottleneckJson>,
}

#[derive(Serialize)]
struct BottleneckJson {
    from: String,
    to: String,
    /// Of the collectives in which this link was busy longest.
    share: f64,
}

#[derive(Serialize)]
struct YardstickJson {
    sampled: u32,
    bound_mean_us: f64,
    oracle_mean_us: f64,
}

pub(crate) fn run(args: &WanArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let text = files::read(&args.scenario)?;
    let in_file = |it: Failure| it.in_file(&args.scenario);
    let file = ScenarioFile::read(&text).map_err(|it| in_file(it.into()))?;
    let cluster = beside(&args.scenario, &file.cluster);
    let network = files::network(&cluster, &args.read.options(), printer)?.network;
    let variation = match file.variation_file() {
        Some(name) => Some(files::read(&beside(&args.scenario, name))?),
        None => None,
    };
    let seed = Seed::new(args.seed.or(file.seed).unwrap_or(DEFAULT_SEED));
    let scenario = file.resolve(&network, variation.as_deref(), seed);
    let mut scenario = scenario.map_err(|it| in_file(it.into()))?;
    if let Some(count) = args.count {
        scenario.count = count;
    }
    let accounts = run_modes(&scenario, &modes(args), printer)
        .map_err(|it| in_file(failure(&it, &network)))?;
    let yardstick = match args.yardstick {
        0 => None,
        sample => {
            let found = yardstick::measure(&scenario, sample);
            Some(found.map_err(|it| in_file(failure(&it, &network)))?)
        }
    };
    let result = Ran { scenario: &scenario, accounts: &accounts, yardstick };
    if let Some(name) = &args.csv {
        files::write(name, &result.times_csv(), printer)?;
    }
    if let Some(name) = &args.timeline {
        files::write(name, &result.timeline_csv(), printer)?;
    }
    if let Some(name) = &args.svg {
        files::write(name, &result.cdf().svg(), printer)?;
    }
    if printer.is_json() {
        printer.json(&result.json())?;
    } else {
        printer.out(&result.text())?;
    }
    Ok(Status::Done)
}

fn modes(args: &WanArgs) -> Vec<Mode> {
    match args.strength {
        None => Mode::ALL.to_vec(),
        Some(it) => {
            let wanted = |mode: &Mode| mode.strength().is_none_or(|has| has == it.into());
            Mode::ALL.into_iter().filter(wanted).collect()
        }
    }
}

/// All modes, over all cores.
pub(crate) fn run_modes(
    scenario: &Scenario<'_>,
    modes: &[Mode],
    printer: &Printer,
) -> Result<Vec<(Mode, Account)>, RunError> {
    let total = u64::from(scenario.count) * modes.len() as u64;
    let bar = Bar::start(printer, total, "collectives");
    let done = AtomicU64::new(0);
    let run = |mode: &Mode| {
        let last = AtomicU64::new(0);
        let progress = |index: u32| {
            let step = u64::from(index) - last.swap(u64::from(index), Ordering::Relaxed);
            bar.set(done.fetch_add(step, Ordering::Relaxed) + step);
        };
        run_mode(scenario, *mode, &progress).map(|account| (*mode, account))
    };
    modes.par_iter().map(run).collect()
}

/// A file that a scenario names, relative to the scenario; templates stay as they are.
fn beside(scenario: &str, name: &str) -> String {
    let folder = Path::new(scenario).parent().unwrap_or(Path::new(""));
    let path = folder.join(name);
    if path.exists() { path.to_string_lossy().into_owned() } else { name.to_owned() }
}

fn failure(error: &RunError, network: &Network) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error {
        RunError::Cut { cut: Some(cut), .. } => match cut.as_ref() {
            motet_collective::BoundError::Unreachable(it) => {
                let names: Vec<&str> =
                    it.cut.nodes.iter().map(|it| network.node(*it).name.as_str()).collect();
                failure.with_remedy(format!(
                    "what is cut off: {}; let the fault end, or add a link",
                    names.join(", ")
                ))
            }
            _ => failure,
        },
        _ => failure,
    }
}

/// All there is to print.
struct Ran<'a> {
    scenario: &'a Scenario<'a>,
    accounts: &'a [(Mode, Account)],
    yardstick: Option<Yardstick>,
}

impl Ran<'_> {
    fn base(&self) -> Option<&Account> {
        self.accounts.iter().find(|it| it.0 == Mode::Base).map(|it| &it.1)
    }

    /// How much less than base, in percent.
    fn gain(&self, account: &Account) -> f64 {
        let base = self.base().map_or(0.0, |it| it.completion().as_us_f64());
        if base > 0.0 { (1.0 - account.completion().as_us_f64() / base) * 100.0 } else { 0.0 }
    }

    fn mean(account: &Account) -> f64 {
        account.completion().as_us_f64() / account.times.len().max(1) as f64
    }

    fn link(&self, link: LinkId) -> (String, String) {
        let network = self.scenario.network;
        let name = |id| network.node(id).name.clone();
        (name(network.link(link).from), name(network.link(link).to))
    }

    /// The cut that bounds the first collective on the network as it nominally is.
    fn cut(&self) -> Option<String> {
        let asked = self.scenario.collectives.first()?;
        let network = self.scenario.network;
        let task = motet_synth::Task::new(network, asked.goal.clone(), asked.size);
        Some(task.bound().ok()?.describe(network))
    }

    fn json(&self) -> WanJson {
        let mode = |(mode, account): &(Mode, Account)| ModeJson {
            mode: mode.name(),
            completion_s: account.completion().as_us_f64() / 1e6,
            gain_percent: self.gain(account),
            mean_us: Self::mean(account),
            median_us: account.quantile(0.5).as_us_f64(),
            p99_us: account.quantile(0.99).as_us_f64(),
            stalls_s: account.stalls.as_us_f64() / 1e6,
            pauses_s: account.pauses.as_us_f64() / 1e6,
            route_moves: account.route_moves,
            flows_moved: account.flows_moved,
            program_moves: account.program_moves,
            flaps: account.flaps,
            moves_per_hour: account.moves_per_hour(),
            bottlenecks: self.bottlenecks(account),
        };
        WanJson {
            scenario: self.scenario.name.clone(),
            seed: self.scenario.seed.get(),
            collectives: self.scenario.count,
            modes: self.accounts.iter().map(mode).collect(),
            yardstick: self.yardstick.map(|it| YardstickJson {
                sampled: it.sampled,
                bound_mean_us: it.bound.as_us_f64(),
                oracle_mean_us: it.oracle.as_us_f64(),
            }),
            cut: self.cut(),
        }
    }

    fn bottlenecks(&self, account: &Account) -> Vec<BottleneckJson> {
        let all = account.times.len().max(1) as f64;
        let list = account.bottlenecks().into_iter().take(5);
        list.map(|(link, count)| {
            let (from, to) = self.link(link);
            BottleneckJson { from, to, share: f64::from(count) / all }
        })
        .collect()
    }

    fn text(&self) -> String {
        let (scenario, mut out) = (self.scenario, String::new());
        let heading = format!("{}: {} collectives", scenario.name, scenario.count);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} (seed {})", Printer::strong(&heading), scenario.seed.get());
        let _ = writeln!(
            out,
            "  {:18} {:>12} {:>7} {:>12} {:>12} {:>9} {:>9} {:>6}",
            "mode", "total s", "gain %", "mean µs", "p99 µs", "routes", "programs", "flaps"
        );
        for (mode, account) in self.accounts {
            let _ = writeln!(
                out,
                "  {:18} {:>12.3} {:>7.1} {:>12.1} {:>12.1} {:>9} {:>9} {:>6}",
                mode.name(),
                account.completion().as_us_f64() / 1e6,
                self.gain(account),
                Self::mean(account),
                account.quantile(0.99).as_us_f64(),
                account.route_moves,
                account.program_moves,
                account.flaps,
            );
            if !account.stalls.is_zero() {
                let stalls = account.stalls.as_us_f64() / 1e6;
                let _ = writeln!(out, "  {:18} waited {stalls:.3} s for the network to heal", "");
            }
        }
        if let Some(it) = self.yardstick {
            let (oracle, bound) = (it.oracle.as_us_f64(), it.bound.as_us_f64());
            let _ = writeln!(
                out,
                "  {:18} {:>12} {:>7} {oracle:>12.1}  a new program for every collective ({} sampled)\n  \
                 {:18} {:>12} {:>7} {bound:>12.1}  no program can take less",
                "oracle", "", "", it.sampled, "bound", "", ""
            );
        }
        let _ = writeln!(out, "{}", Printer::strong("bottlenecks"));
        for (mode, account) in self.accounts {
            let list = self.bottlenecks(account).into_iter().take(3);
            let list: Vec<String> = list
                .map(|it| format!("{} -> {} {:.0}%", it.from, it.to, it.share * 100.0))
                .collect();
            let _ = writeln!(out, "  {:18} {}", mode.name(), list.join(", "));
        }
        if let Some(cut) = self.cut() {
            let _ = writeln!(out, "  {:18} {cut}", "the cut");
        }
        out
    }

    fn times_csv(&self) -> String {
        let mut out = String::from("collective");
        for (mode, _) in self.accounts {
            let _ = write!(out, ",{}", mode.name());
        }
        out.push('\n');
        for index in 0..self.scenario.count as usize {
            let _ = write!(out, "{index}");
            for (_, account) in self.accounts {
                let time = account.times.get(index).copied().unwrap_or(Duration::ZERO);
                let _ = write!(out, ",{:.6}", time.as_us_f64());
            }
            out.push('\n');
        }
        out
    }

    fn timeline_csv(&self) -> String {
        let mut out = String::from("mode,collective,time_us,what,detail\n");
        for (mode, account) in self.accounts {
            for event in &account.events {
                let (what, detail) = match &event.what {
                    What::Routes { flows } => ("routes", format!("{flows} flows")),
                    What::Program { name } => ("program", name.clone()),
                    What::Bandwidth { wan } => {
                        ("wan bandwidth", format!("{:.3} GB/s", wan.as_gb_per_s_f64()))
                    }
                    What::Stalled { until } => ("stalled", format!("until {until}")),
                };
                let (index, at) = (event.index, event.at.as_us_f64());
                let _ = writeln!(out, "{},{index},{at:.3},{what},{detail}", mode.name());
            }
        }
        out
    }

    /// The share of collectives done within a time, for every mode.
    fn cdf(&self) -> Plot {
        const POINTS: usize = 200;
        let line = |(mode, account): &(Mode, Account)| {
            let mut sorted = account.times.clone();
            sorted.sort_unstable();
            let at = |it: usize| it * sorted.len().saturating_sub(1) / POINTS;
            let point = |it: usize| {
                let time = sorted.get(at(it)).copied().unwrap_or(Duration::ZERO);
                (time.as_us_f64() / 1e3, it as f64 / POINTS as f64)
            };
            Line { name: mode.name().to_owned(), points: (0..=POINTS).map(point).collect() }
        };
        Plot {
            title: format!("{}: completion times", self.scenario.name),
            x: "milliseconds".to_owned(),
            y: "share of collectives".to_owned(),
            log_x: true,
            lines: self.accounts.iter().map(line).collect(),
        }
    }
}
