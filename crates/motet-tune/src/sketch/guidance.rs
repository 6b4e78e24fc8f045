//! [`Guidance`]: what a sketch keeps of a network, and what it removes.

use std::collections::BTreeMap;
use std::fmt;

use crate::sketch::Sketch;
use crate::sketch::{Connections, Group, Servers};
use motet_net::Network;
use motet_units::NodeId;

/// A count before, and what is left of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    pub before: usize,
    pub left: usize,
}

impl Reduction {
    #[must_use]
    pub const fn removed(self) -> usize {
        self.before.saturating_sub(self.left)
    }

    /// The part that is gone, 0 to 1: for printing only.
    #[must_use]
    pub fn removed_part(self) -> f64 {
        if self.before == 0 { 0.0 } else { self.removed() as f64 / self.before as f64 }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, {:.0}% fewer", self.left, self.before, 100.0 * self.removed_part())
    }
}

/// What a sketch does to a network. Connections are counted out of one server, the one that has the
/// most: those to each server of the same kind are as many again the other way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guidance {
    /// From a GPU of a server to a GPU of another.
    pub gpu_connections: Reduction,
    /// From a NIC of a server to a NIC of another; what the paper counts (8 → 2 with three servers
    /// of two NICs each).
    pub nic_connections: Reduction,
    /// GPUs of a server that exchange data with other servers.
    pub connecting_gpus: Reduction,
    /// Links of the network that may be used, whatever the size.
    pub links: Reduction,
}

impl Guidance {
    #[must_use]
    pub fn of(network: &Network, servers: &Servers, sketch: &Sketch) -> Self {
        let before = all(servers);
        let left = match &sketch.connections {
            Some(connections) => kept(connections, servers),
            None => before,
        };
        let both = |it: fn(&Out) -> usize| Reduction { before: it(&before), left: it(&left) };
        Self {
            gpu_connections: both(|it| it.gpus),
            nic_connections: both(|it| it.nics),
            connecting_gpus: both(|it| it.connecting),
            links: Reduction {
                before: network.links().len(),
                left: sketch.allowed.iter().filter(|it| **it).count(),
            },
        }
    }
}

impl fmt::Display for Guidance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connections out of a server: GPU to GPU {}; NIC to NIC {}; links {}",
            self.gpu_connections, self.nic_connections, self.links
        )
    }
}

/// How many connections lead out of a server and how many of its GPUs have some; or the most of any server.
#[derive(Clone, Copy, Debug, Default)]
struct Out {
    gpus: usize,
    nics: usize,
    connecting: usize,
}

impl Out {
    fn most(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.max(other.gpus),
            nics: self.nics.max(other.nics),
            connecting: self.connecting.max(other.connecting),
        }
    }
}

/// The counts without a sketch: every GPU connects to every one of other servers, and every NIC to every NIC.
fn all(servers: &Servers) -> Out {
    let with_ports = || servers.list().iter().filter(|it| !it.ports.is_empty());
    let gpus: usize = with_ports().map(|it| it.gpus.len()).sum();
    let nics: usize = with_ports().map(|it| it.ports.len()).sum();
    let out = with_ports().map(|it| Out {
        gpus: it.gpus.len() * (gpus - it.gpus.len()),
        nics: it.ports.len() * (nics - it.ports.len()),
        connecting: it.gpus.len(),
    });
    out.fold(Out::default(), Out::most)
}

fn kept(connections: &Connections, servers: &Servers) -> Out {
    let mut out = vec![Out::default(); servers.list().len()];
    let everyone: Vec<NodeId> = connections.binding.iter().map(|it| it.0).collect();
    let whole = Group { ports: Vec::new(), senders: everyone.clone(), receivers: everyone };
    let groups = match connections.groups.as_slice() {
        [] => std::slice::from_ref(&whole),
        groups => groups,
    };
    let port_of: BTreeMap<NodeId, NodeId> = connections.binding.iter().copied().collect();
    for group in groups {
        let senders = by_server(servers, group.senders.iter().copied());
        let receivers = by_server(servers, group.receivers.iter().copied());
        let ports = |gpus: &[NodeId]| {
            let mut ports: Vec<NodeId> =
                gpus.iter().filter_map(|it| port_of.get(it).copied()).collect();
            ports.sort_unstable();
            ports.dedup();
            by_server(servers, ports.into_iter())
        };
        let (from, to) = (ports(&group.senders), ports(&group.receivers));
        let elsewhere = |counts: &BTreeMap<usize, usize>, server: usize| {
            counts.values().sum::<usize>() - counts.get(&server).copied().unwrap_or(0)
        };
        for (server, count) in &senders {
            out[*server].gpus += count * elsewhere(&receivers, *server);
            out[*server].connecting += count;
        }
        for (server, count) in &from {
            out[*server].nics += count * elsewhere(&to, *server);
        }
    }
    out.into_iter().fold(Out::default(), Out::most)
}

fn by_server(servers: &Servers, nodes: impl Iterator<Item = NodeId>) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for server in nodes.filter_map(|it| servers.index(it)) {
        *counts.entry(server).or_default() += 1;
    }
    counts
}
