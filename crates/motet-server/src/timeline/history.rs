//! [`History`]: derives phases and changes from reports, answers and events as the engine handles them, and
//! keeps the last ones.
//!
//! It costs the engine little: a report changes two flags and two counters, and only ended turns are kept.
//! Memory is bounded: a fixed number of turns and changes per job, fewer if there are many jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_control::controller::ChangeId;
use motet_control::journal::Event;
use motet_control::protocol::{GroupId, JobId, Member, Reply};
use rustc_hash::FxHashMap;

use super::{Ask, Change, Moment, Outcome, Phase, Traffic, Went};

/// The most phases, and as many changes, that one job keeps.
const MOST: usize = 2048;
/// About how many phases all jobs keep together, and as many changes; but each job may keep [`FEW`].
const ALL: usize = 100_000;
/// How many phases and changes a job keeps however many jobs there are.
const FEW: usize = 16;
/// How many of the last waits are kept.
const WAITS: usize = 4096;
/// The most changes that may still get an end. A failed change is among them until it is rolled back, which
/// happens only if a switch had applied its part, so their number must be bounded.
const PENDING: usize = 4096;

/// What is known of a member's stance to a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub asks: bool,
    /// It may be sending over the circuits.
    pub sends: bool,
}

/// What is kept of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Ended phases in the order of their ends, then open ones.
    pub phases: Vec<Phase>,
    pub changes: Vec<Change>,
    /// How many phases were kept once and are no longer.
    pub dropped: u64,
}

/// The recorded activity of all jobs.
#[derive(Debug, Default)]
pub struct History {
    jobs: BTreeMap<JobId, Track>,
    pending: BTreeMap<ChangeId, JobId>,
    waits: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Track {
    seats: FxHashMap<(GroupId, Member), Seen>,
    open: BTreeMap<GroupId, Open>,
    phases: VecDeque<Phase>,
    changes: VecDeque<Change>,
    dropped: u64,
}

/// A group's turn that has not ended.
#[derive(Debug, Default)]
struct Open {
    asking: usize,
    sending: usize,
    ask: Option<Ask>,
    /// Whether a member that asked got circuits.
    answered: bool,
    hold: Option<Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    asked: Option<Ask>,
    from: Moment,
    traffic: Option<Traffic>,
}

impl Hold {
    const fn phase(self, group: GroupId, ended_us: Option<Moment>) -> Phase {
        let outcome = if ended_us.is_some() { Outcome::Held } else { Outcome::Open };
        let Self { asked, from, traffic } = self;
        Phase { group, asked, held_us: Some(from), ended_us, traffic, outcome }
    }
}

impl History {
    /// Forgets a job that has ended.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.pending.retain(|_, it| *it != job);
    }

    /// Records a member's new state. `refused` says whether it changed because the member was sent to the
    /// packet network.
    pub fn member(
        &mut self,
        at: Moment,
        (job, group, member): (JobId, GroupId, Member),
        seen: Seen,
        refused: bool,
    ) {
        if seen == Seen::default() && !self.jobs.contains_key(&job) {
            return;
        }
        let most = (ALL / self.jobs.len().max(1)).clamp(FEW, MOST);
        let track = self.jobs.entry(job).or_default();
        let before = if seen == Seen::default() {
            track.seats.remove(&(group, member)).unwrap_or_default()
        } else {
            track.seats.insert((group, member), seen).unwrap_or_default()
        };
        if before == seen {
            return;
        }
        let open = track.open.entry(group).or_default();
        let ended = open.take(at, before, seen);
        let over = open.over(refused);
        if open.asking == 0 && open.sending == 0 {
            track.open.remove(&group);
        }
        if let Some((asked, outcome)) = over {
            let (held_us, traffic, ended_us) = (None, None, Some(at));
            track.keep(
                Phase { group, asked: Some(asked), held_us, ended_us, traffic, outcome },
                most,
            );
        }
        if let Some(hold) = ended {
            track.keep(hold.phase(group, Some(at)), most);
        }
    }

    /// A member that asked was answered.
    pub fn answered(&mut self, at: Moment, seat: (JobId, GroupId, Member), reply: Reply) {
        let track = self.jobs.get(&seat.0);
        let before = track.and_then(|it| it.seats.get(&(seat.1, seat.2)).copied());
        let (sends, refused) = match reply {
            Reply::Grant | Reply::Pass => (true, false),
            // A call before it may still be under way.
            Reply::Refuse(_) => (before.is_some_and(|it| it.sends), true),
        };
        self.member(at, seat, Seen { asks: false, sends }, refused);
    }

    /// A member says when calls of its group went over circuits.
    pub fn traffic(&mut self, job: JobId, group: GroupId, told: Traffic) {
        let open = self.jobs.get_mut(&job).and_then(|it| it.open.get_mut(&group));
        let Some(hold) = open.and_then(|it| it.hold.as_mut()) else { return };
        let all = hold.traffic.get_or_insert(told);
        // A call begins when its last member has joined, and ends when the last has done its part.
        all.began_us = all.began_us.max(told.began_us);
        all.ended_us = all.ended_us.max(told.ended_us).max(all.began_us);
    }

    /// Records an event of the controller.
    pub fn event(&mut self, at: Moment, event: &Event) {
        let most = (ALL / self.jobs.len().max(1)).clamp(FEW, MOST);
        let (change, went) = match event {
            Event::Begun { change, job: Some(job), groups, delete, create } => {
                let switches = delete.iter().chain(create).map(|it| it.switch.0);
                let track = self.jobs.entry(*job).or_default();
                track.changes.push_back(Change {
                    change: *change,
                    groups: groups.clone(),
                    switches: switches.collect::<BTreeSet<_>>().into_iter().collect(),
                    deleted: delete.len(),
                    created: create.len(),
                    begun_us: at,
                    ended_us: None,
                    went: Went::UnderWay,
                });
                while track.changes.len() > most {
                    track.changes.pop_front();
                }
                self.pending.insert(*change, *job);
                while self.pending.len() > PENDING {
                    self.pending.pop_first();
                }
                return;
            }
            Event::Done { change } => (change, Went::Done),
            Event::Failed { change, .. } => (change, Went::Failed),
            Event::RolledBack { change } => (change, Went::RolledBack),
            _ => return,
        };
        let Some(track) = self.pending.get(change).and_then(|job| self.jobs.get_mut(job)) else {
            return;
        };
        if let Some(it) = track.changes.iter_mut().rev().find(|it| it.change == *change) {
            (it.ended_us, it.went) = (Some(at), went);
        }
        if went != Went::Failed {
            self.pending.remove(change);
        }
    }

    /// Records how long a member waited for an answer, in microseconds.
    pub fn waited(&mut self, time: u64) {
        if self.waits.len() == WAITS {
            self.waits.pop_front();
        }
        self.waits.push_back(u32::try_from(time).unwrap_or(u32::MAX));
    }

    /// The last waits, in microseconds, in the order in which they ended.
    #[must_use]
    pub fn waits(&self) -> Vec<u32> {
        self.waits.iter().copied().collect()
    }

    /// What is kept of a job; empty if it has done nothing yet.
    #[must_use]
    pub fn of(&self, job: JobId) -> Kept {
        let Some(track) = self.jobs.get(&job) else { return Kept::default() };
        let open = track.open.iter().flat_map(|(group, it)| {
            let hold = it.hold.map(|it| it.phase(*group, None));
            let ask = it.ask.filter(|_| !it.answered).map(|asked| Phase {
                group: *group,
                asked: Some(asked),
                held_us: None,
                ended_us: None,
                traffic: None,
                outcome: Outcome::Open,
            });
            hold.into_iter().chain(ask)
        });
        Kept {
            phases: track.phases.iter().copied().chain(open).collect(),
            changes: track.changes.iter().cloned().collect(),
            dropped: track.dropped,
        }
    }
}

impl Open {
    /// A member's state changes. Returns the hold that has ended with this change.
    fn take(&mut self, at: Moment, before: Seen, now: Seen) -> Option<Hold> {
        if now.asks && !before.asks {
            self.asking += 1;
            let ask = self.ask.get_or_insert(Ask { first_us: at, last_us: at });
            ask.last_us = at;
        }
        if now.sends && !before.sends {
            self.sending += 1;
            self.answered |= before.asks;
            let asked = self.ask.filter(|_| before.asks);
            self.hold.get_or_insert(Hold { asked, from: at, traffic: None });
        }
        if before.asks && !now.asks {
            self.asking = self.asking.saturating_sub(1);
        }
        if before.sends && !now.sends {
            self.sending = self.sending.saturating_sub(1);
        }
        if self.sending == 0 { self.hold.take() } else { None }
    }

    /// Returns the group's request if it has now ended without circuits.
    fn over(&mut self, refused: bool) -> Option<(Ask, Outcome)> {
        if self.asking > 0 {
            return None;
        }
        let ask = self.ask.take()?;
        let answered = std::mem::take(&mut self.answered);
        let outcome = if refused { Outcome::Refused } else { Outcome::Withdrawn };
        (!answered).then_some((ask, outcome))
    }
}

impl Track {
    fn keep(&mut self, phase: Phase, most: usize) {
        self.phases.push_back(phase);
        while self.phases.len() > most {
            self.phases.pop_front();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_control::SwitchId;
    use motet_control::journal::Failure;
    use motet_control::protocol::Refusal;

    const JOB: JobId = JobId(1);
    const AWAY: Seen = Seen { asks: false, sends: false };
    const ASKS: Seen = Seen { asks: true, sends: false };
    const SENDS: Seen = Seen { asks: false, sends: true };

    fn says(history: &mut History, at: Moment, member: u32, seen: Seen) {
        history.member(at, (JOB, GroupId(0), Member(member)), seen, false);
    }

    #[test]
    fn a_turn_is_from_the_first_ask_to_the_last_release() {
        let mut history = History::default();
        says(&mut history, 10, 0, ASKS);
        // It asks again, as if it had not been heard.
        says(&mut history, 11, 0, ASKS);
        says(&mut history, 15, 1, ASKS);
        let asked = Some(Ask { first_us: 10, last_us: 15 });
        let kept = history.of(JOB).phases;
        assert_eq!((kept.len(), kept[0].asked, kept[0].outcome), (1, asked, Outcome::Open));
        for member in [0, 1] {
            history.answered(20, (JOB, GroupId(0), Member(member)), Reply::Grant);
        }
        assert_eq!(history.of(JOB).phases[0].held_us, Some(20));
        history.traffic(JOB, GroupId(0), Traffic { began_us: 21, ended_us: 28 });
        says(&mut history, 30, 0, AWAY);
        // The second joined later, so the call began later.
        history.traffic(JOB, GroupId(0), Traffic { began_us: 24, ended_us: 27 });
        assert_eq!(history.of(JOB).phases[0].outcome, Outcome::Open);
        says(&mut history, 40, 1, AWAY);
        let traffic = Some(Traffic { began_us: 24, ended_us: 28 });
        let (held_us, ended_us, outcome) = (Some(20), Some(40), Outcome::Held);
        let whole = Phase { group: GroupId(0), asked, held_us, ended_us, traffic, outcome };
        assert_eq!(history.of(JOB), Kept { phases: vec![whole], ..Kept::default() });
        // Traffic that nobody can place is not believed.
        history.traffic(JOB, GroupId(0), Traffic { began_us: 1, ended_us: 2 });
        assert_eq!(history.of(JOB).phases, [whole]);
        history.forget(JOB);
        assert_eq!(history.of(JOB), Kept::default());
    }

    #[test]
    fn asks_without_circuits_are_refused_or_withdrawn() {
        let mut history = History::default();
        says(&mut history, 1, 0, ASKS);
        history.answered(5, (JOB, GroupId(0), Member(0)), Reply::Refuse(Refusal::Impatient));
        says(&mut history, 7, 0, ASKS);
        says(&mut history, 9, 0, AWAY);
        let kept = history.of(JOB).phases;
        assert_eq!([kept[0].outcome, kept[1].outcome], [Outcome::Refused, Outcome::Withdrawn]);
        assert_eq!([kept[0].ended_us, kept[1].ended_us], [Some(5), Some(9)]);
    }

    /// Recalled in the middle of a call, it asks for the next one: that is another turn.
    #[test]
    fn an_ask_while_circuits_are_still_in_use_is_of_the_next_turn() {
        let mut history = History::default();
        says(&mut history, 1, 0, ASKS);
        says(&mut history, 2, 0, SENDS);
        says(&mut history, 5, 0, Seen { asks: true, sends: true });
        says(&mut history, 8, 0, ASKS);
        says(&mut history, 9, 0, SENDS);
        let kept = history.of(JOB).phases;
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[0].held_us, kept[0].ended_us), (Some(2), Some(8)));
        assert_eq!((kept[1].held_us, kept[1].ended_us), (Some(9), None));
        assert_eq!(kept[1].asked, Some(Ask { first_us: 5, last_us: 5 }));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        let turns = MOST as u64 + 10;
        for at in 0..turns {
            says(&mut history, 2 * at, 0, SENDS);
            says(&mut history, 2 * at + 1, 0, AWAY);
            history.waited(at);
        }
        let kept = history.of(JOB);
        assert_eq!((kept.phases.len(), kept.dropped), (MOST, 10));
        assert_eq!(kept.phases[0].held_us, Some(20));
        for wait in 0..2 * WAITS as u64 {
            history.waited(wait);
        }
        assert_eq!((history.waits().len(), history.waits()[0]), (WAITS, WAITS as u32));
        // Strangers leave nothing behind.
        history.member(1, (JobId(9), GroupId(0), Member(0)), AWAY, false);
        assert_eq!(history.jobs.len(), 1);
    }

    #[test]
    fn changes_end_as_the_journal_says() {
        let mut history = History::default();
        let begun = |change: u64| Event::Begun {
            change: ChangeId(change),
            job: Some(JOB),
            groups: vec![GroupId(0)],
            delete: Vec::new(),
            create: motet_control::Circuit::new(SwitchId(3), 0, 1).into_iter().collect(),
        };
        for it in 0..3 {
            history.event(it, &begun(it));
        }
        history.event(10, &Event::Done { change: ChangeId(0) });
        let why = Failure::Rejected;
        history.event(11, &Event::Failed { change: ChangeId(1), switch: SwitchId(3), why });
        history.event(12, &Event::RolledBack { change: ChangeId(1) });
        let changes = history.of(JOB).changes;
        let ends: Vec<_> = changes.iter().map(|it| (it.begun_us, it.ended_us, it.went)).collect();
        let expected =
            [(0, Some(10), Went::Done), (1, Some(12), Went::RolledBack), (2, None, Went::UnderWay)];
        assert_eq!(ends, expected);
        assert_eq!((changes[0].switches.as_slice(), changes[0].created), (&[3][..], 1));
    }
}
