//! [`run_mode`]: one mode over all collectives of a scenario.
//!
//! Before each collective the hands that the mode lets move are asked; then the collective runs in
//! the state it finds. What is added up is checked as it goes: the clock is the sum of its parts,
//! and no link carries more than it can.

use std::sync::Arc;

use motet_collective::BoundError;
use motet_net::{LinkClass, Network, NetworkState};
use motet_synth::{SynthError, Task};
use motet_units::{Bandwidth, Duration, Instant, LinkId};

use crate::account::{Account, What};
use crate::built::{Bench, Built, Routes};
use crate::fault;
use crate::forecast::Forecast;
use crate::programs::{Outlook, Rebuilder, Strength};
use crate::routes::{Loads, around_failures};
use crate::scenario::Scenario;
use crate::trigger::{Costs, Trigger, Verdict, Watch};
use crate::variation::Course;
use crate::ways::WayTable;

/// Which hands may move (seed 000, Table I).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Base,
    Routes,
    Programs(Strength),
    Both(Strength),
}

impl Mode {
    /// Every mode, the programs hand in both strengths.
    pub const ALL: [Self; 6] = [
        Self::Base,
        Self::Routes,
        Self::Programs(Strength::Remap),
        Self::Both(Strength::Remap),
        Self::Programs(Strength::Synth),
        Self::Both(Strength::Synth),
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Routes => "routes",
            Self::Programs(Strength::Remap) => "programs (remap)",
            Self::Both(Strength::Remap) => "both (remap)",
            Self::Programs(Strength::Synth) => "programs (synth)",
            Self::Both(Strength::Synth) => "both (synth)",
        }
    }

    #[must_use]
    pub const fn moves_routes(self) -> bool {
        matches!(self, Self::Routes | Self::Both(_))
    }

    #[must_use]
    pub const fn strength(self) -> Option<Strength> {
        match self {
            Self::Base | Self::Routes => None,
            Self::Programs(it) | Self::Both(it) => Some(it),
        }
    }
}

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error(transparent)]
    Route(#[from] motet_sim::RouteError),
    /// Nothing can run any more, and nothing will change that.
    #[error("before collective {index} the network is cut and stays so: {problem}")]
    Cut { index: u32, problem: String, cut: Option<Box<BoundError>> },
    #[error("before collective {index}: {problem}")]
    Stuck { index: u32, problem: String },
    /// The account does not add up: a fault of Motet's own.
    #[error("collective {index} of mode {mode}: {problem}; this is a fault in Motet")]
    Unsound { index: u32, mode: &'static str, problem: String },
}

/// A move that has been decided and is not in force yet.
#[derive(Debug)]
struct Pending<T> {
    from: Instant,
    what: T,
}

/// One of the collectives, as it stands.
#[derive(Debug)]
struct Standing<'a> {
    built: Arc<Built>,
    routes: Routes,
    /// What the routes were before the last move.
    before: Option<Routes>,
    rebuilder: Option<Rebuilder<'a>>,
    pending_routes: Option<Pending<Routes>>,
    pending_program: Option<Pending<Arc<Built>>>,
    route_watch: Watch,
    program_watch: Watch,
}

/// Runs a mode. `progress` is told how many collectives are done, now and then.
pub fn run_mode(
    scenario: &Scenario<'_>,
    mode: Mode,
    progress: &(dyn Fn(u32) + Sync),
) -> Result<Account, RunError> {
    let mut run = Run::new(scenario, mode)?;
    for index in 0..scenario.count {
        run.collective(index)?;
        if index.is_multiple_of(256) {
            progress(index);
        }
    }
    progress(scenario.count);
    Ok(run.account)
}

struct Run<'a> {
    scenario: &'a Scenario<'a>,
    mode: Mode,
    table: WayTable<'a>,
    course: Course<'a>,
    forecast: Forecast,
    standing: Vec<Standing<'a>>,
    now: Instant,
    account: Account,
    bench: Bench,
    loads: Loads,
    state: NetworkState,
    /// The sample and the faults that `state` is of.
    state_of: Option<(u64, Vec<bool>)>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario<'a>, mode: Mode) -> Result<Self, RunError> {
        let network = scenario.network;
        let (paths, start) = (scenario.routes.paths, scenario.routes.start);
        let mut table = WayTable::new(network, paths, start, scenario.seed);
        let mut standing = Vec::new();
        for asked in &scenario.collectives {
            let rebuilder = Rebuilder::new(scenario, asked, &mut table, mode.strength())?;
            let built = rebuilder.base();
            standing.push(Standing {
                routes: built.standing().clone(),
                built,
                before: None,
                rebuilder: mode.strength().map(|_| rebuilder),
                pending_routes: None,
                pending_program: None,
                route_watch: Watch::new(scenario.routes.hand.trigger),
                program_watch: Watch::new(scenario.programs.hand.trigger),
            });
        }
        Ok(Self {
            scenario,
            mode,
            table,
            course: Course::new(network, &scenario.variation, scenario.seed),
            forecast: Forecast::new(network),
            standing,
            now: Instant::START,
            account: Account::new(network.links().len(), scenario.count),
            bench: Bench::default(),
            loads: Loads::default(),
            state: NetworkState::nominal(network),
            state_of: None,
        })
    }

    fn collective(&mut self, index: u32) -> Result<(), RunError> {
        let which = index as usize % self.scenario.collectives.len();
        let mut time = self.attempt(index, which)?;
        while time.is_none() {
            self.wait_for_change(index, which)?;
            time = self.attempt(index, which)?;
        }
        if let Some(time) = time {
            self.now += time;
            self.account.collectives += time;
            self.account.times.push(time);
        }
        self.now += self.scenario.gap;
        self.account.gaps += self.scenario.gap;
        self.check(index)
    }

    /// Lets the hands move and runs the collective; `None` if it cannot run in this state.
    fn attempt(&mut self, index: u32, which: usize) -> Result<Option<Duration>, RunError> {
        self.look(index);
        let moved_program = self.move_program(index, which)?;
        let moved_routes = self.move_routes(index, which);
        let standing = &mut self.standing[which];
        let routes = around_failures(&standing.built, &standing.routes, &self.state);
        let Ok(time) = standing.built.time(&routes, &self.state, &mut self.bench) else {
            return Ok(None);
        };
        standing.route_watch.tell(time, moved_routes);
        standing.program_watch.tell(time, moved_program);
        self.loads.of(&standing.built, &routes, &self.state);
        if let Some((link, seconds)) = self.loads.busiest() {
            self.account.bottleneck[link.index()] += 1;
            // Rounding up to picoseconds is for the program's good; a link's share of it is not.
            if seconds > time.as_us_f64() * 1e-6 * (1.0 + 1e-6) + 1e-9 {
                let problem = format!("a link is busy for {seconds} s of {time}");
                return Err(RunError::Unsound { index, mode: self.mode.name(), problem });
            }
        }
        Ok(Some(time))
    }

    /// Takes in the state that the collective finds.
    fn look(&mut self, index: u32) {
        let (state, sample) = self.course.state(index, self.now);
        let faults = &self.scenario.faults;
        let on: Vec<bool> = faults.iter().map(|it| it.is_on(self.now)).collect();
        if self.state_of.as_ref() != Some(&(sample, on.clone())) {
            self.state.clone_from(state);
            fault::apply(faults, self.now, &mut self.state);
            self.state_of = Some((sample, on));
            if self.mode == Mode::Base {
                let wan = wan_bandwidth(self.scenario.network, &self.state);
                self.account.note(index, since_start(self.now), What::Bandwidth { wan });
            }
        }
        self.forecast.learn(&self.state);
    }

    fn move_program(&mut self, index: u32, which: usize) -> Result<bool, RunError> {
        let standing = &mut self.standing[which];
        let Some(rebuilder) = &mut standing.rebuilder else { return Ok(false) };
        let hand = self.scenario.programs.hand;
        let verdict = standing.program_watch.ask(index / self.scenario.collectives.len() as u32);
        let horizon = horizon(hand.trigger);
        if verdict != Verdict::Stay && standing.pending_program.is_none() {
            let moves_routes = self.mode.moves_routes();
            let outlook =
                Outlook { state: &self.state, forecast: &self.forecast, horizon, moves_routes };
            let (table, bench) = (&mut self.table, &mut self.bench);
            let chosen = rebuilder.rebuild(&standing.built, &outlook, table, bench)?;
            let worth = match verdict {
                Verdict::MoveIfWorth { horizon } => {
                    rebuilder.saving(&standing.built, &chosen, horizon) > hand.costs.pause()
                }
                _ => true,
            };
            if worth && !Arc::ptr_eq(&chosen, &standing.built) {
                let from = self.now + hand.costs.compute;
                standing.pending_program = Some(Pending { from, what: chosen });
            }
        }
        let due = standing.pending_program.as_ref().is_some_and(|it| it.from <= self.now);
        let Some(pending) = standing.pending_program.take_if(|_| due) else { return Ok(false) };
        let name = pending.what.name.clone();
        standing.routes = if self.mode.moves_routes() {
            pending.what.own().clone()
        } else {
            pending.what.standing().clone()
        };
        standing.built = pending.what;
        (standing.before, standing.pending_routes) = (None, None);
        self.account.program_moves += 1;
        self.account.note(index, since_start(self.now), What::Program { name });
        self.pause(hand.costs);
        Ok(true)
    }

    fn move_routes(&mut self, index: u32, which: usize) -> bool {
        if !self.mode.moves_routes() {
            return false;
        }
        let hand = self.scenario.routes.hand;
        let standing = &mut self.standing[which];
        let verdict = standing.route_watch.ask(index / self.scenario.collectives.len() as u32);
        if verdict != Verdict::Stay && standing.pending_routes.is_none() {
            let routes = self.loads.choose(&standing.built, &self.state);
            let stay = standing.built.time(&standing.routes, &self.state, &mut self.bench);
            let go = standing.built.time_again(&routes, &mut self.bench);
            let saved = match (stay, go) {
                (Ok(stay), Ok(go)) => stay.as_ps().saturating_sub(go.as_ps()),
                (Err(_), Ok(_)) => u64::MAX,
                (_, Err(_)) => 0,
            };
            let needed = match verdict {
                Verdict::MoveIfWorth { horizon } => {
                    let weight = self.forecast.weight_of_now(horizon) * f64::from(horizon);
                    (hand.costs.pause().as_ps() as f64 / weight.max(1e-9)) as u64
                }
                _ => 0,
            };
            if saved > needed {
                let from = self.now + hand.costs.compute;
                standing.pending_routes = Some(Pending { from, what: routes });
            }
        }
        let due = standing.pending_routes.as_ref().is_some_and(|it| it.from <= self.now);
        let Some(pending) = standing.pending_routes.take_if(|_| due) else { return false };
        let changed = pending.what.0.iter().zip(&standing.routes.0).filter(|(a, b)| a != b);
        let flows = changed.count() as u32;
        if flows == 0 {
            return false;
        }
        self.account.flaps += u64::from(standing.before.as_ref() == Some(&pending.what));
        standing.before = Some(std::mem::replace(&mut standing.routes, pending.what));
        self.account.route_moves += 1;
        self.account.flows_moved += u64::from(flows);
        self.account.note(index, since_start(self.now), What::Routes { flows });
        self.pause(hand.costs);
        true
    }

    fn pause(&mut self, costs: Costs) {
        self.now += costs.pause();
        self.account.pauses += costs.pause();
    }

    /// The collective cannot run: time passes until the network changes.
    fn wait_for_change(&mut self, index: u32, which: usize) -> Result<(), RunError> {
        let fault = fault::next_change(&self.scenario.faults, self.now);
        let next = [fault, self.course.next_change()].into_iter().flatten().min();
        let Some(next) = next.filter(|it| *it > self.now) else {
            return Err(self.cut(index, which));
        };
        let stalled = next.since(self.now);
        self.account.stalls += stalled;
        let until = since_start(next);
        self.account.note(index, since_start(self.now), What::Stalled { until });
        self.now = next;
        Ok(())
    }

    /// Why nothing can run, with the cut that proves it if there is one.
    fn cut(&self, index: u32, which: usize) -> RunError {
        let asked = &self.scenario.collectives[which];
        let task = Task::new(self.scenario.network, asked.goal.clone(), asked.size)
            .in_state(self.state.clone());
        match task.bound() {
            Err(SynthError::Impossible(cut)) => {
                RunError::Cut { index, problem: cut.to_string(), cut: Some(Box::new(cut)) }
            }
            _ => RunError::Stuck {
                index,
                problem: "a link that the program needs is down and no hand that may move can \
                          go around it"
                    .to_owned(),
            },
        }
    }

    /// The clock is the sum of its parts.
    fn check(&self, index: u32) -> Result<(), RunError> {
        let (clock, sum) = (self.now.as_ps(), self.account.total().as_ps());
        if clock == sum {
            return Ok(());
        }
        let problem = format!("the clock shows {clock} ps and the parts add up to {sum} ps");
        Err(RunError::Unsound { index, mode: self.mode.name(), problem })
    }
}

/// What all WAN links carry together.
fn wan_bandwidth(network: &Network, state: &NetworkState) -> Bandwidth {
    let wan = |it: &LinkId| network.link(*it).spec.class == LinkClass::Wan;
    let links = network.link_ids().filter(wan);
    links.fold(Bandwidth::ZERO, |sum, it| sum.saturating_add(state.bandwidth(it)))
}

fn since_start(now: Instant) -> Duration {
    now.since(Instant::START)
}

/// For how many collectives a rebuilt program is likely to stay.
const fn horizon(trigger: Trigger) -> u32 {
    match trigger {
        Trigger::Cadence(every) | Trigger::Gain { every } => every,
        Trigger::Threshold { .. } => 10,
    }
}
