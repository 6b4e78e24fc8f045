//! [`Layout`]: how a network is built out of namespaces: a host for each rank, a bridge for each datacenter, a router for each node that a
//! WAN link ends at, a line for each WAN link, and addresses for all of them.
//!
//! Whatever stands between a rank and its datacenter's border (NICs, leaves, spines) is one bridge here, which is as fast as the machine is: only WAN links are
//! emulated.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use motet_net::{LinkClass, Network, NodeKind};
use motet_units::{LinkId, NodeId};

use crate::error::TestbedError;

/// Most hosts, routers and lines of a testbed: each is a namespace or a pair of devices on one machine.
pub const MAX_HOSTS: usize = 240;
/// See [`MAX_HOSTS`].
pub const MAX_ROUTERS: usize = 240;
/// See [`MAX_HOSTS`].
pub const MAX_LINES: usize = 1024;
/// Most datacenters: each has a second byte of an address of its own.
pub const MAX_LANS: usize = 100;

/// A host: one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name of its node.
    pub name: String,
    /// The number of its datacenter's bridge.
    pub lan: usize,
    pub address: Ipv4Addr,
}

/// A router: a node that a WAN link ends at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    pub node: NodeId,
    pub name: String,
    /// The bridge that it is at, and its address there; none if it only passes packets on between WAN links.
    pub lan: Option<(usize, Ipv4Addr)>,
}

/// A WAN link, both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The routers at its ends.
    pub ends: [usize; 2],
    /// The link from the first end to the second, and back.
    pub links: [LinkId; 2],
    /// The addresses of its ends.
    pub addresses: [Ipv4Addr; 2],
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Names of the datacenters.
    pub lans: Vec<String>,
    /// By rank.
    pub hosts: Vec<Host>,
    pub routers: Vec<Router>,
    pub wires: Vec<Wire>,
    /// For each link of the network its wire, and 0 if it goes from the first end to the second, 1 if back; none for links inside a datacenter.
    by_link: Vec<Option<(usize, usize)>>,
}

fn wrong<T>(why: impl Into<String>) -> Result<T, TestbedError> {
    Err(TestbedError::Layout(why.into()))
}

impl Layout {
    /// The testbed of a network.
    pub fn new(network: &Network) -> Result<Self, TestbedError> {
        let mut lans: Vec<String> = Vec::new();
        let mut hosts = Vec::new();
        for rank in network.ranks() {
            let node = network.node(*rank);
            let lan = lan_of(network, *rank, &mut lans);
            let Some(address) = address(lan, hosts.len() + 1) else {
                return wrong(format!(
                    "a testbed has at most {MAX_LANS} datacenters and {MAX_HOSTS} ranks"
                ));
            };
            hosts.push(Host { name: node.name.clone(), lan, address });
        }
        if hosts.len() > MAX_HOSTS {
            return wrong(format!(
                "{} ranks: a testbed has at most {MAX_HOSTS}, each a host of its own",
                hosts.len()
            ));
        }
        let mut made = Self {
            lans,
            hosts,
            routers: Vec::new(),
            wires: Vec::new(),
            by_link: vec![None; network.links().len()],
        };
        made.add_wires(network)?;
        Ok(made)
    }

    fn add_wires(&mut self, network: &Network) -> Result<(), TestbedError> {
        let mut routers = BTreeMap::new();
        // Links whose opposite direction was not found yet, by their ends.
        let mut open: BTreeMap<(NodeId, NodeId), Vec<LinkId>> = BTreeMap::new();
        for id in network.link_ids().filter(|it| is_wan(network, *it)) {
            let link = network.link(id);
            if let Some(there) = open.get_mut(&(link.to, link.from)).and_then(Vec::pop) {
                self.add_wire(network, [there, id], &mut routers)?;
            } else {
                open.entry((link.from, link.to)).or_default().insert(0, id);
            }
        }
        if let Some(((from, to), _)) = open.iter().find(|it| !it.1.is_empty()) {
            let (from, to) = (&network.node(*from).name, &network.node(*to).name);
            return wrong(format!(
                "the WAN link {from} -> {to} has no way back, which connections need; add one"
            ));
        }
        Ok(())
    }

    fn add_wire(
        &mut self,
        network: &Network,
        links: [LinkId; 2],
        routers: &mut BTreeMap<NodeId, usize>,
    ) -> Result<(), TestbedError> {
        let number = self.wires.len();
        if number >= MAX_LINES {
            return wrong(format!("a testbed has at most {MAX_LINES} WAN links"));
        }
        let there = network.link(links[0]);
        let ends =
            [self.router(network, there.from, routers)?, self.router(network, there.to, routers)?];
        // Four addresses for each wire, of 100.64.0.0/10, which is reserved for carriers' own networks.
        let base = u32::from(Ipv4Addr::new(100, 64, 0, 0)) + 4 * number as u32;
        let addresses = [Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2)];
        for (way, link) in links.into_iter().enumerate() {
            self.by_link[link.index()] = Some((number, way));
        }
        self.wires.push(Wire { ends, links, addresses });
        Ok(())
    }

    fn router(
        &mut self,
        network: &Network,
        id: NodeId,
        known: &mut BTreeMap<NodeId, usize>,
    ) -> Result<usize, TestbedError> {
        if let Some(number) = known.get(&id) {
            return Ok(*number);
        }
        let node = network.node(id);
        if node.kind == NodeKind::Gpu {
            return wrong(format!(
                "`{}` is a rank and has a WAN link of its own; a testbed needs a border router between them",
                node.name
            ));
        }
        let number = self.routers.len();
        if number >= MAX_ROUTERS {
            return wrong(format!("a testbed has at most {MAX_ROUTERS} routers"));
        }
        // A node of no datacenter, or of one without ranks, is a router that only passes packets on.
        let dc = node.location.dc.as_deref().unwrap_or_default();
        let lan = self.lans.iter().position(|it| it == dc);
        let lan = lan.and_then(|it| Some((it, address(it, 0xff00 + number)?)));
        self.routers.push(Router { node: id, name: node.name.clone(), lan });
        known.insert(id, number);
        Ok(number)
    }

    /// The wire of a link, and which of its two directions it is.
    #[must_use]
    pub fn wire_of(&self, link: LinkId) -> Option<(usize, usize)> {
        self.by_link.get(link.index()).copied().flatten()
    }

    /// What the testbed consists of, in one line for people.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} hosts in {} datacenters, {} routers, {} WAN links",
            self.hosts.len(),
            self.lans.len(),
            self.routers.len(),
            self.wires.len()
        )
    }
}

/// The number of a node's datacenter, which is added if it is new.
fn lan_of(network: &Network, node: NodeId, lans: &mut Vec<String>) -> usize {
    let dc = network.node(node).location.dc.clone().unwrap_or_default();
    lans.iter().position(|it| *it == dc).unwrap_or_else(|| {
        lans.push(dc);
        lans.len() - 1
    })
}

/// Whether a link is a WAN link: it joins two datacenters, or its class says so.
fn is_wan(network: &Network, link: LinkId) -> bool {
    let link = network.link(link);
    let dc = |it: NodeId| network.node(it).location.dc.as_deref();
    link.spec.class == LinkClass::Wan
        || matches!((dc(link.from), dc(link.to)), (Some(a), Some(b)) if a != b)
}

/// An address of a datacenter's bridge; the low two bytes are the station's number.
fn address(lan: usize, station: usize) -> Option<Ipv4Addr> {
    let second = u8::try_from(100 + lan).ok().filter(|_| lan < MAX_LANS)?;
    let [high, low] = u16::try_from(station).ok()?.to_be_bytes();
    Some(Ipv4Addr::new(10, second, high, low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    #[test]
    fn two_datacenters_are_hosts_routers_and_wires() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let layout = Layout::new(&network).unwrap();
        assert_eq!(layout.summary(), "8 hosts in 2 datacenters, 4 routers, 4 WAN links");
        for (number, wire) in layout.wires.iter().enumerate() {
            let [there, back] = wire.links;
            let (there, back) = (network.link(there), network.link(back));
            assert_eq!((there.from, there.to), (back.to, back.from));
            assert_eq!(layout.routers[wire.ends[0]].node, there.from);
            assert_eq!(layout.wire_of(wire.links[1]), Some((number, 1)));
        }
        let mut all: Vec<Ipv4Addr> = layout.hosts.iter().map(|it| it.address).collect();
        all.extend(layout.routers.iter().filter_map(|it| it.lan.map(|it| it.1)));
        all.extend(layout.wires.iter().flat_map(|it| it.addresses));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_cannot_be_made_says_why() {
        let network = builders::find("dgx-a100").unwrap().build(&Params::new()).unwrap();
        // One datacenter and no WAN: a bridge.
        let layout = Layout::new(&network).unwrap();
        assert_eq!((layout.routers.len(), layout.lans.len()), (0, 1));
    }
}
