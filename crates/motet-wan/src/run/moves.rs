//! Applying the hands' proposals before a collective: when they come into force, and what they cost.
//!
//! A decision comes into force between collectives, when nothing is in flight: one that is ready
//! during a collective waits for its end. The knobs hand's settings are in force at once.

use std::sync::Arc;

use motet_control::hand::{Call, Costs, Hand};
use motet_units::Duration;

use super::hands::{ProgramSight, RouteSight, Turn};
use super::{Run, since_start};
use crate::account::What;
use crate::built::RouteChoice;
use crate::error::WanError;

impl Run<'_> {
    fn turn(&self, index: u32, forced: bool) -> Turn {
        Turn { number: index / self.scenario.collectives.len() as u32, forced }
    }

    /// Asks the programs hand; returns whether the program changed.
    pub(super) fn move_program(
        &mut self,
        index: u32,
        which: usize,
        forced: bool,
    ) -> Result<bool, WanError> {
        let (turn, moves_routes) = (self.turn(index, forced), self.mode.moves_routes());
        let standing = &mut self.standing[which];
        let Some(hand) = &mut standing.programs else { return Ok(false) };
        if standing.waiting.is_empty() {
            let proposal = hand.propose(ProgramSight {
                turn,
                built: &standing.ways[0].built,
                state: &self.state,
                forecast: &self.forecast,
                moves_routes,
                table: &mut self.table,
                bench: &mut self.bench,
            })?;
            if let Some(proposal) = proposal {
                standing.waiting.take(proposal, self.now);
            }
        }
        let Some(due) = standing.waiting.due(self.now) else { return Ok(false) };
        let (built, way) = (due.action, &mut standing.ways[0]);
        let name = built.name.clone();
        // Where both hands may move, a new program comes into force together with routes chosen for it.
        let routed = moves_routes
            .then(|| self.loads.best(&built, None, &self.state, &mut self.bench))
            .flatten();
        way.routes = routed.map_or_else(|| built.standing().clone(), |it| it.routes);
        way.before = None;
        way.waiting.clear();
        let back = standing.built_before.as_ref().is_some_and(|it| Arc::ptr_eq(it, &built));
        self.account.program_flaps += u64::from(back);
        standing.built_before = Some(std::mem::replace(&mut way.built, built));
        self.account.program_moves += 1;
        self.account.note(index, since_start(self.now), What::Program { name });
        self.pause(due.costs);
        Ok(true)
    }

    /// Asks the routes hand about the routes of one program of a collective. Returns whether routes changed, and the
    /// collective's simulated time if the hand has computed it.
    pub(super) fn move_routes(
        &mut self,
        index: u32,
        (which, way): (usize, usize),
        forced: bool,
    ) -> (bool, Option<Duration>) {
        if !self.mode.moves_routes() {
            return (false, None);
        }
        let turn = self.turn(index, forced);
        let standing = &mut self.standing[which].ways[way];
        if standing.waiting.is_empty() {
            let proposal = standing.hand.propose(RouteSight {
                turn,
                built: &standing.built,
                current: &standing.routes,
                state: &self.state,
                forecast: &self.forecast,
                loads: &mut self.loads,
                bench: &mut self.bench,
            });
            let Ok(proposal) = proposal;
            if let Some(proposal) = proposal {
                standing.waiting.take(proposal, self.now);
            }
        }
        let due = standing.waiting.due(self.now);
        let moved =
            due.is_some_and(|it| self.take_routes(index, (which, way), it.action, it.costs));
        let standing = &mut self.standing[which].ways[way];
        (moved, standing.hand.foreseen(&standing.routes))
    }

    /// Puts routes in force; returns whether they differ from those before.
    fn take_routes(
        &mut self,
        index: u32,
        (which, way): (usize, usize),
        routes: RouteChoice,
        costs: Costs,
    ) -> bool {
        let way = &mut self.standing[which].ways[way];
        let changed = routes.0.iter().zip(&way.routes.0).filter(|(a, b)| a != b);
        let flows = changed.count() as u32;
        if flows == 0 {
            return false;
        }
        let back = way.before.as_ref() == Some(&routes);
        self.account.route_flaps += u64::from(back);
        way.before = Some(std::mem::replace(&mut way.routes, routes));
        self.account.route_moves += 1;
        self.account.flows_moved += u64::from(flows);
        self.account.note(index, since_start(self.now), What::Routes { flows });
        self.pause(costs);
        true
    }

    /// Asks the knobs hand which program of `ways` a collective uses; 0, the program in force, without such a hand.
    pub(super) fn choose_way(&mut self, which: usize) -> usize {
        let Some(hand) = &mut self.knobs else { return 0 };
        let Ok(proposal) = hand.propose(Call { task: which });
        let way = proposal.map_or(0, |it| it.action);
        if way < self.standing[which].ways.len() { way } else { 0 }
    }

    fn pause(&mut self, costs: Costs) {
        let pause = self.world.pause(costs);
        self.now += pause;
        self.account.pauses += pause;
    }
}
