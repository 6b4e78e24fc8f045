//! [`Shim`]: sees the collective calls of one rank, in the order in which the job makes them, and says ahead of time
//! which group will be next (Opus, §4.1).
//!
//! In the first iteration nothing repeats itself yet, and circuits are asked for when a call needs them. Later, the
//! [`predict`]or knows what comes next. When the last call of a phase has ended, and the next one will be of another
//! group, the shim says so at once: circuits change while the rank computes (*provisioning*). If the job then does something
//! else, the call that really comes is asked for like any other, after the change that was not wanted. So only what has come
//! in that order before as it was expected is asked for ahead, and a `trial` makes sure that it pays.

pub mod predict;
mod trial;

use std::collections::BTreeMap;

use motet_runtime::Collective;
use motet_units::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use crate::protocol::GroupId;
use predict::Predictor;
use trial::Trial;

/// Calls that are taken for an iteration of a job that does not say where iterations end.
const UNMARKED: u64 = 1024;

/// A collective call, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    pub group: GroupId,
    pub collective: Collective,
    pub bytes: Bytes,
}

/// How much the shim does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It looks, and lets every call go.
    #[default]
    Observe,
    /// Calls wait for their circuits.
    OnDemand,
    /// The same, and circuits are asked for ahead, if that makes iterations shorter.
    Provisioned,
}

/// What a shim tells its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tell {
    /// The rank makes a call, and waits for the word to go. It is the first of so many of its group in a row; 0 if that is not
    /// known.
    Call { call: Call, run: u32 },
    /// A call of that group has ended.
    Ended(GroupId),
    /// The next call will be this one. If it is of another group than the one before, that has no more calls for now; if
    /// it is of the same, circuits that are taken away meanwhile will be needed again.
    Next { call: Call, after: GroupId, run: u32 },
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Shim {
    mode: Mode,
    predictor: Predictor,
    trial: Trial,
    calls: u64,
    /// The job says where iterations end.
    marked: bool,
    /// How many calls of each group are under way.
    busy: BTreeMap<GroupId, u32>,
    last: Option<Call>,
    hits: u64,
    misses: u64,
}

impl Shim {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            predictor: Predictor::default(),
            trial: Trial::default(),
            calls: 0,
            marked: false,
            busy: BTreeMap::new(),
            last: None,
            hits: 0,
            misses: 0,
        }
    }

    /// How many calls came as predicted, and how many otherwise.
    #[must_use]
    pub const fn score(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Whether it is known for now if asking ahead pays.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.trial.is_settled()
    }

    /// An iteration has ended. Jobs that never say so are judged by as many calls as are in many iterations, whose ends
    /// need not be known then.
    pub fn iteration(&mut self, now: Instant) {
        self.marked = true;
        self.trial.iteration(now);
    }

    /// The job makes a call at that time. `None` if it need not wait for anything.
    pub fn call(&mut self, call: Call, now: Instant) -> Option<Tell> {
        match self.predictor.next() {
            Some(next) if next == call => self.hits += 1,
            Some(_) => self.misses += 1,
            None => {}
        }
        self.predictor.saw(call);
        self.calls += 1;
        if !self.marked && self.calls.is_multiple_of(UNMARKED) {
            self.trial.iteration(now);
        }
        *self.busy.entry(call.group).or_default() += 1;
        self.last = Some(call);
        let run = self.predictor.run_of(call.group);
        let run = run.map_or(0, |it| it.saturating_add(1));
        (self.mode != Mode::Observe).then_some(Tell::Call { call, run })
    }

    /// A call of that group has ended. What the manager must know of it, in order.
    pub fn ended(&mut self, group: GroupId) -> Vec<Tell> {
        if let Some(busy) = self.busy.get_mut(&group) {
            *busy = busy.saturating_sub(1);
        }
        if self.mode == Mode::Observe {
            return Vec::new();
        }
        let mut tell = vec![Tell::Ended(group)];
        tell.extend(self.ahead());
        tell
    }

    /// What comes next, if nothing is under way.
    fn ahead(&self) -> Option<Tell> {
        let idle = self.busy.values().all(|it| *it == 0);
        let (after, next) = (self.last?.group, self.predictor.next()?);
        let may = self.mode == Mode::Provisioned && self.trial.asks_ahead();
        let may = may && self.predictor.is_sure();
        let run = self.predictor.run_of(next.group).unwrap_or(0);
        (may && idle).then_some(Tell::Next { call: next, after, run })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(group: u32, bytes: u64) -> Call {
        Call { group: GroupId(group), collective: Collective::AllGather, bytes: Bytes::new(bytes) }
    }

    /// What is foreseen during so many iterations of these calls.
    fn run(mode: Mode, iteration: &[Call], times: usize) -> (Vec<Tell>, (u64, u64)) {
        let mut shim = Shim::new(mode);
        let mut all = Vec::new();
        for it in iteration.iter().cycle().take(times * iteration.len()) {
            all.extend(shim.call(*it, Instant::START));
            all.extend(shim.ended(it.group));
            if it == &iteration[iteration.len() - 1] {
                shim.iteration(Instant::START);
            }
        }
        let next = |it: &Tell| matches!(it, Tell::Next { call, after, .. } if call.group != *after);
        (all.into_iter().filter(next).collect(), shim.score())
    }

    #[test]
    fn the_second_iteration_is_foreseen() {
        // Two layers of parameters, an activation to the next stage and back, gradients.
        let iteration = [call(0, 10), call(0, 20), call(1, 5), call(1, 6), call(0, 40)];
        let (next, (hits, misses)) = run(Mode::Provisioned, &iteration, 20);
        // Two changes of group in an iteration: after the second call, and after the fourth. At first, iterations without that are
        // measured.
        assert!(next.len() >= 2 * 14, "{}", next.len());
        assert!(hits >= 90 && misses <= 3, "{hits} {misses}");
        let ahead = Tell::Next { call: call(1, 5), after: GroupId(0), run: 2 };
        assert!(next.contains(&ahead));
    }

    #[test]
    fn nothing_is_foreseen_unless_asked_for() {
        let iteration = [call(0, 10), call(1, 5)];
        assert_eq!(run(Mode::OnDemand, &iteration, 10).0, []);
        assert_eq!(run(Mode::Observe, &iteration, 10).0, []);
    }

    #[test]
    fn a_phase_is_not_over_while_a_call_is_under_way() {
        let mut shim = Shim::new(Mode::Provisioned);
        for it in [call(0, 1), call(1, 2)].into_iter().cycle().take(40) {
            shim.call(it, Instant::START);
            shim.ended(it.group);
            shim.iteration(Instant::START);
        }
        shim.call(call(0, 1), Instant::START);
        shim.call(call(0, 9), Instant::START);
        assert_eq!(shim.ended(GroupId(0)), [Tell::Ended(GroupId(0))]);
    }
}
