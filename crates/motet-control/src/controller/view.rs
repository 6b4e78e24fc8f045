//! Read-only views of a controller, for dashboards and services, and the one setting that a restart needs.

use serde::{Deserialize, Serialize};

use super::switch::Status;
use super::{ChangeId, Controller, Phase};
use crate::circuit::{Circuit, Port, SwitchId};
use crate::protocol::{GroupId, JobId, Member, Registration, Report, Stance};

/// Whether a switch answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contact {
    /// It was asked for its circuits and has not answered yet.
    Unread,
    Up,
    Down,
}

/// A switch's state as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchView {
    pub id: SwitchId,
    pub ports: u32,
    pub contact: Contact,
    /// How many circuits are set; 0 while the switch is not up, because they are not known then.
    pub circuits: usize,
    /// How many ports belong to a change under way.
    pub locked: usize,
    pub failed: Vec<u32>,
}

/// A group's state as the controller knows it: how many of its circuits are set, and how many members are in each stance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    pub group: GroupId,
    pub circuits: usize,
    pub set: usize,
    pub queued: bool,
    pub changing: bool,
    pub away: usize,
    pub asking: usize,
    pub holding: usize,
    /// How many members have not reported since the controller started.
    pub unknown: usize,
}

impl Controller {
    pub fn switches(&self) -> impl Iterator<Item = SwitchView> {
        self.switches.values().map(|it| SwitchView {
            id: it.id(),
            ports: it.ports(),
            contact: match it.status {
                Status::Unread => Contact::Unread,
                Status::Up => Contact::Up,
                Status::Down => Contact::Down,
            },
            circuits: if it.status == Status::Up { it.circuits().count() } else { 0 },
            locked: it.locked(),
            failed: it.failures().collect(),
        })
    }

    /// The groups of a job; none if there is no such job.
    pub fn groups(&self, job: JobId) -> impl Iterator<Item = GroupView> {
        let groups = self.jobs.get(&job).into_iter().flat_map(|it| &it.groups);
        groups.map(|(id, it)| {
            let is_set = |circuit: &&Circuit| {
                let switch = self.switches.get(&circuit.switch);
                switch.is_some_and(|it| it.status == Status::Up && it.is_set(circuit))
            };
            let mut view = GroupView {
                group: *id,
                circuits: it.circuits.len(),
                set: it.circuits.iter().filter(is_set).count(),
                queued: it.ticket.is_some(),
                changing: it.change.is_some(),
                ..GroupView::default()
            };
            for member in it.views.values() {
                let count = match (member.known, member.stance) {
                    (false, _) => &mut view.unknown,
                    (true, Stance::Away) => &mut view.away,
                    (true, Stance::Asking { .. }) => &mut view.asking,
                    (true, Stance::Holding) => &mut view.holding,
                };
                *count += 1;
            }
            view
        })
    }

    /// A job as it was registered.
    #[must_use]
    pub fn registration(&self, job: JobId) -> Option<&Registration> {
        self.jobs.get(&job).map(|it| &it.registration)
    }

    /// The job and member whose port this is.
    #[must_use]
    pub fn owner(&self, port: Port) -> Option<(JobId, Member)> {
        self.owners.get(&port).copied()
    }

    /// The groups that use this circuit; several groups of a job may share one.
    pub fn users(&self, circuit: &Circuit) -> impl Iterator<Item = GroupId> {
        let owner = circuit.ends().into_iter().find_map(|port| self.owners.get(&port));
        let job = owner.and_then(|it| self.jobs.get(&it.0));
        job.and_then(|it| it.users.get(circuit)).into_iter().flatten().copied()
    }

    /// Whether a member may be sending over a group's circuits, or may begin to without asking.
    #[must_use]
    pub fn may_send(&self, job: JobId, group: GroupId, member: Member) -> bool {
        let view = self.group((job, group)).and_then(|it| it.views.get(&member));
        view.is_some_and(super::job::View::may_send)
    }

    /// Whether a report is newer than the last one received from its member in its group. Reports that are repeated or arrive late are
    /// not.
    #[must_use]
    pub fn is_news(&self, report: &Report) -> bool {
        let view =
            self.group((report.job, report.group)).and_then(|it| it.views.get(&report.member));
        view.is_some_and(|it| it.is_news(report))
    }

    /// Whether a member may be sending over a circuit, so that the controller will not take it down.
    #[must_use]
    pub fn is_in_use(&self, circuit: &Circuit) -> bool {
        !self.senders(circuit).is_empty()
    }

    /// The changes that are under way.
    pub fn changes(&self) -> impl Iterator<Item = (ChangeId, Phase)> {
        self.changes.iter().map(|(id, it)| (*id, it.phase()))
    }

    /// Numbers changes from `first` on, so that after a restart no change has a number that the journal already uses.
    pub fn number_changes_from(&mut self, first: ChangeId) {
        self.begun = self.begun.max(first.0);
    }
}
