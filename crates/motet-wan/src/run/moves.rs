//! What the hands do before a collective: whether each is asked, what it decides, when that comes
//! into force, and what it costs.
//!
//! A decision comes into force between collectives, when nothing is in flight: one that is ready
//! during a collective waits for its end.

use std::sync::Arc;

use motet_units::Duration;

use super::{Pending, Run, since_start};
use crate::account::What;
use crate::built::RouteChoice;
use crate::error::WanError;
use crate::programs::Outlook;
use crate::trigger::{Costs, Trigger, Verdict};

/// For how many collectives a move is likely to last where the trigger does not say.
const UNTIL_NEXT_MOVE: u32 = 10;

impl Run<'_> {
    /// Asks the programs hand; whether the program changed.
    pub(super) fn move_program(
        &mut self,
        index: u32,
        which: usize,
        forced: bool,
    ) -> Result<bool, WanError> {
        let (hand, moves_routes) = (self.scenario.programs.hand, self.mode.moves_routes());
        let standing = &mut self.standing[which];
        let Some(rebuilder) = &mut standing.rebuilder else { return Ok(false) };
        let turn = index / self.scenario.collectives.len() as u32;
        let verdict = if forced { Verdict::Move } else { standing.program_watch.ask(turn) };
        if verdict != Verdict::Stay && standing.pending_program.is_none() {
            let horizon = horizon(hand.trigger);
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
        let built = pending.what;
        let name = built.name.clone();
        // Where both hands move, a program comes with routes for it.
        let routed = moves_routes
            .then(|| self.loads.best(&built, None, &self.state, &mut self.bench))
            .flatten();
        standing.routes = routed.map_or_else(|| built.standing().clone(), |it| it.routes);
        let back = standing.built_before.as_ref().is_some_and(|it| Arc::ptr_eq(it, &built));
        self.account.program_flaps += u64::from(back);
        standing.built_before = Some(std::mem::replace(&mut standing.built, built));
        (standing.routes_before, standing.pending_routes) = (None, None);
        self.account.program_moves += 1;
        self.account.note(index, since_start(self.now), What::Program { name });
        self.pause(hand.costs);
        Ok(true)
    }

    /// Asks the routes hand; whether routes changed, and what the collective will take, if that
    /// has been found on the way.
    pub(super) fn move_routes(
        &mut self,
        index: u32,
        which: usize,
        forced: bool,
    ) -> (bool, Option<Duration>) {
        if !self.mode.moves_routes() {
            return (false, None);
        }
        let hand = self.scenario.routes.hand;
        let standing = &mut self.standing[which];
        let mut best = None;
        let turn = index / self.scenario.collectives.len() as u32;
        let verdict = if forced { Verdict::Move } else { standing.route_watch.ask(turn) };
        if verdict != Verdict::Stay && standing.pending_routes.is_none() {
            let (current, bench) = (&standing.routes, &mut self.bench);
            best = self.loads.best(&standing.built, Some(current), &self.state, bench);
            let worth = match (&best, verdict) {
                (None, _) => false,
                (Some(best), Verdict::MoveIfWorth { horizon }) => {
                    // A way that is down is left at any price.
                    let stay = standing.built.time_again(current, bench);
                    stay.map_or(true, |stay| {
                        let weight = self.forecast.weight_of_now(horizon) * f64::from(horizon);
                        let saved = stay.as_ps().saturating_sub(best.time.as_ps()) as f64 * weight;
                        saved > hand.costs.pause().as_ps() as f64
                    })
                }
                (Some(_), _) => true,
            };
            if let Some(best) = best.as_ref().filter(|it| worth && it.routes != *current) {
                let from = self.now + hand.costs.compute;
                standing.pending_routes = Some(Pending { from, what: best.routes.clone() });
            }
        }
        let due = standing.pending_routes.as_ref().is_some_and(|it| it.from <= self.now);
        let pending = standing.pending_routes.take_if(|_| due);
        let moved = pending.is_some_and(|it| self.take_routes(index, which, it.what, hand.costs));
        let routes = &self.standing[which].routes;
        (moved, best.filter(|it| it.routes == *routes).map(|it| it.time))
    }

    /// Puts routes in force; whether they are others than before.
    fn take_routes(&mut self, index: u32, which: usize, routes: RouteChoice, costs: Costs) -> bool {
        let standing = &mut self.standing[which];
        let changed = routes.0.iter().zip(&standing.routes.0).filter(|(a, b)| a != b);
        let flows = changed.count() as u32;
        if flows == 0 {
            return false;
        }
        let back = standing.routes_before.as_ref() == Some(&routes);
        self.account.route_flaps += u64::from(back);
        standing.routes_before = Some(std::mem::replace(&mut standing.routes, routes));
        self.account.route_moves += 1;
        self.account.flows_moved += u64::from(flows);
        self.account.note(index, since_start(self.now), What::Routes { flows });
        self.pause(costs);
        true
    }

    fn pause(&mut self, costs: Costs) {
        self.now += costs.pause();
        self.account.pauses += costs.pause();
    }
}

/// For how many collectives a rebuilt program is likely to stay.
const fn horizon(trigger: Trigger) -> u32 {
    match trigger {
        Trigger::Cadence(every) | Trigger::Gain { every } => every,
        Trigger::Threshold { .. } => UNTIL_NEXT_MOVE,
    }
}
