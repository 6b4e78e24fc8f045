//! A cluster in a box: the real controller and the real seats of a few members, around them a network that loses,
//! doubles and reorders, switches that fail, and jobs that make collective calls. Everything that may happen next is an
//! [`Act`]; tests choose, exhaustively or at random. Each act checks what must always hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_control::controller::{Answer, Order, Policy};
use motet_control::protocol::{
    GroupId, JobId, Member, Notice, Registration, Report, Stance, TenantId,
};
use motet_control::seat::{Go, Seat, SeatStep};
use motet_control::{Circuit, Controller, Input, Output, Port, SwitchId, Timer};

/// What a job's members do: each has streams, which make their calls one after the other.
#[derive(Clone, Debug)]
pub struct Setup {
    pub registration: Registration,
    pub programs: BTreeMap<Member, Vec<Vec<GroupId>>>,
}

/// How often things may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mishaps {
    pub lost: u8,
    pub doubled: u8,
    /// Timers that ring while other things could happen first.
    pub early_timers: u8,
    pub controller_crashes: u8,
    pub switch_losses: u8,
    pub rejections: u8,
    /// Members that ask for, or give up, what nobody foresaw.
    pub guesses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stream {
    Ready { at: usize },
    Waiting { at: usize },
    Calling { at: usize, number: u64, go: GoOrd },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoOrd {
    Circuits,
    Host,
}

impl From<Go> for GoOrd {
    fn from(it: Go) -> Self {
        match it {
            Go::Circuits => Self::Circuits,
            Go::Host => Self::Host,
        }
    }
}

type Place = (JobId, Member);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    pub orders: VecDeque<OrderKey>,
    pub circuits: BTreeSet<Circuit>,
    reachable: bool,
}

/// Orders as they stand in a switch's queue.
pub type OrderKey = Order;

/// What may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Call(Place, usize),
    End(Place, usize),
    Foresee(Place, GroupId),
    Release(Place, GroupId),
    Again(Place, GroupId),
    Hear(usize),
    LoseNotice(usize),
    DoubleNotice(usize),
    Deliver(usize),
    LoseReport(usize),
    DoubleReport(usize),
    Carry(SwitchId),
    Reject(SwitchId),
    LoseSwitch(SwitchId),
    ReturnSwitch(SwitchId),
    Ring(Timer),
    Crash,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    controller: Controller,
    seats: BTreeMap<Place, BTreeMap<GroupId, Seat>>,
    streams: BTreeMap<Place, Vec<Stream>>,
    /// On their way. Kept sorted, so that worlds that differ only in the order of sending are one.
    reports: Vec<Report>,
    notices: Vec<Notice>,
    timers: BTreeSet<Timer>,
    pub devices: BTreeMap<SwitchId, Device>,
    pub left: Mishaps,
    /// How each call went, by the first who began it.
    networks: BTreeMap<(JobId, GroupId, u64), GoOrd>,
}

/// What does not change: kept apart so that worlds are small.
#[derive(Clone, Debug)]
pub struct Stage {
    pub setups: Vec<Setup>,
    pub switches: Vec<(SwitchId, u32)>,
    pub policy: Policy,
    /// Members know how many calls of a group they make in a row, and say so.
    pub foresight: bool,
}

impl Stage {
    fn registration(&self, job: JobId) -> &Registration {
        &self.setups.iter().find(|it| it.registration.job == job).unwrap().registration
    }

    fn spec(&self, job: JobId, group: GroupId) -> &motet_control::protocol::GroupSpec {
        self.registration(job).groups.iter().find(|it| it.id == group).unwrap()
    }

    fn program(&self, place: Place) -> &[Vec<GroupId>] {
        let of = self.setups.iter().find(|it| it.registration.job == place.0).unwrap();
        &of.programs[&place.1]
    }

    fn owner(&self, port: Port) -> Option<Place> {
        self.setups.iter().find_map(|it| {
            let owned = it.registration.ports.iter().find(|it| it.1 == port)?;
            Some((it.registration.job, owned.0))
        })
    }
}

impl World {
    pub fn new(stage: &Stage, left: Mishaps) -> Self {
        let (controller, out) = Controller::new(stage.policy.clone(), &stage.switches, &[]);
        let device = Device { orders: VecDeque::new(), circuits: BTreeSet::new(), reachable: true };
        let mut world = Self {
            controller,
            seats: BTreeMap::new(),
            streams: BTreeMap::new(),
            reports: Vec::new(),
            notices: Vec::new(),
            timers: BTreeSet::new(),
            devices: stage.switches.iter().map(|it| (it.0, device.clone())).collect(),
            left,
            networks: BTreeMap::new(),
        };
        world.take(out);
        for setup in &stage.setups {
            let it = &setup.registration;
            let out = world.controller.handle(Input::Register(it.clone()));
            assert!(out.contains(&Output::Registered(it.job, Ok(()))), "{out:?}");
            world.take(out);
            for (member, program) in &setup.programs {
                let of = it.groups.iter().filter(|it| it.members.contains(member));
                let seats = of.map(|spec| (spec.id, Seat::new(it.job, *member, spec.id)));
                world.seats.insert((it.job, *member), seats.collect());
                let streams = vec![Stream::Ready { at: 0 }; program.len()];
                world.streams.insert((it.job, *member), streams);
            }
        }
        // The switches are read before anything else happens.
        for switch in stage.switches.iter().map(|it| it.0) {
            world.act(stage, &Act::Carry(switch));
        }
        world
    }

    /// Whether all streams have made all their calls.
    pub fn is_done(&self, stage: &Stage) -> bool {
        self.streams.iter().all(|(place, streams)| {
            let programs = stage.program(*place);
            streams.iter().zip(programs).all(|it| *it.0 == Stream::Ready { at: it.1.len() })
        })
    }

    fn take(&mut self, out: Vec<Output>) {
        for it in out {
            match it {
                Output::Notice(notice) => {
                    if !self.notices.contains(&notice) {
                        self.notices.push(notice);
                    }
                }
                Output::Order(switch, order) => {
                    let device = self.devices.get_mut(&switch).unwrap();
                    if device.reachable {
                        device.orders.push_back(order);
                    }
                }
                Output::Timer(timer, _) => {
                    self.timers.insert(timer);
                }
                Output::Registered(..) | Output::Journal(_) => {}
            }
        }
        self.notices.sort_unstable();
        self.timers.retain(|it| self.controller.minds(it));
    }

    fn tell(&mut self, input: Input) {
        let out = self.controller.handle(input);
        self.take(out);
    }

    fn send(&mut self, report: Option<Report>) {
        if let Some(report) = report.filter(|it| !self.reports.contains(it)) {
            self.reports.push(report);
            self.reports.sort_unstable();
        }
    }

    /// All that may happen, apart from mishaps.
    pub fn ordinary(&self, stage: &Stage) -> Vec<Act> {
        let mut acts = Vec::new();
        for (place, streams) in &self.streams {
            let programs = stage.program(*place);
            for (number, stream) in streams.iter().enumerate() {
                match stream {
                    Stream::Ready { at } if *at < programs[number].len() => {
                        acts.push(Act::Call(*place, number));
                    }
                    Stream::Calling { at, number: call, .. } => {
                        if self.all_began(stage, place.0, programs[number][*at], *call) {
                            acts.push(Act::End(*place, number));
                        }
                    }
                    Stream::Ready { .. } | Stream::Waiting { .. } => {}
                }
            }
        }
        acts.extend((0..self.notices.len()).map(Act::Hear));
        acts.extend((0..self.reports.len()).map(Act::Deliver));
        let busy = self.devices.iter().filter(|it| !it.1.orders.is_empty() && it.1.reachable);
        acts.extend(busy.map(|it| Act::Carry(*it.0)));
        // So short that anything may come before or after it.
        let soon = self.timers.iter().filter(|it| matches!(it, Timer::Gather(_)));
        acts.extend(soon.map(|it| Act::Ring(*it)));
        acts
    }

    /// What happens when nothing else does: timers ring, switches come back, members ask again.
    pub fn late(&self) -> Vec<Act> {
        let mut acts: Vec<Act> = self.timers.iter().map(|it| Act::Ring(*it)).collect();
        let away = self.devices.iter().filter(|it| !it.1.reachable);
        acts.extend(away.map(|it| Act::ReturnSwitch(*it.0)));
        for (place, seats) in &self.seats {
            let asking = seats.iter().filter(|it| it.1.again().is_some());
            acts.extend(asking.map(|it| Act::Again(*place, *it.0)));
        }
        acts
    }

    /// What goes wrong, as far as it may.
    pub fn mishaps(&self, _stage: &Stage) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.left.lost > 0 {
            acts.extend((0..self.notices.len()).map(Act::LoseNotice));
            acts.extend((0..self.reports.len()).map(Act::LoseReport));
        }
        if self.left.doubled > 0 {
            acts.extend((0..self.notices.len()).map(Act::DoubleNotice));
            acts.extend((0..self.reports.len()).map(Act::DoubleReport));
        }
        if self.left.early_timers > 0 {
            acts.extend(self.timers.iter().map(|it| Act::Ring(*it)));
        }
        if self.left.guesses > 0 {
            for (place, seats) in &self.seats {
                for (group, seat) in seats {
                    if seat.stance() == Stance::Away {
                        acts.push(Act::Foresee(*place, *group));
                    } else if !seat.is_waiting() {
                        acts.push(Act::Release(*place, *group));
                    }
                }
            }
        }
        for (switch, device) in &self.devices {
            if device.reachable && self.left.switch_losses > 0 {
                acts.push(Act::LoseSwitch(*switch));
            }
            let changes =
                matches!(device.orders.front(), Some(Order::Prepare { .. } | Order::Apply { .. }));
            if changes && device.reachable && self.left.rejections > 0 {
                acts.push(Act::Reject(*switch));
            }
        }
        if self.left.controller_crashes > 0 {
            acts.push(Act::Crash);
        }
        acts
    }

    /// Calls that took the packet network.
    pub fn refused(&self) -> usize {
        self.networks.values().filter(|it| **it == GoOrd::Host).count()
    }

    fn all_began(&self, stage: &Stage, job: JobId, group: GroupId, number: u64) -> bool {
        let members = &stage.spec(job, group).members;
        members.iter().all(|it| self.seats[&(job, *it)][&group].begun() >= number)
    }

    pub fn act(&mut self, stage: &Stage, act: &Act) {
        match act {
            Act::Call(place, stream) => self.call(stage, *place, *stream),
            Act::End(place, stream) => self.end(stage, *place, *stream),
            Act::Foresee(place, group) => {
                self.left.guesses -= 1;
                let report = self.seat(*place, *group).foresee();
                self.send(report);
            }
            Act::Release(place, group) => {
                self.left.guesses -= 1;
                let report = self.seat(*place, *group).release();
                self.send(report);
            }
            Act::Again(place, group) => {
                let report = self.seat(*place, *group).again();
                self.send(report);
            }
            Act::Hear(at) => {
                let notice = self.notices.remove(*at);
                self.hear(stage, notice);
            }
            Act::DoubleNotice(at) => {
                self.left.doubled -= 1;
                let notice = self.notices[*at];
                self.hear(stage, notice);
            }
            Act::LoseNotice(at) => {
                self.left.lost -= 1;
                self.notices.remove(*at);
            }
            Act::Deliver(at) => {
                let report = self.reports.remove(*at);
                self.tell(Input::Report(report));
            }
            Act::DoubleReport(at) => {
                self.left.doubled -= 1;
                let report = self.reports[*at];
                self.tell(Input::Report(report));
            }
            Act::LoseReport(at) => {
                self.left.lost -= 1;
                self.reports.remove(*at);
            }
            Act::Carry(switch) => {
                let order = self.devices.get_mut(switch).unwrap().orders.pop_front().unwrap();
                let answer = self.carry_out(stage, *switch, order);
                if let Some(answer) = answer {
                    self.tell(Input::Switch(*switch, answer));
                }
            }
            Act::Reject(switch) => {
                self.left.rejections -= 1;
                let order = self.devices.get_mut(switch).unwrap().orders.pop_front().unwrap();
                let (Order::Prepare { change, .. } | Order::Apply { change, .. }) = order else {
                    panic!("{order:?} cannot be rejected");
                };
                self.tell(Input::Switch(*switch, Answer::Rejected(change)));
            }
            Act::LoseSwitch(switch) => {
                self.left.switch_losses -= 1;
                self.lose(*switch);
                self.tell(Input::Switch(*switch, Answer::Lost));
            }
            Act::ReturnSwitch(switch) => self.devices.get_mut(switch).unwrap().reachable = true,
            Act::Ring(timer) => {
                if !matches!(timer, Timer::Gather(_)) {
                    self.left.early_timers = self.left.early_timers.saturating_sub(1);
                }
                self.timers.remove(timer);
                if let Timer::Change(..) = timer {
                    // The controller gives up on switches that have not answered: their sessions end.
                    let silent: Vec<SwitchId> = self.silent(timer);
                    for switch in silent {
                        self.lose(switch);
                    }
                }
                self.tell(Input::Timer(*timer));
            }
            Act::Crash => self.crash(stage),
        }
    }

    /// Switches with orders of that change that were not carried out.
    fn silent(&self, timer: &Timer) -> Vec<SwitchId> {
        let Timer::Change(id, _) = timer else { return Vec::new() };
        let of = |it: &Order| matches!(it, Order::Prepare { change, .. } | Order::Apply { change, .. } if change == id);
        let silent = self.devices.iter().filter(|it| it.1.orders.iter().any(of));
        silent.map(|it| *it.0).collect()
    }

    /// A switch cannot be reached any more: what it was not told in time has no effect.
    fn lose(&mut self, switch: SwitchId) {
        let device = self.devices.get_mut(&switch).unwrap();
        device.reachable = false;
        device.orders.clear();
    }

    fn seat(&mut self, place: Place, group: GroupId) -> &mut Seat {
        self.seats.get_mut(&place).unwrap().get_mut(&group).unwrap()
    }

    fn call(&mut self, stage: &Stage, place: Place, number: usize) {
        let Stream::Ready { at } = self.streams[&place][number] else { panic!("not ready") };
        let calls = &stage.program(place)[number];
        let group = calls[at];
        if stage.foresight {
            let run = calls[at..].iter().take_while(|it| **it == group).count();
            self.seat(place, group).expect(run as u64);
        }
        let step = self.seat(place, group).call();
        self.streams.get_mut(&place).unwrap()[number] = Stream::Waiting { at };
        self.step(stage, place, group, step);
    }

    fn hear(&mut self, stage: &Stage, notice: Notice) {
        let place = (notice.job, notice.member);
        let step = self.seat(place, notice.group).hear(notice.what);
        self.step(stage, place, notice.group, step);
    }

    fn step(&mut self, stage: &Stage, place: Place, group: GroupId, step: SeatStep) {
        self.send(step.report);
        let Some(go) = step.go else { return };
        let call = self.seats[&place][&group].begun();
        let programs = stage.program(place);
        let streams = self.streams.get_mut(&place).unwrap();
        let waits = streams.iter().enumerate().position(
            |(number, it)| matches!(it, Stream::Waiting { at } if programs[number][*at] == group),
        );
        let waits = waits.unwrap_or_else(|| panic!("{place:?} {group} goes, but nothing waits"));
        let Stream::Waiting { at } = streams[waits] else { panic!("not waiting") };
        streams[waits] = Stream::Calling { at, number: call, go: go.into() };
        let spec = stage.spec(place.0, group);
        if go == Go::Circuits {
            // Others' circuits may be gone meanwhile: the call waits for them, and they ask before they join.
            let mine = |it: &&Circuit| it.ends().iter().any(|it| stage.owner(*it) == Some(place));
            for circuit in spec.circuits.iter().filter(mine) {
                let there = self.devices[&circuit.switch].circuits.contains(circuit);
                assert!(there, "{place:?} sends for {group} over {circuit}, which is not there");
            }
        }
        let first = self.networks.entry((place.0, group, call)).or_insert(go.into());
        assert_eq!(*first, go.into(), "call {call} of {group} takes two networks");
    }

    fn end(&mut self, stage: &Stage, place: Place, number: usize) {
        let Stream::Calling { at, go, .. } = self.streams[&place][number] else {
            panic!("not calling")
        };
        let group = stage.program(place)[number][at];
        self.streams.get_mut(&place).unwrap()[number] = Stream::Ready { at: at + 1 };
        if go == GoOrd::Circuits {
            let report = self.seat(place, group).ended();
            self.send(report);
        }
    }

    /// A switch does what it is told.
    fn carry_out(&mut self, stage: &Stage, switch: SwitchId, order: Order) -> Option<Answer> {
        match order {
            Order::Read => {
                let circuits = &self.devices[&switch].circuits;
                Some(Answer::Circuits(circuits.iter().map(Circuit::numbers).collect()))
            }
            Order::Prepare { change, .. } => Some(Answer::Prepared(change)),
            Order::Abort { .. } => None,
            Order::Apply { change, delete, create } => {
                for circuit in &delete {
                    let there = self.devices[&switch].circuits.contains(circuit);
                    if there {
                        self.check_idle(stage, circuit);
                    }
                    self.devices.get_mut(&switch).unwrap().circuits.remove(circuit);
                }
                for circuit in create {
                    let device = self.devices.get_mut(&switch).unwrap();
                    device.circuits.insert(circuit);
                    let mut ports = BTreeSet::new();
                    for number in device.circuits.iter().flat_map(Circuit::numbers) {
                        assert!(ports.insert(number), "port {number} is in two circuits");
                    }
                }
                Some(Answer::Applied(change))
            }
        }
    }

    /// Nobody sends over a circuit, or may begin to.
    fn check_idle(&self, stage: &Stage, circuit: &Circuit) {
        for place in circuit.ends().into_iter().filter_map(|it| stage.owner(it)) {
            let Some(seats) = self.seats.get(&place) else { continue };
            for (group, seat) in seats {
                if !stage.spec(place.0, *group).circuits.contains(circuit) {
                    continue;
                }
                let holding = seat.stance() == Stance::Holding;
                assert!(
                    !holding && !seat.is_busy(),
                    "{circuit} is taken from {place:?} of {group}: {seat:?}"
                );
            }
        }
    }

    /// The controller dies in the middle of whatever it did, and starts again from what it had written down. Whatever was
    /// on its way to it or from it is lost, as connections end; a part of what switches were told is carried out.
    fn crash(&mut self, stage: &Stage) {
        self.left.controller_crashes -= 1;
        let switches: Vec<SwitchId> = self.devices.keys().copied().collect();
        for switch in switches {
            // The first order was on the wire; the others had not left.
            let device = self.devices.get_mut(&switch).unwrap();
            let first = device.orders.pop_front();
            device.orders.clear();
            if let Some(order) = first.filter(|_| self.devices[&switch].reachable) {
                self.carry_out(stage, switch, order);
            }
        }
        self.notices.clear();
        self.reports.clear();
        self.timers.clear();
        let jobs: Vec<Registration> = self.controller.registrations().cloned().collect();
        let (controller, out) = Controller::new(stage.policy.clone(), &stage.switches, &jobs);
        self.controller = controller;
        self.take(out);
    }
}

/// A job on one switch: groups as lists of members, each a ring over the members' ports.
pub fn job(
    number: u64,
    switch: u32,
    ports: &[(u32, &[u32])],
    groups: &[&[u32]],
    programs: &[&[&[u32]]],
) -> Setup {
    let switch = SwitchId(switch);
    let of = |member: u32| ports.iter().find(|it| it.0 == member).unwrap().1;
    let groups: Vec<_> = groups
        .iter()
        .enumerate()
        .map(|(id, members)| {
            let stations: Vec<&[u32]> = members.iter().map(|it| of(*it)).collect();
            motet_control::protocol::GroupSpec {
                id: GroupId(u32::try_from(id).unwrap()),
                members: members.iter().copied().map(Member).collect(),
                circuits: motet_control::circuit::ring(switch, &stations).unwrap(),
            }
        })
        .collect();
    let all = ports.iter().flat_map(|(member, numbers)| {
        numbers.iter().map(move |number| (Member(*member), Port { switch, number: *number }))
    });
    let registration = Registration {
        job: JobId(number),
        tenant: TenantId(0),
        ports: all.collect(),
        groups,
        mode: None,
    };
    let programs = ports.iter().zip(programs).map(|(port, streams)| {
        let streams = streams.iter().map(|it| it.iter().copied().map(GroupId).collect());
        (Member(port.0), streams.collect())
    });
    Setup { registration, programs: programs.collect() }
}
