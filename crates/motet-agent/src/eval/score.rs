//! [`Score`]: how a policy did on a family of scenarios: times over the oracle's and over NCCL's, what probes cost, how
//! soon it was back after a change.

use std::collections::BTreeMap;

use motet_units::Seed;

use super::contender::Contender;
use super::run::{Kernel, Pace, Record, run};
use crate::env::{Atlas, Family, PlaceError, Scenario};
use crate::policy::Policy;

/// Knobs matter in a scenario where the oracle is at least this far below NCCL's default.
pub const MATTERS: f64 = 0.15;
/// Back after a change: within this of the oracle,
const BACK: f64 = 1.10;
/// over so many calls of the communicator.
const WINDOW: usize = 10;
/// Parts that a scenario is cut into for regret over time.
pub const PARTS: usize = 50;

/// One policy in one scenario. Times are sums of true means, in µs.
#[derive(Clone, Debug)]
pub struct Trial {
    pub taken: f64,
    pub best: f64,
    pub default: f64,
    /// The mean over calls of time by the oracle's.
    pub per_call: f64,
    /// Calls that were probes.
    pub probes: u64,
    pub calls: u64,
    /// What probes took above what was held to be the best.
    pub probing: f64,
    /// Calls of the communicator from each abrupt change until it was back.
    pub recoveries: Vec<u64>,
    /// Time above the oracle's up to each part of the scenario.
    pub regret: Vec<f64>,
    /// How many calls ran the one kernel where the other would have been best.
    pub confusion: BTreeMap<(Kernel, Kernel), u64>,
    /// How many calls ran a kernel at a tier.
    pub tiers: BTreeMap<(u8, Kernel), u64>,
}

impl Trial {
    /// Runs a policy of this kind through a scenario.
    pub fn run(policy: &Contender, scenario: Scenario, pace: Pace) -> Result<Self, PlaceError> {
        let seed = scenario.seed.named("policy");
        Self::of(&mut *policy.make(seed), scenario, pace)
    }

    /// Runs this policy through a scenario.
    pub fn of(policy: &mut dyn Policy, scenario: Scenario, pace: Pace) -> Result<Self, PlaceError> {
        let mut trial = Self {
            taken: 0.0,
            best: 0.0,
            default: 0.0,
            per_call: 0.0,
            probes: 0,
            calls: scenario.calls,
            probing: 0.0,
            recoveries: Vec::new(),
            regret: vec![0.0; PARTS],
            confusion: BTreeMap::new(),
            tiers: BTreeMap::new(),
        };
        let changes: Vec<Vec<u64>> =
            scenario.groups.iter().map(|it| it.changes(scenario.calls)).collect();
        let mut records: Vec<Record> = Vec::new();
        let calls = scenario.calls.max(1);
        run(policy, scenario, pace, |it| records.push(*it))?;
        for (call, record) in records.iter().enumerate() {
            trial.add(record, call * PARTS / calls as usize);
        }
        for (group, changes) in changes.iter().enumerate() {
            trial.recoveries.extend(changes.iter().filter_map(|it| recovery(&records, group, *it)));
        }
        trial.per_call /= calls as f64;
        for part in 1..PARTS {
            trial.regret[part] += trial.regret[part - 1];
        }
        Ok(trial)
    }

    fn add(&mut self, record: &Record, part: usize) {
        let truth = &record.truth;
        self.taken += truth.taken;
        self.best += truth.best;
        self.default += truth.default;
        *self.confusion.entry((record.ran, record.best)).or_default() += 1;
        *self.tiers.entry((record.tier, record.ran)).or_default() += 1;
        self.per_call += truth.taken / truth.best.max(1e-12);
        if record.choice.exploratory {
            self.probes += 1;
            self.probing += truth.taken - record.held;
        }
        if let Some(slot) = self.regret.get_mut(part) {
            *slot += truth.taken - truth.best;
        }
    }
}

/// Calls of a communicator from a change until the mean of a window is near the oracle's. A change that is not
/// survived until there is a whole window counts as all calls that were left.
fn recovery(records: &[Record], group: usize, change: u64) -> Option<u64> {
    let after: Vec<&Record> =
        records.iter().skip(change as usize).filter(|it| it.group == group).collect();
    if after.len() < WINDOW {
        return None;
    }
    let near = |window: &[&Record]| {
        let sum = |of: fn(&Record) -> f64| window.iter().map(|it| of(it)).sum::<f64>();
        sum(|it| it.truth.taken) <= BACK * sum(|it| it.truth.best)
    };
    let found = after.windows(WINDOW).position(near);
    Some(found.unwrap_or(after.len()) as u64)
}

/// A policy on a family: means over seeds.
#[derive(Clone, Debug)]
pub struct Score {
    pub policy: &'static str,
    pub family: Family,
    pub trials: Vec<Trial>,
}

impl Score {
    /// `seeds` scenarios of a family, of `calls` calls each.
    pub fn new(
        policy: &Contender,
        family: Family,
        atlas: &Atlas,
        seed: Seed,
        (seeds, calls): (u64, u64),
        pace: Pace,
    ) -> Result<Self, PlaceError> {
        let trials = (0..seeds)
            .map(|it| Trial::run(policy, family.draw(atlas, seed.numbered(it), calls)?, pace))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { policy: policy.name(), family, trials })
    }

    fn mean(&self, of: impl Fn(&Trial) -> f64) -> f64 {
        self.trials.iter().map(of).sum::<f64>() / self.trials.len().max(1) as f64
    }

    /// Time by the oracle's.
    #[must_use]
    pub fn over_oracle(&self) -> f64 {
        self.mean(|it| it.taken / it.best)
    }

    /// The same, each call counting alike.
    #[must_use]
    pub fn per_call_over_oracle(&self) -> f64 {
        self.mean(|it| it.per_call)
    }

    /// Time by NCCL's default.
    #[must_use]
    pub fn over_default(&self) -> f64 {
        self.mean(|it| it.taken / it.default)
    }

    /// The same in the scenario where it is worst.
    #[must_use]
    pub fn worst_over_default(&self) -> f64 {
        self.trials.iter().map(|it| it.taken / it.default).fold(0.0, f64::max)
    }

    /// Time by NCCL's default where knobs matter, and in how many scenarios they do.
    #[must_use]
    pub fn where_it_matters(&self) -> Option<(f64, usize)> {
        let matters = |it: &&Trial| it.best < (1.0 - MATTERS) * it.default;
        let all: Vec<f64> =
            self.trials.iter().filter(matters).map(|it| it.taken / it.default).collect();
        (!all.is_empty()).then(|| (all.iter().sum::<f64>() / all.len() as f64, all.len()))
    }

    /// The median of calls from an abrupt change until it was back; `None` without such changes.
    #[must_use]
    pub fn recovery(&self) -> Option<u64> {
        let mut all: Vec<u64> = self.trials.iter().flat_map(|it| &it.recoveries).copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// What probes took above what was held to be the best, by all time. In quiet scenarios this is what false alarms and
    /// learning cost together.
    #[must_use]
    pub fn probing(&self) -> f64 {
        self.mean(|it| it.probing / it.taken)
    }

    /// Probes by calls.
    #[must_use]
    pub fn probes(&self) -> f64 {
        self.mean(|it| it.probes as f64 / it.calls.max(1) as f64)
    }

    /// Time above the oracle's up to each part, by the oracle's whole time.
    #[must_use]
    pub fn regret(&self) -> Vec<f64> {
        (0..PARTS).map(|part| self.mean(|it| it.regret[part] / it.best)).collect()
    }
}
