//! [`check`]: any messages in any order, to a controller whose switches answer late, refuse and vanish, whose
//! timers expire at any moment, and which is restarted in between. Beside the senders of these messages there
//! is an honest job, whose circuit must stay, and whose next call must be answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_control::controller::{Answer, Order, Policy};
use motet_control::protocol::{
    GroupId, GroupSpec, JobId, Member, Registration, Report, Stance, TenantId,
};
use motet_control::seat::{Seat, SeatStep};
use motet_control::{Circuit, Controller, Input, Output, Port, SwitchId, Timer};
use prost::Message as _;

use crate::api::v1;

/// The ports of each of the two switches.
const PORTS: u32 = 8;
/// The most turns of one input; more would show nothing new.
const MOST: usize = 64;
/// How many rounds the honest job may wait for its answer. In each round all switches carry out their orders
/// and timers expire.
const ROUNDS: usize = 64;
const HONEST: JobId = JobId(1);
const GROUP: GroupId = GroupId(0);

/// Each turn is a byte that says what it is, a byte that says how long it is, and so many bytes:
///
/// 0. a registration; 1. what members say; 2. a job's end: each as the bytes of its message. What is about the honest job is
///    left out, for the service lets nobody speak for another's job.
/// 3. a switch does what it was told, refuses it or vanishes; 4. a timer rings; 5. the controller starts again.
///
/// # Errors
///
/// If a port gets into two circuits, or the honest job notices anything.
pub fn check(bytes: &[u8]) -> Result<bool, String> {
    let mut cluster = Cluster::new()?;
    let mut rest = bytes;
    let mut understood = false;
    for _ in 0..MOST {
        let [kind, length, tail @ ..] = rest else { break };
        let (turn, after) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = after;
        understood |= cluster.turn(kind % 6, turn)?;
    }
    cluster.ask_again()?;
    Ok(understood)
}

#[derive(Default)]
struct Device {
    orders: VecDeque<Order>,
    circuits: BTreeSet<Circuit>,
}

/// The controller and what is around it.
struct Cluster {
    controller: Controller,
    devices: BTreeMap<SwitchId, Device>,
    timers: Vec<Timer>,
    /// The seats of the honest job's members.
    seats: [Seat; 2],
    circuit: Circuit,
    /// Whether each of the seats' waiting calls was answered.
    answered: [bool; 2],
}

fn switches() -> [(SwitchId, u32); 2] {
    [(SwitchId(0), PORTS), (SwitchId(1), PORTS)]
}

impl Cluster {
    /// A cluster in which the honest job holds its circuit.
    fn new() -> Result<Self, String> {
        let circuit = Circuit::new(SwitchId(0), 0, 1).ok_or("no circuit")?;
        let members = [Member(0), Member(1)];
        let job = Registration {
            mode: None,
            job: HONEST,
            tenant: TenantId(1),
            ports: members.iter().map(|it| (*it, Port::new(0, it.0))).collect(),
            groups: vec![GroupSpec {
                id: GROUP,
                members: members.to_vec(),
                circuits: vec![circuit],
            }],
        };
        let (controller, out) = Controller::new(Policy::default(), &switches(), &[]);
        let mut new = Self {
            controller,
            devices: switches().map(|it| (it.0, Device::default())).into(),
            timers: Vec::new(),
            seats: members.map(|it| Seat::new(HONEST, it, GROUP)),
            circuit,
            answered: [true; 2],
        };
        new.take(out)?;
        new.tell(Input::Register(job))?;
        new.ask_again()?;
        if new.holds() { Ok(new) } else { Err("the honest job is given no circuit".to_owned()) }
    }

    fn holds(&self) -> bool {
        self.seats.iter().any(|it| it.stance() == Stance::Holding)
    }

    fn turn(&mut self, kind: u8, bytes: &[u8]) -> Result<bool, String> {
        let pick = bytes.first().copied().map_or(0, usize::from);
        match kind {
            0 => {
                let request = v1::RegisterRequest::decode(bytes).ok();
                let job = request.and_then(|it| Registration::try_from(it).ok());
                let Some(job) = job.filter(|it| it.job != HONEST) else { return Ok(false) };
                self.tell(Input::Register(job))?;
            }
            1 => {
                let Ok(message) = v1::ToController::decode(bytes) else { return Ok(false) };
                for report in message.reports {
                    let report = Report::try_from(report).ok();
                    let Some(report) = report.filter(|it| it.job != HONEST) else {
                        return Ok(false);
                    };
                    self.tell(Input::Report(report))?;
                }
            }
            2 => {
                let request = v1::LeaveRequest::decode(bytes).ok();
                let job = request.map(|it| JobId(it.job)).filter(|it| *it != HONEST);
                let Some(job) = job else { return Ok(false) };
                self.tell(Input::Leave(job))?;
            }
            3 => self.switch(SwitchId(u32::from(pick % 2 == 1)), pick / 2)?,
            4 => {
                if let Some(timer) = self.timers.get(pick % self.timers.len().max(1)).copied() {
                    self.timers.retain(|it| *it != timer);
                    self.tell(Input::Timer(timer))?;
                }
            }
            _ => self.restart()?,
        }
        Ok(true)
    }

    fn tell(&mut self, input: Input) -> Result<(), String> {
        let out = self.controller.handle(input);
        self.take(out)
    }

    fn take(&mut self, out: Vec<Output>) -> Result<(), String> {
        let mut reports = Vec::new();
        for output in out {
            match output {
                Output::Notice(it) if it.job == HONEST => {
                    let at = usize::from(it.member == Member(1));
                    let Some(seat) = self.seats.get_mut(at) else { continue };
                    let SeatStep { report, go } = seat.hear(it.what);
                    if let Some(answered) = self.answered.get_mut(at).filter(|_| go.is_some()) {
                        *answered = true;
                    }
                    reports.extend(report);
                }
                Output::Order(switch, order) => {
                    if let Some(device) = self.devices.get_mut(&switch) {
                        device.orders.push_back(order);
                    }
                }
                Output::Timer(timer, _) if !self.timers.contains(&timer) => self.timers.push(timer),
                _ => {}
            }
        }
        self.timers.retain(|it| self.controller.minds(it));
        super::one_to_one(self.controller.circuits())?;
        reports.into_iter().try_for_each(|it| self.tell(Input::Report(it)))
    }

    /// A switch takes its next order: it carries it out, refuses it, vanishes before it, or vanishes after
    /// it.
    fn switch(&mut self, id: SwitchId, manner: usize) -> Result<(), String> {
        let Some(device) = self.devices.get_mut(&id) else { return Ok(()) };
        let Some(order) = device.orders.pop_front() else { return Ok(()) };
        let answer = match (manner % 8, &order) {
            (5, Order::Prepare { change, .. } | Order::Apply { change, .. }) => {
                Some(Answer::Rejected(*change))
            }
            (6, _) => Some(Answer::Lost),
            (manner, _) => {
                let answer = self.carry_out(id, order)?;
                if manner == 7 { Some(Answer::Lost) } else { answer }
            }
        };
        if let (Some(Answer::Lost), Some(device)) = (&answer, self.devices.get_mut(&id)) {
            // The session has ended, and with it all orders on their way.
            device.orders.clear();
        }
        answer.map_or(Ok(()), |it| self.tell(Input::Switch(id, it)))
    }

    fn carry_out(&mut self, id: SwitchId, order: Order) -> Result<Option<Answer>, String> {
        let holds = self.holds();
        let Some(device) = self.devices.get_mut(&id) else { return Ok(None) };
        Ok(match order {
            Order::Read => {
                Some(Answer::Circuits(device.circuits.iter().map(Circuit::numbers).collect()))
            }
            Order::Prepare { change, .. } => Some(Answer::Prepared(change)),
            Order::Abort { .. } => None,
            Order::Apply { change, delete, create } => {
                if holds && delete.contains(&self.circuit) {
                    return Err("the honest job's circuit is taken from it".to_owned());
                }
                device.circuits.retain(|it| !delete.contains(it));
                device.circuits.extend(create);
                super::one_to_one(device.circuits.iter().copied())?;
                Some(Answer::Applied(change))
            }
        })
    }

    /// The controller is killed and starts again. The first order of each switch was already on its way and
    /// is carried out.
    fn restart(&mut self) -> Result<(), String> {
        for (id, _) in switches() {
            let first = self.devices.get_mut(&id).and_then(|it| it.orders.pop_front());
            if let Some(order) = first {
                self.carry_out(id, order)?;
            }
            if let Some(device) = self.devices.get_mut(&id) {
                device.orders.clear();
            }
        }
        self.timers.clear();
        let jobs: Vec<Registration> = self.controller.registrations().cloned().collect();
        let (controller, out) = Controller::new(Policy::default(), &switches(), &jobs);
        self.controller = controller;
        self.take(out)
    }

    /// The honest job gives its circuit back and makes another call, which must be answered whatever the others have said.
    fn ask_again(&mut self) -> Result<(), String> {
        let mut reports = Vec::new();
        for (seat, answered) in self.seats.iter_mut().zip(&mut self.answered) {
            // The call before has ended.
            reports.extend(seat.is_busy().then(|| seat.ended()).flatten());
            reports.extend(seat.release());
            let step = seat.call();
            reports.extend(step.report);
            *answered = step.go.is_some();
        }
        reports.into_iter().try_for_each(|it| self.tell(Input::Report(it)))?;
        for round in 0..ROUNDS {
            if self.answered == [true; 2] {
                return Ok(());
            }
            let again: Vec<Report> = self.seats.iter().filter_map(Seat::again).collect();
            again.into_iter().try_for_each(|it| self.tell(Input::Report(it)))?;
            for (id, _) in switches() {
                while self.devices.get(&id).is_some_and(|it| !it.orders.is_empty()) {
                    self.switch(id, 0)?;
                }
            }
            // The controller's patience is the last to end.
            let long = |it: &Timer| matches!(it, Timer::Patience(_) | Timer::Stuck(_));
            let (long, short) = self.timers.iter().copied().partition::<Vec<_>, _>(long);
            for timer in if round < ROUNDS / 2 { short } else { long } {
                self.timers.retain(|it| *it != timer);
                self.tell(Input::Timer(timer))?;
            }
        }
        Err(format!("the honest job waits for ever: {:?}", self.seats))
    }
}
