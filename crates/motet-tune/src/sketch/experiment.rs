//! [`connections_experiment`]: what fewer connections between servers are good for, and why.
//!
//! *TuCCL* found that fewer inter-node connections give better programs, and attributes it to
//! synthesizers that cannot model how connections share a NIC in turn. Here the same synthesizer
//! makes each program three times: on a model of the network where each connection has a NIC to itself
//! ([`Belief::Own`]); on one where it has a fixed share of a NIC ([`Belief::Even`], as TACCL assumes); and
//! on the network itself, where the NIC is a link that carries one transfer at a time. All programs run in the
//! same simulator on the same network, so that they differ only by what the synthesizer assumed.
//!
//! Links carry transfers in program order or first come, first served, whichever is faster for the program,
//! because a synthesizer with a wrong model of NICs cannot know the best order on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::sketch::locality::Server;
use crate::sketch::{Connections, Servers};
use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::Network;
use motet_sim::{Discipline, Outcome, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, NodeId, Seed};

use super::transform::{Belief, TransformError, Transformed};
use super::{Candidate, sketches};

/// Programs are cut no finer than this many transfers: enough for pipelines, and quick.
const MOST_TRANSFERS: u64 = 1 << 13;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    #[error("`{network}` has no connections between servers; give it at least two servers")]
    NoConnections { network: String },
    #[error(transparent)]
    Transform(#[from] TransformError),
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error("the program does not run on the network: {0}")]
    Run(String),
}

/// A program that was made under some assumption about NICs, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The method of the best program.
    pub method: &'static str,
    /// How long it takes under the assumption that it was made under.
    pub believed: Duration,
    /// How long it takes on the network itself.
    pub simulated: Duration,
    /// The bytes that leave servers, all servers together.
    pub crossing: Bytes,
}

/// The programs under one set of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The candidate sketch.
    pub name: String,
    /// Connections out of a server: from GPU to GPU, and from NIC to NIC.
    pub gpu_connections: usize,
    pub nic_connections: usize,
    /// How many NICs of a server are used.
    pub nics: usize,
    /// The programs made under [`Belief::Own`], under [`Belief::Even`], and on the network itself.
    pub own: Run,
    pub even: Run,
    pub shared: Run,
}

/// One row for each candidate that says which GPUs connect, the fewest connections first.
pub fn connections_experiment(
    network: &Network,
    kind: CollectiveKind,
    size: Bytes,
    seed: Seed,
) -> Result<Vec<Row>, ExperimentError> {
    let trial = Trial { network, servers: Servers::of(network), kind, size, seed };
    let mut rows = Vec::new();
    // Candidates that leave the same links are the same to whoever models sharing.
    let mut shared: BTreeMap<Vec<bool>, Run> = BTreeMap::new();
    for candidate in sketches(network) {
        let Some(connections) = &candidate.sketch.connections else { continue };
        let allowed = candidate.sketch.allowed_for(size);
        let shared = match shared.get(&allowed) {
            Some(run) => *run,
            None => *shared.entry(allowed.clone()).or_insert(trial.with_sharing(allowed)?),
        };
        rows.push(trial.row(&candidate, connections, shared)?);
    }
    if rows.is_empty() {
        let network = network.name().to_owned();
        return Err(ExperimentError::NoConnections { network });
    }
    rows.sort_by_key(|it| (it.gpu_connections, it.nic_connections));
    Ok(rows)
}

struct Trial<'a> {
    network: &'a Network,
    servers: Servers,
    kind: CollectiveKind,
    size: Bytes,
    seed: Seed,
}

impl Trial<'_> {
    fn row(
        &self,
        candidate: &Candidate,
        connections: &Connections,
        shared: Run,
    ) -> Result<Row, ExperimentError> {
        let guidance = &candidate.guidance;
        Ok(Row {
            name: candidate.name.clone(),
            gpu_connections: guidance.gpu_connections.left,
            nic_connections: guidance.nic_connections.left,
            nics: self.used_nics(connections),
            own: self.believing(connections, Belief::Own)?,
            even: self.believing(connections, Belief::Even)?,
            shared,
        })
    }

    /// How many NICs of a server are used, in the server where these are most.
    fn used_nics(&self, connections: &Connections) -> usize {
        let senders: BTreeSet<NodeId> = connections.pairs(&self.servers).map(|it| it.0).collect();
        let used = connections.binding.iter().filter(|it| senders.contains(&it.0));
        let used: BTreeSet<NodeId> = used.map(|it| it.1).collect();
        let of_server = |it: &Server| it.ports.iter().filter(|it| used.contains(it)).count();
        self.servers.list().iter().map(of_server).max().unwrap_or(0)
    }

    fn believing(&self, connections: &Connections, belief: Belief) -> Result<Run, ExperimentError> {
        let drawn = Transformed::new(self.network, &self.servers, connections, belief)?;
        // Turns would be lost on the way to the real network.
        let task = self.task(drawn.network())?.by_numbers();
        self.run(&task, |program| drawn.lift(program, self.network))
    }

    fn with_sharing(&self, allowed: Vec<bool>) -> Result<Run, ExperimentError> {
        let task = Task { allowed, ..self.task(self.network)? };
        self.run(&task, Clone::clone)
    }

    fn task<'a>(&self, network: &'a Network) -> Result<Task<'a>, ExperimentError> {
        let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
        let goal = Goal::new(self.kind, ranks).map_err(SynthError::from)?;
        Ok(Task::new(network, goal, self.size))
    }

    fn run(
        &self,
        task: &Task<'_>,
        lift: impl Fn(&Program) -> Program,
    ) -> Result<Run, ExperimentError> {
        let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(self.seed) };
        let made = synthesize(task, Method::Auto, &effort)?.prove(task)?;
        let program = Verified::new(lift(&made.program), Some(self.network))
            .map_err(|it| ExperimentError::Run(it.report.to_string()))?;
        let outcome = self.simulate(&program)?;
        let leaving = self.network.link_ids().zip(self.network.links()).filter(|(_, link)| {
            let server = self.servers.index(link.from);
            server.is_some() && server != self.servers.index(link.to)
        });
        let crossing = leaving.map(|(id, _)| outcome.links[id.index()].bytes).sum();
        Ok(Run {
            method: made.method.name(),
            believed: made.time,
            simulated: outcome.time,
            crossing,
        })
    }

    fn simulate(&self, program: &Verified<Program>) -> Result<Outcome, ExperimentError> {
        let wrong = |it: String| ExperimentError::Run(it);
        let routed = Routed::new(program, self.network, SwitchForwarding::CutThrough)
            .map_err(|it| wrong(it.to_string()))?;
        let prepared = Prepared::new(&routed);
        let run = |discipline| {
            let options = SimOptions { discipline, ..SimOptions::default() };
            Simulation::new(&prepared, self.size).options(options).run()
        };
        let in_order = run(Discipline::ProgramOrder).map_err(|it| wrong(it.to_string()))?;
        let as_they_come = run(Discipline::Fifo).map_err(|it| wrong(it.to_string()))?;
        Ok(if as_they_come.time < in_order.time { as_they_come } else { in_order })
    }
}

/// The rows as a table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "                 connections        believing in a NIC each   an even share             sharing modelled\n\
         sketch         GPU   NIC  NICs     believed   takes  crosses   believed   takes  crosses     takes  crosses\n",
    );
    let us = |it: Duration| it.as_us_f64();
    let mb = |it: Bytes| it.get() as f64 / 1e6;
    for row in rows {
        let (own, even, shared) = (&row.own, &row.even, &row.shared);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:12} {:5} {:5} {:5}   {:10.1} {:8.1} {:5.0} MB {:10.1} {:8.1} {:5.0} MB  {:8.1} {:5.0} MB",
            row.name,
            row.gpu_connections,
            row.nic_connections,
            row.nics,
            us(own.believed),
            us(own.simulated),
            mb(own.crossing),
            us(even.believed),
            us(even.simulated),
            mb(even.crossing),
            us(shared.simulated),
            mb(shared.crossing),
        );
    }
    out
}
