//! `motet wan`: the reconfiguration modes of Xiong et al. over many collectives.
//!
//! Here a scenario is read and run; [`report`] prints what came out, [`tables`] and [`pictures`]
//! write it, [`moves`] the programs and routes themselves.

mod knobs;
#[cfg(target_os = "linux")]
mod live;
mod moves;
mod pictures;
mod report;
mod tables;

use std::sync::atomic::{AtomicU64, Ordering};

use motet_collective::bound::Bound;
use motet_control::hand::KnobsHand;
use motet_net::{Network, NetworkState};
use motet_wan::cut::RegionCut;
use motet_wan::knobs::Setting;
use motet_wan::yardstick::{self, Yardstick};
use motet_wan::{Account, Mode, Scenario, WanError, run_mode, run_with};
use rayon::prelude::*;

use crate::args::wan::WanArgs;
use crate::commands::scenario::Loaded;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Bar;

use knobs::Knobs;
pub(crate) use pictures::distribution;
pub(crate) use tables::bottleneck_table;

/// A mode, and what it added up to.
pub(crate) type Outcome = (Mode, Account);

pub(crate) fn run(args: &WanArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let in_file = |it: Failure| it.in_file(&args.scenario);
    let loaded = Loaded::read(&args.scenario, &args.read, printer)?;
    let network = &loaded.network;
    let mut scenario = loaded.scenario(args.seed)?;
    if let Some(count) = args.count {
        scenario.count = count;
    }
    if args.live {
        #[cfg(target_os = "linux")]
        return live::run(args, &scenario, printer);
        #[cfg(not(target_os = "linux"))]
        return Err(crate::commands::testbed::no_linux());
    }
    let wrong = |it: WanError| in_file(failure(&it, network));
    let policy = Knobs::asked_for(args)?;
    let knobs = policy.map(|it| Knobs::new(it, &scenario)).transpose().map_err(wrong)?;
    let modes = knobs::modes(args, knobs.is_some())?;
    let accounts = run_hands(&scenario, &modes, knobs.as_ref(), printer)?;
    let accounts = accounts.map_err(wrong)?;
    let yardstick = match args.yardstick {
        0 => None,
        sample => {
            let modes: Vec<&Account> = accounts.iter().map(|it| &it.1).collect();
            let found = yardstick::measure(&scenario, sample, &modes);
            Some(found.map_err(|it| in_file(failure(&it, network)))?)
        }
    };
    let mut ran = Ran::new(&scenario, &accounts, yardstick);
    ran.settings = knobs.map_or_else(Vec::new, |it| it.settings);
    ran.write(args, printer)?;
    if printer.is_json() {
        printer.json(&ran.json())?;
    } else {
        printer.out(&ran.text())?;
    }
    Ok(Status::Done)
}

/// All modes, over all cores, without a knobs hand.
pub(crate) fn run_modes(
    scenario: &Scenario<'_>,
    modes: &[Mode],
    printer: &Printer,
) -> Result<Vec<Outcome>, WanError> {
    let total = u64::from(scenario.count) * modes.len() as u64;
    let bar = Bar::start(printer, total, "collectives");
    let done = AtomicU64::new(0);
    run_all(modes, &bar, &done, |mode, progress| run_mode(scenario, mode, progress))
}

/// The same with a knobs hand, in the modes that have one. What cannot be made is one failure, what cannot be run another.
fn run_hands(
    scenario: &Scenario<'_>,
    modes: &[Mode],
    knobs: Option<&Knobs>,
    printer: &Printer,
) -> Result<Result<Vec<Outcome>, WanError>, Failure> {
    let Some(knobs) = knobs else { return Ok(run_modes(scenario, modes, printer)) };
    // Whether a hand can be made does not depend on the mode, so that this one says it for all.
    let hand = knobs.hand(scenario)?;
    drop(hand);
    let total = u64::from(scenario.count) * modes.len() as u64;
    let bar = Bar::start(printer, total, "collectives");
    let done = AtomicU64::new(0);
    Ok(run_all(modes, &bar, &done, |mode, progress| {
        let mut hand = knobs.hand(scenario).ok();
        let hand = hand.as_mut().map(|it| it as &mut dyn KnobsHand);
        run_with(scenario, mode, hand, progress)
    }))
}

fn run_all(
    modes: &[Mode],
    bar: &Bar,
    done: &AtomicU64,
    run: impl Fn(Mode, &(dyn Fn(u32) + Sync)) -> Result<Account, WanError> + Sync,
) -> Result<Vec<Outcome>, WanError> {
    let run = |mode: &Mode| {
        let last = AtomicU64::new(0);
        let progress = |index: u32| {
            let step = u64::from(index) - last.swap(u64::from(index), Ordering::Relaxed);
            bar.set(done.fetch_add(step, Ordering::Relaxed) + step);
        };
        run(*mode, &progress).map(|account| (*mode, account))
    };
    // The modes with more to decide take longest, and are begun first.
    let mut ran: Vec<Outcome> =
        modes.par_iter().rev().with_max_len(1).map(run).collect::<Result<_, _>>()?;
    ran.reverse();
    Ok(ran)
}

fn failure(error: &WanError, network: &Network) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error {
        WanError::Cut { cut: Some(cut), .. } => match cut.as_ref() {
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
        WanError::TooLong { .. } => {
            failure.with_remedy("run fewer collectives, or give shorter gaps and costs")
        }
        _ => failure,
    }
}

/// All there is to print.
struct Ran<'a> {
    scenario: &'a Scenario<'a>,
    accounts: &'a [Outcome],
    yardstick: Option<Yardstick>,
    /// What the knobs hand chose from, for each collective; empty without one.
    settings: Vec<Vec<Setting>>,
    /// Of the first collective, on the network as it nominally is.
    bound: Option<Bound>,
    cut: Option<RegionCut>,
}

impl<'a> Ran<'a> {
    fn new(
        scenario: &'a Scenario<'a>,
        accounts: &'a [Outcome],
        yardstick: Option<Yardstick>,
    ) -> Self {
        let network = scenario.network;
        let asked = &scenario.collectives[0];
        let task = motet_synth::Task::new(network, asked.goal.clone(), asked.size);
        let nominal = NetworkState::nominal(network);
        Self {
            scenario,
            accounts,
            yardstick,
            settings: Vec::new(),
            bound: task.bound().ok(),
            cut: RegionCut::of(network, &nominal, asked),
        }
    }

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

    /// Writes the files that were asked for.
    fn write(&self, args: &WanArgs, printer: &mut Printer) -> Result<(), Failure> {
        let dropped: u64 = self.accounts.iter().map(|it| it.1.unnoted).sum();
        let wants_timeline = args.timeline.is_some() || args.output.is_some();
        if wants_timeline && dropped > 0 {
            printer.note(&format!("the timeline leaves out {dropped} changes, the last of a mode"));
        }
        if let Some(name) = &args.csv {
            self.times().write(name, printer)?;
        }
        if let Some(name) = &args.timeline {
            self.write_timeline(name, printer)?;
        }
        let title = format!("{}: completion times", self.scenario.name);
        if let Some(name) = &args.svg {
            files::write(name, &distribution(&title, self.accounts).svg(), printer)?;
        }
        let Some(folder) = &args.output else { return Ok(()) };
        std::fs::create_dir_all(folder)
            .map_err(|it| Failure::unreadable(format!("cannot be made: {it}")).in_file(folder))?;
        let file = |name: &str| format!("{folder}/{name}");
        let bottlenecks = bottleneck_table(self.scenario.network, self.accounts);
        for ending in ["csv", "parquet"] {
            self.times().write(&file(&format!("times.{ending}")), printer)?;
            self.timeline().write(&file(&format!("timeline.{ending}")), printer)?;
            bottlenecks.write(&file(&format!("bottlenecks.{ending}")), printer)?;
        }
        self.write_moves(folder, printer)?;
        files::write(&file("cdf.svg"), &distribution(&title, self.accounts).svg(), printer)?;
        self.write_timeline(&file("timeline.svg"), printer)?;
        files::write(&file("bottlenecks.svg"), &self.bottleneck_picture(), printer)
    }

    /// The timeline: drawn, or as a table.
    fn write_timeline(&self, name: &str, printer: &mut Printer) -> Result<(), Failure> {
        if name.to_ascii_lowercase().ends_with(".svg") {
            files::write(name, &self.timeline_picture(), printer)
        } else {
            self.timeline().write(name, printer)
        }
    }
}
