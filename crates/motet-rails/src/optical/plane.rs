//! [`ControlPlane`]: Opus' control plane in simulated time. Shims, managers and the controller are those of
//! [`motet_control`], which `motet serve` runs too, so what is simulated here is what is served.
//!
//! All ranks of a stage do the same at the same time, each with partners of its own. So one shim and one manager are simulated for
//! each stage instead of each rank, and the simulated switch has a few copies (*replicas*) of each stage's ports, enough that
//! every group can be given circuits between ports that no other group pairs up.
//!
//! Messages take no simulated time; their time is [`Delay::command`](super::Delay), which is added to each change of circuits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_control::controller::{Answer, Order, Policy};
use motet_control::journal::Event;
use motet_control::manager::{Manager, Network, Rule, Said};
use motet_control::protocol::{GroupSpec, Notice, Registration, Report, TenantId};
use motet_control::shim::{Call, Mode, Shim, Tell};
use motet_control::{
    Circuit, Controller, GroupId, Input, JobId, Member, Output, Port, SwitchId, Timer,
};
use motet_units::{Duration, Instant, Rank};

use super::circuits::{CircuitSet, SetKey, bits};
use super::{Held, Switching};

const JOB: JobId = JobId(0);
const SWITCH: SwitchId = SwitchId(0);
/// The rank number under which the one shim of a stage reports to its manager.
const RANK: Rank = Rank(0);

/// A simulated event.
#[derive(Clone, Debug)]
enum Happening {
    Report(Report),
    Notice(Notice),
    /// The switch has carried out an order.
    Switched(Order),
    Timer(Timer),
}

/// The network over which a call was allowed to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Rails,
    /// The packet network, because the controller refused the call circuits.
    Host,
}

/// The calls and circuits of one [`CircuitSet`]. The control plane sees the set as one communication group of
/// the job.
#[derive(Clone, Debug)]
struct Line {
    /// The managers that all must allow a call before it may start.
    members: Vec<usize>,
    circuits: Vec<Circuit>,
    /// Calls of the job, in order, about which the managers have not been asked yet, because they are asked
    /// about one call at a time.
    waiting: VecDeque<(usize, Call)>,
    /// The call that managers are being asked about.
    asked: Option<Asked>,
    /// When its circuits were set up; `None` while they are not.
    taken: Option<Taken>,
}

/// A call that managers are being asked about.
#[derive(Clone, Copy, Debug)]
struct Asked {
    operation: usize,
    /// How many managers have not allowed it yet.
    missing: usize,
    /// The network that it will use, by the answers so far.
    way: Way,
}

/// When the set-up of a set's circuits began and ended.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// When the change of circuits began; from then on no other set can use the ports.
    from: Instant,
    /// When the circuits can carry data.
    up: Instant,
}

/// The simulated control plane of one job. It is kept over many training steps, and its clock goes on from one to the next.
#[derive(Clone, Debug)]
pub(super) struct ControlPlane {
    controller: Controller,
    managers: Vec<Manager>,
    shims: Vec<Shim>,
    lines: Vec<Line>,
    delay: Duration,
    now: Instant,
    agenda: BTreeMap<(Instant, u64), Happening>,
    /// A counter that orders events of the same time by when they were scheduled.
    said: u64,
    /// By operation, the calls that are allowed to start or have started.
    free: BTreeMap<usize, Way>,
    held: Vec<Held>,
    changes: u64,
}

impl ControlPlane {
    /// The control plane of a job with these sets. With `whole_rail`, one manager acts for all stages.
    pub(super) fn new(
        sets: &[CircuitSet],
        switching: &Switching,
        mode: Mode,
        whole_rail: bool,
    ) -> Self {
        let stages = sets.iter().flat_map(|it| &it.ends).map(|it| it.0 + 1).max().unwrap_or(0);
        let speaker = |stage: u32| if whole_rail { 0 } else { stage };
        let speakers = if whole_rail { 1 } else { stages };
        let cabling = Cabling::new(sets, switching.ports);
        let lines: Vec<Line> = sets
            .iter()
            .map(|set| {
                let members: BTreeSet<usize> =
                    set.ends.iter().map(|it| speaker(it.0) as usize).collect();
                Line {
                    members: members.into_iter().collect(),
                    circuits: cabling.circuits(set),
                    waiting: VecDeque::new(),
                    asked: None,
                    taken: None,
                }
            })
            .collect();
        let ports = (0..cabling.ports_of(stages)).map(|number| {
            let member = Member(speaker(cabling.stage(number)));
            (member, Port { switch: SWITCH, number })
        });
        let groups = (0..).zip(&lines).map(|(id, it)| GroupSpec {
            id: GroupId(id),
            members: it.members.iter().map(|it| Member(*it as u32)).collect(),
            circuits: it.circuits.clone(),
        });
        let registration = Registration {
            job: JOB,
            tenant: TenantId(0),
            ports: ports.collect(),
            groups: groups.collect(),
            mode: None,
        };
        let managers = (0..speakers).map(|it| {
            let mine = |line: &&(u32, &Line)| line.1.members.contains(&(it as usize));
            let all: Vec<(u32, &Line)> = (0..).zip(&lines).collect();
            let groups = all.iter().filter(mine).map(|it| (GroupId(it.0), BTreeSet::from([RANK])));
            Manager::new(JOB, Member(it), groups.collect::<Vec<_>>(), Rule::default())
        });
        let managers = managers.collect();
        let delay = switching.delay.total();
        let policy = policy(delay);
        let (controller, out) = Controller::new(policy, &[(SWITCH, cabling.ports_of(stages))], &[]);
        let mut plane = Self {
            controller,
            managers,
            shims: (0..speakers).map(|_| Shim::new(mode)).collect(),
            lines,
            delay,
            now: Instant::START,
            agenda: BTreeMap::new(),
            said: 0,
            free: BTreeMap::new(),
            held: Vec::new(),
            changes: 0,
        };
        plane.take(out);
        plane.tell(Input::Register(registration));
        plane.until(Instant::START);
        plane
    }

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// Runs all events up to and including `now`.
    pub(super) fn until(&mut self, now: Instant) {
        while let Some(((at, _), _)) = self.agenda.first_key_value()
            && *at <= now
        {
            let Some(((at, _), what)) = self.agenda.pop_first() else { break };
            self.now = self.now.max(at);
            match what {
                Happening::Report(it) => self.tell(Input::Report(it)),
                Happening::Timer(it) => {
                    if self.controller.minds(&it) {
                        self.tell(Input::Timer(it));
                    }
                }
                Happening::Notice(it) => {
                    let speaker = it.member.0 as usize;
                    let said = self.managers.get_mut(speaker).map(|manager| manager.hear(&it));
                    self.heard(speaker, said.unwrap_or_default());
                }
                Happening::Switched(order) => {
                    if let Some(answer) = answer(&order) {
                        self.tell(Input::Switch(SWITCH, answer));
                    }
                }
            }
        }
        self.now = self.now.max(now);
    }

    /// The time of the next event.
    pub(super) fn next(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|it| it.0.0)
    }

    /// All ranks of a set make the call that is operation number `operation` of the step.
    pub(super) fn call(&mut self, set: usize, operation: usize, call: Call) {
        if let Some(line) = self.lines.get_mut(set) {
            line.waiting.push_back((operation, call));
        }
        self.ask(set);
        self.until(self.now);
    }

    /// The network that a call may start over; `None` while it has to wait.
    pub(super) fn may_go(&self, operation: usize) -> Option<Way> {
        self.free.get(&operation).copied()
    }

    pub(super) fn ended(&mut self, set: usize, operation: usize) {
        self.free.remove(&operation);
        let members = self.lines.get(set).map(|it| it.members.clone()).unwrap_or_default();
        for speaker in members {
            let tells = self.shims.get_mut(speaker).map(|it| it.ended(group(set)));
            for tell in tells.unwrap_or_default() {
                self.shim_says(speaker, tell);
            }
        }
        self.until(self.now);
    }

    /// A training step has ended.
    pub(super) fn iteration(&mut self) {
        let now = self.now;
        self.shims.iter_mut().for_each(|it| it.iteration(now));
    }

    /// Whether all shims have found out, for now, whether asking for circuits ahead of time pays.
    pub(super) fn is_settled(&self) -> bool {
        self.shims.iter().all(Shim::is_settled)
    }

    /// How many calls were not those that the shims had predicted.
    pub(super) fn missed(&self) -> u64 {
        self.shims.iter().map(|it| it.score().1).sum()
    }

    /// Which sets had their circuits when, since the last call of this function, and how often circuits were changed. Times
    /// count from `start`; what is still set is taken to last until `end`.
    pub(super) fn account(&mut self, start: Instant, end: Instant) -> (Vec<Held>, u64) {
        let mut held = std::mem::take(&mut self.held);
        let standing = self.lines.iter().enumerate();
        held.extend(standing.filter_map(|(set, it)| {
            let Taken { from, up } = it.taken?;
            Some(Held { set, taken: from, up, until: end })
        }));
        let from_start = |it: Instant| Instant::START + it.since(start.min(it));
        let held = held.into_iter().map(|it| Held {
            taken: from_start(it.taken.max(start)),
            up: from_start(it.up.max(start)),
            until: from_start(it.until.max(start)),
            ..it
        });
        (held.collect(), std::mem::take(&mut self.changes))
    }

    /// Asks a set's managers about its next call, unless they are being asked about one.
    fn ask(&mut self, set: usize) {
        let Some(line) = self.lines.get_mut(set).filter(|it| it.asked.is_none()) else { return };
        let Some((operation, call)) = line.waiting.pop_front() else { return };
        let (members, now) = (line.members.clone(), self.now);
        line.asked = Some(Asked { operation, missing: members.len(), way: Way::Rails });
        for speaker in members {
            if let Some(tell) = self.shims.get_mut(speaker).and_then(|it| it.call(call, now)) {
                self.shim_says(speaker, tell);
            }
        }
    }

    fn shim_says(&mut self, speaker: usize, tell: Tell) {
        let said = self.managers.get_mut(speaker).map(|it| it.tell(RANK, tell));
        self.heard(speaker, said.unwrap_or_default());
    }

    fn heard(&mut self, _speaker: usize, said: Vec<Said>) {
        for it in said {
            match it {
                Said::Report(report) => self.later(Duration::ZERO, Happening::Report(report)),
                Said::Go { group, network, .. } => self.goes(group.0 as usize, network),
            }
        }
    }

    /// A manager allows the call of a set that it was asked about. When all have, the call may start, and they are asked about the next.
    fn goes(&mut self, set: usize, network: Network) {
        let Some(line) = self.lines.get_mut(set) else { return };
        let Some(asked) = &mut line.asked else { return };
        if network == Network::Host {
            asked.way = Way::Host;
        }
        asked.missing -= 1;
        if asked.missing == 0 {
            self.free.insert(asked.operation, asked.way);
            line.asked = None;
            self.ask(set);
        }
    }

    fn tell(&mut self, input: Input) {
        let out = self.controller.handle(input);
        self.take(out);
    }

    fn take(&mut self, out: Vec<Output>) {
        for it in out {
            match it {
                Output::Notice(notice) => self.later(Duration::ZERO, Happening::Notice(notice)),
                Output::Order(_, order) => {
                    let time = match order {
                        Order::Apply { .. } => self.delay,
                        _ => Duration::ZERO,
                    };
                    self.later(time, Happening::Switched(order));
                }
                Output::Timer(timer, time) => self.later(time, Happening::Timer(timer)),
                Output::Journal(event) => self.note(&event),
                Output::Registered(..) => {}
            }
        }
    }

    fn later(&mut self, time: Duration, what: Happening) {
        self.said += 1;
        self.agenda.insert((self.now + time, self.said), what);
    }

    /// Records from the controller's journal which sets have their circuits when.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Begun { groups, delete, .. } => {
                for (set, line) in self.lines.iter_mut().enumerate() {
                    let goes = line.circuits.iter().any(|it| delete.contains(it));
                    if let Some(Taken { from, up }) = line.taken.take_if(|_| goes) {
                        self.held.push(Held { set, taken: from, up, until: self.now });
                    }
                }
                for it in groups {
                    self.changes += 1;
                    if let Some(line) = self.lines.get_mut(it.0 as usize) {
                        line.taken = Some(Taken { from: self.now, up: self.now + self.delay });
                    }
                }
            }
            // Granted without a change: earlier circuits were just what it needed.
            Event::Granted { group, .. } => {
                if let Some(line) = self.lines.get_mut(group.0 as usize) {
                    line.taken.get_or_insert(Taken { from: self.now, up: self.now });
                }
            }
            _ => {}
        }
    }
}

const fn group(set: usize) -> GroupId {
    GroupId(set as u32)
}

/// The controller's time-outs, made longer than the switch takes to reconfigure, as an operator would set them.
fn policy(delay: Duration) -> Policy {
    let default = Policy::default();
    Policy {
        answer: default.answer + delay.saturating_mul(4),
        patience: default.patience + delay.saturating_mul(100),
        ..default
    }
}

/// The answer of a switch without faults.
fn answer(order: &Order) -> Option<Answer> {
    match order {
        Order::Read => Some(Answer::Circuits(Vec::new())),
        Order::Prepare { change, .. } => Some(Answer::Prepared(*change)),
        Order::Apply { change, .. } => Some(Answer::Applied(*change)),
        Order::Abort { .. } => None,
    }
}

/// Which port of the simulated switch belongs to which stage, replica and NIC port.
struct Cabling {
    /// Ports of a NIC.
    ports: u32,
    replicas: u32,
    /// The kinds of groups within stages. Each pairs up the replicas in its own way.
    within: Vec<SetKey>,
}

impl Cabling {
    fn new(sets: &[CircuitSet], ports: u32) -> Self {
        // Groups of the same kind on different stages can use the same pairs of replicas, because their ports differ.
        let within = sets.iter().filter(|it| matches!(it.key, SetKey::Within { .. }));
        let within: BTreeSet<SetKey> = within.map(|it| kind(it.key)).collect();
        // An even number n of replicas can be paired off in n - 1 ways in which no pair occurs twice (a round-robin tournament).
        let replicas = (within.len() as u32 + 1).next_multiple_of(2).max(2);
        Self { ports, replicas, within: within.into_iter().collect() }
    }

    const fn ports_of(&self, stages: u32) -> u32 {
        stages * self.replicas * self.ports
    }

    const fn stage(&self, number: u32) -> u32 {
        number / (self.replicas * self.ports)
    }

    const fn number(&self, stage: u32, replica: u32, port: u32) -> u32 {
        (stage * self.replicas + replica) * self.ports + port
    }

    /// The pairs of replicas in one round of a round-robin tournament: each round pairs all replicas, and no pair occurs in two rounds.
    fn pairs(&self, round: u32) -> Vec<[u32; 2]> {
        let others = self.replicas - 1;
        let half = (1..self.replicas / 2)
            .map(|it| [(round + it) % others, (round + others - it) % others]);
        half.chain([[round % others, others]]).collect()
    }

    fn circuits(&self, set: &CircuitSet) -> Vec<Circuit> {
        let mut all = Vec::new();
        let mut join = |a: u32, b: u32| all.extend(Circuit::new(SWITCH, a, b));
        if let SetKey::Within { .. } = set.key {
            let round = self.within.iter().position(|it| *it == kind(set.key)).unwrap_or(0);
            for (stage, ports) in &set.ends {
                for [a, b] in self.pairs(round as u32) {
                    for port in bits(*ports) {
                        join(self.number(*stage, a, port), self.number(*stage, b, port));
                    }
                }
            }
            return all;
        }
        for replica in 0..self.replicas {
            let ends = |(stage, ports): &(u32, u64)| -> Vec<u32> {
                bits(*ports).into_iter().map(|it| self.number(*stage, replica, it)).collect()
            };
            let stations: Vec<Vec<u32>> = set.ends.iter().map(ends).collect();
            let stations: Vec<&[u32]> = stations.iter().map(Vec::as_slice).collect();
            all.extend(motet_control::circuit::ring(SWITCH, &stations).unwrap_or_default());
        }
        all
    }
}

/// A group's key without its stage, so that groups of the same kind on different stages compare equal.
fn kind(key: SetKey) -> SetKey {
    match key {
        SetKey::Within { group, .. } => SetKey::Within { stage: 0, group },
        other => other,
    }
}
