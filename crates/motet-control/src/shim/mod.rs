//! [`Shim`]: sees the collective calls of one rank, in the order in which the job makes them, and announces ahead of time
//! which group will be next (Opus, §4.1).
//!
//! In the first iteration nothing can be predicted, and circuits are asked for when a call needs them. Later, the predictor
//! ([`predict`]) knows which call comes next. When the last call of a phase has ended and the next one will be of another group, the
//! shim announces it at once, so that circuits change while the rank computes (*provisioning*). A wrong prediction costs a needless
//! change of circuits before the one that is needed. So circuits are asked for ahead only where an earlier prediction
//! at the same place came true, and a `trial` checks that asking ahead makes iterations shorter.

pub mod predict;
mod trial;

use std::collections::BTreeMap;

use motet_runtime::Collective;
use motet_units::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use crate::protocol::GroupId;
use predict::Predictor;
use trial::Trial;

/// How many calls count as one iteration in a job that does not mark the ends of its iterations.
const UNMARKED: u64 = 1024;

/// A collective call, with what the choice of a network depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    pub group: GroupId,
    pub collective: Collective,
    pub bytes: Bytes,
}

/// How a shim asks for circuits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Not at all: it only records, and no call waits.
    #[default]
    Observe,
    /// When a call is made, which then waits for its circuits.
    OnDemand,
    /// As on demand, and also ahead of predicted calls where that makes iterations shorter.
    Provisioned,
}

/// A message of a shim to its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tell {
    /// The rank makes a call and waits until the manager lets it start. It is the first of `run` calls of its group in a row; 0 if
    /// that is not known.
    Call { call: Call, run: u32 },
    /// A call of that group has ended.
    Ended(GroupId),
    /// A prediction: after the last call, which was of group `after`, the next will be `call`, the first of `run` in a row. If that
    /// is another group, `after` has no more calls for now; if it is the same, circuits recalled meanwhile will be needed again.
    Next { call: Call, after: GroupId, run: u32 },
}

/// The shim of one rank.
#[derive(Clone, Debug)]
pub struct Shim {
    mode: Mode,
    predictor: Predictor,
    trial: Trial,
    calls: u64,
    /// Whether the job marks the ends of its iterations.
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

    /// How many calls were predicted right, and how many wrong.
    #[must_use]
    pub const fn score(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Whether the trial has come to a result, for now, on whether asking ahead pays.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.trial.is_settled()
    }

    /// The job marks the end of an iteration. Jobs that never do are timed over a large fixed number of calls instead, which spans
    /// many iterations, so that it does not matter where they end.
    pub fn iteration(&mut self, now: Instant) {
        self.marked = true;
        self.trial.iteration(now);
    }

    /// The job makes a call at `now`. `None` if the call need not wait for anything.
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

    /// A call of that group has ended; returns the messages for the manager, in order.
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

    /// The prediction to announce, if no call is under way.
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

    /// The predictions of a change of group that a shim announces during so many iterations of these calls,
    /// and its score.
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
