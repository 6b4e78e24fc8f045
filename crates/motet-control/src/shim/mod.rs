//! [`Shim`]: sees the collective calls of one rank, in the order in which the job makes them, and says ahead of time
//! which group will be next (Opus, §4.1).
//!
//! In the first iteration nothing repeats itself yet, and circuits are asked for when a call needs them. Later, the
//! [`predict`]or knows what comes next. When the last call of a phase has ended, and the next one will be of another
//! group, the shim says so at once: circuits change while the rank computes (*provisioning*). If the job then does something
//! else, nothing is lost but the change: the call that really comes is asked for like any other.

pub mod predict;

use std::collections::BTreeMap;

use motet_runtime::Collective;
use motet_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::GroupId;
use predict::Predictor;

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
    /// The same, and circuits are asked for ahead.
    Provisioned,
}

/// What a shim tells its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tell {
    /// The rank makes a call, and waits for the word to go.
    Call(Call),
    /// A call of that group has ended.
    Ended(GroupId),
    /// The next call will be this one. The group before has no more calls for now.
    Next { call: Call, after: GroupId },
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Shim {
    mode: Mode,
    predictor: Predictor,
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

    /// The job makes a call. `None` if it need not wait for anything.
    pub fn call(&mut self, call: Call) -> Option<Tell> {
        match self.predictor.next() {
            Some(next) if next == call => self.hits += 1,
            Some(_) => self.misses += 1,
            None => {}
        }
        self.predictor.saw(call);
        *self.busy.entry(call.group).or_default() += 1;
        self.last = Some(call);
        (self.mode != Mode::Observe).then_some(Tell::Call(call))
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

    /// The phase is over, if nothing is under way and another group comes next.
    fn ahead(&self) -> Option<Tell> {
        let idle = self.busy.values().all(|it| *it == 0);
        let (after, next) = (self.last?.group, self.predictor.next()?);
        let ahead = self.mode == Mode::Provisioned && idle && next.group != after;
        ahead.then_some(Tell::Next { call: next, after })
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
            all.extend(shim.call(*it));
            all.extend(shim.ended(it.group));
        }
        (all.into_iter().filter(|it| matches!(it, Tell::Next { .. })).collect(), shim.score())
    }

    #[test]
    fn the_second_iteration_is_foreseen() {
        // Two layers of parameters, an activation to the next stage and back, gradients.
        let iteration = [call(0, 10), call(0, 20), call(1, 5), call(1, 6), call(0, 40)];
        let (next, (hits, misses)) = run(Mode::Provisioned, &iteration, 10);
        // Two changes of group in an iteration: after the second call, and after the fourth.
        assert!(next.len() >= 16, "{}", next.len());
        assert!(hits >= 40 && misses <= 3, "{hits} {misses}");
        let ahead = Tell::Next { call: call(1, 5), after: GroupId(0) };
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
        for it in [call(0, 1), call(1, 2), call(0, 1), call(1, 2), call(0, 1), call(1, 2)] {
            shim.call(it);
            shim.ended(it.group);
        }
        shim.call(call(0, 1));
        shim.call(call(0, 9));
        assert_eq!(shim.ended(GroupId(0)), [Tell::Ended(GroupId(0))]);
    }
}
