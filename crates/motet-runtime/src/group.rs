//! [`Group`]: the leader's half of one communicator while a job runs: it collects what ranks measure, asks a
//! [`Pilot`] for a better table, and has all ranks switch to it at one operation. No IO and no clock: whoever holds
//! it hands over [`Frame`]s, calls [`turn`](Group::turn) now and then, and sends what comes out.
//!
//! A table goes out first, then the proposal of it ([`agreement`](crate::agreement)); frames of a connection come in
//! order, so whoever gets the proposal holds the table. `at` is as far ahead as ranks get in four turns, more after a
//! rank was found to be there already.

use motet_units::Rank;

use crate::agreement::{Leader, Message, Refusal, Target, To};
use crate::key::Signature;
use crate::report::{Report, agree};
use crate::runtime::Operation;
use crate::table::Table;
use crate::wire::Frame;

/// Turns that a proposal may be open: a rank that has not answered by then may have gone.
const PATIENCE: u32 = 20;
/// How many turns ahead a switch is proposed, and at least how many operations.
const LEAD_TURNS: u64 = 4;
const LEAST_LEAD: u64 = 32;
/// After how many refusals for being late the lead grows no more: 2¹² times as many operations.
const MOST_DOUBLINGS: u32 = 12;

/// What makes tables of measurements. Only the leader has one, so that nothing of it must be the same on all ranks.
pub trait Pilot: Send {
    /// A table to use instead of `table`, by what all ranks report of it; `None` to stay. It must have the same keys
    /// and candidates, in whatever order.
    fn steer(&mut self, table: &Table, reports: &[Report]) -> Option<Table>;
}

/// Prefers what is fastest by what was measured last, and by what the plan expects of the rest: TuCCL's rule.
#[derive(Clone, Copy, Debug)]
pub struct Fastest {
    /// By how many percent it must be faster than what is in use.
    pub margin: u32,
}

impl Pilot for Fastest {
    fn steer(&mut self, table: &Table, reports: &[Report]) -> Option<Table> {
        let amendment = agree(table, reports, self.margin);
        if amendment.switches() == 0 { None } else { amendment.apply(table).ok() }
    }
}

/// See the [module](self).
pub struct Group {
    leader: Leader,
    pilot: Box<dyn Pilot>,
    signature: Signature,
    table: Table,
    /// The table that ranks are asked to switch to, and for how many turns they have been.
    proposed: Option<(Table, u32)>,
    /// What each rank said last.
    standings: Vec<Option<(Operation, Report)>>,
    /// Where the foremost rank was a turn ago.
    before: Operation,
    doublings: u32,
    switches: u64,
    /// Whether a rank has gone.
    parted: bool,
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
            standings: vec![None; ranks as usize],
            before: 0,
            doublings: 0,
            switches: 0,
            parted: false,
        }
    }

    /// The table that all ranks use, or have agreed to.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// How many times the ranks have agreed to another table.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// Takes a frame of a rank; gives what follows from it.
    pub fn handle(&mut self, rank: Rank, frame: Frame) -> Option<(To, Frame)> {
        match frame {
            Frame::Standing { position, report } if report.rank == rank => {
                *self.standings.get_mut(rank.index())? = Some((position, report));
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

    /// All have agreed.
    fn take_up(&mut self) {
        if let Some((table, _)) = self.proposed.take() {
            self.table = table;
            self.switches += 1;
            self.doublings = 0;
            // What was said of the table before says nothing of this one.
            self.standings.fill(None);
        }
    }

    /// A rank has refused, or asks because it cannot wait any longer.
    fn give_up(&mut self, message: &Message) {
        self.proposed = None;
        let late = matches!(message, Message::Refuse { refusal: Refusal::Late { .. }, .. });
        if late || matches!(message, Message::Ask { .. }) {
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
    }

    /// To be called in even steps of time, of about as long as a few round trips: proposes a better table if there
    /// is one.
    pub fn turn(&mut self) -> Vec<(To, Frame)> {
        if let Some((_, turns)) = &mut self.proposed {
            *turns += 1;
            if *turns <= PATIENCE {
                return Vec::new();
            }
            self.proposed = None;
            return self.leader.abort().map(agreement).into_iter().collect();
        }
        // All ranks must have spoken of this table: a rank that is not heard of cannot agree.
        let checksum = Some(self.table.checksum());
        let known = self.standings.iter().flatten().filter(|it| it.1.table == checksum);
        let (positions, reports): (Vec<Operation>, Vec<Report>) = known.cloned().unzip();
        let foremost = positions.into_iter().max().unwrap_or(0);
        let begun = foremost.saturating_sub(self.before);
        self.before = foremost;
        if self.parted || reports.len() < self.standings.len() || begun == 0 {
            return Vec::new();
        }
        let Some(table) = self.pilot.steer(&self.table, &reports) else { return Vec::new() };
        if !same_keys(&table, &self.table) {
            return Vec::new();
        }
        let lead = (begun * LEAD_TURNS).max(LEAST_LEAD) << self.doublings;
        self.propose(foremost.saturating_add(lead), table)
    }

    fn propose(&mut self, at: Operation, table: Table) -> Vec<(To, Frame)> {
        let signature = self.signature;
        let target = Target::Table { checksum: table.checksum(), signature };
        let Ok(proposal) = self.leader.propose(at, target) else { return Vec::new() };
        let text = table.write();
        self.proposed = Some((table, 0));
        vec![(To::All, Frame::Table { signature, text }), agreement(proposal)]
    }

    /// A rank has gone; what is open ends, and nothing is proposed any more.
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

/// Which rank a message to the leader is of.
const fn speaker(message: &Message) -> Option<Rank> {
    match message {
        Message::Accept { rank, .. } | Message::Refuse { rank, .. } | Message::Ask { rank, .. } => {
            Some(*rank)
        }
        Message::Propose { .. } | Message::Verdict { .. } => None,
    }
}

/// Whoever has numbered the entries of one table can use the numbers with the other.
fn same_keys(one: &Table, other: &Table) -> bool {
    let keys = |it: &Table| it.entries().iter().map(|it| it.key).collect::<Vec<_>>();
    keys(one) == keys(other)
}

#[cfg(test)]
mod tests;
