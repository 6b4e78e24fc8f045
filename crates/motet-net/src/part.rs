//! [`Network::part`]: the network as a group of its ranks has it to itself.
//!
//! A communicator over some of the GPUs, a tensor-parallel group in a server or a data-parallel one along a rail, is
//! planned for like a cluster of its own. It has its GPUs, the servers they are in, and the fabric between
//! them. GPUs that are no members are gone: their memory belongs to others, who forward nothing. Groups of one
//! parallelism call at the same time, so a NIC next to somebody else's GPU is gone too, unless its server would
//! have none left. What the group shares with others further out in the fabric is not divided here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_units::{NodeId, Rank};

use crate::network::{BuildError, Network, NetworkBuilder};
use crate::node::NodeKind;

/// Why a group is none of this network's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    #[error("rank {rank} is not one of the network's {ranks}")]
    UnknownRank { rank: Rank, ranks: usize },
    #[error("rank {0} is in the group twice")]
    Twice(Rank),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Network {
    /// The network of some of the ranks, which are numbered anew in the order given.
    pub fn part(&self, members: &[Rank]) -> Result<Self, PartError> {
        let mut ranks: BTreeMap<NodeId, Rank> = BTreeMap::new();
        for (place, rank) in members.iter().enumerate() {
            let unknown = PartError::UnknownRank { rank: *rank, ranks: self.ranks().len() };
            let gpu = self.gpu(*rank).ok_or(unknown)?;
            if ranks.insert(gpu, Rank::from_index(place)).is_some() {
                return Err(PartError::Twice(*rank));
            }
        }
        let kept = self.kept(&ranks);
        let mut builder = NetworkBuilder::new(self.name());
        let mut places: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for id in self.node_ids().filter(|it| kept[it.index()]) {
            let mut node = self.node(id).clone();
            node.rank = ranks.get(&id).copied();
            places.insert(id, builder.add_node(node)?);
        }
        for id in self.link_ids() {
            let link = self.link(id);
            let ends = places.get(&link.from).zip(places.get(&link.to));
            let Some((from, to)) = ends else { continue };
            match link.reverse {
                None => drop(builder.add_link(*from, *to, link.spec)?),
                // A pair is added with its first link.
                Some(back) if back.index() > id.index() => {
                    builder.add_duplex(*from, *to, link.spec)?;
                }
                Some(_) => {}
            }
        }
        Ok(builder.build()?)
    }

    /// Which nodes the group has.
    fn kept(&self, members: &BTreeMap<NodeId, Rank>) -> Vec<bool> {
        let server = |id: NodeId| self.node(id).location.server.as_deref();
        let servers: BTreeSet<&str> = members.keys().filter_map(|it| server(*it)).collect();
        let mut kept: Vec<bool> = self
            .node_ids()
            .map(|id| match (self.node(id).kind, server(id)) {
                (NodeKind::Gpu, _) => members.contains_key(&id),
                (_, Some(server)) => servers.contains(server),
                _ => true,
            })
            .collect();
        // NICs of each server: all of them, and those next to a member.
        let mut nics: BTreeMap<&str, (Vec<NodeId>, Vec<NodeId>)> = BTreeMap::new();
        for id in
            self.node_ids().filter(|it| kept[it.index()] && self.node(*it).kind == NodeKind::Nic)
        {
            let Some(server) = server(id) else { continue };
            let of = nics.entry(server).or_default();
            of.0.push(id);
            let nearest = self.nearest_gpus(id);
            if nearest.is_empty() || nearest.iter().any(|it| members.contains_key(it)) {
                of.1.push(id);
            }
        }
        for (all, own) in nics.into_values() {
            if !own.is_empty() {
                all.iter().filter(|it| !own.contains(it)).for_each(|it| kept[it.index()] = false);
            }
        }
        self.prune(&mut kept);
        kept
    }

    /// The GPUs that a NIC reaches over the fewest links of its server, without passing through another GPU.
    fn nearest_gpus(&self, nic: NodeId) -> Vec<NodeId> {
        let server = &self.node(nic).location.server;
        let mut distance: BTreeMap<NodeId, u32> = BTreeMap::from([(nic, 0)]);
        let mut queue = VecDeque::from([nic]);
        let mut found: Vec<(u32, NodeId)> = Vec::new();
        while let Some(here) = queue.pop_front() {
            let next = distance[&here] + 1;
            for link in self.outgoing(here) {
                let to = self.link(*link).to;
                let node = self.node(to);
                if node.location.server != *server || distance.contains_key(&to) {
                    continue;
                }
                distance.insert(to, next);
                match node.kind {
                    NodeKind::Gpu => found.push((next, to)),
                    // What a NIC behind this one is next to is that one's business.
                    NodeKind::Nic => {}
                    _ => queue.push_back(to),
                }
            }
        }
        let least = found.iter().map(|it| it.0).min();
        found.into_iter().filter(|it| Some(it.0) == least).map(|it| it.1).collect()
    }

    /// Switches of the fabric that lead nowhere any more go.
    fn prune(&self, kept: &mut [bool]) {
        loop {
            let is_end = |id: &NodeId| {
                let node = self.node(*id);
                let fabric = node.location.server.is_none() && node.kind != NodeKind::Gpu;
                let neighbours: BTreeSet<NodeId> = self
                    .outgoing(*id)
                    .iter()
                    .map(|it| self.link(*it).to)
                    .chain(self.incoming(*id).iter().map(|it| self.link(*it).from))
                    .filter(|it| kept[it.index()])
                    .collect();
                kept[id.index()] && fabric && neighbours.len() < 2
            };
            let ends: Vec<NodeId> = self.node_ids().filter(is_end).collect();
            if ends.is_empty() {
                return;
            }
            ends.iter().for_each(|it| kept[it.index()] = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::{self, Params};
    use crate::link::{LinkClass, LinkSpec};
    use crate::node::Node;
    use crate::signature::Signature;
    use motet_units::{Bandwidth, Duration};

    fn dgx(count: u32) -> Network {
        let params = Params::from_words([format!("count={count}")]).unwrap();
        builders::find("dgx-h100").unwrap().build(&params).unwrap()
    }

    fn part(network: &Network, members: &[u32]) -> Network {
        network.part(&members.iter().map(|it| Rank(*it)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_group_in_a_server_is_like_any_other() {
        let network = dgx(2);
        let (first, second) = (part(&network, &[0, 1, 2, 3]), part(&network, &[12, 13, 14, 15]));
        assert_eq!(first.ranks().len(), 4);
        assert_eq!(Signature::of(&first), Signature::of(&second));
        // The other server is gone, and with it the fabric that leads nowhere.
        let servers: BTreeSet<_> =
            first.nodes().iter().filter_map(|it| it.location.server.clone()).collect();
        assert_eq!(servers.len(), 1);
    }

    /// Two servers of two GPUs, each behind a PCIe switch with a NIC of its own; one leaf for each rail, and a spine.
    fn rails() -> Network {
        let mut builder = NetworkBuilder::new("rails");
        let spec =
            LinkSpec::new(LinkClass::Pcie, Bandwidth::gbit_per_s(400), Duration::from_ns(500));
        let spine = builder.add_node(Node::new("spine", NodeKind::Spine)).unwrap();
        let leaves = [0, 1].map(|rail| {
            let leaf = builder.add_node(Node::new(format!("leaf{rail}"), NodeKind::Leaf)).unwrap();
            builder.add_duplex(leaf, spine, spec).unwrap();
            leaf
        });
        for server in ["a", "b"] {
            let cpu = builder
                .add_node(Node::new(format!("{server}cpu"), NodeKind::Cpu).in_server(server));
            let cpu = cpu.unwrap();
            for (rail, leaf) in leaves.iter().enumerate() {
                let [gpu, switch, nic] = [
                    ("gpu", NodeKind::Gpu),
                    ("pcie", NodeKind::PcieSwitch),
                    ("nic", NodeKind::Nic),
                ]
                .map(|(name, kind)| {
                    let node = Node::new(format!("{server}{name}{rail}"), kind).in_server(server);
                    builder.add_node(node).unwrap()
                });
                for (from, to) in [(gpu, switch), (switch, nic), (switch, cpu), (nic, *leaf)] {
                    builder.add_duplex(from, to, spec).unwrap();
                }
            }
        }
        builder.build().unwrap()
    }

    #[test]
    fn a_rail_has_its_own_nics() {
        let network = rails();
        let rail = part(&network, &[1, 3]);
        let names: Vec<&str> = rail.nodes().iter().map(|it| it.name.as_str()).collect();
        let expected = [
            "leaf1", "acpu", "apcie0", "agpu1", "apcie1", "anic1", "bcpu", "bpcie0", "bgpu1",
            "bpcie1", "bnic1",
        ];
        assert_eq!(names, expected, "neither the other rail's NICs nor what leads only to them");
        assert_eq!(Signature::of(&rail), Signature::of(&part(&network, &[0, 2])));
        let all = part(&network, &[0, 1, 2, 3]);
        assert_eq!(
            (all.nodes().len(), all.links().len()),
            (network.nodes().len(), network.links().len())
        );
        // Ranks are in the order of the group.
        let turned = part(&network, &[3, 1]);
        assert_eq!(turned.node(turned.ranks()[0]).name, "bgpu1");
    }

    #[test]
    fn strangers_are_refused() {
        let network = dgx(1);
        let wrong = |members: &[u32]| {
            let members: Vec<Rank> = members.iter().map(|it| Rank(*it)).collect();
            network.part(&members).unwrap_err().to_string()
        };
        assert_eq!(wrong(&[0, 8]), "rank 8 is not one of the network's 8");
        assert_eq!(wrong(&[1, 1]), "rank 1 is in the group twice");
    }
}
