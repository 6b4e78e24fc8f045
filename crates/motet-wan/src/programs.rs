//! The programs hand: which program a collective runs, chosen anew every few collectives.
//!
//! It comes in two strengths. [`Strength::Remap`] is what a user of NCCL can do: the same rings or
//! trees with the ranks in another order, datacenter by datacenter so that the WAN is crossed no
//! more often. [`Strength::Synth`] is motet-synth: programs made for the network, and repaired for
//! the state at hand where that will last.
//!
//! Either way there is a pool. Each rebuild asks how long every program of the pool would take in
//! the present state, under the routes that the mode allows, and keeps a smoothed mean. The
//! program with the least of *weight × now + (1 − weight) × mean* is taken, where the weight is
//! the [`Forecast`]'s: a state that will not last should not decide.

mod permute;
mod pool;

use std::sync::Arc;

use motet_net::NetworkState;
use motet_synth::Repairer;
use motet_units::Duration;

use crate::built::{Bench, Built};
use crate::forecast::Forecast;
use crate::routes::{Loads, around_failures};
use crate::run::RunError;
use crate::scenario::{Asked, Scenario};
use crate::ways::WayTable;

/// What the programs hand can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    Remap,
    Synth,
}

impl Strength {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remap => "remap",
            Self::Synth => "synth",
        }
    }
}

/// A program is left only for one that is likely to take less than this part of its time.
const WORTH_MOVING: f64 = 0.995;

/// Repairing for a state pays if it counts for at least this much of what is to come.
const WORTH_REPAIR: f64 = 0.5;

/// After so many rebuilds the means say enough, and a program this many times above the best of
/// them is not asked again.
const KNOWN: u32 = 32;
const FAR: f64 = 1.2;

/// How much of a new time goes into a program's mean.
const SMOOTHING: f64 = 0.05;

#[derive(Debug)]
struct Member {
    built: Arc<Built>,
    /// In microseconds; `None` before it was first asked.
    mean: Option<f64>,
    /// In the present state; infinite if it cannot run.
    now: f64,
}

/// What a rebuild goes by.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    pub state: &'a NetworkState,
    pub forecast: &'a Forecast,
    /// For how many collectives the program is likely to stay.
    pub horizon: u32,
    /// Whether routes will be chosen for it.
    pub moves_routes: bool,
}

/// Chooses programs for one of the collectives.
#[derive(Debug)]
pub struct Rebuilder<'a> {
    asked: &'a Asked,
    split: u32,
    pool: Vec<Member>,
    /// Makes a program for a state, where the strength allows it and the collective can be repaired.
    repairer: Option<Repairer<'a>>,
    loads: Loads,
    weight: f64,
    rebuilds: u32,
}

impl<'a> Rebuilder<'a> {
    /// A pool whose first program is the base.
    pub fn new(
        scenario: &'a Scenario<'a>,
        asked: &'a Asked,
        table: &mut WayTable<'a>,
        strength: Option<Strength>,
    ) -> Result<Self, RunError> {
        let split = scenario.routes.split;
        let mut programs = vec![pool::base(scenario, asked, table)?];
        match strength {
            None => {}
            Some(Strength::Remap) => {
                programs.extend(pool::remapped(scenario, &programs[0], table)?);
            }
            Some(Strength::Synth) => programs.extend(pool::synthesized(scenario, asked, table)?),
        }
        let repairer = match strength {
            Some(Strength::Synth) => pool::repairer(scenario, asked),
            _ => None,
        };
        let member = |built| Member { built: Arc::new(built), mean: None, now: f64::INFINITY };
        let pool = programs.into_iter().map(member).collect();
        Ok(Self { asked, split, pool, repairer, loads: Loads::default(), weight: 1.0, rebuilds: 0 })
    }

    /// The program that a run starts with.
    #[must_use]
    pub fn base(&self) -> Arc<Built> {
        Arc::clone(&self.pool[0].built)
    }

    /// The program to run from now on.
    pub fn rebuild(
        &mut self,
        standing: &Arc<Built>,
        outlook: &Outlook<'_>,
        table: &mut WayTable<'_>,
        bench: &mut Bench,
    ) -> Result<Arc<Built>, RunError> {
        let Outlook { state, forecast, horizon, moves_routes } = *outlook;
        self.weight = forecast.weight_of_now(horizon);
        for member in &mut self.pool {
            let time = predicted(&member.built, state, moves_routes, &mut self.loads, bench);
            member.now = time.map_or(f64::INFINITY, Duration::as_us_f64);
            if member.now.is_finite() {
                let mean = member.mean.get_or_insert(member.now);
                *mean += SMOOTHING * (member.now - *mean);
            }
        }
        self.prune();
        let weight = self.weight;
        let score = |it: &Member| weight * it.now + (1.0 - weight) * it.mean.unwrap_or(it.now);
        let best = self.pool.iter().min_by(|a, b| score(a).total_cmp(&score(b)));
        let Some(mut best) = best else { return Ok(self.base()) };
        let stands = self.pool.iter().find(|it| Arc::ptr_eq(&it.built, standing));
        if let Some(stands) = stands.filter(|it| score(it) * WORTH_MOVING <= score(best)) {
            best = stands;
        }
        let (chosen, reached) = (Arc::clone(&best.built), best.now);
        if weight < WORTH_REPAIR && reached.is_finite() {
            return Ok(chosen);
        }
        let Some(repairer) = &self.repairer else { return Ok(chosen) };
        let likely = forecast.state(state, horizon);
        let Some(repaired) = pool::repaired(repairer, &likely, self.asked, table, self.split)
        else {
            return Ok(chosen);
        };
        let time = predicted(&repaired, state, moves_routes, &mut self.loads, bench);
        match time {
            Some(time) if time.as_us_f64() < WORTH_MOVING * reached => Ok(Arc::new(repaired)),
            _ => Ok(chosen),
        }
    }

    /// Drops programs that are far from the best on average, once that is known and averages are
    /// what counts; the base stays.
    fn prune(&mut self) {
        self.rebuilds += 1;
        if self.rebuilds < KNOWN || self.weight >= WORTH_REPAIR {
            return;
        }
        let mean = |it: &Member| it.mean.unwrap_or(f64::INFINITY);
        let best = self.pool.iter().map(mean).fold(f64::INFINITY, f64::min);
        let mut first = true;
        self.pool.retain(|it| std::mem::take(&mut first) || mean(it) <= FAR * best);
    }

    /// What changing from one program to another saves over the next `horizon` collectives, by
    /// what the last rebuild found.
    #[must_use]
    pub fn saving(&self, old: &Arc<Built>, new: &Arc<Built>, horizon: u32) -> Duration {
        let score = |built: &Arc<Built>| {
            let member = self.pool.iter().find(|it| Arc::ptr_eq(&it.built, built))?;
            let mean = member.mean.unwrap_or(member.now);
            Some(self.weight * member.now + (1.0 - self.weight) * mean)
        };
        let best = self.pool.iter().map(|it| it.now).fold(f64::INFINITY, f64::min);
        let (old, new) = (score(old).unwrap_or(f64::INFINITY), score(new).unwrap_or(best));
        let saved = ((old - new).max(0.0) * f64::from(horizon) * 1e6).min(u64::MAX as f64 / 2.0);
        Duration::from_ps(saved as u64)
    }
}

/// How long a program would take now; `None` if it cannot run.
fn predicted(
    built: &Built,
    state: &NetworkState,
    moves_routes: bool,
    loads: &mut Loads,
    bench: &mut Bench,
) -> Option<Duration> {
    if moves_routes {
        let chosen = loads.choose(built, state);
        let moved = built.time(&chosen, state, bench).ok();
        let own = built.time_again(built.own(), bench).ok();
        return [moved, own].into_iter().flatten().min();
    }
    let standing = around_failures(built, built.standing(), state);
    built.time(&standing, state, bench).ok()
}
