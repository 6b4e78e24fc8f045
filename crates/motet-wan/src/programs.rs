//! The programs hand: which program a collective runs, chosen anew every few collectives.
//!
//! It comes in two strengths. [`Strength::Remap`] is what a user of NCCL can do: the same rings or
//! trees with the ranks in another order, datacenter by datacenter so that the WAN is crossed no
//! more often. [`Strength::Synth`] is motet-synth: programs made for the network, and repaired for
//! the state at hand where that will last.
//!
//! Either way the hand chooses from a pool of programs. Each rebuild times every program of the pool in the present state, under
//! the routes that the mode allows, and keeps a [`Record`] of how each compares with the base program. It takes the
//! program with the least *weight × present time + (1 − weight) × cautious mean time by its record*, where the weight is the
//! [`Forecast`]'s: a state that will not last should not decide, and neither should luck. The base program is in the pool,
//! with routes chosen in the same way, so that a mode with both hands deviates from what one hand would do only for an improvement.

mod permute;
mod pool;
mod record;

pub(crate) use pool::{base, by_method, if_possible};

use std::sync::Arc;

use motet_net::NetworkState;
use motet_synth::Repairer;
use motet_units::Duration;

use self::record::Record;
use crate::built::{Bench, Built};
use crate::error::WanError;
use crate::forecast::Forecast;
use crate::mode::Strength;
use crate::route_table::RouteTable;
use crate::routes::{Loads, around_failures};
use crate::scenario::{Asked, Scenario};

/// A program is replaced only if the new one is expected to take less than this share of its time.
const WORTH_MOVING: f64 = 0.995;

/// A program is repaired for the present state only if that state has at least this weight in the
/// forecast.
const WORTH_REPAIR: f64 = 0.5;

/// After this many rebuilds the means are reliable, and programs slower than the best by the factor [`FAR`]
/// are dropped.
const KNOWN: u32 = 32;
/// The ratio of mean times from which a program is too slow to keep in the pool.
const FAR: f64 = 1.2;

/// Weight of a new time in the base's moving average.
const SMOOTHING: f64 = 0.01;

/// Most repaired programs in the pool. They are kept because networks return to earlier states.
const MOST_REPAIRED: usize = 8;

#[derive(Debug)]
struct Member {
    built: Arc<Built>,
    record: Record,
    /// Its time in the present state, in microseconds; infinite if it cannot run.
    now: f64,
    /// Whether it was made for a particular state rather than for the nominal network.
    repaired: bool,
}

impl Member {
    fn new(built: Built, repaired: bool) -> Self {
        let record = Record::default();
        Self { built: Arc::new(built), record, now: f64::INFINITY, repaired }
    }
}

/// The information on which a rebuild bases its choice.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    pub state: &'a NetworkState,
    pub forecast: &'a Forecast,
    /// For how many collectives the program will probably stay.
    pub horizon: u32,
    /// Whether a routes hand will choose routes to suit the program.
    pub moves_routes: bool,
}

/// Chooses the programs of one of the scenario's collectives.
#[derive(Debug)]
pub struct Rebuilder<'a> {
    asked: &'a Asked,
    split: u32,
    /// The base first.
    pool: Vec<Member>,
    /// Makes programs for one particular state; `None` with [`Strength::Remap`], or if the collective cannot
    /// be repaired.
    repairer: Option<Repairer<'a>>,
    loads: Loads,
    /// The weight of the present state in scores, as the forecast gave it at the last rebuild.
    weight: f64,
    /// The mean time of the base program, in microseconds.
    base_mean: Option<f64>,
    rebuilds: u32,
}

impl<'a> Rebuilder<'a> {
    /// Fills the pool: the base program first, then those that the strength offers; none but the base without
    /// a strength.
    pub fn new(
        scenario: &'a Scenario<'a>,
        asked: &'a Asked,
        table: &mut RouteTable<'a>,
        strength: Option<Strength>,
    ) -> Result<Self, WanError> {
        let split = scenario.routes.split;
        let mut programs = vec![base(scenario, asked, table)?];
        match strength {
            None => {}
            Some(Strength::Remap) => {
                programs.extend(pool::remapped(scenario, &programs[0], table)?);
            }
            Some(Strength::Synth) => programs.extend(pool::synthesized(scenario, asked, table)?),
        }
        let repairer = match strength {
            Some(Strength::Synth) => pool::repairer(scenario, asked)?,
            _ => None,
        };
        let pool = programs.into_iter().map(|it| Member::new(it, false)).collect();
        let (loads, weight) = (Loads::default(), 1.0);
        Ok(Self { asked, split, pool, repairer, loads, weight, base_mean: None, rebuilds: 0 })
    }

    /// The program that a run starts with.
    #[must_use]
    pub fn base(&self) -> Arc<Built> {
        Arc::clone(&self.pool[0].built)
    }

    /// Every program of the pool.
    pub fn programs(&self) -> impl Iterator<Item = &Built> {
        self.pool.iter().map(|it| it.built.as_ref())
    }

    /// The program to run from now on.
    pub fn rebuild(
        &mut self,
        standing: &Arc<Built>,
        outlook: &Outlook<'_>,
        table: &mut RouteTable<'_>,
        bench: &mut Bench,
    ) -> Result<Arc<Built>, WanError> {
        self.weight = outlook.forecast.weight_of_now(outlook.horizon);
        self.ask_all(outlook, bench);
        self.prune(standing);
        if self.weight >= WORTH_REPAIR || !self.best().now.is_finite() {
            self.repair(standing, outlook, table, bench)?;
        }
        let best = self.best();
        let stands = self.pool.iter().find(|it| Arc::ptr_eq(&it.built, standing));
        Ok(match stands {
            Some(it) if self.score(it) * WORTH_MOVING <= self.score(best) => Arc::clone(&it.built),
            _ => Arc::clone(&best.built),
        })
    }

    /// Times each program in the present state.
    fn ask_all(&mut self, outlook: &Outlook<'_>, bench: &mut Bench) {
        let mut base = f64::INFINITY;
        for (number, member) in self.pool.iter_mut().enumerate() {
            member.now = predicted(&member.built, outlook, &mut self.loads, bench);
            if number == 0 {
                base = member.now;
                if base.is_finite() {
                    let mean = self.base_mean.get_or_insert(base);
                    *mean += SMOOTHING * (base - *mean);
                }
            } else if member.now.is_finite() && base.is_finite() {
                member.record.learn(member.now, base);
            }
        }
    }

    /// The expected mean time of a program over the collectives to come, estimated cautiously.
    fn score(&self, member: &Member) -> f64 {
        let is_base = Arc::ptr_eq(&member.built, &self.pool[0].built);
        match self.base_mean {
            // Without a base to compare with, the present is all there is.
            Some(base) if self.weight < 1.0 && self.pool[0].now.is_finite() => {
                let difference = if is_base { 0.0 } else { member.record.cautious() };
                self.weight * member.now + (1.0 - self.weight) * (base + difference)
            }
            _ => member.now,
        }
    }

    fn best(&self) -> &Member {
        let scored = self.pool.iter().map(|it| (self.score(it), it));
        scored.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(&self.pool[0], |it| it.1)
    }

    /// Drops programs whose mean time is more than [`FAR`] times the best, once there were [`KNOWN`]
    /// rebuilds. It does so only while the present state weighs little, because then means decide. The base
    /// and the program in force always stay.
    fn prune(&mut self, standing: &Arc<Built>) {
        self.rebuilds += 1;
        let Some(base) = self.base_mean else { return };
        if self.rebuilds < KNOWN || self.weight >= WORTH_REPAIR {
            return;
        }
        let records = self.pool.iter().skip(1).map(|it| it.record.mean());
        let best = base + records.fold(0.0, f64::min);
        let mut first = true;
        self.pool.retain(|it| {
            std::mem::take(&mut first)
                || Arc::ptr_eq(&it.built, standing)
                || base + it.record.mean() <= FAR * best
        });
    }

    /// Adds a program repaired for the forecast state. If there are more than [`MOST_REPAIRED`], the repaired
    /// program with the worst score is dropped.
    fn repair(
        &mut self,
        standing: &Arc<Built>,
        outlook: &Outlook<'_>,
        table: &mut RouteTable<'_>,
        bench: &mut Bench,
    ) -> Result<(), WanError> {
        let Some(repairer) = &self.repairer else { return Ok(()) };
        let likely = outlook.forecast.state(outlook.state, outlook.horizon);
        let made = pool::repaired(repairer, &likely, self.asked, table, self.split)?;
        let Some(built) = made else { return Ok(()) };
        let mut member = Member::new(built, true);
        member.now = predicted(&member.built, outlook, &mut self.loads, bench);
        let base = self.pool[0].now;
        if member.now.is_finite() && base.is_finite() {
            member.record.learn(member.now, base);
        }
        self.pool.push(member);
        if self.pool.iter().filter(|it| it.repaired).count() > MOST_REPAIRED {
            let goes =
                |it: &&(usize, &Member)| it.1.repaired && !Arc::ptr_eq(&it.1.built, standing);
            let members: Vec<(usize, &Member)> = self.pool.iter().enumerate().collect();
            let worst = members.iter().filter(goes);
            let worst = worst.max_by(|a, b| self.score(a.1).total_cmp(&self.score(b.1)));
            if let Some(worst) = worst.map(|it| it.0) {
                self.pool.remove(worst);
            }
        }
        Ok(())
    }

    /// The time saved over the next `horizon` collectives by changing from one program to another,
    /// by the times of the last rebuild.
    #[must_use]
    pub fn saving(&self, old: &Arc<Built>, new: &Arc<Built>, horizon: u32) -> Duration {
        let score = |built: &Arc<Built>| {
            let member = self.pool.iter().find(|it| Arc::ptr_eq(&it.built, built));
            member.map_or(f64::INFINITY, |it| self.score(it))
        };
        let saved = (score(old) - score(new)).max(0.0) * f64::from(horizon) * 1e6;
        Duration::from_ps(saved.min(u64::MAX as f64 / 2.0) as u64)
    }
}

/// How long a program would take now, in microseconds; infinite if it cannot run.
fn predicted(built: &Built, outlook: &Outlook<'_>, loads: &mut Loads, bench: &mut Bench) -> f64 {
    let time = if outlook.moves_routes {
        loads.best(built, None, outlook.state, bench).map(|it| it.time)
    } else {
        let standing = around_failures(built, built.standing(), outlook.state);
        built.time(&standing, outlook.state, bench).ok()
    };
    time.map_or(f64::INFINITY, Duration::as_us_f64)
}
