//! [`World`]: where the collectives of a run happen.
//!
//! The loop over collectives ([`mod@crate::run`]), the hands, their triggers and the account are the same wherever that is. In [`Simulated`] the simulator says what a collective takes, and
//! moves cost what the scenario says; on a testbed (`motet-testbed`) ranks run it, and what it and the moves take is measured.

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
    /// What the simulator says that it takes, if the routes hand has just found that out.
    pub foreseen: Option<Duration>,
}

/// What became of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    pub time: Duration,
    /// What putting its program and routes in force took before it, where that is measured.
    pub pause: Duration,
    /// The time until the next one can start.
    pub gap: Duration,
}

/// See the [module](self).
pub trait World {
    /// The state that collective `index` finds at `now`, and a number that changes whenever the state does. Asked in order.
    fn state(&mut self, index: u32, now: Instant) -> Result<(&NetworkState, u64), WanError>;

    /// When the state will change by itself next, after `now`.
    fn next_change(&self, now: Instant) -> Option<Instant>;

    /// Runs a collective; `None` if it cannot run in this state.
    fn run(&mut self, running: Running<'_>, bench: &mut Bench) -> Result<Option<Took>, WanError>;

    /// What a move with these costs takes, beside what [`Took::pause`] will say.
    fn pause(&self, costs: Costs) -> Duration;

    /// Whether times are the simulator's, so that no link can be busy for longer than a collective takes.
    fn is_ideal(&self) -> bool;
}

/// The simulator's.
#[derive(Debug)]
pub struct Simulated<'a> {
    scenario: &'a Scenario<'a>,
    course: Course<'a>,
    state: NetworkState,
    /// The sample and the faults that `state` is of.
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
