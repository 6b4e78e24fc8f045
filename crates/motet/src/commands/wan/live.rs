//! `motet wan --live`: the modes on a testbed, beside the same modes simulated.

use std::fmt::Write as _;
use std::process::Stdio;

use motet_testbed::live::world::{RankPipe, Setup};
use motet_testbed::live::{LiveWorld, Sight};
use motet_testbed::state::State;
use motet_wan::{Account, Mode, Scenario, Strength, WanError, run_in};
use serde::Serialize;

use super::{Outcome, failure, run_modes};
use crate::args::testbed::UpArgs;
use crate::args::wan::{LiveSight, WanArgs};
use crate::commands::exec::clock;
use crate::commands::testbed::place::{Orders, Place};
use crate::commands::testbed::run::{PORT, Ranks, in_host};
use crate::commands::testbed::say_links;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Bar;
use crate::token;

/// Live and simulated times that differ by more than this share are pointed out.
const APART: f64 = 0.15;

#[derive(Serialize)]
struct ModeJson {
    mode: &'static str,
    simulated_median_us: f64,
    live_median_us: f64,
    /// Live over simulated.
    ratio: f64,
    apart: bool,
    simulated_completion_s: f64,
    live_completion_s: f64,
    /// How much less than base, in percent.
    simulated_gain_percent: f64,
    live_gain_percent: f64,
    simulated_moves: [u64; 2],
    live_moves: [u64; 2],
    /// What moving took, of which nothing is simulated unless the scenario says so.
    live_pauses_s: f64,
    /// Between collectives: deciding, telling ranks, and the barrier before each call.
    live_gaps_s: f64,
}

#[derive(Serialize)]
struct LiveJson {
    scenario: String,
    seed: u64,
    collectives: u32,
    sight: &'static str,
    /// TCP's congestion control on the testbed's hosts.
    congestion: String,
    modes: Vec<ModeJson>,
    /// The modes from the fastest to the slowest, by what they took altogether.
    simulated_order: Vec<&'static str>,
    live_order: Vec<&'static str>,
    same_order: bool,
}

pub(super) fn run(
    args: &WanArgs,
    scenario: &Scenario<'_>,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    if scenario.routes.split > 1 {
        return Err(Failure::wrong("routers cannot split what one rank sends another")
            .in_file(&args.scenario)
            .with_remedy("leave `split` out of [routes] for `--live`"));
    }
    // Routers know packets by their addresses; what is simulated beside them must not be able to do more.
    let mut scenario = scenario.clone();
    scenario.routes.by_pair = true;
    let strength = args.strength.map_or(Strength::Synth, Strength::from);
    let modes = [Mode::Base, Mode::Routes, Mode::Programs(strength), Mode::Both(strength)];
    let wrong = |it: WanError| failure(&it, scenario.network).in_file(&args.scenario);
    let simulated = run_modes(&scenario, &modes, printer).map_err(wrong)?;
    let (live, congestion) = run_live(args, &scenario, &modes, printer)?.map_err(wrong)?;
    if let Some(name) = &args.csv {
        files::write(name, &times(&simulated, &live), printer)?;
    }
    let report = report(args, &scenario, &simulated, &live, congestion);
    if printer.is_json() {
        printer.json(&report)?;
    } else {
        printer.out(&text(&report))?;
    }
    Ok(Status::Done)
}

/// All modes one after the other on one testbed, with new ranks for each; and its congestion control.
fn run_live(
    args: &WanArgs,
    scenario: &Scenario<'_>,
    modes: &[Mode],
    printer: &Printer,
) -> Result<Result<(Vec<Outcome>, String), WanError>, Failure> {
    let place = Place::of(&args.scenario);
    let up = UpArgs { scenario: args.scenario.clone(), seed: args.seed, read: args.read.clone() };
    let (state, held) = place.find_or_start(&up, true, true)?;
    if held.is_none() {
        return Err(Failure::wrong(
            "this scenario's testbed is up, and its links change by the clock",
        )
        .with_remedy("take it down with `motet testbed down`; `--live` makes one of its own"));
    }
    say_links(scenario.testbed.links, &state, printer);
    let total = u64::from(scenario.count) * modes.len() as u64;
    let bar = Bar::start(printer, total, "collectives");
    let mut ran = Vec::new();
    for (number, mode) in modes.iter().enumerate() {
        let done = number as u64 * u64::from(scenario.count);
        let progress = |index: u32| bar.set(done + u64::from(index));
        match one_mode(args, scenario, *mode, &place, &state, &progress)? {
            Ok(account) => ran.push((*mode, account)),
            Err(error) => return Ok(Err(error)),
        }
    }
    drop(held);
    Ok(Ok((ran, state.congestion)))
}

fn one_mode(
    args: &WanArgs,
    scenario: &Scenario<'_>,
    mode: Mode,
    place: &Place,
    state: &State,
    progress: &dyn Fn(u32),
) -> Result<Result<Account, WanError>, Failure> {
    let cannot = |it: std::io::Error| Failure::unreadable(format!("cannot start ranks: {it}"));
    let (token, ranks) = (token::random(), state.hosts.len());
    let program = std::env::current_exe().map_err(cannot)?;
    let (mut all, mut pipes) = (Ranks(Vec::new()), Vec::new());
    for rank in 0..ranks {
        let mut command = in_host(state, rank, &token)?;
        let store = format!("{}:{PORT}", state.hosts[0].address);
        command.arg(&program).args(["-q", "testbed", "rank", "--rank", &rank.to_string()]);
        command.args(["--ranks", &ranks.to_string(), "--store", &store]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        if let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) {
            pipes.push(RankPipe { to: Box::new(to), from: Box::new(from) });
        }
        all.0.push(child);
    }
    let mut orders = Orders::open(place)?;
    let sight = match args.sight {
        LiveSight::Told => Sight::Told,
        LiveSight::Measured => Sight::Measured,
    };
    let setup = Setup {
        scenario,
        sight,
        tell: Box::new(move |it| orders.tell(it).map_err(|it| it.problem)),
        ranks: pipes,
        clock: clock(),
        folder: place.folder().to_owned(),
        progress: Box::new(progress),
    };
    let mut world = LiveWorld::new(setup).map_err(Failure::wrong)?;
    let account = run_in(scenario, mode, None, &mut world, &|_| {});
    drop(world);
    drop(all);
    Ok(account)
}

/// What every collective took in every mode, simulated and live, in µs.
fn times(simulated: &[Outcome], live: &[Outcome]) -> String {
    let mut out = "collective".to_owned();
    let all: Vec<(&str, &Outcome)> = simulated
        .iter()
        .map(|it| ("simulated", it))
        .chain(live.iter().map(|it| ("live", it)))
        .collect();
    for (how, (mode, _)) in &all {
        let _ = write!(out, ",{} {how}", mode.name());
    }
    out.push('\n');
    let count = all.iter().map(|it| it.1.1.times.len()).min().unwrap_or(0);
    for index in 0..count {
        let _ = write!(out, "{index}");
        for (_, (_, account)) in &all {
            let _ = write!(out, ",{:.1}", account.times[index].as_us_f64());
        }
        out.push('\n');
    }
    out
}

fn gain(base: f64, it: f64) -> f64 {
    if base > 0.0 { (1.0 - it / base) * 100.0 } else { 0.0 }
}

fn report(
    args: &WanArgs,
    scenario: &Scenario<'_>,
    simulated: &[Outcome],
    live: &[Outcome],
    congestion: String,
) -> LiveJson {
    let seconds = |it: &Account| it.completion().as_us_f64() / 1e6;
    let first = |it: &[Outcome]| it.first().map_or(0.0, |it| seconds(&it.1));
    let (base, live_base) = (first(simulated), first(live));
    let row = |((mode, sim), (_, live)): (&Outcome, &Outcome)| {
        let (a, b) = (sim.quantile(0.5).as_us_f64(), live.quantile(0.5).as_us_f64());
        let ratio = if a > 0.0 { b / a } else { 0.0 };
        ModeJson {
            mode: mode.name(),
            simulated_median_us: a,
            live_median_us: b,
            ratio,
            apart: (ratio - 1.0).abs() > APART,
            simulated_completion_s: seconds(sim),
            live_completion_s: seconds(live),
            simulated_gain_percent: gain(base, seconds(sim)),
            live_gain_percent: gain(live_base, seconds(live)),
            simulated_moves: [sim.route_moves, sim.program_moves],
            live_moves: [live.route_moves, live.program_moves],
            live_pauses_s: live.pauses.as_us_f64() / 1e6,
            live_gaps_s: live.gaps.as_us_f64() / 1e6,
        }
    };
    let modes: Vec<ModeJson> = simulated.iter().zip(live).map(row).collect();
    let order = |by: fn(&ModeJson) -> f64| {
        let mut sorted: Vec<&ModeJson> = modes.iter().collect();
        sorted.sort_by(|a, b| by(a).total_cmp(&by(b)));
        sorted.into_iter().map(|it| it.mode).collect::<Vec<_>>()
    };
    let simulated_order = order(|it| it.simulated_completion_s);
    let live_order = order(|it| it.live_completion_s);
    LiveJson {
        scenario: scenario.name.clone(),
        seed: scenario.seed.get(),
        collectives: scenario.count,
        sight: match args.sight {
            LiveSight::Told => "told",
            LiveSight::Measured => "measured",
        },
        congestion,
        same_order: simulated_order == live_order,
        modes,
        simulated_order,
        live_order,
    }
}

fn text(report: &LiveJson) -> String {
    let mut out = format!(
        "{}: {} collectives in each mode, live beside simulated; rates are {}, TCP by {}\n\n",
        report.scenario, report.collectives, report.sight, report.congestion
    );
    out += "mode                 median ms: simulated     live   ratio   total s: simulated     live   less than base %: simulated   live   moves (routes, programs): simulated         live\n";
    for it in &report.modes {
        let moves = |it: [u64; 2]| format!("{}, {}", it[0], it[1]);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:20} {:>20.1} {:>8.1} {:>7.2} {:>20.2} {:>8.2} {:>28.1} {:>6.1} {:>36} {:>12}",
            it.mode,
            it.simulated_median_us / 1e3,
            it.live_median_us / 1e3,
            it.ratio,
            it.simulated_completion_s,
            it.live_completion_s,
            it.simulated_gain_percent,
            it.live_gain_percent,
            moves(it.simulated_moves),
            moves(it.live_moves),
        );
    }
    out.push('\n');
    let order = |it: &[&str]| it.join(", ");
    if report.same_order {
        let _ =
            writeln!(out, "the order is the same, from the fastest: {}", order(&report.live_order));
    } else {
        let _ = writeln!(
            out,
            "the order differs, from the fastest: simulated {}; live {}",
            order(&report.simulated_order),
            order(&report.live_order)
        );
    }
    for it in report.modes.iter().filter(|it| it.apart) {
        let _ = writeln!(
            out,
            "{}: live and simulated are more than {:.0}% apart at the median ({:.2} times)",
            it.mode,
            APART * 100.0,
            it.ratio
        );
    }
    out
}
