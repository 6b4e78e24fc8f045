//! Stage 2: NICs of different servers into groups of like bandwidth.
//!
//! A group has at most one NIC of each server, and only NICs that a fabric joins. Groups are made greedily, as
//! in TuCCL, §III-B: of all groups that could be made next, the one over the most servers with the least
//! variance of bandwidth is made. A possible group is built around each NIC of the server that has the fewest
//! left (every group over all servers holds one of these): every other server adds its NIC nearest in
//! bandwidth; of equals, the one behind the same switch, then the one at the same place in its server, so that
//! on a rail-optimized fabric groups are rails.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use motet_graph::DisjointSets;
use motet_net::Network;
use motet_units::{Bandwidth, LinkId, NodeId};

use crate::sketch::Servers;

/// NICs that talk to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortGroup {
    /// In the order of their servers.
    pub ports: Vec<NodeId>,
    pub slowest: Bandwidth,
    pub fastest: Bandwidth,
}

/// A NIC that may be grouped.
#[derive(Clone, Copy, Debug)]
struct Port {
    node: NodeId,
    server: usize,
    /// Its place among the NICs of its server.
    place: usize,
    bits_per_s: u64,
    /// The node that its first link out of the server leads to.
    switch: Option<NodeId>,
}

/// Groups of these ports, the fastest first.
#[must_use]
pub fn group(network: &Network, servers: &Servers, ports: &[NodeId]) -> Vec<PortGroup> {
    let component = components(network, servers);
    let mut parts: BTreeMap<NodeId, Vec<Port>> = BTreeMap::new();
    for node in ports {
        if let Some(port) = port(network, servers, *node) {
            parts.entry(component[node.index()]).or_default().push(port);
        }
    }
    let mut groups: Vec<PortGroup> = parts.into_values().flat_map(greedy).collect();
    groups.sort_by_key(|it| (Reverse(it.slowest), it.ports.first().copied()));
    groups
}

fn port(network: &Network, servers: &Servers, node: NodeId) -> Option<Port> {
    let server = servers.index(node)?;
    let place = servers.list()[server].ports.iter().position(|it| *it == node)?;
    let leaves = |it: &&LinkId| servers.index(network.link(**it).to) != Some(server);
    let out: Vec<&LinkId> = network.outgoing(node).iter().filter(leaves).collect();
    let rates = out.iter().map(|it| network.link(**it).spec.bandwidth.bits_per_s());
    let bits_per_s = rates.fold(0, u64::saturating_add);
    let switch = out.first().map(|it| network.link(**it).to);
    Some(Port { node, server, place, bits_per_s, switch })
}

/// By node: a node that stands for all that links outside of servers join it to.
fn components(network: &Network, servers: &Servers) -> Vec<NodeId> {
    let mut joined = DisjointSets::new(network.nodes().len());
    for link in network.links() {
        if servers.index(link.from).is_some() && servers.index(link.from) == servers.index(link.to)
        {
            continue;
        }
        joined.join(link.from.index(), link.to.index());
    }
    network.node_ids().map(|it| NodeId::from_index(joined.root(it.index()))).collect()
}

/// Groups of ports that a fabric joins, until only one server has ports left.
fn greedy(ports: Vec<Port>) -> Vec<PortGroup> {
    let mut left: BTreeMap<usize, Vec<Port>> = BTreeMap::new();
    for port in ports {
        left.entry(port.server).or_default().push(port);
    }
    let mut groups = Vec::new();
    while left.len() > 1 {
        let fewest = left.values().min_by_key(|it| it.len()).cloned().unwrap_or_default();
        let made = fewest.iter().map(|seed| around(seed, &left));
        let best = made.min_by_key(|group| {
            (variance(group), Reverse(group.iter().map(|it| it.bits_per_s).min()), group[0].place)
        });
        let Some(best) = best else { break };
        for port in &best {
            if let Some(of_server) = left.get_mut(&port.server) {
                of_server.retain(|it| it.node != port.node);
            }
        }
        left.retain(|_, it| !it.is_empty());
        let rates = || best.iter().map(|it| Bandwidth::from_bits_per_s(it.bits_per_s));
        groups.push(PortGroup {
            slowest: rates().min().unwrap_or(Bandwidth::from_bits_per_s(0)),
            fastest: rates().max().unwrap_or(Bandwidth::from_bits_per_s(0)),
            ports: best.into_iter().map(|it| it.node).collect(),
        });
    }
    groups
}

/// The group around `seed`: the port itself, and of every other server the port most like it; in the order of servers.
fn around(seed: &Port, left: &BTreeMap<usize, Vec<Port>>) -> Vec<Port> {
    let unlike = |it: &&Port| {
        let apart = it.bits_per_s.abs_diff(seed.bits_per_s);
        (apart, it.switch != seed.switch, it.place.abs_diff(seed.place), it.place)
    };
    let pick = |(server, ports): (&usize, &Vec<Port>)| {
        if *server == seed.server { Some(*seed) } else { ports.iter().min_by_key(unlike).copied() }
    };
    left.iter().filter_map(pick).collect()
}

/// n² times the variance of the bandwidths, exact; groups of one size compare by it.
fn variance(ports: &[Port]) -> u128 {
    let rates = || ports.iter().map(|it| u128::from(it.bits_per_s));
    let sum = rates().sum::<u128>();
    let squares = rates().map(|it| it.saturating_mul(it)).fold(0, u128::saturating_add);
    (ports.len() as u128).saturating_mul(squares).saturating_sub(sum.saturating_mul(sum))
}
