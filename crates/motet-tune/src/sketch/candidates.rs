//! [`sketches`]: the candidates that a network suggests, from every link to one connecting GPU for each
//! server. The tuner makes programs with each and keeps the fastest.

use std::collections::BTreeMap;

use motet_net::{Network, NodeKind};
use motet_units::{Bytes, LinkId, NodeId};

use super::bind::bind;
use super::connections::{Connections, Group};
use super::constraints::Sketch;
use super::group::{PortGroup, group};
use super::guidance::Guidance;
use super::locality::{Servers, joins_gpus};

/// Above this, NVLink only (TuCCL, §III-B).
pub const LARGE: Bytes = Bytes::new(10_000_000);

/// A sketch to try, and what it does to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub sketch: Sketch,
    pub guidance: Guidance,
}

/// Candidates, from all links to few connections:
///
/// - `full`: every link;
/// - `nvlink`: every link, but nothing by way of CPUs in large collectives;
/// - `bound`: each GPU by its NIC only;
/// - `grouped`: only NICs of one group talk to each other;
/// - `grouped-N`, with N halved until 1: only N GPUs of each server connect, spread over its NICs.
///
/// A network without servers, with one server, or whose drawing says already which GPU sends and
/// which receives, has no more than the first two. A candidate that would part the ranks is left out.
#[must_use]
pub fn sketches(network: &Network) -> Vec<Candidate> {
    let servers = Servers::of(network);
    let binding = bind(network, &servers);
    let full = Sketch::full("full", network);
    let mut candidates = vec![candidate(full.clone(), network, &servers)];
    let host = host_links(network, &servers, &binding);
    let mut nvlink = full.forbidding_above(LARGE, &host, network);
    if !nvlink.above.is_empty() {
        "nvlink".clone_into(&mut nvlink.name);
        candidates.push(candidate(nvlink, network, &servers));
    }
    if servers.list().len() < 2 || servers.list().iter().any(|it| it.one_way) {
        return candidates;
    }
    let ports = used_ports(&binding);
    let groups = group(network, &servers, &ports);
    let mut made = vec![("bound".to_owned(), Connections { binding, groups: Vec::new() })];
    let most = servers.list().iter().map(|it| it.gpus.len()).max().unwrap_or(0);
    let halves = std::iter::successors(Some(most), |it| Some(it / 2));
    for gpus in halves.take_while(|it| *it > 0) {
        let name = if gpus == most { "grouped".to_owned() } else { format!("grouped-{gpus}") };
        let connections = connect(&servers, &made[0].1.binding, &groups, gpus);
        // No group at all would mean that every NIC talks to every one.
        if !connections.groups.is_empty() {
            made.push((name, connections));
        }
    }
    for (name, connections) in made {
        let sketch = Sketch::connecting(name, connections, network, &servers);
        if let Ok(sketch) = sketch
            && reaches_all(network, &sketch.allowed)
        {
            candidates.push(candidate(sketch, network, &servers));
        }
    }
    candidates
}

/// The candidates that allow different links. (Behind one switch, groups make no difference to Motet's own
/// synthesizers.) Of several that allow the same links the last is kept, which has the most detailed connections.
#[must_use]
pub fn distinct(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let same = |a: &Sketch, b: &Sketch| a.allowed == b.allowed && a.above == b.above;
    let mut index = 0;
    while index < candidates.len() {
        let (sketch, later) = (&candidates[index].sketch, &candidates[index + 1..]);
        if later.iter().any(|it| same(sketch, &it.sketch)) {
            candidates.remove(index);
        } else {
            index += 1;
        }
    }
    candidates
}

impl Candidate {
    /// A sketch that someone wrote. Its name may be anything; that of the candidate becomes part of
    /// the names of programs and files.
    #[must_use]
    pub fn given(sketch: Sketch, network: &Network) -> Self {
        let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        let name: String = sketch.name.chars().take(40).map(plain).collect();
        let words: Vec<&str> = name.split('-').filter(|it| !it.is_empty()).collect();
        let name = if words.is_empty() { "given".to_owned() } else { words.join("-") };
        Self { name, ..candidate(sketch, network, &Servers::of(network)) }
    }
}

fn candidate(sketch: Sketch, network: &Network, servers: &Servers) -> Candidate {
    let guidance = Guidance::of(network, servers, &sketch);
    Candidate { name: sketch.name.clone(), sketch, guidance }
}

/// Stage 3: `gpus` of each server connect, one of each group in turn; within a group all with all.
pub(super) fn connect(
    servers: &Servers,
    binding: &[(NodeId, NodeId)],
    groups: &[PortGroup],
    gpus: usize,
) -> Connections {
    let mut bound: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for (gpu, port) in binding {
        bound.entry(*port).or_default().push(*gpu);
    }
    let rounds = bound.values().map(Vec::len).max().unwrap_or(0);
    let mut members: Vec<Vec<NodeId>> = vec![Vec::new(); groups.len()];
    let mut taken = vec![0usize; servers.list().len()];
    for round in 0..rounds {
        for (group, members) in groups.iter().zip(&mut members) {
            for port in &group.ports {
                let Some(server) = servers.index(*port) else { continue };
                let Some(gpu) = bound.get(port).and_then(|it| it.get(round)) else { continue };
                if taken[server] < gpus {
                    taken[server] += 1;
                    members.push(*gpu);
                }
            }
        }
    }
    let rank_of: BTreeMap<NodeId, usize> =
        binding.iter().enumerate().map(|(rank, it)| (it.0, rank)).collect();
    let made = groups.iter().zip(members).map(|(group, mut gpus)| {
        gpus.sort_by_key(|it| rank_of.get(it).copied());
        Group { ports: group.ports.clone(), senders: gpus.clone(), receivers: gpus }
    });
    let alive = |it: &Group| {
        let mut at = it.senders.iter().map(|it| servers.index(*it));
        let first = at.next();
        first.is_some() && at.any(|it| Some(it) != first)
    };
    Connections { binding: binding.to_vec(), groups: made.filter(alive).collect() }
}

pub(super) fn used_ports(binding: &[(NodeId, NodeId)]) -> Vec<NodeId> {
    let mut ports: Vec<NodeId> = binding.iter().map(|it| it.1).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Links from and to CPUs, in servers whose GPUs NVLink joins, that no GPU needs on its path to its NIC.
fn host_links(network: &Network, servers: &Servers, binding: &[(NodeId, NodeId)]) -> Vec<LinkId> {
    let mut needed = vec![false; network.links().len()];
    for (gpu, port) in binding {
        let ways = servers.ways(network, *gpu);
        for way in ways.iter().filter(|it| it.port == *port) {
            for link in way.to_port.iter().chain(&way.from_port) {
                needed[link.index()] = true;
            }
        }
    }
    let of_host = |id: &LinkId| {
        let link = network.link(*id);
        let cpu = |it: NodeId| network.node(it).kind == NodeKind::Cpu;
        let (from, to) = (servers.index(link.from), servers.index(link.to));
        let inside = from == to && from.is_some_and(|it| servers.list()[it].joined);
        inside && (cpu(link.from) || cpu(link.to)) && !joins_gpus(network, *id)
    };
    network.link_ids().filter(|it| !needed[it.index()]).filter(of_host).collect()
}

/// Whether data can get from every rank to every other over these links.
pub(super) fn reaches_all(network: &Network, allowed: &[bool]) -> bool {
    let Some(start) = network.ranks().first() else { return true };
    [false, true].into_iter().all(|backwards| {
        let mut seen = vec![false; network.nodes().len()];
        seen[start.index()] = true;
        let mut open = vec![*start];
        while let Some(node) = open.pop() {
            let links = if backwards { network.incoming(node) } else { network.outgoing(node) };
            for link in links.iter().filter(|it| allowed[it.index()]) {
                let ends = network.link(*link);
                let next = if backwards { ends.from } else { ends.to };
                if !std::mem::replace(&mut seen[next.index()], true) {
                    open.push(next);
                }
            }
        }
        network.ranks().iter().all(|it| seen[it.index()])
    })
}

#[cfg(test)]
mod tests;
