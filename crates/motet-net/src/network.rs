//! [`Network`]: the fixed graph that everything in Motet stands on, and [`NetworkBuilder`], the
//! only way to make one.
//!
//! What varies with time (bandwidth left, links down) is not here but in
//! [`NetworkState`](crate::state::NetworkState), so that one network can be shared by thousands
//! of simulated states.

use motet_graph::Rows;
use motet_units::{LinkId, NodeId, Rank};
use rustc_hash::FxHashMap;

use crate::link::{Link, LinkSpec};
use crate::node::{Node, NodeKind};
use crate::tier::{self, Tier};

/// Most nodes and links a network may have: far above any real one, low enough that a hostile
/// file cannot take the machine's memory.
pub const MAX_NODES: usize = 1 << 20;
/// See [`MAX_NODES`].
pub const MAX_LINKS: usize = 1 << 23;

/// A directed multigraph of devices and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// The GPU of each rank.
    ranks: Vec<NodeId>,
    outgoing: Rows<LinkId>,
    incoming: Rows<LinkId>,
    by_name: FxHashMap<String, NodeId>,
}

/// The links at each node, by one of their ends, in link order.
fn links_at(nodes: usize, links: &[Link], end: impl Fn(&Link) -> NodeId) -> Rows<LinkId> {
    let ends: Vec<usize> = links.iter().map(|it| end(it).index()).collect();
    let numbered = ends.iter().enumerate().map(|(link, node)| (*node, LinkId::from_index(link)));
    Rows::group(nodes, numbered)
}

impl Network {
    /// What the network is called, for display; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same network under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// All nodes; a [`NodeId`] is an index into them.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, each one direction; a [`LinkId`] is an index into them.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// One node. The id must be of this network.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// One link. The id must be of this network.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The ids of all nodes, in order.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::from_index)
    }

    /// The ids of all links, in order.
    pub fn link_ids(&self) -> impl ExactSizeIterator<Item = LinkId> + use<> {
        (0..self.links.len()).map(LinkId::from_index)
    }

    /// The GPU of each rank, in rank order.
    #[must_use]
    pub fn ranks(&self) -> &[NodeId] {
        &self.ranks
    }

    /// The GPU of a rank, if there is one.
    #[must_use]
    pub fn gpu(&self, rank: Rank) -> Option<NodeId> {
        self.ranks.get(rank.index()).copied()
    }

    /// The links that a node sends over, in link order.
    #[must_use]
    pub fn outgoing(&self, node: NodeId) -> &[LinkId] {
        self.outgoing.row(node.index())
    }

    /// The links that a node receives over, in link order.
    #[must_use]
    pub fn incoming(&self, node: NodeId) -> &[LinkId] {
        self.incoming.row(node.index())
    }

    /// The node of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The tier of a link: what the file says, or what follows from class and location.
    #[must_use]
    pub fn tier(&self, id: LinkId) -> Tier {
        let link = self.link(id);
        link.spec.tier.unwrap_or_else(|| {
            tier::of_link(link.spec.class, self.node(link.from), self.node(link.to))
        })
    }

    /// How many nodes are of this kind.
    #[must_use]
    pub fn count(&self, kind: NodeKind) -> usize {
        self.nodes.iter().filter(|it| it.kind == kind).count()
    }
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("there are two nodes called `{name}`; names must differ")]
    DuplicateName { name: String },
    #[error("node `{name}` has rank {rank} but is a {kind}; only GPUs have ranks")]
    RankOfNonGpu { name: String, rank: Rank, kind: NodeKind },
    #[error("GPUs `{first}` and `{second}` both have rank {rank}")]
    DuplicateRank { first: String, second: String, rank: Rank },
    #[error(
        "rank {rank} of `{name}` is out of range: {gpus} GPUs have ranks 0 to {}",
        gpus.saturating_sub(1)
    )]
    RankOutOfRange { name: String, rank: Rank, gpus: usize },
    #[error("some GPUs have a rank and `{name}` has none; give all GPUs a rank or none")]
    MissingRank { name: String },
    #[error("a link joins `{name}` to itself")]
    SelfLink { name: String },
    #[error("the link from `{from}` to `{to}` has no bandwidth")]
    NoBandwidth { from: String, to: String },
    #[error("a network may have at most {MAX_NODES} nodes and {MAX_LINKS} links")]
    TooLarge,
}

/// Collects nodes and links; [`build`](Self::build) checks them as a whole.
#[derive(Clone, Debug, Default)]
pub struct NetworkBuilder {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    by_name: FxHashMap<String, NodeId>,
}

impl NetworkBuilder {
    /// An empty network of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Calls the network something else.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// The nodes added so far.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The links added so far.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node of that name, if it was added.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// To complete a node after it was added (a location learned later, say). Its name must stay.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Adds a node; its name must be new.
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, BuildError> {
        if self.nodes.len() >= MAX_NODES {
            return Err(BuildError::TooLarge);
        }
        let id = NodeId::from_index(self.nodes.len());
        if self.by_name.insert(node.name.clone(), id).is_some() {
            return Err(BuildError::DuplicateName { name: node.name });
        }
        self.nodes.push(node);
        Ok(id)
    }

    /// One directed link.
    pub fn add_link(
        &mut self,
        from: NodeId,
        to: NodeId,
        spec: LinkSpec,
    ) -> Result<LinkId, BuildError> {
        let name = |id: NodeId| self.nodes[id.index()].name.clone();
        if from == to {
            return Err(BuildError::SelfLink { name: name(from) });
        }
        if spec.bandwidth.is_zero() {
            return Err(BuildError::NoBandwidth { from: name(from), to: name(to) });
        }
        if self.links.len() >= MAX_LINKS {
            return Err(BuildError::TooLarge);
        }
        let id = LinkId::from_index(self.links.len());
        self.links.push(Link { from, to, spec, reverse: None });
        Ok(id)
    }

    /// A link each way, which know each other as the reverse.
    pub fn add_duplex(
        &mut self,
        a: NodeId,
        b: NodeId,
        spec: LinkSpec,
    ) -> Result<(LinkId, LinkId), BuildError> {
        let there = self.add_link(a, b, spec)?;
        let back = self.add_link(b, a, spec)?;
        self.links[there.index()].reverse = Some(back);
        self.links[back.index()].reverse = Some(there);
        Ok((there, back))
    }

    /// The finished network, with ranks settled.
    pub fn build(self) -> Result<Network, BuildError> {
        let ranks = settle_ranks(&self.nodes)?;
        let outgoing = links_at(self.nodes.len(), &self.links, |it| it.from);
        let incoming = links_at(self.nodes.len(), &self.links, |it| it.to);
        Ok(Network {
            name: self.name,
            nodes: self.nodes,
            links: self.links,
            ranks,
            outgoing,
            incoming,
            by_name: self.by_name,
        })
    }
}

/// The GPU of each rank: file order, or the ranks given, which must then be all of them.
fn settle_ranks(nodes: &[Node]) -> Result<Vec<NodeId>, BuildError> {
    for node in nodes {
        if let (Some(rank), false) = (node.rank, node.kind == NodeKind::Gpu) {
            return Err(BuildError::RankOfNonGpu {
                name: node.name.clone(),
                rank,
                kind: node.kind,
            });
        }
    }
    let gpus: Vec<NodeId> = (0..nodes.len())
        .filter(|it| nodes[*it].kind == NodeKind::Gpu)
        .map(NodeId::from_index)
        .collect();
    if gpus.iter().all(|it| nodes[it.index()].rank.is_none()) {
        return Ok(gpus);
    }
    let mut by_rank: Vec<Option<NodeId>> = vec![None; gpus.len()];
    for gpu in &gpus {
        let node = &nodes[gpu.index()];
        let name = node.name.clone();
        let Some(rank) = node.rank else {
            return Err(BuildError::MissingRank { name });
        };
        let Some(slot) = by_rank.get_mut(rank.index()) else {
            return Err(BuildError::RankOutOfRange { name, rank, gpus: gpus.len() });
        };
        if let Some(first) = slot.replace(*gpu) {
            let first = nodes[first.index()].name.clone();
            return Err(BuildError::DuplicateRank { first, second: name, rank });
        }
    }
    // As many distinct ranks in range as there are slots: every slot is filled.
    Ok(by_rank.into_iter().flatten().collect())
}
