//! [`Transformed`]: a network whose servers are joined GPU to GPU, one link for each connection, as
//! TACCL and *TuCCL*'s third stage model it; and how a program for it becomes one for the real network.
//!
//! The transformed network has no NICs, so it cannot show that connections share them. The bandwidth of its
//! links is therefore an assumption: [`Belief::Own`] gives every connection all that its NIC has;
//! [`Belief::Even`] divides the NIC evenly between its connections once and for all, whether they are used at
//! the time or not, which is what TACCL's code does (it multiplies the cost of remote links by connections ÷
//! NICs) and what the paper calls "uniform bandwidth allocation across all connections".

use std::collections::BTreeMap;

use crate::sketch::locality::joins_gpus;
use crate::sketch::{Connections, Servers};
use motet_collective::{Event, Program, ProgramBuilder};
use motet_net::{
    BuildError, LinkClass, LinkSpec, Metric, Network, NetworkBuilder, Search, Signature, Transit,
};
use motet_units::{Bandwidth, LinkId, NodeId};

/// The bandwidth that a connection is assumed to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// All that its path has, whoever else uses the NIC.
    Own,
    /// A fixed and equal share of its NICs.
    Even,
}

/// The most connections of a transformed network, which has a link for each: it is for small networks.
const MOST: usize = 1 << 16;

/// Why a network cannot be transformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    #[error("no way leads from `{from}` to `{to}`; group NICs that the fabric joins")]
    NoWay { from: String, to: String },
    #[error("there are more than {MOST} connections; let fewer GPUs of each server connect")]
    TooMany,
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A network with one link from GPU to GPU for each connection.
#[derive(Clone, Debug)]
pub struct Transformed {
    network: Network,
    /// By link: the links of the real network that it stands for.
    routes: Vec<Vec<LinkId>>,
}

impl Transformed {
    /// Transforms `network` under `connections`, which must fit it ([`Connections::check`]).
    pub fn new(
        network: &Network,
        servers: &Servers,
        connections: &Connections,
        belief: Belief,
    ) -> Result<Self, TransformError> {
        let mut builder = NetworkBuilder::new(network.name());
        for node in network.nodes() {
            builder.add_node(node.clone())?;
        }
        let mut routes = Vec::new();
        for (id, link) in network.link_ids().zip(network.links()) {
            let server = servers
                .index(link.from)
                .filter(|_| servers.index(link.from) == servers.index(link.to));
            // The host is left out, as in TACCL, where the GPUs need not pass it.
            let drawn =
                server.is_some_and(|it| !servers.list()[it].joined || joins_gpus(network, id));
            if drawn {
                builder.add_link(link.from, link.to, link.spec)?;
                routes.push(vec![id]);
            }
        }
        let pairs: Vec<(NodeId, NodeId)> = connections.pairs(servers).take(MOST + 1).collect();
        if pairs.len() > MOST {
            return Err(TransformError::TooMany);
        }
        let ways = ways(network, servers, connections, &pairs)?;
        let sharing = Sharing::of(&ways, belief);
        for ((from, to), way) in pairs.into_iter().zip(ways) {
            let links = || way.iter().map(|it| network.link(*it).spec);
            let bandwidth = way.iter().map(|it| sharing.rate(network, *it)).min();
            let bandwidth = bandwidth.unwrap_or(Bandwidth::from_bits_per_s(1));
            let latency = links().map(|it| it.latency).sum();
            builder.add_link(from, to, LinkSpec::new(LinkClass::Other, bandwidth, latency))?;
            routes.push(way);
        }
        Ok(Self { network: builder.build()?, routes })
    }

    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// Makes a program for the transformed network one for the real network: every link of its paths is replaced
    /// by the links that it stands for. Turns of links are dropped, as they mean nothing on other links.
    #[must_use]
    pub fn lift(&self, program: &Program, network: &Network) -> Program {
        let mut builder = ProgramBuilder::new(program.name(), program.collective().clone())
            .forms(program.forms())
            .hints(*program.hints());
        for rank in (0..program.collective().ranks()).map(motet_units::Rank) {
            builder.set_scratch(rank, program.scratch_chunks(rank));
            builder.set_switch(rank, program.switch_chunks(rank));
        }
        for path in program.paths() {
            let links = path.iter().filter_map(|it| self.routes.get(it.index()));
            builder.add_path(links.flatten().copied().collect());
        }
        for transfer in program.transfers() {
            builder.add(*transfer);
        }
        for event in (0..program.transfers().len() * 2).map(Event::from_index) {
            for awaited in program.deps(event) {
                builder.wait(event, *awaited);
            }
        }
        builder.set_lanes(program.lanes().to_vec());
        builder.set_network(Some(Signature::of(network)));
        builder.build()
    }
}

/// The path of each pair: from the GPU to its NIC, over the fabric, from the other NIC to its GPU.
fn ways(
    network: &Network,
    servers: &Servers,
    connections: &Connections,
    pairs: &[(NodeId, NodeId)],
) -> Result<Vec<Vec<LinkId>>, TransformError> {
    let mut inside = BTreeMap::new();
    for (gpu, port) in &connections.binding {
        let mut all = servers.ways(network, *gpu);
        if let Some(found) = all.iter().position(|it| it.port == *port) {
            inside.insert(*gpu, all.swap_remove(found));
        }
    }
    let search = Search::new(network, Metric::Hops).through(Transit::NotOtherServers);
    let mut outside: BTreeMap<(NodeId, NodeId), Option<Vec<LinkId>>> = BTreeMap::new();
    let mut way = |(from, to): &(NodeId, NodeId)| {
        let (first, last) = (inside.get(from)?, inside.get(to)?);
        let between = outside.entry((first.port, last.port)).or_insert_with(|| {
            search.shortest(first.port, last.port).map(|it| it.links().to_vec())
        });
        let parts = [first.to_port.as_slice(), between.as_deref()?, last.from_port.as_slice()];
        Some(parts.concat())
    };
    let named = |pair: &(NodeId, NodeId)| {
        way(pair).ok_or_else(|| TransformError::NoWay {
            from: network.node(pair.0).name.clone(),
            to: network.node(pair.1).name.clone(),
        })
    };
    pairs.iter().map(named).collect()
}

/// How many connections cross each link; empty under [`Belief::Own`], where sharing is ignored.
struct Sharing(BTreeMap<LinkId, u64>);

impl Sharing {
    fn of(ways: &[Vec<LinkId>], belief: Belief) -> Self {
        let mut crossing = BTreeMap::new();
        if belief == Belief::Even {
            for link in ways.iter().flatten() {
                *crossing.entry(*link).or_default() += 1;
            }
        }
        Self(crossing)
    }

    fn rate(&self, network: &Network, link: LinkId) -> Bandwidth {
        let whole = network.link(link).spec.bandwidth.bits_per_s();
        let parts = self.0.get(&link).copied().unwrap_or(1).max(1);
        Bandwidth::from_bits_per_s((whole / parts).max(1))
    }
}
