//! [`Connections`]: which GPU uses which NIC, which NICs talk to each other, and so which GPUs of
//! different servers may exchange data; and the links that remain of a network under them.
//!
//! What a link mask can say of this is exact at both ends: a GPU that does not connect has no way
//! out, a NIC in no group carries nothing, a cable between two NICs of different groups is not used.
//! Behind a switch that joins several groups it is a relaxation: the links of the switch are shared,
//! so a program may still send from a GPU of one group to one of another. [`Connections::pairs`]
//! lists the pairs that are meant.

use std::collections::{BTreeMap, BTreeSet};

use motet_net::{Network, NodeKind};
use motet_units::{LinkId, NodeId};

use super::locality::{PortPath, Servers, joins_gpus};

/// The GPU–NIC binding and the groups of NICs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// (GPU, port), in rank order. A GPU that is not listed does not leave its server.
    pub binding: Vec<(NodeId, NodeId)>,
    /// The groups of ports; if there are none, every port may talk to every other.
    pub groups: Vec<Group>,
}

/// Ports that talk to each other, at most one of each server, and the GPUs that use them for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub ports: Vec<NodeId>,
    /// GPUs bound to these ports that send to other servers, in rank order.
    pub senders: Vec<NodeId>,
    /// GPUs bound to these ports that receive from other servers.
    pub receivers: Vec<NodeId>,
}

/// Which part of the connections is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An entry of the binding.
    Binding(usize),
    /// The number of a group, and that of a port, sender or receiver in it.
    Port(usize, usize),
    Sender(usize, usize),
    Receiver(usize, usize),
}

/// Why connections do not fit a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Misfit {
    pub part: Part,
    pub problem: String,
    pub remedy: String,
}

impl Connections {
    /// Whether the connections are possible on the network.
    pub fn check(&self, network: &Network, servers: &Servers) -> Result<(), Misfit> {
        self.ways(network, servers)?;
        let port_of: BTreeMap<NodeId, NodeId> = self.binding.iter().copied().collect();
        let group_of = self.groups_of(network);
        let mut grouped = BTreeSet::new();
        for (number, group) in self.groups.iter().enumerate() {
            let mut here = BTreeSet::new();
            for (index, port) in group.ports.iter().enumerate() {
                let name = &network.node(*port).name;
                let wrong = |problem: String, remedy: &str| Misfit {
                    part: Part::Port(number, index),
                    problem,
                    remedy: remedy.to_owned(),
                };
                let Some(server) = servers.index(*port) else {
                    let problem = format!("`{name}` stands in no server that has GPUs");
                    return Err(wrong(problem, "list NICs of servers"));
                };
                if !here.insert(server) {
                    let problem = format!("`{name}` is the second NIC of its server in this group");
                    return Err(wrong(problem, "put NICs of one server into different groups"));
                }
                if !grouped.insert(*port) {
                    let problem = format!("`{name}` is in two groups");
                    return Err(wrong(problem, "list each NIC in one group"));
                }
            }
            let members = [(&group.senders, true), (&group.receivers, false)];
            for (gpus, sends) in members {
                for (index, gpu) in gpus.iter().enumerate() {
                    let bound = port_of.get(gpu).and_then(|it| group_of[it.index()]);
                    if bound.is_some_and(|it| it as usize == number) {
                        continue;
                    }
                    let name = &network.node(*gpu).name;
                    let part = if sends { Part::Sender } else { Part::Receiver };
                    return Err(Misfit {
                        part: part(number, index),
                        problem: format!("`{name}` is not bound to a NIC of this group"),
                        remedy: "bind it to one in [binding], or leave it out".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The path between GPU and port of every entry of the binding.
    fn ways(&self, network: &Network, servers: &Servers) -> Result<Vec<PortPath>, Misfit> {
        let mut bound = BTreeSet::new();
        let mut ways = Vec::with_capacity(self.binding.len());
        for (index, (gpu, port)) in self.binding.iter().enumerate() {
            let names = (&network.node(*gpu).name, &network.node(*port).name);
            let wrong = |problem: String, remedy: String| Misfit {
                part: Part::Binding(index),
                problem,
                remedy,
            };
            if network.node(*gpu).kind != NodeKind::Gpu {
                let problem = format!("`{}` is a {}", names.0, network.node(*gpu).kind);
                return Err(wrong(problem, "bind GPUs to NICs".to_owned()));
            }
            if !bound.insert(*gpu) {
                let problem = format!("`{}` is bound twice", names.0);
                return Err(wrong(problem, "bind each GPU to one NIC".to_owned()));
            }
            let mut all = servers.ways(network, *gpu);
            match all.iter().position(|it| it.port == *port) {
                Some(found) => ways.push(all.swap_remove(found)),
                None => {
                    let problem = format!(
                        "`{}` leads outside by no way that `{}` can take",
                        names.1, names.0
                    );
                    let near: Vec<&str> =
                        all.iter().map(|it| network.node(it.port).name.as_str()).collect();
                    return Err(wrong(
                        problem,
                        match near.is_empty() {
                            true => "leave the GPU out: no NIC can be reached from it".to_owned(),
                            false => format!("bind it to one of: {}", near.join(", ")),
                        },
                    ));
                }
            }
        }
        Ok(ways)
    }

    /// Per link, whether a program may use it: the fabric between the GPUs of a server, the paths of
    /// GPUs that connect to their NICs, the cables of these NICs, and everything outside of servers. In a server
    /// whose GPUs are not joined by NVLink or the like, all links inside remain allowed.
    pub fn mask(&self, network: &Network, servers: &Servers) -> Result<Vec<bool>, Misfit> {
        let ways = self.ways(network, servers)?;
        let group_of = self.groups_of(network);
        let (sends, receives) = self.open_ports(network);
        let port_group = |it: NodeId| group_of[it.index()];
        let allowed = |id: LinkId| {
            let link = network.link(id);
            match (servers.index(link.from), servers.index(link.to)) {
                (None, None) => true,
                (Some(a), Some(b)) if a == b => {
                    !servers.list()[a].joined || joins_gpus(network, id)
                }
                (from, to) => {
                    let out = from.is_none() || sends[link.from.index()];
                    let inward = to.is_none() || receives[link.to.index()];
                    let cable = from.is_some() && to.is_some() && !self.groups.is_empty();
                    out && inward && (!cable || port_group(link.from) == port_group(link.to))
                }
            }
        };
        let mut mask: Vec<bool> = network.link_ids().map(allowed).collect();
        let roles = self.roles(network);
        for ((gpu, _), way) in self.binding.iter().zip(&ways) {
            let (to, from) = roles[gpu.index()];
            let links = way.to_port.iter().filter(|_| to);
            for link in links.chain(way.from_port.iter().filter(|_| from)) {
                mask[link.index()] = true;
            }
        }
        Ok(mask)
    }

    /// By node: whether it is a bound GPU that sends to other servers, and whether one that receives from them.
    fn roles(&self, network: &Network) -> Vec<(bool, bool)> {
        let mut roles = vec![(false, false); network.nodes().len()];
        if self.groups.is_empty() {
            for (gpu, _) in &self.binding {
                roles[gpu.index()] = (true, true);
            }
        }
        for group in &self.groups {
            group.senders.iter().for_each(|it| roles[it.index()].0 = true);
            group.receivers.iter().for_each(|it| roles[it.index()].1 = true);
        }
        roles
    }

    /// By node: the group that it is a port of.
    fn groups_of(&self, network: &Network) -> Vec<Option<u32>> {
        let mut group_of = vec![None; network.nodes().len()];
        for (number, group) in (0..).zip(&self.groups) {
            for port in &group.ports {
                group_of[port.index()] = Some(number);
            }
        }
        group_of
    }

    /// By node: whether it is a port by which some GPU sends, and whether one by which some GPU receives.
    fn open_ports(&self, network: &Network) -> (Vec<bool>, Vec<bool>) {
        let roles = self.roles(network);
        let mut sends = vec![false; network.nodes().len()];
        let mut receives = sends.clone();
        for (gpu, port) in &self.binding {
            let (to, from) = roles[gpu.index()];
            sends[port.index()] |= to;
            receives[port.index()] |= from;
        }
        (sends, receives)
    }

    /// By group: the GPUs bound to its ports, in rank order.
    #[must_use]
    pub fn bound(&self, network: &Network) -> Vec<Vec<NodeId>> {
        let group_of = self.groups_of(network);
        let mut bound = vec![Vec::new(); self.groups.len()];
        for (gpu, port) in &self.binding {
            if let Some(group) = group_of[port.index()] {
                bound[group as usize].push(*gpu);
            }
        }
        bound
    }

    /// The GPU pairs of different servers that may exchange data, sender first; each once.
    pub fn pairs<'a>(
        &'a self,
        servers: &'a Servers,
    ) -> impl Iterator<Item = (NodeId, NodeId)> + use<'a> {
        let all: Vec<NodeId> = self.binding.iter().map(|it| it.0).collect();
        let whole = Group { ports: Vec::new(), senders: all.clone(), receivers: all };
        let groups = if self.groups.is_empty() { vec![whole] } else { self.groups.clone() };
        groups.into_iter().flat_map(move |group| {
            let mut pairs = Vec::new();
            for from in &group.senders {
                let others = |it: &&NodeId| servers.index(**it) != servers.index(*from);
                pairs.extend(group.receivers.iter().filter(others).map(|to| (*from, *to)));
            }
            pairs
        })
    }
}
