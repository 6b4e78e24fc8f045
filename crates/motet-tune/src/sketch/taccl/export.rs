//! [`export`]: a sketch of ours as a TACCL sketch.
//!
//! TACCL knows one server, copied: every server must have as many GPUs, in rank order, and connect
//! to every other in the same way.

use std::collections::BTreeMap;

use crate::sketch::Sketch;
use crate::sketch::{Connections, Servers};
use motet_net::{Network, NodeKind};
use motet_units::NodeId;

use super::{Connect, Hyperedges, Internode, Intranode, TacclSketch};

/// Why a sketch cannot be said in TACCL's format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaccl {
    #[error("the network has no servers; TACCL knows copies of one server")]
    NoServers,
    #[error("server `{server}` has {gpus} GPUs and the first {first}; TACCL's servers are alike")]
    Unlike { server: String, gpus: usize, first: usize },
    #[error("the ranks of server `{server}` do not follow those of the one before")]
    Scattered { server: String },
    #[error("server `{from}` connects to `{to}` otherwise than the first two do to each other")]
    Uneven { from: String, to: String },
    #[error("GPU {gpu} of a server sends to {receivers} GPUs of another, the first to {first}")]
    Degrees { gpu: u32, receivers: usize, first: usize },
}

/// The TACCL sketch for a sketch of ours. Link rules, and rules for large sizes, have no place in it and are lost.
pub fn export(network: &Network, sketch: &Sketch) -> Result<TacclSketch, NotTaccl> {
    let servers = Servers::of(network);
    let gpus = alike(network, &servers)?;
    let nodes = u32::try_from(servers.list().len()).unwrap_or(u32::MAX);
    let switched = servers.list().iter().all(|it| one_switch(network, &servers, &it.gpus));
    let internode = match (nodes, &sketch.connections) {
        (..=1, _) => None,
        (_, None) => {
            Some(Internode { connect: Connect::Full, relays: None, enforce_ordering: false })
        }
        (_, Some(connections)) => Some(internode(&servers, connections, gpus)?),
    };
    let mut symmetry = Vec::new();
    if switched {
        let turns = |it: &u32| gpus.is_multiple_of(*it) && turns(internode.as_ref(), *it, gpus);
        symmetry.extend((1..gpus).find(turns).map(|it| (it, gpus)));
    }
    if nodes > 1 {
        symmetry.push((gpus, gpus.saturating_mul(nodes)));
    }
    let intranode = match switched {
        true => Intranode::Switches(vec![((0..gpus).collect(), Hyperedges::Fewest)]),
        false => Intranode::AsIs,
    };
    Ok(TacclSketch { nodes, intranode, internode, symmetry, input_chunkup: 1 })
}

/// How many GPUs each server has.
fn alike(network: &Network, servers: &Servers) -> Result<u32, NotTaccl> {
    let first = servers.list().first().ok_or(NotTaccl::NoServers)?.gpus.len();
    if servers.list().iter().map(|it| it.gpus.len()).sum::<usize>() != network.ranks().len() {
        return Err(NotTaccl::NoServers);
    }
    let mut ranks = network.ranks();
    for server in servers.list() {
        let name = || server.name.clone();
        if server.gpus.len() != first {
            return Err(NotTaccl::Unlike { server: name(), gpus: server.gpus.len(), first });
        }
        let Some(rest) = ranks.strip_prefix(server.gpus.as_slice()) else {
            return Err(NotTaccl::Scattered { server: name() });
        };
        ranks = rest;
    }
    Ok(u32::try_from(first).unwrap_or(u32::MAX))
}

/// Whether one NVSwitch joins these GPUs, and no GPU is wired to another.
fn one_switch(network: &Network, servers: &Servers, gpus: &[NodeId]) -> bool {
    let mut switch = None;
    gpus.iter().all(|gpu| {
        let ends = network.outgoing(*gpu).iter().map(|it| network.link(*it).to);
        let ends = ends.filter(|it| servers.index(*it) == servers.index(*gpu));
        let inside: Vec<NodeId> = ends
            .filter(|it| matches!(network.node(*it).kind, NodeKind::Gpu | NodeKind::NvSwitch))
            .collect();
        matches!(inside[..], [it] if network.node(it).kind == NodeKind::NvSwitch
            && *switch.get_or_insert(it) == it)
    })
}

/// How all servers connect, which must be the same for every two of them.
fn internode(
    servers: &Servers,
    connections: &Connections,
    gpus: u32,
) -> Result<Internode, NotTaccl> {
    let mut place: BTreeMap<NodeId, u32> = BTreeMap::new();
    for server in servers.list() {
        place.extend(server.gpus.iter().copied().zip(0..));
    }
    let mut ways: BTreeMap<(usize, usize), Vec<(u32, u32)>> = BTreeMap::new();
    for (from, to) in connections.pairs(servers) {
        let (Some(a), Some(b)) = (servers.index(from), servers.index(to)) else { continue };
        ways.entry((a, b)).or_default().push((place[&from], place[&to]));
    }
    ways.values_mut().for_each(|it| it.sort_unstable());
    let first = ways.get(&(0, 1)).cloned().unwrap_or_default();
    let count = servers.list().len();
    for (from, to) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
        if from != to && ways.get(&(from, to)).map_or(&[][..], Vec::as_slice) != first {
            let name = |it: usize| servers.list()[it].name.clone();
            return Err(NotTaccl::Uneven { from: name(from), to: name(to) });
        }
    }
    let mut map: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (from, to) in &first {
        map.entry(*from).or_default().push(*to);
    }
    let degree = map.values().next().map_or(0, Vec::len);
    if let Some((gpu, to)) = map.iter().find(|it| it.1.len() != degree) {
        return Err(NotTaccl::Degrees { gpu: *gpu, receivers: to.len(), first: degree });
    }
    let named = [Connect::Full, Connect::Direct].into_iter().find(|it| it.pairs(gpus) == first);
    if named == Some(Connect::Full) {
        return Ok(Internode { connect: Connect::Full, relays: None, enforce_ordering: false });
    }
    let relays = Some(relays(servers, connections, &place, map.keys().copied().collect()));
    let connect = named.unwrap_or(Connect::Map(map));
    Ok(Internode { connect, relays, enforce_ordering: false })
}

/// By sender: the GPUs that it relays for. The GPUs of a NIC are spread evenly over the senders of that NIC; GPUs of
/// a NIC without senders go to the sender with the fewest.
fn relays(
    servers: &Servers,
    connections: &Connections,
    place: &BTreeMap<NodeId, u32>,
    senders: Vec<u32>,
) -> BTreeMap<u32, Vec<u32>> {
    let port_of: BTreeMap<NodeId, NodeId> = connections.binding.iter().copied().collect();
    let gpus = &servers.list()[0].gpus;
    let mut relays: BTreeMap<u32, Vec<u32>> = senders.iter().map(|it| (*it, Vec::new())).collect();
    let mut others = Vec::new();
    for gpu in gpus {
        if senders.contains(&place[gpu]) {
            relays.entry(place[gpu]).or_default().push(place[gpu]);
        } else {
            others.push(*gpu);
        }
    }
    for gpu in others {
        let far = |sender: u32| {
            port_of.get(&gpus[sender as usize]) != port_of.get(&gpu) || !port_of.contains_key(&gpu)
        };
        let least = relays.iter().min_by_key(|it| (far(*it.0), it.1.len(), *it.0));
        if let Some(sender) = least.map(|it| *it.0) {
            relays.entry(sender).or_default().push(place[&gpu]);
        }
    }
    relays.values_mut().for_each(|it| it.sort_unstable());
    relays
}

/// Whether moving every GPU by `offset` within its server changes nothing.
fn turns(internode: Option<&Internode>, offset: u32, gpus: u32) -> bool {
    let Some(internode) = internode else { return true };
    let moved = |it: u32| (it + offset) % gpus;
    let pairs = internode.connect.pairs(gpus);
    let mut turned: Vec<(u32, u32)> = pairs.iter().map(|it| (moved(it.0), moved(it.1))).collect();
    turned.sort_unstable();
    let relays = internode.relays.iter().flatten();
    turned == pairs
        && relays.into_iter().all(|(by, of)| {
            let mut turned: Vec<u32> = of.iter().map(|it| moved(*it)).collect();
            turned.sort_unstable();
            internode.relays.as_ref().and_then(|it| it.get(&moved(*by))) == Some(&turned)
        })
}
