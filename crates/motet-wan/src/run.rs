//! [`run_mode`]: all collectives of a scenario, one after the other, in one mode.
//!
//! Before each collective the hands that the mode allows are asked whether to move; then the
//! collective runs in the state that it finds, which stays the same until its end. The account is
//! checked as it grows: the clock is the sum of its parts, and no link is busy for longer than the
//! collective takes.

mod hands;
mod moves;

use std::sync::Arc;

use motet_control::hand::{Hand as _, KnobsHand, Ran, Waiting};
use motet_net::{LinkClass, Network, NetworkState};
use motet_synth::{SynthError, Task};
use motet_units::{Bandwidth, Duration, Instant, LinkId};

use crate::account::{Account, Last, What};
use crate::built::{Bench, Built, RouteChoice};
use crate::error::WanError;
use crate::forecast::Forecast;
use crate::knobs;
use crate::mode::Mode;
use crate::programs::Rebuilder;
use crate::route_table::RouteTable;
use crate::routes::{Loads, around_failures};
use crate::scenario::Scenario;
use crate::world::{Running, Simulated, Took, World};
use hands::{ProgramsMover, RoutesMover, Told};

/// A program that a collective can be run by, and the routes of its flows.
#[derive(Debug)]
struct Way {
    built: Arc<Built>,
    routes: RouteChoice,
    /// What the routes were before their last move.
    before: Option<RouteChoice>,
    waiting: Waiting<RouteChoice>,
    hand: RoutesMover,
}

impl Way {
    fn new(built: Arc<Built>, scenario: &Scenario<'_>) -> Self {
        let hand = RoutesMover::new(scenario.routes.hand);
        let routes = built.standing().clone();
        Self { built, routes, before: None, waiting: Waiting::new(), hand }
    }
}

/// One of the scenario's collectives: the program and routes in force, and moves that are decided but not yet
/// in force.
#[derive(Debug)]
struct Standing<'a> {
    /// First the program in force; then those of the knobs hand's settings, if there is one.
    ways: Vec<Way>,
    /// The index in `ways` that its last collective used.
    last: usize,
    /// What the program was before its last move.
    built_before: Option<Arc<Built>>,
    waiting: Waiting<Arc<Built>>,
    programs: Option<ProgramsMover<'a>>,
}

/// Runs a mode. `progress` is called now and then with the number of collectives done. Without a knobs hand nobody
/// moves knobs: see [`run_with`].
pub fn run_mode(
    scenario: &Scenario<'_>,
    mode: Mode,
    progress: &(dyn Fn(u32) + Sync),
) -> Result<Account, WanError> {
    run_with(scenario, mode, None, progress)
}

/// Runs a mode with a knobs hand, which is asked if the mode says so. Its tasks are the numbers of the scenario's collectives,
/// and its settings those of [`knobs::settings`].
pub fn run_with(
    scenario: &Scenario<'_>,
    mode: Mode,
    knobs: Option<&mut dyn KnobsHand>,
    progress: &(dyn Fn(u32) + Sync),
) -> Result<Account, WanError> {
    run_in(scenario, mode, knobs, &mut Simulated::new(scenario), progress)
}

/// Runs a mode in a [`World`], simulated or live, with a knobs hand if one is given and the mode has one.
pub fn run_in(
    scenario: &Scenario<'_>,
    mode: Mode,
    knobs: Option<&mut dyn KnobsHand>,
    world: &mut dyn World,
    progress: &(dyn Fn(u32) + Sync),
) -> Result<Account, WanError> {
    let knobs: Option<&mut dyn KnobsHand> = match knobs {
        Some(it) if mode.moves_knobs() => Some(it),
        _ => None,
    };
    let mut run = Run::new(scenario, mode, knobs, world)?;
    for index in 0..scenario.count {
        run.collective(index)?;
        if index.is_multiple_of(256) {
            progress(index);
        }
    }
    progress(scenario.count);
    run.close()
}

struct Run<'a> {
    scenario: &'a Scenario<'a>,
    mode: Mode,
    table: RouteTable<'a>,
    world: &'a mut dyn World,
    forecast: Forecast,
    standing: Vec<Standing<'a>>,
    knobs: Option<&'a mut dyn KnobsHand>,
    now: Instant,
    account: Account,
    bench: Bench,
    loads: Loads,
    state: NetworkState,
    /// The number that the world gave with `state`; `None` before the first.
    state_of: Option<u64>,
    /// Whether any link of `state` carries nothing.
    broken: bool,
}

impl<'a> Run<'a> {
    fn new(
        scenario: &'a Scenario<'a>,
        mode: Mode,
        knobs: Option<&'a mut dyn KnobsHand>,
        world: &'a mut dyn World,
    ) -> Result<Self, WanError> {
        let network = scenario.network;
        let mut table = RouteTable::of(scenario);
        let mut standing = Vec::new();
        let mut account = Account::new(network.links().len(), scenario.count);
        for asked in &scenario.collectives {
            let rebuilder = Rebuilder::new(scenario, asked, &mut table, mode.strength())?;
            let mut ways = vec![Way::new(rebuilder.base(), scenario)];
            if knobs.is_some() {
                let others = knobs::offered(scenario, asked, &mut table)?;
                ways.extend(others.into_iter().map(|it| Way::new(Arc::new(it.1), scenario)));
                account.settings.push(vec![0; ways.len()]);
            }
            let hand = scenario.programs.hand;
            standing.push(Standing {
                ways,
                last: 0,
                built_before: None,
                waiting: Waiting::new(),
                programs: mode.strength().map(|_| ProgramsMover::new(hand, rebuilder)),
            });
        }
        Ok(Self {
            scenario,
            mode,
            table,
            world,
            forecast: Forecast::new(network),
            standing,
            knobs,
            now: Instant::START,
            account,
            bench: Bench::default(),
            loads: Loads::default(),
            state: NetworkState::nominal(network),
            state_of: None,
            broken: false,
        })
    }

    fn collective(&mut self, index: u32) -> Result<(), WanError> {
        let which = index as usize % self.scenario.collectives.len();
        let mut found = self.attempt(index, which, false)?;
        let took = loop {
            // The first attempt may put decisions in force that were made long ago; the second decides by the present state.
            for _ in 0..2 {
                if found.is_none() {
                    found = self.attempt(index, which, true)?;
                }
            }
            match found {
                Some(took) => break took,
                None => self.wait_for_change(index, which)?,
            }
        };
        self.now += took.time;
        self.account.collectives += took.time;
        self.account.times.push(took.time);
        let links = self.scenario.network.link_ids();
        for (sum, link) in self.account.available.iter_mut().zip(links) {
            *sum += self.state.bandwidth(link).bits_per_s() as f64;
        }
        self.now += took.gap;
        self.account.gaps += took.gap;
        self.check(index)
    }

    /// Lets the hands move, `forced` whatever their triggers say, and runs the collective; `None`
    /// if it cannot run in this state.
    fn attempt(
        &mut self,
        index: u32,
        which: usize,
        forced: bool,
    ) -> Result<Option<Took>, WanError> {
        self.look(index)?;
        let moved_program = self.move_program(index, which, forced)?;
        // If the setting that the knobs hand chose cannot run, the program in force still may.
        let chosen = if forced { 0 } else { self.choose_way(which) };
        let mut took = self.run_way(index, (which, chosen), forced, moved_program)?;
        if took.is_none() && chosen != 0 {
            took = self.run_way(index, (which, 0), forced, moved_program)?;
        }
        Ok(took)
    }

    /// Runs the collective by one of its ways; `None` if it cannot run in this state.
    fn run_way(
        &mut self,
        index: u32,
        (which, number): (usize, usize),
        forced: bool,
        moved_program: bool,
    ) -> Result<Option<Took>, WanError> {
        let (moved_routes, foreseen) = self.move_routes(index, (which, number), forced);
        let standing = &mut self.standing[which];
        let way = &mut standing.ways[number];
        let around = self.broken.then(|| around_failures(&way.built, &way.routes, &self.state));
        let routes = around.as_ref().unwrap_or(&way.routes);
        let (built, state) = (&way.built, &self.state);
        let running = Running { index, which, built, routes, state, foreseen };
        let Some(took) = self.world.run(running, &mut self.bench)? else { return Ok(None) };
        self.now += took.pause;
        self.account.pauses += took.pause;
        let time = took.time;
        way.hand.learn(&Told { time, moved: moved_routes || moved_program });
        if let Some(programs) = standing.programs.as_mut().filter(|_| number == 0) {
            programs.learn(&Told { time, moved: moved_program });
        }
        self.loads.of(&way.built, routes, &self.state);
        if let Some((link, seconds)) = self.loads.busiest() {
            self.account.bottleneck[link.index()] += 1;
            // The time is rounded up to picoseconds and the link's busy time is not, so allow for rounding.
            let most = time.as_us_f64() * 1e-6 * (1.0 + 1e-6) + 1e-9;
            if seconds > most && self.world.is_ideal() {
                let problem = format!("a link is busy for {seconds} s of {time}");
                return Err(WanError::Unsound { index, mode: self.mode.name(), problem });
            }
        }
        if let Some(knobs) = &mut self.knobs {
            knobs.learn(&Ran { task: which, setting: number, time });
            self.account.knob_moves += u64::from(standing.last != number);
            self.account.settings[which][number] += 1;
        }
        standing.last = number;
        Ok(Some(took))
    }

    /// Reads the network state in which the collective starts.
    fn look(&mut self, index: u32) -> Result<(), WanError> {
        let (state, number) = self.world.state(index, self.now)?;
        if self.state_of != Some(number) {
            self.state.clone_from(state);
            self.state_of = Some(number);
            let mut links = self.scenario.network.link_ids();
            self.broken = links.any(|it| self.state.bandwidth(it).is_zero());
            if self.mode == Mode::Base {
                let wan = wan_bandwidth(self.scenario.network, &self.state);
                self.account.note(index, since_start(self.now), What::Bandwidth { wan });
            }
        }
        self.forecast.learn(&self.state);
        Ok(())
    }

    /// The collective cannot run: time passes until the network changes, or a decision that is
    /// being computed is known.
    fn wait_for_change(&mut self, index: u32, which: usize) -> Result<(), WanError> {
        let standing = &self.standing[which];
        let changes = [
            self.world.next_change(self.now),
            standing.waiting.from(),
            standing.ways[0].waiting.from(),
        ];
        let next = changes.into_iter().flatten().filter(|it| *it > self.now).min();
        let Some(next) = next else {
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
    fn cut(&self, index: u32, which: usize) -> WanError {
        let asked = &self.scenario.collectives[which];
        let task = Task::new(self.scenario.network, asked.goal.clone(), asked.size)
            .in_state(self.state.clone());
        match task.bound() {
            Err(SynthError::Impossible(cut)) => {
                WanError::Cut { index, problem: cut.to_string(), cut: Some(Box::new(cut)) }
            }
            _ => WanError::Stuck {
                index,
                problem: "a link that the program needs is down and no hand that may move can \
                          go around it"
                    .to_owned(),
            },
        }
    }

    /// The finished account, after checking that its sums agree with the single times.
    fn close(mut self) -> Result<Account, WanError> {
        let standing = self.standing.drain(..);
        let last = standing.map(|mut it| it.ways.swap_remove(it.last));
        self.account.last = last.map(|it| Last { built: it.built, routes: it.routes }).collect();
        let (index, mode) = (self.scenario.count, self.mode.name());
        let sum: u128 = self.account.times.iter().map(|it| u128::from(it.as_ps())).sum();
        let (total, ran) = (self.account.collectives.as_ps(), self.account.times.len());
        if sum == u128::from(total) && ran == index as usize {
            return Ok(self.account);
        }
        let problem = format!("{ran} collectives took {sum} ps and {total} ps were added up");
        Err(WanError::Unsound { index, mode, problem })
    }

    /// The clock is the sum of its parts.
    fn check(&self, index: u32) -> Result<(), WanError> {
        let (clock, sum) = (self.now.as_ps(), self.account.total().as_ps());
        if self.now == Instant::NEVER {
            return Err(WanError::TooLong { index });
        }
        if clock == sum {
            return Ok(());
        }
        let problem = format!("the clock shows {clock} ps and the parts add up to {sum} ps");
        Err(WanError::Unsound { index, mode: self.mode.name(), problem })
    }
}

/// The total available bandwidth of all WAN links.
fn wan_bandwidth(network: &Network, state: &NetworkState) -> Bandwidth {
    let wan = |it: &LinkId| network.link(*it).spec.class == LinkClass::Wan;
    let links = network.link_ids().filter(wan);
    links.fold(Bandwidth::ZERO, |sum, it| sum.saturating_add(state.bandwidth(it)))
}

fn since_start(now: Instant) -> Duration {
    now.since(Instant::START)
}
