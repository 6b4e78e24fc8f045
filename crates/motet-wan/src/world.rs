//! [`World`]: what runs the collectives of a run: the simulator, or a testbed.
//!
//! The loop over collectives ([`mod@crate::run`]), the hands, their triggers and the account are the same for both. In
//! [`Simulated`] the simulator times each collective, and moves cost what the scenario says; on a testbed (`motet-testbed`) ranks run
//! the collective, and its time and that of moves are measured.

use std::sync::Arc;

use motet_control::hand::Costs;
use motet_net::NetworkState;
use motet_units::{Duration, Instant};

use crate::built::{Bench, Built, RouteChoice};
use crate::error::WanError;
use crate::fault;
use crate::scenario::Scenario;
use crate::variation::Course;

/// A collective that is to be run now.
#[derive(Clone, Copy, Debug)]
pub struct Running<'r> {
    pub index: u32,
    /// Which of the scenario's collectives it is.
    pub which: usize,
    pub built: &'r Arc<Built>,
    /// The routes of its flows.
    pub routes: &'r RouteChoice,
    /// The state that was found before it.
    pub state: &'r NetworkState,
    /// Its simulated time, if the routes hand has just computed it, to save a second simulation.
    pub foreseen: Option<Duration>,
}

/// The measured or simulated times of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    pub time: Duration,
    /// How long putting its program and routes in force took before it, where that is measured.
    pub pause: Duration,
    /// The time until the next one can start.
    pub gap: Duration,
}

/// An environment in which collectives run.
pub trait World {
    /// The state that collective `index` finds at `now`, and a number that changes whenever the state does. Asked in order.
    fn state(&mut self, index: u32, now: Instant) -> Result<(&NetworkState, u64), WanError>;

    /// When the state will change by itself next, after `now`.
    fn next_change(&self, now: Instant) -> Option<Instant>;

    /// Runs a collective; `None` if it cannot run in this state.
    fn run(&mut self, running: Running<'_>, bench: &mut Bench) -> Result<Option<Took>, WanError>;

    /// How long collectives pause for a move with these costs; what is measured instead comes later, in [`Took::pause`].
    fn pause(&self, costs: Costs) -> Duration;

    /// Whether times are simulated, so that the invariant "no link is busy for longer than the collective takes" can be checked.
    fn is_ideal(&self) -> bool;
}

/// The world of the simulator.
#[derive(Debug)]
pub struct Simulated<'a> {
    scenario: &'a Scenario<'a>,
    course: Course<'a>,
    state: NetworkState,
    /// The number of the sample, and which faults were on, when `state` was computed.
    state_of: Option<(u64, Vec<bool>)>,
    changes: u64,
}

impl<'a> Simulated<'a> {
    #[must_use]
    pub fn new(scenario: &'a Scenario<'a>) -> Self {
        Self {
            scenario,
            course: Course::new(scenario.network, &scenario.variation, scenario.seed),
            state: NetworkState::nominal(scenario.network),
            state_of: None,
            changes: 0,
        }
    }
}

impl World for Simulated<'_> {
    fn state(&mut self, index: u32, now: Instant) -> Result<(&NetworkState, u64), WanError> {
        let (state, sample) = self.course.state(index, now);
        let faults = &self.scenario.faults;
        let on: Vec<bool> = faults.iter().map(|it| it.is_on(now)).collect();
        if self.state_of.as_ref() != Some(&(sample, on.clone())) {
            self.state.clone_from(state);
            fault::apply(faults, now, &mut self.state);
            self.state_of = Some((sample, on));
            self.changes += 1;
        }
        Ok((&self.state, self.changes))
    }

    fn next_change(&self, now: Instant) -> Option<Instant> {
        let changes = [fault::next_change(&self.scenario.faults, now), self.course.next_change()];
        changes.into_iter().flatten().filter(|it| *it > now).min()
    }

    fn run(&mut self, running: Running<'_>, bench: &mut Bench) -> Result<Option<Took>, WanError> {
        let Running { built, routes, state, foreseen, .. } = running;
        let time = foreseen.or_else(|| built.time(routes, state, bench).ok());
        let gap = self.scenario.gap;
        Ok(time.map(|time| Took { time, pause: Duration::ZERO, gap }))
    }

    fn pause(&self, costs: Costs) -> Duration {
        costs.pause()
    }

    fn is_ideal(&self) -> bool {
        true
    }
}
