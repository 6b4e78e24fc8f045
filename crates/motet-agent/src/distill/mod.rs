//! Distilling a policy into tables: the decisions of a policy that is too slow for the call path, as run-time tables that the
//! NCCL plugin looks up in tens of nanoseconds.
//!
//! The policy is [watched](Votes::watch) while it decides a scenario's calls, and each call is a vote for its action
//! under (collective, size bucket, [level](Level) of congestion). A table of a level has the action with the most
//! votes first and NCCL's own choice behind it. Ranks prepare the tables of all levels; the leader, who sees the
//! trigger's signal, moves them all from one to another at an agreed operation (`motet_runtime::agreement`), so the
//! network itself never runs on the call path, and no rank decides by what it alone has measured.
//!
//! A table knows only the level, not the policy's other memory; [`Agreement`] measures how much that loses. [`grid`] does
//! all of this for one communicator.

pub mod grid;

use std::collections::BTreeMap;

use motet_runtime::{
    Bucket, Candidate, Collective, Entry, Key, Method, Setting, Signature, Table, TableError,
    TableKnobs,
};
use motet_units::Duration;

use crate::action::Action;
use crate::env::{Environment, Observation};
use crate::policy::{Choice, Policy};
use crate::state::Anomaly;
use crate::words::category;

pub use grid::{DistillError, Distilled, Grid, distill};

category! {
    /// How congested a communicator is, as published by the leader.
    Level {
        /// Calls take the expected time.
        Calm = "calm",
        /// Calls take up to twice as long.
        Slow = "slow",
        /// Calls take longer than that.
        Congested = "congested",
    }
}

impl Level {
    /// The level for the trigger's congestion signal.
    #[must_use]
    pub fn of(anomaly: &Anomaly) -> Self {
        match anomaly.congestion {
            ..0.25 => Self::Calm,
            ..1.0 => Self::Slow,
            _ => Self::Congested,
        }
    }
}

/// The table cell that a vote counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    level: Level,
    collective: Collective,
    ranks: u32,
    bucket: Bucket,
}

/// A table setting that was voted for, with its nominal time and votes.
#[derive(Clone, Debug)]
struct Ballot {
    action: Action,
    votes: u64,
    /// Nominal time, in µs.
    micros: f64,
}

/// The observed decisions of a policy, counted as votes.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    /// The ballots of each cell, in the order in which actions were first voted for.
    ballots: BTreeMap<Place, Vec<Ballot>>,
    /// The nominal time of NCCL's own choice, in µs.
    own: BTreeMap<(Collective, u32, Bucket), f64>,
}

/// How well tables agree with the policy they were made from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    pub calls: u64,
    /// Calls with the same action.
    pub same: u64,
    /// Mean logarithm of the time of the table's action over that of the policy's: 0.01 is about 1 % slower.
    pub slower: f64,
}

fn place(seen: &Observation, level: Level) -> Option<Place> {
    let collective = Collective::from_name(seen.state.call.kind.name())?;
    let bucket = Bucket::of(seen.state.call.bytes);
    Some(Place { level, collective, ranks: seen.state.topology.ranks, bucket })
}

impl Votes {
    /// Lets a policy decide all calls of an environment and counts what it does from call `from` on, when it has
    /// settled.
    pub fn watch(
        &mut self,
        policy: &mut dyn Policy,
        environment: &mut Environment,
        level: Level,
        from: u64,
    ) {
        drive(policy, environment, |seen, choice, _| {
            if seen.call >= from && seen.settled().is_none() {
                self.count(seen, choice, level);
            }
        });
    }

    fn count(&mut self, seen: &Observation, choice: Choice, level: Level) {
        let Some(place) = place(seen, level) else { return };
        let Some(action) = seen.brief.space.get(choice.action) else { return };
        let nominal = |it: usize| seen.brief.nominal.get(it).copied().unwrap_or_default();
        self.own.insert((place.collective, place.ranks, place.bucket), nominal(0));
        let ballots = self.ballots.entry(place).or_default();
        match ballots.iter_mut().find(|it| it.action == action) {
            Some(known) => known.votes += 1,
            None => ballots.push(Ballot { action, votes: 1, micros: nominal(choice.action) }),
        }
    }

    /// The action with the most votes, and of equal ones the first.
    fn best(&self, place: &Place) -> Option<&Ballot> {
        let ballots = self.ballots.get(place)?;
        let most = ballots.iter().map(|it| it.votes).max()?;
        ballots.iter().find(|it| it.votes == most)
    }

    /// The table of a level, for a network. Calls that bypass NCCL have no entry.
    ///
    /// # Errors
    /// When the run-time half refuses the table.
    pub fn table(&self, level: Level, signature: Signature) -> Result<Table, TableError> {
        let mut entries = Vec::new();
        for place in self.ballots.keys().filter(|it| it.level == level) {
            let Some(best) = self.best(place) else { continue };
            let Some(setting) = best.action.setting(None) else { continue };
            let key = Key {
                signature,
                collective: place.collective,
                ranks: place.ranks,
                bucket: place.bucket,
            };
            let mut candidates = vec![Candidate { setting, expected: micros(best.micros) }];
            if best.action != Action::DEFAULT {
                let own = self.own.get(&(place.collective, place.ranks, place.bucket));
                let method = Method::Nccl { algorithm: None };
                let setting = Setting { method, knobs: TableKnobs::default() };
                let expected = micros(own.copied().unwrap_or_default());
                candidates.push(Candidate { setting, expected });
            }
            entries.push(Entry { key, candidates });
        }
        Table::new(entries)
    }

    /// Compares the tables with the policy on an environment of this level, from call `from` on; the policy's choices are carried
    /// out.
    pub fn agreement(
        &self,
        policy: &mut dyn Policy,
        environment: &mut Environment,
        level: Level,
        from: u64,
    ) -> Agreement {
        let mut found = Agreement::default();
        drive(policy, environment, |seen, choice, means| {
            let Some(best) = place(seen, level).and_then(|it| self.best(&it)) else { return };
            let Some(index) = seen.brief.space.index(&best.action) else { return };
            if seen.call < from || seen.settled().is_some() {
                return;
            }
            found.calls += 1;
            found.same += u64::from(index == choice.action);
            if let (Some(ours), Some(theirs)) = (means.get(index), means.get(choice.action)) {
                found.slower += libm::log(ours / theirs);
            }
        });
        found.slower /= found.calls.max(1) as f64;
        found
    }
}

fn micros(it: f64) -> Duration {
    Duration::from_ps((it * 1e6) as u64)
}

/// Runs an environment to its end, showing each call, the choice and the true means.
fn drive(
    policy: &mut dyn Policy,
    environment: &mut Environment,
    mut each: impl FnMut(&Observation, Choice, &[f64]),
) {
    while !environment.is_over() {
        let seen = environment.observe();
        policy.told(environment.means());
        let choice = seen.settled().unwrap_or_else(|| policy.choose(&seen));
        each(&seen, choice, environment.means());
        let Some(step) = environment.step(choice) else { return };
        if seen.settled().is_none() {
            policy.learn(&seen, &choice, &step.outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use motet_runtime::{Call, Choice as Decided, Runtime, View};
    use motet_units::{Bytes, Seed};

    use super::*;
    use crate::env::testing::scenario;
    use crate::env::{Episode, Load, Pattern, Timeline};
    use crate::lstm::{Lstm, Net, PolicyFile, Shape, Variant};

    const SIZES: [Bytes; 3] = [Bytes::kib(4), Bytes::kib(256), Bytes::mib(16)];

    fn environment(level: Level, calls: u64) -> Environment {
        let load = Load { share: 0.2, delay: 3.0, ..Load::NONE };
        let episode = Episode { calls: (0, calls), pattern: Pattern::Abrupt, load };
        let episodes = if level == Level::Calm { Vec::new() } else { vec![episode] };
        Environment::new(scenario(&SIZES, calls, Timeline { episodes }, Seed::new(3))).unwrap()
    }

    fn lstm() -> Lstm {
        let net = Net::new(Shape { encoder: 8, hidden: 8 }, Seed::new(1));
        Lstm::new(Arc::new(PolicyFile { net, variant: Variant::FULL, seed: 1, updates: 0 }))
    }

    /// The table says what the policy did, the run-time half finds it, and NCCL's own choice stands behind it.
    #[test]
    fn tables_hold_what_the_policy_did() {
        let mut votes = Votes::default();
        for level in [Level::Calm, Level::Congested] {
            votes.watch(&mut lstm(), &mut environment(level, 600), level, 300);
        }
        let signature = Signature(5);
        let table = votes.table(Level::Calm, signature).unwrap();
        assert_eq!(table.entries().len(), SIZES.len());
        assert!(votes.table(Level::Slow, signature).unwrap().entries().is_empty());
        let text = table.write();
        assert_eq!(Table::read(&text).unwrap(), table);
        let agreement =
            votes.agreement(&mut lstm(), &mut environment(Level::Calm, 600), Level::Calm, 0);
        assert_eq!(agreement.calls, 600);
        assert!(agreement.same >= 300, "{agreement:?}");
        assert!(agreement.slower.abs() < 0.1, "{agreement:?}");
        let runtime = Runtime::default();
        runtime.install(Arc::new(View::new(table, signature)));
        let mut environment = environment(Level::Calm, 60);
        let mut policy = lstm();
        drive(&mut policy, &mut environment, |seen, _, _| {
            if seen.call < 30 {
                return;
            }
            let call = Call {
                collective: Collective::AllReduce,
                bytes: seen.state.call.bytes,
                ranks: seen.state.topology.ranks,
            };
            let operation = runtime.begin();
            let decision = runtime.decide(operation, &call).unwrap();
            let Decided::Setting(setting) = decision.choice() else { panic!("no entry") };
            let place = place(seen, Level::Calm).unwrap();
            let expected = votes.best(&place).unwrap().action.setting(None).unwrap();
            assert_eq!(*setting, expected);
        });
    }

    #[test]
    fn levels_follow_the_signal() {
        let level = |congestion| Level::of(&Anomaly { congestion, ..Anomaly::default() });
        assert_eq!([0.0, 0.5, 4.0].map(level), [Level::Calm, Level::Slow, Level::Congested]);
        assert_eq!(level(f64::NAN), Level::Congested);
    }

    /// Of two actions the one with more votes is taken, whichever came first.
    #[test]
    fn most_votes_win() {
        let mut votes = Votes::default();
        let environment = environment(Level::Calm, 1);
        let seen = environment.observe();
        for action in [1, 2, 2, 3] {
            votes.count(&seen, Choice::best(action), Level::Calm);
        }
        let place = place(&seen, Level::Calm).unwrap();
        assert_eq!(Some(votes.best(&place).unwrap().action), seen.brief.space.get(2));
    }
}
