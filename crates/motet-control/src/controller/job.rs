//! [`Job`] and [`Group`]: what the controller knows of registered jobs, their groups and their members' state.

use std::collections::{BTreeMap, BTreeSet};

use crate::circuit::{Circuit, Port};
use crate::controller::ChangeId;
use crate::protocol::{GroupId, JobId, Member, Registration, Reply, Report, Stance, TenantId};

/// Why a job's registration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error("{0} is registered already with other groups; give the job a new number")]
    Exists(JobId),
    #[error("{port} is used by {job}; it is free when that job has ended")]
    PortTaken { port: Port, job: JobId },
    #[error("there is no {0}; check the cabling against the switches that the controller drives")]
    NoSuchPort(Port),
    #[error("{0} is listed twice; a port belongs to one member")]
    PortTwice(Port),
    #[error("{0} is listed twice; number groups uniquely within the job")]
    GroupTwice(GroupId),
    #[error("{0} has no members")]
    NoMembers(GroupId),
    #[error("{group} has a circuit {circuit} over a port that belongs to none of its members")]
    ForeignPort { group: GroupId, circuit: Circuit },
    #[error("{group} has two circuits over {port}; a port is in one circuit at a time")]
    PortInTwo { group: GroupId, port: Port },
    #[error(
        "{tenant} would have {would} ports and may have {most}; end another job or ask for more"
    )]
    Quota { tenant: TenantId, would: usize, most: usize },
}

/// What the controller knows of one member's state in one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// `false` after a restart until the member has reported: it may hold the circuits, and be sending.
    pub(super) known: bool,
    /// The version of the member's last report; the fields after it are those of that report.
    pub(super) version: u64,
    pub(super) stance: Stance,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) host: u64,
    pub(super) run: u64,
    /// The reply to the report of that version, to be repeated if it got lost.
    pub(super) reply: Option<Reply>,
}

impl View {
    const NEW: Self = Self {
        known: true,
        version: 0,
        stance: Stance::Away,
        begun: 0,
        ended: 0,
        host: 0,
        run: 0,
        reply: None,
    };

    /// Whether it may be sending over the group's circuits, or may begin to without asking.
    pub(super) fn may_send(&self) -> bool {
        !self.known || self.stance == Stance::Holding || self.begun > self.ended
    }

    pub(super) const fn is_news(&self, report: &Report) -> bool {
        !self.known || report.version > self.version
    }

    /// Takes over a report unless it is older than what is known; returns whether it changed anything.
    pub(super) fn update(&mut self, report: &Report) -> bool {
        if !self.is_news(report) {
            return false;
        }
        *self = Self {
            known: true,
            version: report.version,
            stance: report.stance,
            begun: report.begun,
            ended: report.ended,
            host: report.host,
            run: report.run,
            reply: None,
        };
        true
    }
}

/// A group: its members, their state, and how far its request for circuits has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) circuits: Vec<Circuit>,
    pub(super) ports: Vec<Port>,
    pub(super) views: BTreeMap<Member, View>,
    /// Its place in the queue; `None` unless it is complete, that is, all members want its circuits.
    pub(super) ticket: Option<u64>,
    /// The change under way that sets its circuits.
    pub(super) change: Option<ChangeId>,
    /// How many changes for it have failed in a row.
    pub(super) attempts: u32,
    /// Whether a change for it has failed and [`Timer::Retry`](super::Timer::Retry) has not come yet.
    pub(super) paused: bool,
}

impl Group {
    /// The lowest call number that any member asks for.
    pub(super) fn asked(&self) -> Option<u64> {
        let asked = self.views.values().filter_map(|it| match it.stance {
            Stance::Asking { call } => Some(call),
            Stance::Away | Stance::Holding => None,
        });
        asked.min()
    }

    /// Whether somebody asks, and all others do too, or hold the circuits, or have begun that call.
    pub(super) fn is_complete(&self) -> bool {
        let Some(call) = self.asked() else { return false };
        self.views.values().all(|it| it.known && (it.stance != Stance::Away || it.begun >= call))
    }

    /// The highest call number that any member without a grant has begun. Members with a grant begin calls without telling.
    pub(super) fn foremost(&self) -> u64 {
        let begun = self.views.values().filter(|it| it.stance != Stance::Holding);
        begun.map(|it| it.begun).max().unwrap_or(0)
    }

    /// Whether a member asks for a call that another one has begun already: that call cannot end before all members have joined it.
    pub(super) fn is_urgent(&self) -> bool {
        self.asked().is_some_and(|it| it <= self.foremost())
    }

    /// Whether another member has already taken the packet network for the call that is asked for.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.asked().is_some_and(|call| self.views.values().any(|it| it.host == call))
    }

    /// Whether all asking members will make the same number of calls before they turn to another group, which makes a grant safe (see
    /// [`protocol`](crate::protocol)).
    pub(super) fn goes_on_alike(&self) -> bool {
        let asks = |it: &&View| matches!(it.stance, Stance::Asking { .. });
        let mut runs = self.views.values().filter(asks).map(|it| it.run);
        let first = runs.next().unwrap_or(0);
        first > 0 && runs.all(|it| it == first)
    }

    /// Whether all members ask, so that none has begun the call and all can be told to take another network.
    pub(super) fn all_ask(&self) -> bool {
        self.views.values().all(|it| it.known && matches!(it.stance, Stance::Asking { .. }))
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) registration: Registration,
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// The groups that use a circuit; several may share it.
    pub(super) users: BTreeMap<Circuit, Vec<GroupId>>,
}

impl Job {
    /// Checks a registration by itself, without regard to other jobs. With `known` false, as after a restart, members may be holding
    /// circuits and sending until they report.
    pub(super) fn new(registration: &Registration, known: bool) -> Result<Self, RegisterError> {
        let mut owners = BTreeMap::new();
        for (member, port) in &registration.ports {
            if owners.insert(*port, *member).is_some() {
                return Err(RegisterError::PortTwice(*port));
            }
        }
        let mut job = Self {
            registration: registration.clone(),
            groups: BTreeMap::new(),
            users: BTreeMap::new(),
        };
        for spec in &registration.groups {
            let group = spec.id;
            if spec.members.is_empty() {
                return Err(RegisterError::NoMembers(group));
            }
            let mut ports = BTreeSet::new();
            // A set, because a registration comes from outside and may list millions of members.
            let members: BTreeSet<&Member> = spec.members.iter().collect();
            for circuit in &spec.circuits {
                for port in circuit.ends() {
                    let mine = owners.get(&port).is_some_and(|it| members.contains(it));
                    if !mine {
                        return Err(RegisterError::ForeignPort { group, circuit: *circuit });
                    }
                    if !ports.insert(port) {
                        return Err(RegisterError::PortInTwo { group, port });
                    }
                }
                job.users.entry(*circuit).or_default().push(group);
            }
            let view = View { known, ..View::NEW };
            let made = Group {
                circuits: spec.circuits.clone(),
                ports: ports.into_iter().collect(),
                views: spec.members.iter().map(|it| (*it, view.clone())).collect(),
                ticket: None,
                change: None,
                attempts: 0,
                paused: false,
            };
            if job.groups.insert(group, made).is_some() {
                return Err(RegisterError::GroupTwice(group));
            }
        }
        Ok(job)
    }
}
