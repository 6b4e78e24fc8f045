//! [`Guarded`]: a wrapper that protects against a policy's wrong estimates: an action that was measured slower than NCCL's default
//! when both were last run is not used as the best, whatever the policy believes.
//!
//! Estimates can be wrong: the model may not cover what happens, or a change may go unnoticed because it is slow. So the default
//! is run now and then (an *audit*), and measured times are compared. An audit costs the savings of one call per audit period,
//! and bounds what a wrong estimate can cost.
//!
//! A comparison of two calls shows only large losses. Small ones, within the noise of single calls, are found by an [`Account`]: the
//! time of all calls between two audits beyond what the default would have taken according to these audits. When the loss exceeds
//! [`LIMIT`] of all time with statistical confidence, tasks that have lost use NCCL's default until the share is lower again.

use std::collections::BTreeMap;

use motet_runtime::Checksum;

use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;

/// The number of calls of a task between audits, at first. It doubles after each audit without a surprise.
const FIRST: u32 = 16;
/// The most calls of a task between audits.
const MOST: u32 = 40;
/// The least difference between two times that counts, in the logarithm.
const NOISE: f64 = 0.045;
/// A surprise of more than this makes audits frequent again.
const SURPRISE: f64 = 0.25;
/// After so many calls of a task a measured time of an action is too old to be used against it.
const LAPSE: u32 = 64;

/// The loss to NCCL's default by the account, as a share of all time, above which the default is used instead. Probing has a
/// budget of its own, and both together must stay below the 2% that may be lost overall.
const LIMIT: f64 = 0.003;
/// Gains count up to this share of all time, so that old gains do not cover new losses for long.
const MERIT: f64 = 0.005;
/// The relative standard deviation of the default's time as estimated from two audits.
const SPREAD: f64 = 0.035;
/// Calls between two audits are compared with them only if the audits differ by at most this, in the logarithm. Otherwise something
/// changed in between, or one was an outlier, and the default's time is not known.
const AGREE: f64 = 0.15;
/// A call's time counts as at most this multiple of the default's, and at least its inverse, so that one outlier is no loss.
const CLIP: f64 = 2.5;

/// The accumulated loss to NCCL's default, in µs, as estimated from audits.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    total: f64,
    lost: f64,
    /// The variance of the loss, from the noise of audits.
    variance: f64,
}

impl Account {
    fn is_overdrawn(&self) -> bool {
        self.lost - libm::sqrt(self.variance) > LIMIT * self.total
    }

    /// Books calls that took `sum` together where the default would have taken `default`.
    fn book(&mut self, sum: f64, default: f64) {
        self.lost = (self.lost + sum - default).max(-MERIT * self.total);
        self.variance += SPREAD * SPREAD * default * default;
    }
}

/// The last measurements of an action: the logarithms of its last two times, and the call of the task in which they were taken.
#[derive(Clone, Copy, Debug)]
struct Last {
    times: [f64; 2],
    at: u32,
}

#[derive(Clone, Debug, Default)]
struct Task {
    calls: u32,
    period: u32,
    /// The call of the task in which the default was last run.
    audited: u32,
    last: BTreeMap<usize, Last>,
    /// The last time of the default, in µs.
    default: Option<f64>,
    /// The total time, in µs, of calls with other actions since the default was last run, and their number.
    since: (f64, f64),
    /// The loss of this task to the default, in µs.
    lost: f64,
}

impl Task {
    /// Whether an action was slower than the default both of the last times it was run, by more than noise.
    fn is_seen_worse(&self, action: usize) -> bool {
        let (Some(it), Some(default)) = (self.last.get(&action), self.last.get(&0)) else {
            return false;
        };
        let [a, b] = it.times;
        let fresh = self.calls.saturating_sub(it.at) < LAPSE;
        fresh && a.min(b) > default.times[0].max(default.times[1]) + NOISE
    }

    /// Books a call's time in the account.
    fn book(&mut self, action: usize, micros: f64, account: &mut Account) {
        account.total += micros;
        if action != 0 {
            let clipped = self.default.map_or(micros, |it| micros.clamp(it / CLIP, it * CLIP));
            self.since = (self.since.0 + clipped, self.since.1 + 1.0);
            return;
        }
        let (sum, calls) = std::mem::take(&mut self.since);
        if let Some(before) = self.default.replace(micros)
            && calls > 0.0
            && libm::log(micros / before).abs() < AGREE
        {
            let default = calls * (micros + before) / 2.0;
            account.book(sum, default);
            self.lost = (self.lost + sum - default).max(0.0);
        }
    }

    fn note(&mut self, action: usize, time: f64) {
        self.calls += 1;
        let before = self.last.get(&action).map(|it| it.times[0]);
        // A change of the action in use, or of what an audit finds, is a reason to look more often.
        let surprised = before.is_some_and(|it| (time - it).abs() > SURPRISE);
        if surprised || self.period == 0 {
            self.period = FIRST;
        } else if action == 0 && self.calls.saturating_sub(self.audited) > 1 {
            self.period = (2 * self.period).min(MOST);
        }
        if action == 0 {
            self.audited = self.calls;
        }
        let times = [time, before.unwrap_or(f64::NEG_INFINITY)];
        self.last.insert(action, Last { times, at: self.calls });
    }
}

/// A policy under this guard.
#[derive(Debug)]
pub struct Guarded<P> {
    inner: P,
    tasks: BTreeMap<usize, Task>,
    account: Account,
}

impl<P: Policy> Guarded<P> {
    #[must_use]
    pub const fn new(inner: P) -> Self {
        let account = Account { total: 0.0, lost: 0.0, variance: 0.0 };
        Self { inner, tasks: BTreeMap::new(), account }
    }
}

impl<P: Policy> Policy for Guarded<P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let choice = self.inner.choose(seen);
        let task = self.tasks.entry(seen.task).or_default();
        if choice.action != 0 && task.lost > 0.0 && self.account.is_overdrawn() {
            return Choice::DEFAULT;
        }
        let best = if task.is_seen_worse(choice.best) { 0 } else { choice.best };
        if choice.exploratory || choice.action == 0 {
            return Choice { best, ..choice };
        }
        let period = task.period.max(1).saturating_mul(seen.lease);
        if task.calls.saturating_sub(task.audited) >= period {
            return Choice::probe(0, best);
        }
        Choice::best(best)
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        self.inner.learn(seen, choice, outcome);
        if !outcome.fault {
            let micros = outcome.time.as_us_f64().max(1e-6);
            let task = self.tasks.entry(seen.task).or_default();
            task.book(choice.action, micros, &mut self.account);
            task.note(choice.action, libm::log(micros));
        }
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.tasks.clear();
        self.account = Account::default();
    }

    fn checksum(&self) -> Checksum {
        let mut bytes = format!("{:?}", self.inner.checksum()).into_bytes();
        let Account { total, lost, variance } = self.account;
        for it in [total, lost, variance] {
            bytes.extend(it.to_bits().to_le_bytes());
        }
        for task in self.tasks.values() {
            for it in [task.since.0, task.since.1, task.lost, task.default.unwrap_or(0.0)] {
                bytes.extend(it.to_bits().to_le_bytes());
            }
            for it in [task.calls, task.period, task.audited] {
                bytes.extend(it.to_le_bytes());
            }
            for (action, last) in &task.last {
                bytes.extend(action.to_le_bytes());
                bytes.extend(last.at.to_le_bytes());
                last.times.iter().for_each(|it| bytes.extend(it.to_bits().to_le_bytes()));
            }
        }
        Checksum::of(&bytes)
    }

    fn told(&mut self, means: &[f64]) {
        self.inner.told(means);
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_units::{Bytes, Seed};

    use super::super::arms::candidates;
    use super::*;
    use crate::env::Timeline;
    use crate::env::testing::{scenario, sockets};
    use crate::eval::{Pace, Trial};

    #[test]
    fn what_was_seen_to_be_slower_twice_is_refused() {
        let mut task = Task::default();
        [2.0, 2.0].into_iter().for_each(|it| task.note(0, it));
        task.note(3, 2.5);
        assert!(!task.is_seen_worse(3), "one time may be an outlier");
        task.note(3, 2.5);
        assert!(task.is_seen_worse(3) && !task.is_seen_worse(4));
        // The default got slower, so the action is no longer known to be worse.
        task.note(0, 2.6);
        assert!(!task.is_seen_worse(3));
        let mut task = Task::default();
        [(0, 2.0), (0, 2.0), (3, 2.5), (3, 2.5)].into_iter().for_each(|it| task.note(it.0, it.1));
        (0..LAPSE).for_each(|_| task.note(0, 2.0));
        assert!(!task.is_seen_worse(3), "too long ago");
    }

    /// Audits of 100 µs with 40 calls of another action between them.
    fn booked(rounds: u32, audit: impl Fn(u32) -> f64, micros: f64) -> (Task, Account) {
        let (mut task, mut account) = (Task::default(), Account::default());
        for round in 0..rounds {
            task.book(0, audit(round), &mut account);
            (0..40).for_each(|_| task.book(3, micros, &mut account));
        }
        (task, account)
    }

    #[test]
    fn small_losses_add_up_in_the_account() {
        let (task, account) = booked(4, |_| 100.0, 103.0);
        assert!(account.is_overdrawn() && task.lost > 0.0);
        assert!(!booked(2, |_| 100.0, 103.0).1.is_overdrawn(), "one interval may be noise");
        assert!(!booked(20, |_| 100.0, 100.0).1.is_overdrawn());
        let (task, account) = booked(20, |_| 100.0, 95.0);
        assert!(!account.is_overdrawn() && task.lost == 0.0);
        // Merits are bounded, so a policy that was good for long and turns bad is noticed soon.
        assert!(account.lost >= -MERIT * account.total);
        // If two audits differ, it is not known what the default would have taken between them.
        let (_, account) = booked(20, |it| if it % 2 == 0 { 100.0 } else { 200.0 }, 150.0);
        assert_eq!((account.lost, account.variance), (0.0, 0.0));
        // One outlier is no loss of a thousand calls.
        let (mut task, mut account) = booked(4, |_| 100.0, 99.0);
        task.book(3, 1e5, &mut account);
        task.book(0, 100.0, &mut account);
        assert!(!account.is_overdrawn());
    }

    /// Always the same action.
    #[derive(Debug)]
    struct Stubborn(usize);

    impl Policy for Stubborn {
        fn name(&self) -> &'static str {
            "stubborn"
        }

        fn choose(&mut self, _seen: &Observation) -> Choice {
            Choice::best(self.0)
        }

        fn learn(&mut self, _seen: &Observation, _choice: &Choice, _outcome: &Outcome) {}

        fn reset(&mut self) {}

        fn checksum(&self) -> Checksum {
            Checksum::of(b"stubborn")
        }
    }

    /// An action that takes 4% longer than the default is too little slower to be seen in two calls with 3%
    /// noise, but the account finds it.
    #[test]
    fn a_policy_that_is_a_little_worse_is_held_to_the_default() {
        let size = [Bytes::kib(256)];
        let brief = sockets().brief(CollectiveKind::AllReduce, size[0]).unwrap();
        let other = |it: &usize| brief.kernels[*it] != brief.kernels[0];
        let action = candidates(&brief).into_iter().find(other).unwrap();
        let (algorithm, protocol) = brief.kernels[action];
        for seed in 0..4 {
            let mut slow = scenario(&size, 4000, Timeline::default(), Seed::new(seed));
            slow.groups[0].error[algorithm.index()][protocol.index()] =
                1.04 * brief.nominal[0] / brief.nominal[action];
            let over = |policy: &mut dyn Policy| {
                let trial = Trial::of(policy, slow.clone(), Pace::default()).unwrap();
                trial.taken / trial.default
            };
            assert!((over(&mut Stubborn(action)) - 1.04).abs() < 1e-9);
            let held = over(&mut Guarded::new(Stubborn(action)));
            assert!(held < 1.012, "{held}");
        }
    }

    #[test]
    fn audits_become_rarer_until_something_surprises() {
        let mut task = Task::default();
        task.note(0, 2.0);
        assert_eq!(task.period, FIRST);
        for _ in 0..3 {
            (0..20).for_each(|_| task.note(3, 1.8));
            task.note(0, 2.0);
        }
        assert_eq!(task.period, MOST);
        task.note(3, 2.4);
        assert_eq!(task.period, FIRST);
    }
}
