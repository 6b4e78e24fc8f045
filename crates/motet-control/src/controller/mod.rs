//! [`Controller`]: gives each communication group its circuits in turn.
//!
//! It is a function of what it was told: [`Input`]s in, [`Output`]s out, no IO and no clock. Time only comes in as
//! [`Timer`]s that it has asked for. So a log of inputs replays to the same state, and a test can try all orders.
//!
//! **What it promises**, whatever is lost, late, doubled or crashes (`tests/` explores it):
//! - no port is in two circuits;
//! - no circuit is taken down while somebody may be sending over it;
//! - nobody may send over circuits that are not there;
//! - every group that all members ask for is granted or refused, in the order of asking among those that want the
//!   same ports.
//!
//! - `job`: who asks, and what is known of them;
//! - `serve`: the queue, and what a group at its head still waits for;
//! - `change`: circuits are changed on several switches in two phases;
//! - `switch`: what is known of the switches;
//! - `view`: what others may see of it.

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

/// A change of circuits, in the order in which they were begun.
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

/// What the controller is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Register(Registration),
    /// A job has ended, or has not been heard of for so long that it must have.
    Leave(JobId),
    Report(Report),
    Switch(SwitchId, Answer),
    Timer(Timer),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Registered(JobId, Result<(), RegisterError>),
    Notice(Notice),
    Order(SwitchId, Order),
    /// Give [`Input::Timer`] back after that time. Timers are never stopped: one that is no longer of use does nothing.
    Timer(Timer, Duration),
    Journal(Event),
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A group at the head of the queue has waited: those in its way are told again.
    Nudge(u64),
    /// A group has waited for as long as the controller's patience lasts.
    Patience(u64),
    /// Groups of a job that can go have been gathered for long enough; see [`Policy::gather`].
    Gather(JobId),
    /// A group seems to wait for itself; see [`Policy::stuck`].
    Stuck(u64),
    /// Switches had time enough for this phase of a change.
    Change(ChangeId, Phase),
    /// A group may try again after a change that failed.
    Retry(JobId, GroupId),
    /// A switch that was lost is tried again.
    Reach(SwitchId),
}

/// Where a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Preparing,
    Applying,
    Reverting,
}

/// How long the controller waits for what, and how much a tenant may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// For other groups of the same job to become ready, before circuits are changed for all of them at once. Phases change on
    /// all groups of a job together, and a group's new circuits take down what another one waits for: one after the
    /// other, each would wait for the switch.
    pub gather: Duration,
    /// Before members that stand in the way are told again.
    pub nudge: Duration,
    /// Before a group is refused because others keep the ports.
    pub patience: Duration,
    /// Before a group is refused because a member of it is what keeps the ports busy: another member of another group has begun a
    /// call that cannot end before that member joins, and the member waits here first. Only a wrong guess of what comes
    /// next leads there.
    pub stuck: Duration,
    /// For a switch to answer.
    pub answer: Duration,
    /// Before a failed change, or a lost switch, is tried again.
    pub retry: Duration,
    /// Changes that may fail before the group is refused.
    pub attempts: u32,
    /// Ports that a tenant's jobs may have together, for those that are limited.
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

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    policy: Policy,
    switches: BTreeMap<SwitchId, Switch>,
    jobs: BTreeMap<JobId, Job>,
    owners: BTreeMap<Port, (JobId, Member)>,
    /// Complete groups by their tickets, and the tickets that want each port.
    queue: BTreeMap<u64, Key>,
    lines: BTreeMap<Port, BTreeSet<u64>>,
    tickets: u64,
    /// Tickets of each job's groups that are ready for a change.
    gathered: BTreeMap<JobId, BTreeSet<u64>>,
    changes: BTreeMap<ChangeId, Change>,
    /// How many changes there were.
    begun: u64,
    /// Tickets that may have become able to go. Empty between inputs.
    work: BTreeSet<u64>,
}

impl Controller {
    /// A controller of these switches, with so many ports each, and the orders to find out what they hold. `jobs` are those
    /// that the journal knows of after a restart: until their members have reported, they may be sending over
    /// whatever the switches hold.
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

    /// Takes an input, and gives what follows from it, in order.
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

    /// The circuits that are known to be set.
    pub fn circuits(&self) -> impl Iterator<Item = Circuit> {
        let up = self.switches.values().filter(|it| it.status == Status::Up);
        up.flat_map(Switch::circuits)
    }

    /// How many groups wait for circuits, and how many changes are under way.
    #[must_use]
    pub fn pending(&self) -> (usize, usize) {
        (self.queue.len(), self.changes.len())
    }

    /// The jobs as they were registered, which is what must be kept to start again after a crash.
    pub fn registrations(&self) -> impl Iterator<Item = &Registration> {
        self.jobs.values().map(|it| &it.registration)
    }

    /// What is known of a member's stance to a group.
    #[must_use]
    pub fn stance(&self, job: JobId, group: GroupId, member: Member) -> Option<Stance> {
        let view = self.jobs.get(&job)?.groups.get(&group)?.views.get(&member)?;
        view.known.then_some(view.stance)
    }

    /// Whether a timer is still of use. Those that are not may be forgotten.
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

    /// A job is gone: nothing of it sends any more, so its circuits may be taken down.
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
            // It asks again, so the answer was lost.
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

    /// Whoever holds circuits over a port that has failed asks again, and is told what to do instead.
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

    /// Asks a switch for its circuits, and again until it has answered.
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
