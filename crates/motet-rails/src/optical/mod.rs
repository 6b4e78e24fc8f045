//! Optical rails: circuits that change during a step, or that stay.
//!
//! [`switched`] runs a step on rails that change circuits between parallelisms, as Opus proposes; [`fixed`] on
//! circuits that are set once, as others do. Both stand beside [`Electrical`].
//!
//! - [`switching`]: ports, delays, and how circuits are driven.
//! - [`circuits`]: the circuits that a group needs; [`plane`]: who gets them when, decided by [`motet_control`]; [`control`]: a step
//!   under that control plane.
//! - [`chosen`]: circuits and program for one phase, chosen together.

pub mod chosen;
pub mod circuits;
pub mod control;
pub mod fixed;
mod plane;
pub mod switching;

use motet_collective::CollectiveKind;
use motet_control::GroupId;
use motet_control::shim::{Call, Mode};
use motet_workload::{Communication, Group, Iteration, Job, Layout, Refusal, Refusals, Run};

pub use circuits::{CircuitSet, SetKey};
pub use control::Held;
pub use fixed::{Fixed, best_fixed, even_fixed};
pub use switching::{Delay, Granularity, Ports, Switching};

use crate::alone::Topology;
use crate::electrical::Electrical;
use crate::error::RailsError;
use crate::knobs::Algorithms;
use crate::levels::Levels;
use crate::machine::{Machine, Wire};
use crate::table::Table;
use circuits::{Sets, name};
use control::{Control, Want};
use plane::ControlPlane;

/// Ports of a NIC at most: twice as many as any has today, and few enough to try all ways of sharing them out.
pub const MOST_PORTS: u32 = 16;

/// The result of a step on optical rails that change circuits.
#[derive(Clone, Debug)]
pub struct Switched {
    pub run: Run,
    /// The circuit sets, each of which is set up and torn down as a whole.
    pub sets: Vec<CircuitSet>,
    /// By operation, the set it used, if it went over the rails.
    pub wants: Vec<Option<usize>>,
    /// When each set was set up.
    pub held: Vec<Held>,
    /// How often circuits were changed during the step.
    pub changes: u64,
    /// How many communications took the host's network because the controller refused them circuits.
    pub refused: u64,
}

/// The most steps that are run until one takes as long as the one before (a steady state).
const MOST_STEPS: usize = 40;

/// Runs a step on rails that change circuits.
///
/// With no delay at all circuits can take turns packet by packet, which is what a packet switch does: the step is that of
/// [`Electrical`], as in Opus' Fig. 8. With the least delay, traffic of two parallelisms that wants the same ports at once has to
/// be spaced.
///
/// The step is one of many: it begins with the circuits that the ones before left, and shims know from them what comes.
pub fn switched(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    switching: &Switching,
) -> Result<Switched, RailsError> {
    switched_by(job, iteration, machine, switching, &Algorithms::default())
}

/// As [`switched`], with the algorithm of each AllReduce that no circuits carry (inside a domain, over the host's network) given by `by`.
pub fn switched_by(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    switching: &Switching,
    by: &Algorithms,
) -> Result<Switched, RailsError> {
    let plan = Plan::new(job, iteration, machine, switching, by)?;
    if switching.delay.total().is_zero() {
        let mut fabric = Electrical::by(job, iteration, machine, by)?;
        let run = iteration.simulate(&job.draft().gpu, &mut fabric)?;
        return Ok(plan.outcome(Done { run, held: Vec::new(), changes: 0, refused: 0 }));
    }
    let mode = if switching.provisioned { Mode::Provisioned } else { Mode::OnDemand };
    let whole_rail = switching.granularity == Granularity::Rail;
    let mut plane = ControlPlane::new(&plan.sets, switching, mode, whole_rail);
    let mut done = plan.run(job, iteration, &mut plane)?;
    for _ in 1..MOST_STEPS {
        let missed = plane.missed();
        let next = plan.run(job, iteration, &mut plane)?;
        // Go on while shims mispredict calls or still measure: the next step may then be different.
        let learned = !switching.provisioned || (plane.is_settled() && plane.missed() == missed);
        let steady = learned && next.run.time() == done.run.time();
        done = next;
        if steady {
            break;
        }
    }
    Ok(plan.outcome(done))
}

/// One step that was run, with what the control plane did in it.
struct Done {
    run: Run,
    held: Vec<Held>,
    changes: u64,
    refused: u64,
}

/// What a job needs of optical rails: its circuit sets, and the set and costs of each communication.
struct Plan {
    costs: Table,
    host: Table,
    sets: Vec<CircuitSet>,
    wants: Vec<Option<Want>>,
}

impl Plan {
    fn new(
        job: &Job,
        iteration: &Iteration,
        machine: &Machine,
        switching: &Switching,
        by: &Algorithms,
    ) -> Result<Self, RailsError> {
        let layout = job.layout();
        let mut levels = Levels::new(layout, machine).by(by);
        let ports = Ports::of(machine.rail.bandwidth, switching.ports);
        refuse_ports(ports)?;
        let mut sets = Sets::new(iteration, &mut levels);
        if switching.granularity == Granularity::Rail {
            refuse_coarse(ports, &sets)?;
        }
        let mut refusals = Vec::new();
        let mut wants = vec![None; iteration.operations().len()];
        for (index, operation, what) in iteration.communications() {
            let domains = levels.domains(operation.stage, what.group);
            if domains <= 1 || offloaded(switching, what) {
                continue;
            }
            let found = match refused(machine, layout, what) {
                Some(it) => Err(it),
                None => sets.find(layout, ports, (operation.stage, what.group), domains),
            };
            match found {
                Ok(set) => wants[index] = Some(Want { set, call: seen(set, what) }),
                Err(it) if refusals.contains(&it) => {}
                Err(it) => refusals.push(it),
            }
        }
        if !refusals.is_empty() {
            return Err(Refusals(refusals).into());
        }
        let all = &sets.all;
        let costs = Table::new(iteration, |stage, what| {
            if levels.domains(stage, what.group) <= 1 {
                return levels.cost(stage, what, &|_| Topology::Star(machine.rail), 0);
            }
            if offloaded(switching, what) {
                return levels.host_cost(stage, what);
            }
            let key = circuits::key(layout, stage, what.group);
            let at = all.iter().position(|it| it.key == key).unwrap_or(0);
            let bandwidth = ports.bandwidth(all[at].width);
            let wire = Wire { bandwidth, latency: machine.rail.latency };
            levels.cost(stage, what, &|_| Topology::Ring(wire), at as u32 + 1)
        })?;
        let host = Table::new(iteration, |stage, what| levels.host_cost(stage, what))?;
        let mut plan = Self { costs, host, sets: sets.all, wants };
        if switching.granularity == Granularity::Rail {
            plan.coarsen(layout.pp, ports.count);
        }
        Ok(plan)
    }

    /// Merges the sets of each parallelism into one over all stages and ports, for rails that change as a whole.
    fn coarsen(&mut self, stages: u32, ports: u32) {
        let mode = |key: SetKey| match key {
            SetKey::Within { group, .. } => SetKey::Within { stage: 0, group },
            SetKey::Between { .. } | SetKey::Stages => SetKey::Stages,
        };
        let mut modes: Vec<CircuitSet> = Vec::new();
        let every = u64::MAX >> (64 - ports.clamp(1, 64));
        let mut of = Vec::new();
        for set in &self.sets {
            let key = mode(set.key);
            let known = modes.iter().position(|it| it.key == key);
            of.push(known.unwrap_or_else(|| {
                let ends = (0..stages).map(|it| (it, every)).collect();
                modes.push(CircuitSet { key, ends, ..set.clone() });
                modes.len() - 1
            }));
        }
        for want in self.wants.iter_mut().flatten() {
            want.set = of[want.set];
            want.call.group = GroupId(want.set as u32);
        }
        self.sets = modes;
    }

    /// Runs the next step under that control plane.
    fn run(
        &self,
        job: &Job,
        iteration: &Iteration,
        plane: &mut ControlPlane,
    ) -> Result<Done, RailsError> {
        let start = plane.now();
        let (costs, host, wants) = (&self.costs, &self.host, &self.wants);
        let mut control = Control { costs, host, wants, plane, start, refused: 0 };
        let run = iteration.simulate(&job.draft().gpu, &mut control)?;
        let refused = control.refused;
        let end = start + run.time();
        plane.until(end);
        plane.iteration();
        let (held, changes) = plane.account(start, end);
        Ok(Done { run, held, changes, refused })
    }

    fn outcome(self, done: Done) -> Switched {
        let Done { run, held, changes, refused } = done;
        let wants = self.wants.iter().map(|it| it.map(|it| it.set)).collect();
        Switched { run, sets: self.sets, wants, held, changes, refused }
    }
}

/// The call by which a shim sees a communication.
fn seen(set: usize, what: &Communication) -> Call {
    let group = GroupId(set as u32);
    // Both crates use the same names for collectives.
    let collective = what.kind.name().parse().unwrap_or(motet_runtime::Collective::SendRecv);
    Call { group, collective, bytes: what.bytes }
}

/// Whether a communication goes over the host's network.
fn offloaded(switching: &Switching, what: &Communication) -> bool {
    what.kind == CollectiveKind::AllReduce
        && switching.offload.is_some_and(|most| what.bytes <= most)
}

/// Why a communication cannot go over optical rails at all, if so.
fn refused(machine: &Machine, layout: &Layout, what: &Communication) -> Option<Refusal> {
    (what.group == Group::Tensor).then(|| Refusal {
        problem: format!(
            "{} groups of tp {} do not fit into scale-up domains of {}, and every operator would wait for circuits",
            name(what.group),
            layout.tp,
            machine.domain
        ),
        nearest: format!("choose tp {}", largest_divisor(machine.domain, layout.tp)),
    })
}

/// The largest number up to `most` that divides `whole`.
fn largest_divisor(whole: u32, most: u32) -> u32 {
    (1..=most).rev().find(|it| whole.is_multiple_of(*it)).unwrap_or(1)
}

fn refuse_ports(ports: Ports) -> Result<(), RailsError> {
    if ports.count == 0 || ports.count > MOST_PORTS || ports.each.is_zero() {
        let nearest = if ports.count > MOST_PORTS { MOST_PORTS } else { 1 };
        return Err(Refusals(vec![Refusal {
            problem: format!("a NIC of {} ports", ports.count),
            nearest: format!("choose {nearest}"),
        }])
        .into());
    }
    Ok(())
}

fn refuse_coarse(ports: Ports, sets: &Sets) -> Result<(), RailsError> {
    let most = sets.most_neighbours();
    if most > ports.count {
        return Err(Refusals(vec![Refusal {
            problem: format!(
                "a rail that changes as a whole must hold circuits to {most} stages at once, and a NIC has {} ports",
                ports.count
            ),
            nearest: format!("choose {most} ports, or change circuits per group"),
        }])
        .into());
    }
    Ok(())
}
