//! [`Controller`]: gives each communication group its circuits in turn.
//!
//! It is a deterministic state machine: [`Input`]s in, [`Output`]s out, no IO and no clock. Time enters only as [`Timer`]s that it
//! has asked for. So a log of inputs replays to the same state, and a test can try all orders.
//!
//! **What it promises**, whatever is lost, late, doubled or crashes (`tests/` explores it):
//! - no port is in two circuits;
//! - no circuit is taken down while somebody may be sending over it;
//! - nobody may send over circuits that are not there;
//! - every group that all members ask for is granted or refused, in the order of asking among those that want the
//!   same ports.
//!
//! - `job`: jobs, their groups and what is known of their members;
//! - `serve`: the queue, and what a group at its head still waits for;
//! - `change`: circuits are changed on several switches in two phases;
//! - `switch`: what is known of the switches;
//! - `view`: read-only queries for dashboards and services.

mod change;
mod hand;
mod job;
mod serve;
mod switch;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Duration;
use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, Port, SwitchId};
use crate::journal::Event;
use crate::protocol::{
    GroupId, JobId, Member, Notice, Registration, Report, Stance, TenantId, Word,
};
use change::Change;
use job::{Group, Job};
use switch::{Status, Switch};

pub use job::RegisterError;
pub use switch::{Answer, Order};
pub use view::{Contact, GroupView, SwitchView};

/// The number of a change of circuits; changes are numbered in the order in which they begin.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ChangeId(pub u64);

impl std::fmt::Display for ChangeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "change {}", self.0)
    }
}

/// An event that the controller reacts to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Register(Registration),
    /// A job has ended, or its members have been silent for so long that it counts as ended.
    Leave(JobId),
    Report(Report),
    Switch(SwitchId, Answer),
    Timer(Timer),
}

/// What the controller wants done in reaction to an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Registered(JobId, Result<(), RegisterError>),
    Notice(Notice),
    Order(SwitchId, Order),
    /// Hand [`Input::Timer`] back after that time. Timers are never cancelled: one that has become pointless does nothing.
    Timer(Timer, Duration),
    Journal(Event),
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The group with this ticket is still blocked: the members in its way are recalled again, in case the first recall got lost.
    Nudge(u64),
    /// The group with this ticket has waited for [`Policy::patience`] and is refused if it can be.
    Patience(u64),
    /// Groups of this job that are ready have been collected for [`Policy::gather`] and are now changed together.
    Gather(JobId),
    /// The group with this ticket was in a deadlock [`Policy::stuck`] ago and is refused if it still is.
    Stuck(u64),
    /// The time for this phase of a change is over; switches that have not answered count as lost.
    Change(ChangeId, Phase),
    /// A group's next attempt after a change that failed.
    Retry(JobId, GroupId),
    /// The next attempt to reach a switch that was lost.
    Reach(SwitchId),
}

/// The phase of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Preparing,
    Applying,
    Reverting,
}

/// The controller's time-outs, and how many ports a tenant may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How long a group that is ready waits for other groups of its job, before circuits are changed for all
    /// of them at once. All groups of a job pass from one phase to the next together; if their circuits were
    /// changed one after the other, each would wait for a reconfiguration of its own.
    pub gather: Duration,
    /// The time after which members that are in a group's way are recalled again.
    pub nudge: Duration,
    /// How long a group may wait for ports that other groups do not release, before it is refused.
    pub patience: Duration,
    /// How long a deadlock may last before a group in it is refused: one of the group's members waits for its
    /// circuits, while a call of another group, which keeps the ports busy, cannot end before that same
    /// member joins it. Only a wrongly predicted call leads to this.
    pub stuck: Duration,
    /// How long a switch may take to answer in one phase of a change, before it counts as lost.
    pub answer: Duration,
    /// The time after which a failed change is tried again, or a lost switch contacted again.
    pub retry: Duration,
    /// How many changes for a group may fail in a row before the group is refused.
    pub attempts: u32,
    /// The most ports that all jobs of a tenant may have together. Tenants that are not listed have no limit.
    pub quotas: BTreeMap<TenantId, usize>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            gather: Duration::from_us(100),
            nudge: Duration::from_ms(50),
            patience: Duration::from_ms(10_000),
            stuck: Duration::from_ms(20),
            answer: Duration::from_ms(2_000),
            retry: Duration::from_ms(500),
            attempts: 3,
            quotas: BTreeMap::new(),
        }
    }
}

type Key = (JobId, GroupId);

/// The controller of a cluster's optical switches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    policy: Policy,
    switches: BTreeMap<SwitchId, Switch>,
    jobs: BTreeMap<JobId, Job>,
    /// The job and the member that each port belongs to.
    owners: BTreeMap<Port, (JobId, Member)>,
    /// The complete groups by ticket, lowest first.
    queue: BTreeMap<u64, Key>,
    /// For each port, the tickets of the queued groups that need it.
    lines: BTreeMap<Port, BTreeSet<u64>>,
    /// How many tickets were given so far, which is the next ticket.
    tickets: u64,
    /// By job, the tickets of groups that are ready and wait for [`Timer::Gather`].
    gathered: BTreeMap<JobId, BTreeSet<u64>>,
    changes: BTreeMap<ChangeId, Change>,
    /// How many changes have begun so far.
    begun: u64,
    /// Tickets to look at again because of the present input. Empty between inputs.
    work: BTreeSet<u64>,
}

impl Controller {
    /// A controller of `switches`, each given with its number of ports, and the orders that read their present circuits. `jobs` are
    /// those that the journal has after a restart: until their members have reported, they may be sending over any circuit that is set.
    #[must_use]
    pub fn new(
        policy: Policy,
        switches: &[(SwitchId, u32)],
        jobs: &[Registration],
    ) -> (Self, Vec<Output>) {
        let switches = switches.iter().map(|(id, ports)| (*id, Switch::new(*id, *ports)));
        let mut new = Self {
            policy,
            switches: switches.collect(),
            jobs: BTreeMap::new(),
            owners: BTreeMap::new(),
            queue: BTreeMap::new(),
            lines: BTreeMap::new(),
            tickets: 0,
            gathered: BTreeMap::new(),
            changes: BTreeMap::new(),
            begun: 0,
            work: BTreeSet::new(),
        };
        let mut out = Vec::new();
        let all: Vec<SwitchId> = new.switches.keys().copied().collect();
        for switch in all {
            new.read(switch, &mut out);
        }
        for registration in jobs {
            let result = new.register(registration, false);
            if result.is_ok() {
                new.ask_all(registration, &mut out);
            }
            out.push(Output::Registered(registration.job, result));
        }
        (new, out)
    }

    /// Handles an input; returns the outputs, to be carried out in this order.
    pub fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Register(it) => {
                let (job, tenant) = (it.job, it.tenant);
                let known = self.jobs.contains_key(&job);
                let result = self.register(&it, true);
                if result.is_ok() && !known {
                    out.push(Output::Journal(Event::Registered { job, tenant }));
                }
                out.push(Output::Registered(job, result));
            }
            Input::Leave(job) => self.leave(job, &mut out),
            Input::Report(it) => self.take(&it, &mut out),
            Input::Switch(switch, answer) => self.answered(switch, answer, &mut out),
            Input::Timer(timer) => self.rung(timer, &mut out),
        }
        self.serve(&mut out);
        out
    }

    /// All circuits that are known to be set.
    pub fn circuits(&self) -> impl Iterator<Item = Circuit> {
        let up = self.switches.values().filter(|it| it.status == Status::Up);
        up.flat_map(Switch::circuits)
    }

    /// How many groups are in the queue, and how many changes are under way.
    #[must_use]
    pub fn pending(&self) -> (usize, usize) {
        (self.queue.len(), self.changes.len())
    }

    /// The registrations of all jobs, which a service must store to restart after a crash.
    pub fn registrations(&self) -> impl Iterator<Item = &Registration> {
        self.jobs.values().map(|it| &it.registration)
    }

    /// A member's stance in a group, as far as it is known.
    #[must_use]
    pub fn stance(&self, job: JobId, group: GroupId, member: Member) -> Option<Stance> {
        let view = self.jobs.get(&job)?.groups.get(&group)?.views.get(&member)?;
        view.known.then_some(view.stance)
    }

    /// Whether a timer would still do something. Others may be dropped.
    #[must_use]
    pub fn minds(&self, timer: &Timer) -> bool {
        match timer {
            Timer::Nudge(ticket) | Timer::Patience(ticket) | Timer::Stuck(ticket) => {
                self.queue.contains_key(ticket)
            }
            Timer::Gather(job) => self.gathered.contains_key(job),
            Timer::Change(id, phase) => self.changes.get(id).is_some_and(|it| it.is_in(*phase)),
            Timer::Retry(job, group) => self.group((*job, *group)).is_some_and(|it| it.paused),
            Timer::Reach(switch) => {
                self.switches.get(switch).is_some_and(|it| it.status != Status::Up)
            }
        }
    }

    fn register(&mut self, it: &Registration, known: bool) -> Result<(), RegisterError> {
        if let Some(job) = self.jobs.get(&it.job) {
            let same = job.registration == *it;
            return if same { Ok(()) } else { Err(RegisterError::Exists(it.job)) };
        }
        let job = Job::new(it, known)?;
        for (_, port) in &it.ports {
            if !self.switches.get(&port.switch).is_some_and(|it| it.has(port.number)) {
                return Err(RegisterError::NoSuchPort(*port));
            }
            if let Some((job, _)) = self.owners.get(port) {
                return Err(RegisterError::PortTaken { port: *port, job: *job });
            }
        }
        let tenants = self.jobs.values().filter(|that| that.registration.tenant == it.tenant);
        let would = tenants.map(|it| it.registration.ports.len()).sum::<usize>() + it.ports.len();
        if let Some(most) = self.policy.quotas.get(&it.tenant).filter(|most| would > **most) {
            return Err(RegisterError::Quota { tenant: it.tenant, would, most: *most });
        }
        self.owners.extend(it.ports.iter().map(|(member, port)| (*port, (it.job, *member))));
        self.jobs.insert(it.job, job);
        Ok(())
    }

    fn ask_all(&self, registration: &Registration, out: &mut Vec<Output>) {
        let job = registration.job;
        for spec in &registration.groups {
            let members = spec.members.iter();
            out.extend(members.map(|member| {
                let what = Word::Report;
                Output::Notice(Notice { job, member: *member, group: spec.id, what })
            }));
        }
    }

    /// A job is gone: none of its members sends any more, so its circuits may be taken down.
    fn leave(&mut self, job: JobId, out: &mut Vec<Output>) {
        let Some(gone) = self.jobs.remove(&job) else { return };
        self.gathered.remove(&job);
        out.push(Output::Journal(Event::Left { job }));
        for group in gone.groups.values() {
            if let Some(ticket) = group.ticket {
                self.dequeue(ticket, &group.ports);
            }
        }
        let ports: Vec<Port> = gone.registration.ports.iter().map(|it| it.1).collect();
        for port in &ports {
            self.owners.remove(port);
        }
        self.clean_up(&ports, out);
    }

    fn take(&mut self, report: &Report, out: &mut Vec<Output>) {
        let key = (report.job, report.group);
        let Some(group) = self.group_mut(key) else { return };
        let Some(view) = group.views.get_mut(&report.member) else { return };
        if view.update(report) {
            self.note(key, out);
        } else if view.version == report.version
            && matches!(report.stance, Stance::Asking { .. })
            && let Some(reply) = view.reply
        {
            // The member repeats a request that was answered, so the answer was lost.
            let what = Word::Reply { version: view.version, reply };
            let (job, member, group) = (report.job, report.member, report.group);
            out.push(Output::Notice(Notice { job, member, group, what }));
        }
    }

    fn answered(&mut self, id: SwitchId, answer: Answer, out: &mut Vec<Output>) {
        let Some(switch) = self.switches.get_mut(&id) else { return };
        match answer {
            Answer::Circuits(circuits) => {
                if switch.status == Status::Up {
                    return;
                }
                let twice = switch.read(&circuits);
                let circuits = u32::try_from(circuits.len()).unwrap_or(u32::MAX);
                out.push(Output::Journal(Event::SwitchRead { switch: id, circuits }));
                out.extend(
                    twice.into_iter().map(|port| Output::Journal(Event::PortTwice { port })),
                );
                self.work.extend(self.queue.keys());
            }
            Answer::Prepared(change) => self.part_done(change, id, Phase::Preparing, out),
            Answer::Applied(change) => self.part_done(change, id, Phase::Applying, out),
            Answer::Rejected(change) => self.part_rejected(change, id, out),
            Answer::Lost => self.lost(id, out),
            Answer::PortFailed(number) => {
                switch.set_failed(number, true);
                let port = Port { switch: id, number };
                out.push(Output::Journal(Event::PortFailed { port }));
                self.recall_users(port, out);
            }
            Answer::PortRepaired(number) => {
                switch.set_failed(number, false);
                let port = Port { switch: id, number };
                out.push(Output::Journal(Event::PortRepaired { port }));
                self.work.extend(self.queue.keys());
            }
        }
    }

    /// Recalls all members that hold circuits over a failed port: they will ask again and be told to use the packet network.
    fn recall_users(&mut self, port: Port, out: &mut Vec<Output>) {
        let Some((job, _)) = self.owners.get(&port) else { return };
        let Some(groups) = self.jobs.get(job).map(|it| &it.groups) else { return };
        for (group, it) in groups.iter().filter(|it| it.1.ports.contains(&port)) {
            for (member, view) in &it.views {
                if view.stance == Stance::Holding {
                    let (job, member, group) = (*job, *member, *group);
                    out.push(Output::Notice(Notice { job, member, group, what: Word::Recall }));
                }
            }
        }
    }

    fn rung(&mut self, timer: Timer, out: &mut Vec<Output>) {
        if !self.minds(&timer) {
            return;
        }
        match timer {
            Timer::Nudge(ticket) => {
                self.work.insert(ticket);
            }
            Timer::Patience(ticket) => self.impatient(ticket, out),
            Timer::Stuck(ticket) => self.unstick(ticket, out),
            Timer::Gather(job) => self.begin_gathered(job, out),
            Timer::Change(change, phase) => self.silent(change, phase, out),
            Timer::Retry(job, group) => {
                if let Some(it) = self.group_mut((job, group)) {
                    it.paused = false;
                    let ticket = it.ticket;
                    self.work.extend(ticket);
                }
            }
            Timer::Reach(switch) => self.read(switch, out),
        }
    }

    /// Asks a switch for its circuits, and repeats that until it has answered.
    fn read(&mut self, switch: SwitchId, out: &mut Vec<Output>) {
        out.push(Output::Order(switch, Order::Read));
        out.push(Output::Timer(Timer::Reach(switch), self.policy.retry));
    }

    fn group(&self, (job, group): Key) -> Option<&Group> {
        self.jobs.get(&job)?.groups.get(&group)
    }

    fn group_mut(&mut self, (job, group): Key) -> Option<&mut Group> {
        self.jobs.get_mut(&job)?.groups.get_mut(&group)
    }
}
