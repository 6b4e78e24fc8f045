//! [`Group`]: the leader's half of one communicator while a job runs: it collects what ranks measure, asks a
//! [`Pilot`] for a better table, and has all ranks switch to it at one operation. It has no IO and no clock: its
//! owner hands over [`Frame`]s, calls [`turn`](Group::turn) regularly, and sends the frames that these return.
//!
//! A table is sent first, then the proposal of it ([`agreement`](crate::agreement)); frames of a connection come in
//! order, so a rank that gets the proposal holds the table. The operation at which ranks switch is as far ahead as
//! they get in four turns, and farther after a rank was found to be past it. A table that a pilot only wants to try
//! is proposed together with the end of the trial, so that it goes out of use even if the leader is gone by then.

use motet_units::Rank;

use crate::agreement::{Leader, Message, Refusal, Target, To};
use crate::key::Signature;
use crate::report::{Report, agree};
use crate::runtime::Operation;
use crate::table::Table;
use crate::wire::Frame;

/// After so many turns an open proposal is given up: a rank that has not answered by then may be gone.
const PATIENCE: u32 = 20;
/// How many turns ahead a switch is proposed, and at least how many operations.
const LEAD_TURNS: u64 = 4;
const LEAST_LEAD: u64 = 32;
/// How many turns after its end a trial is kept open, for the times of calls that end late.
const AFTER_TRIAL: u32 = 2;
/// Each refusal for being late doubles the lead, up to so many times (2¹² times as many operations).
const MOST_DOUBLINGS: u32 = 12;

/// A policy that makes tables from measurements. Only the leader has one, so it may do what would differ between ranks.
pub trait Pilot: Send {
    /// What to do next, by the reports of all ranks. Asked once a turn if calls are being made, all ranks have reported
    /// and no proposal or trial is going on. A table that it returns must have the same keys as the one in use.
    fn steer(&mut self, sight: &Sight<'_>) -> Course;

    /// The reasons of its decisions since this was last called, as text for people.
    fn reasons(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// What a pilot sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The table in use.
    pub table: &'a Table,
    /// What each rank has measured under that table.
    pub reports: &'a [Report],
    /// The table that was tried last, and what ranks have measured under it. Only in the first turn after a trial.
    pub trial: Option<(&'a Table, &'a [Report])>,
}

/// A pilot's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    Stay,
    /// All ranks switch to this table.
    Switch(Table),
    /// All ranks use the table for about `turns` turns (as many operations as ranks make in them at present), and then
    /// go back, even if the leader is gone by then.
    Try {
        table: Table,
        turns: u32,
    },
}

/// TuCCL's rule: prefers the candidate with the least time; where it was not measured, its expected time counts.
#[derive(Clone, Copy, Debug)]
pub struct Fastest {
    /// By how many percent a candidate must be faster than the one in use to replace it.
    pub margin: u32,
}

impl Pilot for Fastest {
    fn steer(&mut self, sight: &Sight<'_>) -> Course {
        let amendment = agree(sight.table, sight.reports, self.margin);
        let better = (amendment.switches() > 0).then(|| amendment.apply(sight.table).ok());
        better.flatten().map_or(Course::Stay, Course::Switch)
    }
}

/// The leader of one communicator.
pub struct Group {
    leader: Leader,
    pilot: Box<dyn Pilot>,
    signature: Signature,
    table: Table,
    proposed: Option<Proposed>,
    trial: Option<Trial>,
    /// By rank: its last report.
    standings: Vec<Standing>,
    /// The largest position of any rank a turn ago.
    before: Operation,
    doublings: u32,
    switches: u64,
    trials: u64,
    /// Whether a rank has gone.
    parted: bool,
}

/// The table that ranks are asked to use, and for how many turns they have been.
struct Proposed {
    table: Table,
    until: Option<Operation>,
    turns: u32,
}

/// A table that is tried, or was.
struct Trial {
    table: Table,
    until: Operation,
    /// Turns since all ranks have gone back to the table in use.
    turns: u32,
}

/// What a rank has reported.
#[derive(Clone, Default)]
struct Standing {
    position: Operation,
    /// Its last report about the table in use.
    report: Option<Report>,
    /// Its last report about the table that is tried.
    tried: Option<Report>,
}

impl Group {
    /// The group of `ranks` ranks that use `table`.
    #[must_use]
    pub fn new(ranks: u32, table: Table, signature: Signature, pilot: Box<dyn Pilot>) -> Self {
        Self {
            leader: Leader::new(ranks, 1),
            pilot,
            signature,
            table,
            proposed: None,
            trial: None,
            standings: vec![Standing::default(); ranks as usize],
            before: 0,
            doublings: 0,
            switches: 0,
            trials: 0,
            parted: false,
        }
    }

    /// The table that all ranks use, or have agreed to; not one that is only tried.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// How many times the ranks have agreed to another table.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// How many times the ranks have agreed to try another table.
    #[must_use]
    pub const fn trials(&self) -> u64 {
        self.trials
    }

    /// The reasons of the pilot's decisions since this was last called.
    pub fn reasons(&mut self) -> Vec<String> {
        self.pilot.reasons()
    }

    /// Replaces the pilot from the next turn on, as when the real one had to be made first.
    pub fn steer_by(&mut self, pilot: Box<dyn Pilot>) {
        self.pilot = pilot;
    }

    /// Takes a frame of a rank, and returns what to send as a result.
    pub fn handle(&mut self, rank: Rank, frame: Frame) -> Option<(To, Frame)> {
        match frame {
            Frame::Standing { position, report } if report.rank == rank => {
                let standing = self.standings.get_mut(rank.index())?;
                standing.position = position;
                let tried = self.trial.as_ref().map(|it| it.table.checksum());
                if report.table == Some(self.table.checksum()) {
                    standing.report = Some(report);
                } else if report.table.is_some() && report.table == tried {
                    standing.tried = Some(report);
                }
                None
            }
            Frame::Agreement(message) if speaker(&message) == Some(rank) => {
                let committed = self.leader.committed();
                let answer = self.leader.handle(message);
                if self.leader.committed() != committed {
                    self.take_up();
                } else if let Some((_, Message::Verdict { commit: false, .. })) = answer {
                    self.give_up(&message);
                }
                answer.map(|(to, it)| (to, Frame::Agreement(it)))
            }
            _ => None,
        }
    }

    /// All ranks have accepted the proposal: the table is in use, or the trial begins.
    fn take_up(&mut self) {
        let Some(Proposed { table, until, .. }) = self.proposed.take() else { return };
        self.doublings = 0;
        if let Some(until) = until {
            self.trials += 1;
            self.standings.iter_mut().for_each(|it| it.tried = None);
            self.trial = Some(Trial { table, until, turns: 0 });
        } else {
            self.switches += 1;
            self.table = table;
            // What was said of the table before says nothing of this one.
            self.standings.iter_mut().for_each(|it| it.report = None);
        }
    }

    /// The proposal is aborted, because a rank has refused it or asks for a verdict that it cannot wait for.
    fn give_up(&mut self, message: &Message) {
        self.proposed = None;
        let late = matches!(message, Message::Refuse { refusal: Refusal::Late { .. }, .. });
        if late || matches!(message, Message::Ask { .. }) {
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
    }

    /// One turn: proposes what the pilot wants. To be called at regular intervals of about a few round trips.
    pub fn turn(&mut self) -> Vec<(To, Frame)> {
        if let Some(proposed) = &mut self.proposed {
            proposed.turns += 1;
            if proposed.turns <= PATIENCE {
                return Vec::new();
            }
            self.proposed = None;
            return self.leader.abort().map(agreement).into_iter().collect();
        }
        let positions = self.standings.iter().map(|it| it.position);
        let foremost = positions.clone().max().unwrap_or(0);
        let hindmost = positions.min().unwrap_or(0);
        let begun = foremost.saturating_sub(self.before);
        self.before = foremost;
        // All ranks must have spoken of this table: a rank that is not heard of cannot agree.
        let reports: Vec<Report> =
            self.standings.iter().filter_map(|it| it.report.clone()).collect();
        if self.parted || reports.len() < self.standings.len() || begun == 0 {
            return Vec::new();
        }
        if let Some(trial) = &mut self.trial {
            trial.turns += u32::from(hindmost > trial.until);
            if trial.turns <= AFTER_TRIAL {
                return Vec::new();
            }
        }
        let trial = self.trial.take();
        let tried: Vec<Report> =
            self.standings.iter_mut().filter_map(|it| it.tried.take()).collect();
        let sight = Sight {
            table: &self.table,
            reports: &reports,
            trial: trial.as_ref().map(|it| (&it.table, tried.as_slice())),
        };
        let (table, turns) = match self.pilot.steer(&sight) {
            Course::Stay => return Vec::new(),
            Course::Switch(table) => (table, None),
            Course::Try { table, turns } => (table, Some(turns)),
        };
        if !same_keys(&table, &self.table) {
            return Vec::new();
        }
        let lead = (begun * LEAD_TURNS).max(LEAST_LEAD) << self.doublings;
        let at = foremost.saturating_add(lead);
        let lasts = |turns: u32| begun.saturating_mul(turns.into()).max(LEAST_LEAD);
        self.propose(at, turns.map(|it| at.saturating_add(lasts(it))), table)
    }

    fn propose(
        &mut self,
        at: Operation,
        until: Option<Operation>,
        table: Table,
    ) -> Vec<(To, Frame)> {
        let signature = self.signature;
        let target = Target::Table { checksum: table.checksum(), signature };
        let Ok(proposal) = self.leader.propose_until(at, until, target) else { return Vec::new() };
        let text = table.write();
        self.proposed = Some(Proposed { table, until, turns: 0 });
        vec![(To::All, Frame::Table { signature, text }), agreement(proposal)]
    }

    /// A rank has gone: an open proposal is aborted, and nothing is proposed any more.
    pub fn part(&mut self) -> Option<(To, Frame)> {
        self.parted = true;
        self.proposed = None;
        self.leader.abort().map(agreement)
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("leader", &self.leader)
            .field("table", &self.table.checksum())
            .field("switches", &self.switches)
            .finish_non_exhaustive()
    }
}

const fn agreement((to, message): (To, Message)) -> (To, Frame) {
    (to, Frame::Agreement(message))
}

/// The rank that has sent a message to the leader.
const fn speaker(message: &Message) -> Option<Rank> {
    match message {
        Message::Accept { rank, .. } | Message::Refuse { rank, .. } | Message::Ask { rank, .. } => {
            Some(*rank)
        }
        Message::Propose { .. } | Message::Verdict { .. } | Message::Lost { .. } => None,
    }
}

/// Whether two tables have the same keys, so that entries have the same numbers in both.
fn same_keys(one: &Table, other: &Table) -> bool {
    let keys = |it: &Table| it.entries().iter().map(|it| it.key).collect::<Vec<_>>();
    keys(one) == keys(other)
}

#[cfg(test)]
mod tests;
