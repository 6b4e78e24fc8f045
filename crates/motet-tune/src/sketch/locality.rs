//! The servers of a network, the ports by which they are joined to the rest, and the distance from GPUs to ports.
//!
//! A **port** is a device of a server with links that leave it, both ways: a NIC, or, in a flat
//! network without NICs, the GPU itself. The path from a GPU to a port stays inside the server and
//! passes PCIe switches and CPUs only: never another GPU, another port or an NVSwitch.

use std::collections::BTreeMap;

use motet_graph::{Dijkstra, Hop, Length, Rows};
use motet_net::{LinkClass, Network, NodeKind};
use motet_units::{LinkId, NodeId};

/// A server with at least one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    /// In rank order.
    pub gpus: Vec<NodeId>,
    /// In file order.
    pub ports: Vec<NodeId>,
    /// Whether some device of it has links that leave the server in one direction only (a GPU that sends for a
    /// NIC, another that receives): such a network decides already which GPUs relay.
    pub one_way: bool,
    /// Whether NVLink or the like joins all its GPUs, so that nothing needs to pass the host.
    pub joined: bool,
}

/// The servers of a network, by their first rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    list: Vec<Server>,
    /// By node: its server, if that has GPUs.
    of: Vec<Option<u32>>,
    /// The nodes of each server, in file order, so that a search inside a server has as many nodes as the server.
    nodes: Rows<NodeId>,
    /// By node: its place among the nodes of its server.
    place: Vec<u32>,
}

impl Servers {
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut list: Vec<Server> = Vec::new();
        for gpu in network.ranks() {
            let Some(name) = network.node(*gpu).location.server.as_deref() else { continue };
            let next = u32::try_from(list.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(name).or_insert(next);
            if number == next {
                list.push(Server {
                    name: name.to_owned(),
                    gpus: Vec::new(),
                    ports: Vec::new(),
                    one_way: false,
                    joined: false,
                });
            }
            list[number as usize].gpus.push(*gpu);
        }
        let server = |it: &motet_net::Node| numbers.get(it.location.server.as_deref()?).copied();
        let of: Vec<Option<u32>> = network.nodes().iter().map(server).collect();
        let inside =
            (0..of.len()).filter_map(|node| Some((of[node]? as usize, NodeId::from_index(node))));
        let nodes = Rows::group(list.len(), inside);
        let mut place = vec![0; of.len()];
        for server in 0..list.len() {
            for (at, node) in (0u32..).zip(nodes.row(server)) {
                place[node.index()] = at;
            }
        }
        let mut servers = Self { list, of, nodes, place };
        servers.find_ports(network);
        for server in 0..servers.list.len() {
            servers.list[server].joined = servers.gpus_are_joined(network, server);
        }
        servers
    }

    #[must_use]
    pub fn list(&self) -> &[Server] {
        &self.list
    }

    /// The server that a node stands in, as an index into [`list`](Self::list).
    #[must_use]
    pub fn index(&self, node: NodeId) -> Option<usize> {
        self.of[node.index()].map(|it| it as usize)
    }

    fn find_ports(&mut self, network: &Network) {
        for node in network.node_ids() {
            let Some(server) = self.index(node) else { continue };
            let leaves = |links: &[LinkId]| {
                let mut ends = links.iter().map(|it| network.link(*it));
                ends.any(|it| self.index(it.from) != self.index(it.to))
            };
            match (leaves(network.outgoing(node)), leaves(network.incoming(node))) {
                (true, true) => self.list[server].ports.push(node),
                (false, false) => {}
                _ => self.list[server].one_way = true,
            }
        }
    }

    /// Whether links between GPUs, and to and from NVSwitches, join all GPUs of a server.
    fn gpus_are_joined(&self, network: &Network, server: usize) -> bool {
        let gpus = &self.list[server].gpus;
        let mut seen = BTreeMap::from([(gpus[0], ())]);
        let mut open = vec![gpus[0]];
        while let Some(node) = open.pop() {
            for link in network.outgoing(node) {
                let to = network.link(*link).to;
                let inside = self.index(to) == Some(server) && joins_gpus(network, *link);
                if inside && seen.insert(to, ()).is_none() {
                    open.push(to);
                }
            }
        }
        gpus.iter().all(|it| seen.contains_key(it))
    }

    /// The paths from a GPU to every port of its server that can be reached, and back, in the order
    /// of the ports.
    #[must_use]
    pub fn ways(&self, network: &Network, gpu: NodeId) -> Vec<PortPath> {
        let Some(server) = self.index(gpu) else { return Vec::new() };
        let there = self.search(network, gpu, server, false);
        let back = self.search(network, gpu, server, true);
        let way = |port: &NodeId| {
            if *port == gpu {
                return Some(PortPath::own(gpu));
            }
            let at = self.place[port.index()];
            if !there.is_reached(at) || !back.is_reached(at) {
                return None;
            }
            let distance = there.distance(at);
            let mut to_port = self.trace(network, &there, *port, false);
            to_port.reverse();
            let from_port = self.trace(network, &back, *port, true);
            Some(PortPath { port: *port, distance, to_port, from_port })
        };
        self.list[server].ports.iter().filter_map(way).collect()
    }

    /// The least distance from `gpu` to every device of its server, by their places there, and the last link of the
    /// way; `backwards`: from the device to the GPU, and the first link.
    fn search(
        &self,
        network: &Network,
        gpu: NodeId,
        server: usize,
        backwards: bool,
    ) -> Dijkstra<Distance> {
        let nodes = self.nodes.row(server);
        let hop = |node: NodeId, id: LinkId| {
            let link = network.link(id);
            let next = if backwards { link.from } else { link.to };
            let kind = network.node(next).kind;
            if self.index(next) != Some(server) || kind == NodeKind::NvSwitch {
                return None;
            }
            let to_socket = kind == NodeKind::Cpu && network.node(node).kind == kind;
            let length = Distance {
                sockets: u32::from(to_socket || link.spec.class == LinkClass::Smp),
                hosts: u32::from(kind == NodeKind::Cpu),
                hops: 1,
            };
            Some(Hop { arc: id.index() as u32, to: self.place[next.index()], length })
        };
        let mut found = Dijkstra::new(nodes.len());
        found.search([(self.place[gpu.index()], Distance::ZERO)], |at| {
            let node = nodes[at as usize];
            let passes = matches!(network.node(node).kind, NodeKind::PcieSwitch | NodeKind::Cpu);
            let links = match (node == gpu || passes, backwards) {
                (false, _) => &[],
                (true, true) => network.incoming(node),
                (true, false) => network.outgoing(node),
            };
            links.iter().filter_map(move |id| hop(node, *id))
        });
        found
    }

    /// The links of a path, from its far end back to where the search began.
    fn trace(
        &self,
        network: &Network,
        found: &Dijkstra<Distance>,
        port: NodeId,
        backwards: bool,
    ) -> Vec<LinkId> {
        let mut links = Vec::new();
        let mut at = port;
        while let Some(arc) = found.last_arc(self.place[at.index()]) {
            let id = LinkId::from_index(arc as usize);
            links.push(id);
            at = if backwards { network.link(id).to } else { network.link(id).from };
        }
        links
    }
}

/// Whether a link is of the fabric between GPUs: NVLink, xGMI, or whatever joins them directly.
#[must_use]
pub fn joins_gpus(network: &Network, link: LinkId) -> bool {
    let link = network.link(link);
    let of_fabric =
        |it: NodeId| matches!(network.node(it).kind, NodeKind::Gpu | NodeKind::NvSwitch);
    of_fabric(link.from) && of_fabric(link.to)
}

/// How far a port is from a GPU. Sockets count most, then CPUs (root complexes), then links: first
/// what is behind the same PCIe switch, then behind the same CPU, then in the same server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    /// Crossings from one CPU socket to another.
    pub sockets: u32,
    pub hosts: u32,
    pub hops: u32,
}

impl Length for Distance {
    type Key = Self;

    const ZERO: Self = Self { sockets: 0, hosts: 0, hops: 0 };
    const FAR: Self = Self { sockets: u32::MAX, hosts: u32::MAX, hops: u32::MAX };

    fn key(self) -> Self {
        self
    }

    /// No way has as many links as would overflow: a network has at most 2^23.
    fn plus(self, other: Self) -> Self {
        Self {
            sockets: self.sockets.saturating_add(other.sockets),
            hosts: self.hosts.saturating_add(other.hosts),
            hops: self.hops.saturating_add(other.hops),
        }
    }
}

/// The path from a GPU to a port, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPath {
    pub port: NodeId,
    pub distance: Distance,
    pub to_port: Vec<LinkId>,
    pub from_port: Vec<LinkId>,
}

impl PortPath {
    /// The empty path of a GPU that is itself a port.
    const fn own(gpu: NodeId) -> Self {
        let distance = Distance { sockets: 0, hosts: 0, hops: 0 };
        Self { port: gpu, distance, to_port: Vec::new(), from_port: Vec::new() }
    }
}
