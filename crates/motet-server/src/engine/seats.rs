//! [`Seats`]: which member is on which connection, and which jobs have no connected members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use motet_control::Controller;
use motet_control::protocol::{JobId, Member, Notice, Registration, TenantId};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::inbox::{ConnectionId, JoinError};

/// Time-outs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a member may be disconnected before its job counts as ended. A job without any connection ends after this, too.
    pub absence: Duration,
}

/// The connections of all members.
#[derive(Debug)]
pub(super) struct Seats {
    limits: Limits,
    connections: BTreeMap<ConnectionId, Connection>,
    places: FxHashMap<(JobId, Member), ConnectionId>,
    jobs: BTreeMap<JobId, Attendance>,
}

#[derive(Debug)]
struct Connection {
    sender: mpsc::Sender<Vec<Notice>>,
    /// The task that reads from the client stops when this is dropped.
    _open: oneshot::Sender<()>,
    seats: BTreeSet<(JobId, Member)>,
    /// Notices that will be sent to it together.
    notices: Vec<Notice>,
}

/// How many members a job has, and how many of them have a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    pub members: usize,
    pub here: usize,
}

/// Which members of a job are connected.
#[derive(Debug)]
struct Attendance {
    members: BTreeSet<Member>,
    here: usize,
    /// Members that were connected and are not any more, with the time since when.
    gone: BTreeMap<Member, Instant>,
    /// Since when no member has been connected.
    alone: Option<Instant>,
}

impl Seats {
    pub(super) const fn new(limits: Limits) -> Self {
        let places = FxHashMap::with_hasher(rustc_hash::FxBuildHasher);
        Self { limits, connections: BTreeMap::new(), places, jobs: BTreeMap::new() }
    }

    /// A job is registered, so its members are expected to connect. If it was `there` before this process
    /// started, all its members count as having been connected before.
    pub(super) fn expect(&mut self, job: &Registration, there: bool, now: Instant) {
        let members = job.groups.iter().flat_map(|it| &it.members);
        let members: BTreeSet<Member> =
            members.chain(job.ports.iter().map(|it| &it.0)).copied().collect();
        let gone =
            if there { members.iter().map(|it| (*it, now)).collect() } else { BTreeMap::new() };
        let presence = Attendance { members, here: 0, gone, alone: Some(now) };
        self.jobs.entry(job.job).or_insert(presence);
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.places.retain(|it, _| it.0 != job);
        for connection in self.connections.values_mut() {
            connection.seats.retain(|it| it.0 != job);
        }
    }

    pub(super) fn connect(
        &mut self,
        id: ConnectionId,
        sender: mpsc::Sender<Vec<Notice>>,
        open: oneshot::Sender<()>,
    ) {
        let (seats, notices) = (BTreeSet::new(), Vec::new());
        self.connections.insert(id, Connection { sender, _open: open, seats, notices });
    }

    /// How many members have a connection.
    pub(super) fn joined(&self) -> i64 {
        i64::try_from(self.places.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn presence(&self, job: JobId) -> Presence {
        let job = self.jobs.get(&job);
        job.map_or_else(Presence::default, |it| Presence {
            members: it.members.len(),
            here: it.here,
        })
    }

    pub(super) fn absent(&self, job: JobId, most: usize) -> Vec<Member> {
        let members = self.jobs.get(&job).into_iter().flat_map(|it| &it.members);
        let absent = members.filter(|it| !self.places.contains_key(&(job, **it)));
        absent.take(most).copied().collect()
    }

    /// Assigns members to this connection: all of them or none.
    pub(super) fn join(
        &mut self,
        controller: &Controller,
        id: ConnectionId,
        seats: &[(JobId, Member)],
        tenant: Option<TenantId>,
    ) -> Result<(), JoinError> {
        for (job, member) in seats {
            let registration = controller.registration(*job);
            // A job of another tenant is treated as if it did not exist, so that the answer does not reveal
            // which jobs there are.
            let registration =
                registration.filter(|it| tenant.is_none_or(|mine| it.tenant == mine));
            let presence = self.jobs.get(job).filter(|_| registration.is_some());
            let Some(presence) = presence else { return Err(JoinError::NoSuchJob(*job)) };
            if !presence.members.contains(member) {
                return Err(JoinError::NoSuchMember(*job, *member));
            }
        }
        for seat in seats {
            let before = self.places.insert(*seat, id);
            if before == Some(id) {
                continue;
            }
            match before {
                // A member has one connection at a time, and the newer one wins.
                Some(before) => {
                    if let Some(it) = self.connections.get_mut(&before) {
                        it.seats.remove(seat);
                    }
                }
                None => {
                    if let Some(it) = self.jobs.get_mut(&seat.0) {
                        it.here += 1;
                        it.alone = None;
                        it.gone.remove(&seat.1);
                    }
                }
            }
            if let Some(it) = self.connections.get_mut(&id) {
                it.seats.insert(*seat);
            }
        }
        Ok(())
    }

    /// Whether a member uses this connection. It does not any more if it has joined on another one since, or
    /// if its job has ended; the next job of that number may be another tenant's.
    pub(super) fn speaks(&self, id: ConnectionId, job: JobId, member: Member) -> bool {
        self.places.get(&(job, member)) == Some(&id)
    }

    /// Removes a connection that has ended; returns whether it was still there.
    pub(super) fn gone(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(connection) = self.connections.remove(&id) else { return false };
        for seat in connection.seats {
            self.places.remove(&seat);
            if let Some(it) = self.jobs.get_mut(&seat.0) {
                it.here = it.here.saturating_sub(1);
                it.gone.insert(seat.1, now);
                if it.here == 0 {
                    it.alone = Some(now);
                }
            }
        }
        true
    }

    /// Jobs that have had no connection, or have missed a member that was connected before, for too long.
    pub(super) fn abandoned(&self, now: Instant) -> Vec<JobId> {
        let long = |since: &Instant| now.duration_since(*since) >= self.limits.absence;
        let jobs = self
            .jobs
            .iter()
            .filter(|it| it.1.alone.as_ref().is_some_and(long) || it.1.gone.values().any(long));
        jobs.map(|it| *it.0).collect()
    }

    /// Sends notices to members. Returns the connections that are full, which are to be closed: members
    /// connect again and report, so nothing is lost. A connection that has ended is ignored here, because its
    /// end is reported separately.
    pub(super) fn tell(&mut self, notices: Vec<Notice>) -> Vec<ConnectionId> {
        let mut told = BTreeSet::new();
        for notice in notices {
            let Some(id) = self.places.get(&(notice.job, notice.member)) else { continue };
            if let Some(connection) = self.connections.get_mut(id) {
                connection.notices.push(notice);
                told.insert(*id);
            }
        }
        let slow = told.into_iter().filter(|id| {
            let Some(connection) = self.connections.get_mut(id) else { return false };
            let notices = std::mem::take(&mut connection.notices);
            matches!(connection.sender.try_send(notices), Err(TrySendError::Full(_)))
        });
        slow.collect()
    }
}
