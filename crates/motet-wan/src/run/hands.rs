//! The routes hand and the programs hand as implementations of [`Hand`]: when each moves, by its trigger, and what it
//! proposes. The algorithms are in [`routes`](crate::routes) and [`programs`](crate::programs).

use std::convert::Infallible;
use std::sync::Arc;

use motet_control::hand::{Hand, HandKind, Proposal};
use motet_net::NetworkState;
use motet_units::Duration;

use crate::built::{Bench, Built, RouteChoice};
use crate::error::WanError;
use crate::forecast::Forecast;
use crate::programs::{Outlook, Rebuilder};
use crate::route_table::RouteTable;
use crate::routes::{Loads, TimedRoutes};
use crate::trigger::{self, Trigger, Verdict, Watch};

/// For how many collectives a new program is expected to stay under a threshold trigger, which has no fixed
/// interval.
const UNTIL_NEXT_MOVE: u32 = 10;

/// The outcome of a collective, as these hands learn it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) time: Duration,
    /// Whether routes or program had been moved just before it, by this hand or another.
    pub(super) moved: bool,
}

/// When a hand is asked: in which turn of its collective, and whether it must move because nothing can run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) number: u32,
    pub(super) forced: bool,
}

impl Turn {
    fn verdict(self, watch: &Watch) -> Verdict {
        if self.forced { Verdict::Move } else { watch.ask(self.number) }
    }
}

/// What the routes hand observes.
pub(super) struct RouteSight<'s> {
    pub(super) turn: Turn,
    pub(super) built: &'s Built,
    pub(super) current: &'s RouteChoice,
    pub(super) state: &'s NetworkState,
    pub(super) forecast: &'s Forecast,
    pub(super) loads: &'s mut Loads,
    pub(super) bench: &'s mut Bench,
}

/// The routes hand, for one program.
#[derive(Debug)]
pub(super) struct RoutesMover {
    hand: trigger::Hand,
    watch: Watch,
    /// The best routes at the last question, kept until [`foreseen`](Self::foreseen) hands out their time.
    best: Option<TimedRoutes>,
}

impl RoutesMover {
    pub(super) const fn new(hand: trigger::Hand) -> Self {
        Self { hand, watch: Watch::new(hand.trigger), best: None }
    }

    /// The simulated time of the collective over these routes, if the hand has just computed it.
    pub(super) fn foreseen(&mut self, routes: &RouteChoice) -> Option<Duration> {
        self.best.take().filter(|it| it.routes == *routes).map(|it| it.time)
    }
}

impl Hand<RouteSight<'_>> for RoutesMover {
    type Action = RouteChoice;
    type Outcome = Told;
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Routes
    }

    fn propose(
        &mut self,
        sight: RouteSight<'_>,
    ) -> Result<Option<Proposal<RouteChoice>>, Infallible> {
        let verdict = sight.turn.verdict(&self.watch);
        if verdict == Verdict::Stay {
            return Ok(None);
        }
        let (current, costs) = (sight.current, self.hand.costs);
        self.best = sight.loads.best(sight.built, Some(current), sight.state, sight.bench);
        let worth = match (&self.best, verdict) {
            (None, _) => false,
            (Some(best), Verdict::MoveIfWorth { horizon }) => {
                // Leave a route that is down whatever the move costs.
                let stay = sight.built.time_again(current, sight.bench);
                stay.map_or(true, |stay| {
                    let weight = sight.forecast.weight_of_now(horizon) * f64::from(horizon);
                    let saved = stay.as_ps().saturating_sub(best.time.as_ps()) as f64 * weight;
                    saved > costs.pause().as_ps() as f64
                })
            }
            (Some(_), _) => true,
        };
        let better = self.best.as_ref().filter(|it| worth && it.routes != *current);
        Ok(better.map(|it| Proposal { action: it.routes.clone(), costs }))
    }

    fn learn(&mut self, told: &Told) {
        self.watch.tell(told.time, told.moved);
    }
}

/// What the programs hand observes.
pub(super) struct ProgramSight<'s, 'n> {
    pub(super) turn: Turn,
    pub(super) built: &'s Arc<Built>,
    pub(super) state: &'s NetworkState,
    pub(super) forecast: &'s Forecast,
    /// Whether routes will be chosen to suit the program.
    pub(super) moves_routes: bool,
    pub(super) table: &'s mut RouteTable<'n>,
    pub(super) bench: &'s mut Bench,
}

/// The programs hand, for one of the scenario's collectives.
#[derive(Debug)]
pub(super) struct ProgramsMover<'a> {
    hand: trigger::Hand,
    watch: Watch,
    rebuilder: Rebuilder<'a>,
}

impl<'a> ProgramsMover<'a> {
    pub(super) const fn new(hand: trigger::Hand, rebuilder: Rebuilder<'a>) -> Self {
        Self { hand, watch: Watch::new(hand.trigger), rebuilder }
    }
}

impl Hand<ProgramSight<'_, '_>> for ProgramsMover<'_> {
    type Action = Arc<Built>;
    type Outcome = Told;
    type Error = WanError;

    fn kind(&self) -> HandKind {
        HandKind::Programs
    }

    fn propose(
        &mut self,
        sight: ProgramSight<'_, '_>,
    ) -> Result<Option<Proposal<Arc<Built>>>, WanError> {
        let verdict = sight.turn.verdict(&self.watch);
        if verdict == Verdict::Stay {
            return Ok(None);
        }
        let (horizon, costs) = (horizon(self.hand.trigger), self.hand.costs);
        let ProgramSight { state, forecast, moves_routes, .. } = sight;
        let outlook = Outlook { state, forecast, horizon, moves_routes };
        let chosen = self.rebuilder.rebuild(sight.built, &outlook, sight.table, sight.bench)?;
        let worth = match verdict {
            Verdict::MoveIfWorth { horizon } => {
                self.rebuilder.saving(sight.built, &chosen, horizon) > costs.pause()
            }
            _ => true,
        };
        let other = worth && !Arc::ptr_eq(&chosen, sight.built);
        Ok(other.then_some(Proposal { action: chosen, costs }))
    }

    fn learn(&mut self, told: &Told) {
        self.watch.tell(told.time, told.moved);
    }
}

/// For how many collectives a rebuilt program is likely to stay.
const fn horizon(trigger: Trigger) -> u32 {
    match trigger {
        Trigger::Cadence(every) | Trigger::Gain { every } => every,
        Trigger::Threshold { .. } => UNTIL_NEXT_MOVE,
    }
}
