//! Applies a TACCL sketch to a network of ours.
//!
//! Kept: which GPUs send to which, by the NICs they are bound to here. Not kept, because Motet's
//! synthesizers find it themselves or have no such notion: switches and their strategies, which GPUs' data a
//! sender relays, symmetry, and how many chunks an input is cut into.

use std::collections::{BTreeMap, BTreeSet};

use crate::sketch::Sketch;
use crate::sketch::{Connections, Group, Servers};
use motet_net::Network;
use motet_net::formats::ReadError;
use motet_units::NodeId;

use super::{Connect, TacclSketch};
use crate::sketch::bind;

impl TacclSketch {
    /// The sketch for `network`, which must have as many servers, all with the GPUs it names.
    pub fn on(&self, network: &Network, name: &str) -> Result<Sketch, ReadError> {
        let servers = Servers::of(network);
        let count = servers.list().len();
        if count != self.nodes as usize {
            let problem = format!(
                "the sketch is for {} servers and `{}` has {count}",
                self.nodes,
                network.name()
            );
            return Err(ReadError::new(problem).with_remedy("set nnodes to that"));
        }
        let Some(internode) = self.internode.as_ref().filter(|_| count > 1) else {
            return Ok(Sketch::full(name, network));
        };
        let binding = bind(network, &servers);
        let groups = match &internode.connect {
            Connect::Full => Vec::new(),
            connect => groups(&servers, &binding, connect)?,
        };
        let connections = Connections { binding, groups };
        Sketch::connecting(name, connections, network, &servers).map_err(|misfit| {
            let problem = format!("the sketch does not fit `{}`: {misfit}", network.name());
            ReadError::new(problem)
                .with_remedy("TACCL lets NICs be shared freely; write a sketch of Motet's own")
        })
    }
}

/// Groups of the NICs that the connections join, with the GPUs that send and receive by them.
fn groups(
    servers: &Servers,
    binding: &[(NodeId, NodeId)],
    connect: &Connect,
) -> Result<Vec<Group>, ReadError> {
    let list = servers.list();
    let most = list.iter().map(|it| it.gpus.len()).min().unwrap_or(0);
    let local = connect.pairs(u32::try_from(most).unwrap_or(u32::MAX));
    if let Some((from, to)) = local.iter().find(|it| it.0.max(it.1) as usize >= most) {
        let problem = format!("GPU {} is named, but a server has {most} GPUs", from.max(to));
        return Err(ReadError::new(problem).with_remedy("count GPUs from 0 within a server"));
    }
    let port_of: BTreeMap<NodeId, NodeId> = binding.iter().copied().collect();
    let port = |server: usize, gpu: u32| {
        port_of.get(&list[server].gpus[gpu as usize]).copied().ok_or_else(|| {
            let problem = format!("GPU {gpu} of server `{}` has no NIC", list[server].name);
            ReadError::new(problem).with_remedy("let other GPUs connect")
        })
    };
    let mut joined: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for (a, b) in (0..list.len()).flat_map(|a| (0..list.len()).map(move |b| (a, b))) {
        for (from, to) in local.iter().filter(|_| a != b) {
            let (from, to) = (port(a, *from)?, port(b, *to)?);
            joined.entry(from).or_default().insert(to);
            joined.entry(to).or_default().insert(from);
        }
    }
    let senders: BTreeSet<u32> = local.iter().map(|it| it.0).collect();
    let receivers: BTreeSet<u32> = local.iter().map(|it| it.1).collect();
    let all = |of: &BTreeSet<u32>| -> BTreeSet<NodeId> {
        list.iter().flat_map(|it| of.iter().map(|gpu| it.gpus[*gpu as usize])).collect()
    };
    let (senders, receivers) = (all(&senders), all(&receivers));
    let mut groups = Vec::new();
    let mut group_of = BTreeMap::new();
    while let Some(first) = joined.keys().next().copied() {
        let ports = take_component(&mut joined, first);
        group_of.extend(ports.iter().map(|it| (*it, groups.len())));
        groups.push(Group { ports, ..Group::default() });
    }
    for (gpu, port) in binding {
        let Some(group) = group_of.get(port).and_then(|it| groups.get_mut(*it)) else { continue };
        group.senders.extend(senders.get(gpu));
        group.receivers.extend(receivers.get(gpu));
    }
    Ok(groups)
}

/// Removes and returns, in order, what is joined to `first`.
fn take_component(joined: &mut BTreeMap<NodeId, BTreeSet<NodeId>>, first: NodeId) -> Vec<NodeId> {
    let mut ports = Vec::new();
    let mut open = vec![first];
    while let Some(port) = open.pop() {
        if let Some(others) = joined.remove(&port) {
            ports.push(port);
            open.extend(others);
        }
    }
    ports.sort_unstable();
    ports
}
