//! [`Fabric`]: the network as synthesis sees it.
//!
//! It holds the links that are up and allowed, and the GPUs that take part. Those GPUs (the ranks) can
//! store, copy, reduce and forward data; every other device only passes it on.
//!
//! A fabric can be *turned round*: every link keeps its number but leads the other way. A method that finds
//! trees out of a root then finds trees into the root, which is all the difference between an AllGather
//! (data spreads) and a ReduceScatter (sums are collected). So methods are written once, for spreading.

use motet_net::{Network, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, LinkId, NodeId, Rank, Rounding};

use crate::task::{SynthError, Task};

/// A path from one rank to another that passes through no third rank, as links of the network. On a fabric
/// turned round the links are listed in the order of that fabric, against the network's direction.
pub type Path = Vec<LinkId>;

/// Marks a node that is no rank.
const NO_RANK: u32 = u32::MAX;

/// The links and ranks that a program may use.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// The node of each rank.
    ranks: Vec<NodeId>,
    rank_of: Vec<u32>,
    from: Vec<NodeId>,
    to: Vec<NodeId>,
    bits_per_s: Vec<u64>,
    latency: Vec<Duration>,
    /// Links that may be used, ascending.
    usable: Vec<LinkId>,
    outgoing: Vec<Vec<LinkId>>,
    incoming: Vec<Vec<LinkId>>,
    turned: bool,
}

impl Fabric {
    /// What the task may use. Fails only if it has more ranks than the network has GPUs.
    pub fn new(task: &Task<'_>) -> Result<Self, SynthError> {
        let network: &Network = task.network;
        let (wanted, gpus) = (task.goal.ranks(), network.ranks().len());
        let Some(ranks) = network.ranks().get(..wanted as usize) else {
            return Err(SynthError::Ranks { ranks: wanted, gpus });
        };
        let nodes = network.nodes().len();
        let mut rank_of = vec![NO_RANK; nodes];
        for (rank, node) in (0..).zip(ranks) {
            rank_of[node.index()] = rank;
        }
        let takes_part = |node: NodeId| {
            rank_of[node.index()] != NO_RANK || network.node(node).kind != NodeKind::Gpu
        };
        let mut outgoing = vec![Vec::new(); nodes];
        let mut incoming = vec![Vec::new(); nodes];
        let mut usable = Vec::new();
        for (id, link) in network.link_ids().zip(network.links()) {
            if task.usable(id) && takes_part(link.from) && takes_part(link.to) {
                usable.push(id);
                outgoing[link.from.index()].push(id);
                incoming[link.to.index()].push(id);
            }
        }
        Ok(Self {
            ranks: ranks.to_vec(),
            rank_of,
            from: network.links().iter().map(|it| it.from).collect(),
            to: network.links().iter().map(|it| it.to).collect(),
            bits_per_s: network
                .link_ids()
                .map(|it| if task.usable(it) { task.state.bandwidth(it).bits_per_s() } else { 0 })
                .collect(),
            latency: network.links().iter().map(|it| it.spec.latency).collect(),
            usable,
            outgoing,
            incoming,
            turned: false,
        })
    }

    /// The same fabric with every link leading the other way.
    #[must_use]
    pub fn turned_round(&self) -> Self {
        Self {
            from: self.to.clone(),
            to: self.from.clone(),
            outgoing: self.incoming.clone(),
            incoming: self.outgoing.clone(),
            turned: !self.turned,
            ..self.clone()
        }
    }

    /// Whether links lead the other way than in the network.
    #[must_use]
    pub const fn is_turned_round(&self) -> bool {
        self.turned
    }

    #[must_use]
    pub fn rank_count(&self) -> usize {
        self.ranks.len()
    }

    pub fn ranks(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        (0..self.ranks.len()).map(Rank::from_index)
    }

    /// Nodes of the network, whether they take part or not.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.rank_of.len()
    }

    #[must_use]
    pub fn link_count(&self) -> usize {
        self.from.len()
    }

    /// The node of a rank of the group.
    #[must_use]
    pub fn node(&self, rank: Rank) -> NodeId {
        self.ranks[rank.index()]
    }

    /// The rank that a node is, if it is one.
    #[must_use]
    pub fn rank(&self, node: NodeId) -> Option<Rank> {
        Some(self.rank_of[node.index()]).filter(|it| *it != NO_RANK).map(Rank)
    }

    #[must_use]
    pub fn from(&self, link: LinkId) -> NodeId {
        self.from[link.index()]
    }

    #[must_use]
    pub fn to(&self, link: LinkId) -> NodeId {
        self.to[link.index()]
    }

    /// What the link can carry now; zero if it may not be used.
    #[must_use]
    pub fn bits_per_s(&self, link: LinkId) -> u64 {
        self.bits_per_s[link.index()]
    }

    #[must_use]
    pub fn latency(&self, link: LinkId) -> Duration {
        self.latency[link.index()]
    }

    /// How long `bytes` keep the link busy, rounded up.
    #[must_use]
    pub fn busy(&self, link: LinkId, bytes: Bytes) -> Duration {
        let bandwidth = Bandwidth::from_bits_per_s(self.bits_per_s(link));
        bandwidth.transfer_time(bytes, Rounding::Up).unwrap_or(Duration::MAX)
    }

    /// The usable links out of a node.
    #[must_use]
    pub fn outgoing(&self, node: NodeId) -> &[LinkId] {
        &self.outgoing[node.index()]
    }

    /// The usable links into a node.
    #[must_use]
    pub fn incoming(&self, node: NodeId) -> &[LinkId] {
        &self.incoming[node.index()]
    }

    /// Every link that may be used, ascending.
    #[must_use]
    pub fn links(&self) -> &[LinkId] {
        &self.usable
    }
}
