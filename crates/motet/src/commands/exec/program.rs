//! The program that is run: read from a file or synthesized, with its time on a network if one was given.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use motet_collective::{CollectiveKind, Program, Verified};
use motet_exec::gateways;
use motet_net::formats::ReadOptions;
use motet_net::{Link, LinkClass, LinkSpec, Network, NetworkBuilder};
use motet_sim::{Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_synth::{Goal, Method, for_sockets, unknown_network};
use motet_units::{Bytes, Duration, LinkId, NodeId, Rank, Rounding, Seed};

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
    let predicts = network.is_some();
    let links = network.as_ref().map(|it| it.links().len());
    let network = match network {
        Some(network) => one_link_each(network)?,
        // No figures are known; with equal ones the program is the direct one.
        None => unknown_network(ranks).map_err(Failure::from)?,
    };
    let several_ways = links.is_some_and(|it| it != network.links().len());
    let kind = args.collective.unwrap_or(CollectiveKind::AllReduce);
    let goal = match kind {
        CollectiveKind::SendRecv => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        kind => Goal::rooted(kind, ranks, Rank(args.root)),
    };
    let goal = goal.map_err(|it| Failure::unreadable(it.to_string()))?;
    let made = for_sockets(&network, predicts, &goal, size, args.method, Seed::new(args.seed));
    let made = made.map_err(|it| Failure::wrong(it.to_string()))?;
    // With one pair of ranks between two datacenters, its connections use whatever each way can carry. Over a single way
    // trees were faster for AllReduce (BENCHMARKS.md).
    if predicts
        && matches!(args.method, Method::Auto)
        && (several_ways || kind == CollectiveKind::AllGather)
        && let Some(program) = gateways::program(kind, &sites(&network), size)
        && let Ok(time) = busiest(&program, &network, size)
        && time.as_ps() / 50 <= made.time.as_ps() / 49
    {
        let predicted = Some(simulate(&program, &network, size)?);
        return Ok(Chosen { program, predicted });
    }
    Ok(Chosen { predicted: predicts.then_some(made.time), program: made.program })
}

/// The ranks of each datacenter.
fn sites(network: &Network) -> Vec<Vec<Rank>> {
    let mut all: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for (rank, node) in (0..).map(Rank).zip(network.ranks()) {
        let dc = network.node(*node).location.dc.as_deref().unwrap_or_default();
        all.entry(dc).or_default().push(rank);
    }
    all.into_values().collect()
}

/// The same network with one link between two routers where there were several: a rank's connections are shared out over
/// all of them, so to a program they are one.
fn one_link_each(network: Network) -> Result<Network, Failure> {
    let far = |it: &Link| it.spec.class == LinkClass::Wan;
    let ends: BTreeSet<(NodeId, NodeId)> =
        network.links().iter().filter(|it| far(it)).map(|it| (it.from, it.to)).collect();
    if ends.len() == network.links().iter().filter(|it| far(it)).count() {
        return Ok(network);
    }
    let mut builder = NetworkBuilder::new(network.name());
    let wrong = |it: motet_net::BuildError| Failure::wrong(it.to_string());
    for node in network.nodes() {
        builder.add_node(node.clone()).map_err(wrong)?;
    }
    let mut wide: BTreeMap<(NodeId, NodeId), LinkSpec> = BTreeMap::new();
    for link in network.links() {
        match wide.entry((link.from, link.to)) {
            Entry::Occupied(mut it) if far(link) => {
                it.get_mut().bandwidth = it.get().bandwidth.saturating_add(link.spec.bandwidth);
                it.get_mut().latency = it.get().latency.max(link.spec.latency);
            }
            Entry::Vacant(it) if far(link) => {
                it.insert(link.spec);
            }
            _ => {
                builder.add_link(link.from, link.to, link.spec).map_err(wrong)?;
            }
        }
    }
    for ((from, to), spec) in wide {
        builder.add_link(from, to, spec).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

/// How long the busiest link is busy, and the latency of the longest way. The simulator's links carry transfers in the
/// order of their numbers; ranks send whatever is ready, so that what waits for the WAN holds nothing else up, and this is
/// closer to what they do with gateways.
fn busiest(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
) -> Result<Duration, Failure> {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough)
        .map_err(|it| Failure::wrong(it.to_string()))?;
    let collective = program.collective();
    let chunk = size.get().div_ceil(u64::from(collective.size_chunks().max(1)));
    let mut loads: BTreeMap<LinkId, u64> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    for (index, transfer) in program.transfers().iter().enumerate() {
        let hops = routed.hops(index);
        let latencies = hops.iter().map(|it| network.link(it.link).spec.latency);
        longest = longest.max(latencies.fold(Duration::ZERO, |sum, it| sum + it));
        for hop in hops {
            *loads.entry(hop.link).or_default() += chunk * u64::from(transfer.count);
        }
    }
    let times = loads.iter().map(|(link, bytes)| {
        let bandwidth = network.link(*link).spec.bandwidth;
        bandwidth.transfer_time(Bytes::new(*bytes), Rounding::Up).unwrap_or(Duration::MAX)
    });
    Ok(times.max().unwrap_or(Duration::ZERO) + longest)
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
