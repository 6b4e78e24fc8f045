//! Circuits that are set once, before the job: what optical fabrics did before Opus.
//!
//! Every parallelism on the rails has ports of its own for the whole job, so that each gets a part of the NIC's bandwidth
//! (Opus' C3), groups of more than two go in rings (C1), and there must be ports for all of them at once (C2).
//! [`even_fixed`] shares ports out evenly; [`best_fixed`] tries every way of sharing them and keeps the fastest, as TopoOpt
//! chooses a topology for a job, though here the layout stays as it is.

use motet_units::Duration;
use motet_workload::simulate::{Cost, Fabric, fabric::Call};
use motet_workload::{Group, Iteration, Job, Refusal, Refusals, Run};

use super::circuits::{Sets, name};
use super::switching::Ports;
use super::{refuse_ports, refused};
use crate::alone::Topology;
use crate::error::RailsError;
use crate::levels::Levels;
use crate::machine::{Machine, Wire};
use crate::table::Table;

/// The result of a step on circuits that stay.
#[derive(Clone, Debug)]
pub struct Fixed {
    pub run: Run,
    /// How the ports of each NIC are divided: each parallelism's name and number of ports.
    pub shares: Vec<(&'static str, u32)>,
}

/// A parallelism on the rails, with what matters for dividing ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    name: &'static str,
    /// How many neighbours each NIC needs circuits to at the same time.
    neighbours: u32,
}

/// Runs the step with ports divided as evenly as possible.
pub fn even_fixed(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    ports: u32,
) -> Result<Fixed, RailsError> {
    let classes = classes(job, iteration, machine, ports)?;
    let mut shares: Vec<u32> = classes.iter().map(|it| it.neighbours).collect();
    loop {
        let used: u32 = shares.iter().sum();
        // Give one more port per neighbour to the parallelism that has the fewest.
        let room = |it: &usize| used + classes[*it].neighbours <= ports;
        let next = (0..classes.len()).filter(room).min_by_key(|it| (shares[*it], *it));
        match next {
            Some(it) => shares[it] += classes[it].neighbours,
            None => return run(job, iteration, machine, ports, &classes, &shares),
        }
    }
}

/// Runs the step with every division of the ports, and returns the fastest.
pub fn best_fixed(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    ports: u32,
) -> Result<Fixed, RailsError> {
    let classes = classes(job, iteration, machine, ports)?;
    let mut best: Option<Fixed> = None;
    let mut shares: Vec<u32> = classes.iter().map(|it| it.neighbours).collect();
    loop {
        let found = run(job, iteration, machine, ports, &classes, &shares)?;
        if best.as_ref().is_none_or(|it| found.run.time() < it.run.time()) {
            best = Some(found);
        }
        // The next division, by counting with carry: the first parallelism that can have more ports gets
        // them, and those before it go back to their least.
        let mut at = 0;
        loop {
            let Some(class) = classes.get(at) else {
                return best
                    .map_or_else(|| run(job, iteration, machine, ports, &classes, &shares), Ok);
            };
            shares[at] += class.neighbours;
            if shares.iter().sum::<u32>() <= ports {
                break;
            }
            shares[at] = class.neighbours;
            at += 1;
        }
    }
}

/// The parallelisms that need ports; an error if there are too few ports for all.
fn classes(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    ports: u32,
) -> Result<Vec<Class>, RailsError> {
    refuse_ports(Ports::of(machine.rail.bandwidth, ports))?;
    let mut levels = Levels::new(job.layout(), machine);
    let hops = Sets::new(iteration, &mut levels).most_neighbours();
    let mut classes: Vec<Class> = Vec::new();
    for (_, operation, what) in iteration.communications() {
        let domains = levels.domains(operation.stage, what.group);
        if domains <= 1 {
            continue;
        }
        if let Some(it) = refused(machine, job.layout(), what) {
            return Err(Refusals(vec![it]).into());
        }
        let neighbours = match what.group {
            Group::Hop { .. } | Group::Ends => hops.max(1),
            Group::Pipeline => hops.max(if domains > 2 { 2 } else { 1 }),
            _ if domains > 2 => 2,
            _ => 1,
        };
        let name = name(what.group);
        match classes.iter_mut().find(|it| it.name == name) {
            Some(known) => known.neighbours = known.neighbours.max(neighbours),
            None => classes.push(Class { name, neighbours }),
        }
    }
    let least: u32 = classes.iter().map(|it| it.neighbours).sum();
    if least > ports {
        let each = |it: &Class| format!("{} {}", it.name, it.neighbours);
        let each: Vec<String> = classes.iter().map(each).collect();
        return Err(Refusals(vec![Refusal {
            problem: format!(
                "circuits that stay need {least} ports of every NIC ({}), and there are {ports}",
                each.join(", ")
            ),
            nearest: format!("choose {least} ports, or change circuits during the step"),
        }])
        .into());
    }
    Ok(classes)
}

fn run(
    job: &Job,
    iteration: &Iteration,
    machine: &Machine,
    ports: u32,
    classes: &[Class],
    shares: &[u32],
) -> Result<Fixed, RailsError> {
    let mut levels = Levels::new(job.layout(), machine);
    let ports = Ports::of(machine.rail.bandwidth, ports);
    let costs = Table::new(iteration, |stage, what| {
        let found = classes.iter().position(|it| it.name == name(what.group)).unwrap_or(0);
        let width = match classes.get(found) {
            // Two ranks use all ports of their parallelism in parallel; in a ring half of them faces each neighbour.
            Some(class) => shares[found] / class.neighbours.max(1),
            None => ports.count,
        };
        let wire = Wire { bandwidth: ports.bandwidth(width), latency: machine.rail.latency };
        levels.cost(stage, what, &|_| Topology::Ring(wire), found as u32 + 1)
    })?;
    let run = iteration.simulate(&job.draft().gpu, &mut Standing(costs))?;
    let shares = classes.iter().zip(shares).map(|(it, share)| (it.name, *share)).collect();
    Ok(Fixed { run, shares })
}

/// A fabric whose circuits are always set up.
struct Standing(Table);

impl Fabric for Standing {
    fn cost(&mut self, call: Call<'_>) -> Cost {
        self.0.get(call.operation).clone()
    }
}

impl Fixed {
    /// How long the step takes.
    #[must_use]
    pub const fn time(&self) -> Duration {
        self.run.time()
    }
}
