//! [`for_sockets`]: the program to run between processes, by `motet exec`, the C library and
//! `motet plan --backend tcp` alike.
//!
//! Sockets are not the simulator's ideal links. Three things are decided here because of that: AllReduce
//! gives all ranks the same bits ([`sums_once`]); parallel links count as one ([`joined`]), because nobody
//! chooses which of them a connection takes; and data between datacenters may go through one rank of each
//! (`gateways`).

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::builders::{self, Params, TemplateError};
use motet_net::{BuildError, Link, LinkClass, LinkSpec, Network, NetworkBuilder};
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bytes, Duration, LinkId, NodeId, Rank, Rounding, Seed};

use crate::auto::{Synthesis, synthesize};
use crate::effort::Effort;
use crate::fabric::Fabric;
use crate::gateways;
use crate::lower::Lowered;
use crate::method::Method;
use crate::one_sum::sums_once;
use crate::recipe::Recipe;
use crate::task::{Goal, SynthError, Task};

/// Programs of [`gateways`] as a method. It is for sockets alone and is not offered by name: in the
/// simulator, whose links treat all pairs of ranks alike, other methods are as fast.
static GATEWAYS: Recipe = Recipe {
    name: "gateways",
    about: "between datacenters by one rank of each",
    collectives: &[CollectiveKind::AllGather, CollectiveKind::AllReduce],
    scales: true,
    auto: false,
    make: by_gateways,
};

/// A network for ranks whose real network is unknown: each has a link to every other, all alike, so that
/// programs send directly.
pub fn unknown_network(ranks: u32) -> Result<Network, TemplateError> {
    // A program for one rank needs no links, but a network with ranks has some.
    let (name, gpus) = if ranks < 2 { ("ring", 3) } else { ("full-mesh", ranks) };
    builders::find(name)?.build(&Params::from_words([format!("gpus={gpus}")])?)
}

/// Makes the program for a goal. `known` is false if the network is [`unknown_network`]'s, whose figures mean
/// nothing. The program and its time are for the network after [`joined`].
///
/// An AllReduce by `auto` gives all ranks the same bits ([`sums_once`]); a method that was asked for by name may not.
///
/// The same arguments give the same program, so ranks that are given the same need not tell each other.
pub fn for_sockets(
    network: &Network,
    known: bool,
    goal: &Goal,
    size: Bytes,
    method: Method,
    seed: Seed,
) -> Result<Synthesis, SynthError> {
    let by_itself = || Cow::Borrowed(network);
    let one_way = if known { joined(network) } else { by_itself() };
    let several_ways = one_way.links().len() != network.links().len();
    let task = Task::new(&one_way, goal.clone(), size);
    let effort = Effort::normal(seed);
    let draft = |method| synthesize(&task, method, &effort);
    let make = |method| draft(method).and_then(|it| it.prove(&task));
    let made = best(goal.kind(), known, method, make)?;
    let is_auto = matches!(method, Method::Auto);
    // With one pair of ranks between two datacenters, its connections use whatever each parallel link can
    // carry. Over a single link trees were faster for AllReduce (BENCHMARKS.md).
    if known
        && is_auto
        && (several_ways || goal.kind() == CollectiveKind::AllGather)
        && GATEWAYS.collectives.contains(&goal.kind())
        && let Ok(draft) = draft(Method::Recipe(&GATEWAYS))
        && is_no_slower(draft.makespan, made.time)
        && let Ok(program) = draft.prove(&task)
    {
        return Ok(program);
    }
    Ok(made)
}

/// Whether one time is no more than 2% longer than the other.
const fn is_no_slower(one: Duration, other: Duration) -> bool {
    one.as_ps() / 50 <= other.as_ps() / 49
}

/// The best program by methods other than gateways: the fastest in the simulator, corrected by what is known of
/// sockets.
fn best(
    kind: CollectiveKind,
    known: bool,
    method: Method,
    make: impl Fn(Method) -> Result<Synthesis, SynthError>,
) -> Result<Synthesis, SynthError> {
    let made = make(method)?;
    if kind != CollectiveKind::AllReduce || !matches!(method, Method::Auto) {
        return Ok(made);
    }
    let made = one_sum(made, &make);
    // On ideal links sums first and copies after take as long as both at once, up and down trees. On real ones they
    // do not: with nothing between the two halves, no rank waits for the slowest part of the first (BENCHMARKS.md).
    if known
        && let Ok(trees) = make(Method::Packing)
        && sums_once(&trees.program)
        && is_no_slower(trees.time, made.time)
    {
        return Ok(trees);
    }
    Ok(made)
}

/// The program itself if it gives all ranks the same bits, else the fastest other one that does. Direct
/// programs, in which every rank adds up everything itself, do not; at small sizes they are faster by one
/// latency.
fn one_sum(made: Synthesis, make: impl Fn(Method) -> Result<Synthesis, SynthError>) -> Synthesis {
    if sums_once(&made.program) {
        return made;
    }
    let others = [Method::Forest, Method::Packing].into_iter().chain("ring".parse());
    let others = others.filter_map(|it| make(it).ok()).filter(|it| sums_once(&it.program));
    // Every network that ranks can reduce on has a ring.
    others.min_by_key(|it| it.time).unwrap_or(made)
}

/// Makes [`GATEWAYS`]' program, with an estimate of its time over sockets.
fn by_gateways(task: &Task<'_>, _: &Fabric) -> Result<Lowered, SynthError> {
    let sites = sites(task.network, task.goal.ranks());
    let program = gateways::program(task.goal.kind(), &sites, task.size).ok_or_else(|| {
        SynthError::not_for(
            GATEWAYS.name,
            "it joins two datacenters or more, in calls up to 512 MiB",
        )
    })?;
    let makespan = busiest(&program, task.network, task.size)?;
    Ok(Lowered { program: (*program).clone(), makespan, slices: 1 })
}

/// The ranks of each datacenter.
fn sites(network: &Network, ranks: u32) -> Vec<Vec<Rank>> {
    let mut all: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for (rank, node) in (0..ranks).map(Rank).zip(network.ranks()) {
        let dc = network.node(*node).location.dc.as_deref().unwrap_or_default();
        all.entry(dc).or_default().push(rank);
    }
    all.into_values().collect()
}

/// The same network with one WAN link where there were several in parallel, of their joint bandwidth: a rank's
/// connections are spread over all of them, so to a program they are one.
#[must_use]
pub fn joined(network: &Network) -> Cow<'_, Network> {
    let wan = || network.links().iter().filter(|it| is_wan(it));
    let ends: BTreeSet<(NodeId, NodeId)> = wan().map(|it| (it.from, it.to)).collect();
    if ends.len() == wan().count() {
        return Cow::Borrowed(network);
    }
    // With fewer links than a network that could be built it can be built too.
    with_one_each(network).map_or(Cow::Borrowed(network), Cow::Owned)
}

fn is_wan(link: &Link) -> bool {
    link.spec.class == LinkClass::Wan
}

fn with_one_each(network: &Network) -> Result<Network, BuildError> {
    let mut builder = NetworkBuilder::new(network.name());
    for node in network.nodes() {
        builder.add_node(node.clone())?;
    }
    let mut wide: BTreeMap<(NodeId, NodeId), LinkSpec> = BTreeMap::new();
    for link in network.links() {
        match wide.entry((link.from, link.to)) {
            Entry::Occupied(mut it) if is_wan(link) => {
                it.get_mut().bandwidth = it.get().bandwidth.saturating_add(link.spec.bandwidth);
                it.get_mut().latency = it.get().latency.max(link.spec.latency);
            }
            Entry::Vacant(it) if is_wan(link) => {
                it.insert(link.spec);
            }
            _ => {
                builder.add_link(link.from, link.to, link.spec)?;
            }
        }
    }
    for ((from, to), spec) in wide {
        builder.add_link(from, to, spec)?;
    }
    builder.build()
}

/// An estimate of a program's time over sockets: the time for which the busiest link transmits, plus the
/// greatest latency of a transfer. It is closer than the simulator's time, whose links carry transfers in the
/// order of their numbers: over sockets ranks send whatever is ready, so data that waits for the WAN holds
/// nothing else up.
fn busiest(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
) -> Result<Duration, SynthError> {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough)
        .map_err(|why| SynthError::not_for(GATEWAYS.name, why.to_string()))?;
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

#[cfg(test)]
mod tests;
