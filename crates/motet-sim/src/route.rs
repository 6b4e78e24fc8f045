//! [`Routed`]: a verified program with the links of every transfer. This is what the engines take.
//!
//! Everything that depends on the program and the network but not on the network's state is
//! computed here once: the links of each transfer, where it is stored and forwarded, what each
//! event waits for, and the order of events.

use motet_collective::in_switch::{Serving, Unserved};
use motet_collective::program::EventGraph;
use motet_collective::{Event, Program, Transfer, Verified};
use motet_net::{Metric, Network, NodeKind, Search, Transit};
use motet_units::{LinkId, NodeId, Rank};
use rustc_hash::FxHashMap;

use crate::model::SwitchForwarding;

/// One link of a transfer's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    pub link: LinkId,
    /// Whether the link leaves a node that stores and forwards, and so begins a new segment. True
    /// of a transfer's first hop.
    pub starts_segment: bool,
}

/// Why a program cannot run on a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    #[error("the program has {ranks} ranks and the network {gpus} GPUs; use a program for as many")]
    Ranks { ranks: u32, gpus: usize },
    #[error("no path leads from rank {from} to rank {to}; is a link missing or one-way?")]
    NoPath { from: Rank, to: Rank },
    #[error("path {path} of the program is not a path of this network from rank {from} to {to}")]
    WrongPath { path: u32, from: Rank, to: Rank },
    #[error(transparent)]
    Unserved(Box<Unserved>),
}

/// A verified program on a network, with the route of every transfer.
#[derive(Debug)]
pub struct Routed<'a> {
    program: &'a Verified<Program>,
    network: &'a Network,
    graph: EventGraph,
    sequence: Vec<Event>,
    /// The hops of transfer t: `hops[hop_starts[t]..hop_starts[t + 1]]`; none if it is local.
    hop_starts: Vec<u32>,
    hops: Vec<Hop>,
}

impl<'a> Routed<'a> {
    /// Routes `program` on `network`. A transfer without a path of its own takes one of least
    /// latency that passes through no GPU, or, if there is none, one through GPUs
    /// ([`DefaultRoutes`]).
    pub fn new(
        program: &'a Verified<Program>,
        network: &'a Network,
        switches: SwitchForwarding,
    ) -> Result<Self, RouteError> {
        let (ranks, gpus) = (program.collective().ranks(), network.ranks().len());
        if gpus < ranks as usize {
            return Err(RouteError::Ranks { ranks, gpus });
        }
        let graph = EventGraph::new(program);
        let sequence = graph.sequence();
        let mut ways = DefaultRoutes::new(network);
        let mut hop_starts = Vec::with_capacity(program.transfers().len() + 1);
        let mut hops = Vec::with_capacity(program.transfers().len());
        let serving = serving(program, network)?;
        let mut in_switch: Vec<LinkId> = Vec::new();
        for transfer in program.transfers() {
            hop_starts.push(hops.len() as u32);
            if transfer.is_local() {
                continue;
            }
            let (from, to) = (transfer.src.rank, transfer.dst.rank);
            let links = match transfer.path {
                _ if transfer.is_in_switch() => {
                    in_switch.clear();
                    let found = ways.in_switch(transfer, &serving, &mut in_switch);
                    found.ok_or(RouteError::NoPath { from, to })?;
                    in_switch.as_slice()
                }
                Some(path) => given(network, program, path, from, to)?,
                None => ways.between(from, to).ok_or(RouteError::NoPath { from, to })?,
            };
            hops.extend(links.iter().enumerate().map(|(place, link)| {
                let node = network.node(network.link(*link).from);
                let stores =
                    switches == SwitchForwarding::StoreAndForward || node.kind == NodeKind::Gpu;
                Hop { link: *link, starts_segment: place == 0 || stores }
            }));
        }
        hop_starts.push(hops.len() as u32);
        Ok(Self { program, network, graph, sequence, hop_starts, hops })
    }

    #[must_use]
    pub const fn program(&self) -> &'a Verified<Program> {
        self.program
    }

    #[must_use]
    pub const fn network(&self) -> &'a Network {
        self.network
    }

    /// What each event waits for.
    #[must_use]
    pub const fn graph(&self) -> &EventGraph {
        &self.graph
    }

    /// All events in program order (see [`crate::model`]).
    #[must_use]
    pub fn sequence(&self) -> &[Event] {
        &self.sequence
    }

    /// The route of a transfer; empty if it stays at its rank.
    #[must_use]
    pub fn hops(&self, transfer: usize) -> &[Hop] {
        &self.hops[self.hop_starts[transfer] as usize..self.hop_starts[transfer + 1] as usize]
    }
}

/// The switches that serve the program's switch slots.
fn serving(program: &Program, network: &Network) -> Result<Serving, RouteError> {
    if !program.uses_switches() {
        return Ok(Serving::default());
    }
    let (serving, unserved) = Serving::find(program, network);
    match unserved.into_iter().next() {
        Some(first) => Err(RouteError::Unserved(Box::new(first))),
        None => Ok(serving),
    }
}

/// Routes for transfers whose program gives none; computed once per pair of ranks.
///
/// A route has the least latency. Where there are several such (any spine between two leaves, say),
/// each new pair of ranks gets the one whose links carry the fewest pairs so far: fabrics spread
/// flows over equal-cost paths (ECMP), and always taking the first would load one spine and leave
/// the others idle.
#[derive(Debug)]
pub struct DefaultRoutes<'a> {
    network: &'a Network,
    known: FxHashMap<(NodeId, NodeId), Vec<LinkId>>,
    /// By link: how many pairs have a route over it.
    pairs: Vec<u64>,
}

impl<'a> DefaultRoutes<'a> {
    /// No routes yet; they are found when asked for.
    #[must_use]
    pub fn new(network: &'a Network) -> Self {
        let pairs = vec![0; network.links().len()];
        Self { network, known: FxHashMap::default(), pairs }
    }

    /// The links from one rank to another; `None` if no path leads there.
    pub fn between(&mut self, from: Rank, to: Rank) -> Option<&[LinkId]> {
        let (from, to) = (self.network.gpu(from)?, self.network.gpu(to)?);
        self.between_nodes(from, to)
    }

    /// Adds the links of a transfer into or out of a switch. From one switch slot to another, data comes
    /// down to the GPU of the transfer's rank and goes up again.
    fn in_switch(
        &mut self,
        transfer: &Transfer,
        serving: &Serving,
        links: &mut Vec<LinkId>,
    ) -> Option<()> {
        let Transfer { src, dst, .. } = *transfer;
        if src.is_switch() {
            let gpu = self.network.gpu(dst.rank)?;
            links.extend(self.between_nodes(serving.node(src)?, gpu)?);
        }
        if dst.is_switch() {
            let gpu = self.network.gpu(src.rank)?;
            links.extend(self.between_nodes(gpu, serving.node(dst)?)?);
        }
        Some(())
    }

    fn between_nodes(&mut self, a: NodeId, b: NodeId) -> Option<&[LinkId]> {
        let Self { network, known, pairs } = self;
        match known.entry((a, b)) {
            std::collections::hash_map::Entry::Occupied(known) => Some(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(new) => {
                let search = |transit| {
                    let search = Search::new(network, Metric::Latency).through(transit);
                    search.least_loaded(a, b, |it| pairs[it.index()])
                };
                let path = search(Transit::NotGpus).or_else(|| search(Transit::All))?;
                let links = path.links().to_vec();
                for link in &links {
                    pairs[link.index()] += 1;
                }
                Some(new.insert(links))
            }
        }
    }
}

/// A path that the program names, if it leads from one rank to the other here.
fn given<'p>(
    network: &Network,
    program: &'p Program,
    path: u32,
    from: Rank,
    to: Rank,
) -> Result<&'p [LinkId], RouteError> {
    let wrong = RouteError::WrongPath { path, from, to };
    let Some(links) = program.paths().get(path as usize) else { return Err(wrong) };
    // The ranks of a verified program are within its collective's, and those within the network's.
    let mut at = network.ranks()[from.index()];
    for link in links {
        match network.links().get(link.index()) {
            Some(it) if it.from == at => at = it.to,
            _ => return Err(wrong),
        }
    }
    if at == network.ranks()[to.index()] { Ok(links) } else { Err(wrong) }
}
