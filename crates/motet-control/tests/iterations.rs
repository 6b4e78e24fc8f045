//! Shims, managers, the controller and a switch together, in simulated time: four servers train with FSDP in pairs and
//! a pipeline of two stages across them, on one optical rail. Circuits that are asked for ahead must hide the switch's
//! delay in the windows between phases (Opus, Fig. 5), and never make an iteration longer.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may fail, and say so"
)]

use std::collections::{BTreeMap, BTreeSet};

use motet_control::circuit::ring;
use motet_control::controller::{Answer, Order, Policy};
use motet_control::manager::{Manager, Rule, Said};
use motet_control::protocol::{GroupSpec, Notice, Registration, Report, TenantId};
use motet_control::shim::{Call, Mode, Shim, Tell};
use motet_control::{Controller, GroupId, Input, JobId, Member, Output, Port, SwitchId, Timer};
use motet_runtime::Collective;
use motet_units::{Bytes, Duration, Instant, Rank};

const SERVERS: u32 = 4;
const MESSAGE: Duration = Duration::from_us(20);
/// FSDP on each stage, then the pipeline between them.
const GROUPS: [[u32; 2]; 4] = [[0, 1], [2, 3], [0, 2], [1, 3]];

#[derive(Clone, Copy)]
enum Op {
    Compute(Duration),
    /// A call of the server's FSDP group or of its pipeline, and how long it takes.
    Fsdp(Duration),
    Pipeline(Duration),
}

/// Parameters, activations to the next stage, gradients.
fn iteration() -> Vec<Op> {
    let ms = Duration::from_ms;
    vec![
        Op::Fsdp(ms(10)),
        Op::Fsdp(ms(10)),
        Op::Compute(ms(40)),
        Op::Pipeline(ms(5)),
        Op::Compute(ms(60)),
        Op::Fsdp(ms(20)),
        Op::Compute(ms(30)),
    ]
}

fn groups_of(server: u32) -> (GroupId, GroupId) {
    (GroupId(server / 2), GroupId(2 + server % 2))
}

enum Event {
    Step(u32),
    ToController(Report),
    ToManager(Notice),
    Switched(Order),
    Rings(Timer),
    End(GroupId),
}

struct Job {
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    sent: u64,
    controller: Controller,
    managers: Vec<Manager>,
    shims: Vec<Shim>,
    /// Where each server is in its program.
    at: Vec<usize>,
    program: Vec<Op>,
    /// Operations of an iteration, of which the last is compute.
    iteration: usize,
    /// Who has begun a group's present call.
    joined: BTreeMap<GroupId, BTreeSet<u32>>,
    delay: Duration,
    changes: u64,
    ends: Vec<Instant>,
}

impl Job {
    fn new(mode: Mode, delay: Duration, iterations: usize) -> Self {
        let switch = SwitchId(0);
        let ports = |server: u32| [2 * server, 2 * server + 1];
        let groups = (0..).zip(GROUPS).map(|(id, members)| {
            let stations = members.map(ports);
            let stations: Vec<&[u32]> = stations.iter().map(<[u32; 2]>::as_slice).collect();
            GroupSpec {
                id: GroupId(id),
                members: members.into_iter().map(Member).collect(),
                circuits: ring(switch, &stations).unwrap(),
            }
        });
        let all = (0..SERVERS).flat_map(|server| {
            ports(server).map(|number| (Member(server), Port { switch, number }))
        });
        let registration = Registration {
            job: JobId(1),
            tenant: TenantId(0),
            ports: all.collect(),
            groups: groups.collect(),
            mode: None,
        };
        let (controller, out) = Controller::new(Policy::default(), &[(switch, 8)], &[]);
        let managers = (0..SERVERS).map(|server| {
            let (fsdp, pipeline) = groups_of(server);
            let mine = [fsdp, pipeline].map(|it| (it, BTreeSet::from([Rank(0)])));
            Manager::new(JobId(1), Member(server), mine, Rule::default())
        });
        let iteration = iteration();
        let whole = iterations * iteration.len();
        let program: Vec<Op> = iteration.iter().copied().cycle().take(whole).collect();
        let mut job = Self {
            now: Instant::START,
            events: BTreeMap::new(),
            sent: 0,
            controller,
            managers: managers.collect(),
            shims: (0..SERVERS).map(|_| Shim::new(mode)).collect(),
            at: vec![0; SERVERS as usize],
            program,
            iteration: iteration.len(),
            joined: BTreeMap::new(),
            delay,
            changes: 0,
            ends: Vec::new(),
        };
        job.take(out);
        let out = job.controller.handle(Input::Register(registration));
        job.take(out);
        (0..SERVERS).for_each(|it| job.after(Duration::ZERO, Event::Step(it)));
        job
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.sent += 1;
        self.events.insert((self.now + time, self.sent), event);
    }

    fn take(&mut self, out: Vec<Output>) {
        for it in out {
            match it {
                Output::Notice(notice) => self.after(MESSAGE, Event::ToManager(notice)),
                Output::Order(_, order) => {
                    let applies = matches!(order, Order::Apply { .. });
                    self.changes += u64::from(applies);
                    let time = if applies { self.delay } else { Duration::ZERO };
                    self.after(time, Event::Switched(order));
                }
                Output::Timer(timer, time) => self.after(time, Event::Rings(timer)),
                Output::Registered(_, result) => result.unwrap(),
                Output::Journal(_) => {}
            }
        }
    }

    fn tell(&mut self, input: Input) {
        let out = self.controller.handle(input);
        self.take(out);
    }

    fn manage(&mut self, server: u32, said: Vec<Said>) {
        for it in said {
            match it {
                Said::Report(report) => self.after(MESSAGE, Event::ToController(report)),
                Said::Go { group, .. } => self.begin(server, group),
            }
        }
    }

    fn told(&mut self, server: u32, tell: Tell) {
        let said = self.managers[server as usize].tell(Rank(0), tell);
        self.manage(server, said);
    }

    fn step(&mut self, server: u32) {
        let Some(op) = self.program.get(self.at[server as usize]).copied() else {
            self.ends.push(self.now);
            return;
        };
        let (fsdp, pipeline) = groups_of(server);
        let group = match op {
            Op::Compute(time) => {
                self.at[server as usize] += 1;
                if self.at[server as usize].is_multiple_of(self.iteration) {
                    self.shims[server as usize].iteration(self.now);
                }
                return self.after(time, Event::Step(server));
            }
            Op::Fsdp(_) => fsdp,
            Op::Pipeline(_) => pipeline,
        };
        let call = Call { group, collective: Collective::AllGather, bytes: Bytes::new(1 << 30) };
        match self.shims[server as usize].call(call, self.now) {
            Some(tell) => self.told(server, tell),
            None => self.begin(server, group),
        }
    }

    /// A server's call may go; the collective begins when all have come.
    fn begin(&mut self, server: u32, group: GroupId) {
        let (Op::Fsdp(time) | Op::Pipeline(time)) = self.program[self.at[server as usize]] else {
            panic!("no call");
        };
        let joined = self.joined.entry(group).or_default();
        assert!(joined.insert(server), "{server} joins twice");
        if joined.len() == GROUPS[group.0 as usize].len() {
            self.after(time, Event::End(group));
        }
    }

    fn end(&mut self, group: GroupId) {
        for server in self.joined.remove(&group).unwrap() {
            for tell in self.shims[server as usize].ended(group) {
                self.told(server, tell);
            }
            self.at[server as usize] += 1;
            self.after(Duration::ZERO, Event::Step(server));
        }
    }

    /// When the last server is done, and how often circuits were changed.
    fn run(mut self) -> (Duration, u64) {
        while self.ends.len() < SERVERS as usize {
            let ((now, _), event) = self.events.pop_first().unwrap();
            self.now = now;
            match event {
                Event::Step(server) => self.step(server),
                Event::ToController(report) => self.tell(Input::Report(report)),
                Event::ToManager(notice) => {
                    let server = notice.member.0;
                    let said = self.managers[server as usize].hear(&notice);
                    self.manage(server, said);
                }
                Event::Switched(order) => {
                    let answer = match order {
                        Order::Read => Answer::Circuits(Vec::new()),
                        Order::Prepare { change, .. } => Answer::Prepared(change),
                        Order::Apply { change, .. } => Answer::Applied(change),
                        Order::Abort { .. } => continue,
                    };
                    self.tell(Input::Switch(SwitchId(0), answer));
                }
                Event::Rings(timer) => self.tell(Input::Timer(timer)),
                Event::End(group) => self.end(group),
            }
        }
        (self.now.since(Instant::START), self.changes)
    }
}

const ITERATIONS: usize = 20;
const BARE: Duration = Duration::from_ms(175 * ITERATIONS as u64);

fn run(mode: Mode, delay_ms: u64) -> (Duration, u64) {
    Job::new(mode, Duration::from_ms(delay_ms), ITERATIONS).run()
}

#[test]
fn whoever_only_looks_changes_nothing() {
    assert_eq!(run(Mode::Observe, 25), (BARE, 0));
}

#[test]
fn on_demand_every_change_of_phase_costs_the_delay() {
    let (time, changes) = run(Mode::OnDemand, 25);
    // Each iteration goes to the pipeline's circuits and back, for two groups each time, whose changes are one.
    let delays = Duration::from_ms(25 * 2 * ITERATIONS as u64);
    assert!(time >= BARE + delays, "{time:?}");
    // Messages cost little beside that: an ask and a grant, a recall and its report.
    assert!(time < BARE + delays + Duration::from_ms(40), "{time:?}");
    // And once at the very beginning.
    assert_eq!(changes, 2 * ITERATIONS as u64 + 1);
}

#[test]
fn provisioned_changes_hide_in_windows_that_are_long_enough() {
    let (time, _) = run(Mode::Provisioned, 25);
    // Five iterations are without asking ahead, to compare.
    assert!(time < BARE + Duration::from_ms(6 * 2 * 25 + 10), "{time:?} of {BARE:?}");
}

#[test]
fn provisioning_never_loses() {
    for delay in [0, 1, 15, 25, 50, 100, 300] {
        let (demand, _) = run(Mode::OnDemand, delay);
        let (ahead, _) = run(Mode::Provisioned, delay);
        println!("{delay} ms: {demand:?} on demand, {ahead:?} provisioned, {BARE:?} without");
        assert!(ahead <= demand, "{delay} ms: {ahead:?} of {demand:?}");
    }
}
