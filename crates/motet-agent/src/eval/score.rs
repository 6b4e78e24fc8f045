//! [`Score`]: a policy's results on a family of scenarios: its time relative to the oracle's and to NCCL's, the cost of probes, and
//! how soon it recovered after a change.

use std::collections::BTreeMap;

use motet_units::Seed;

use super::contender::Contender;
use super::run::{Kernel, Pace, Record, run};
use crate::env::{Atlas, Family, PlaceError, Scenario};
use crate::policy::Policy;

/// Knobs are said to matter in a scenario where the oracle's time is at least this share below NCCL's default.
pub const MATTERS: f64 = 0.15;
/// A policy has recovered from a change when its time over [`WINDOW`] calls is within this factor of the
/// oracle's.
const BACK: f64 = 1.10;
/// How many consecutive calls of the communicator count for that.
const WINDOW: usize = 10;
/// How many parts a scenario is divided into for plotting regret over time.
pub const PARTS: usize = 50;

/// One policy in one scenario. Times are sums of true means, in µs.
#[derive(Clone, Debug)]
pub struct Trial {
    pub taken: f64,
    pub best: f64,
    pub default: f64,
    /// The mean over calls of the policy's time divided by the oracle's.
    pub per_call: f64,
    /// Calls that were probes.
    pub probes: u64,
    pub calls: u64,
    /// The time of probes beyond that of the action believed to be the best.
    pub probing: f64,
    /// For each abrupt change, how many calls of the communicator it took to recover.
    pub recoveries: Vec<u64>,
    /// The regret (time above the oracle's) accumulated up to each part of the scenario.
    pub regret: Vec<f64>,
    /// For each pair of kernels, how many calls ran the first where the second would have been fastest.
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

/// How many calls of a communicator it took after a change until the time over a window was near the
/// oracle's. If that never happened, all calls that were left count; `None` if fewer than a window were left.
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

/// A policy's results on a family, over several seeds.
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

    /// Total time divided by the oracle's.
    #[must_use]
    pub fn over_oracle(&self) -> f64 {
        self.mean(|it| it.taken / it.best)
    }

    /// As [`over_oracle`](Self::over_oracle), but every call counts alike, whatever its size.
    #[must_use]
    pub fn per_call_over_oracle(&self) -> f64 {
        self.mean(|it| it.per_call)
    }

    /// Total time divided by that of NCCL's default.
    #[must_use]
    pub fn over_default(&self) -> f64 {
        self.mean(|it| it.taken / it.default)
    }

    /// The time divided by that of NCCL's default in the worst scenario.
    #[must_use]
    pub fn worst_over_default(&self) -> f64 {
        self.trials.iter().map(|it| it.taken / it.default).fold(0.0, f64::max)
    }

    /// The time divided by that of NCCL's default in the scenarios where knobs matter, and how many these are.
    #[must_use]
    pub fn where_it_matters(&self) -> Option<(f64, usize)> {
        let matters = |it: &&Trial| it.best < (1.0 - MATTERS) * it.default;
        let all: Vec<f64> =
            self.trials.iter().filter(matters).map(|it| it.taken / it.default).collect();
        (!all.is_empty()).then(|| (all.iter().sum::<f64>() / all.len() as f64, all.len()))
    }

    /// The median number of calls to recover from an abrupt change; `None` without such changes.
    #[must_use]
    pub fn recovery(&self) -> Option<u64> {
        let mut all: Vec<u64> = self.trials.iter().flat_map(|it| &it.recoveries).copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// The extra time of probes as a share of all time. In quiet scenarios this is the cost of learning and false alarms together.
    #[must_use]
    pub fn probing(&self) -> f64 {
        self.mean(|it| it.probing / it.taken)
    }

    /// The share of calls that were probes.
    #[must_use]
    pub fn probes(&self) -> f64 {
        self.mean(|it| it.probes as f64 / it.calls.max(1) as f64)
    }

    /// The regret accumulated up to each part, as a share of the oracle's total time.
    #[must_use]
    pub fn regret(&self) -> Vec<f64> {
        (0..PARTS).map(|part| self.mean(|it| it.regret[part] / it.best)).collect()
    }
}
