//! The program that is run: read from a file or synthesized, with its time on a network if one was given.

use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::formats::ReadOptions;
use motet_net::{Network, Signature};
use motet_sim::{Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_synth::for_sockets::joined;
use motet_synth::{Goal, for_sockets, unknown_network};
use motet_units::{Bytes, Duration, Rank, Seed};

use crate::args::exec::WhatArgs;
use crate::commands::verify;
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

/// A program, and how long it should take.
pub(super) struct Chosen {
    pub(super) program: Verified<Program>,
    /// On the cluster that was given, by the simulator.
    pub(super) predicted: Option<Duration>,
}

/// The network that was named, if one was.
pub(super) fn network(args: &WhatArgs, printer: &Printer) -> Result<Option<Network>, Failure> {
    let Some(name) = &args.cluster else { return Ok(None) };
    Ok(Some(files::network(name, &ReadOptions::default(), printer)?.network))
}

/// The program for a size.
pub(super) fn choose(
    args: &WhatArgs,
    ranks: u32,
    size: Bytes,
    printer: &Printer,
) -> Result<Chosen, Failure> {
    let network = network(args, printer)?;
    if let Some(file) = &args.program {
        let (_, imported) = verify::read(file)?;
        let network = network.map(|it| of_program(it, &imported.program));
        let program = imported.verify(network.as_ref()).map_err(|it| {
            Failure::wrong(format!("the program is not right:\n{}", it.report)).in_file(file)
        })?;
        if program.collective().ranks() != ranks {
            let has = program.collective().ranks();
            return Err(
                Failure::wrong(format!("the program has {has} ranks, not {ranks}")).in_file(file)
            );
        }
        let predicted = network.as_ref().map(|it| simulate(&program, it, size)).transpose()?;
        return Ok(Chosen { program, predicted });
    }
    let known = network.is_some();
    let network = match network {
        Some(network) => network,
        // No figures are known; with equal ones the program is the direct one.
        None => unknown_network(ranks).map_err(Failure::from)?,
    };
    let kind = args.collective.unwrap_or(CollectiveKind::AllReduce);
    let goal = match kind {
        CollectiveKind::SendRecv => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        kind => Goal::rooted(kind, ranks, Rank(args.root)),
    };
    let goal = goal.map_err(|it| Failure::unreadable(it.to_string()))?;
    let made = for_sockets(&network, known, &goal, size, args.method, Seed::new(args.seed));
    let made = made.map_err(|it| Failure::wrong(it.to_string()))?;
    Ok(Chosen { predicted: known.then_some(made.time), program: made.program })
}

/// The network as the program of a file knows it: as it is, or as programs for sockets are made for it.
fn of_program(network: Network, program: &Program) -> Network {
    let joined = joined(&network);
    if program.network() == Some(Signature::of(&joined)) {
        return joined.into_owned();
    }
    network
}

fn simulate(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
) -> Result<Duration, Failure> {
    let wrong = |it: String| Failure::wrong(it);
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough);
    let routed = routed.map_err(|it| wrong(it.to_string()))?;
    let prepared = Prepared::new(&routed);
    let outcome = Simulation::new(&prepared, size).options(SimOptions::default()).run();
    Ok(outcome.map_err(|it| wrong(it.to_string()))?.time)
}
