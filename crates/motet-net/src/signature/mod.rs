//! [`Signature`]: a fingerprint of a network that does not depend on the names or the order of its
//! nodes. Plans are stored under it.
//!
//! It depends on node kinds and capabilities, on how links join nodes, and on each link's latency,
//! bandwidth, class, lanes and tier. It does not depend on names, order, ranks, properties or
//! locations (except for the tiers that follow from locations), nor on whether two opposite links
//! were created as one duplex connection.
//!
//! Equal networks have equal signatures. Two different networks can only collide if they agree in
//! all of:
//!
//! - the stable colouring of colour refinement (`refine.rs`), which alone distinguishes all trees
//!   and all networks that are not very regular;
//! - the colours of each connected component (one ring of six is not two rings of three);
//! - how many nodes of which colours are at which distance from each node of each component's
//!   rarest colour (a 10 × 10 torus is not a 5 × 20 one), as far as a fixed amount of work allows;
//! - for networks up to about a thousand nodes: the colouring that results when a single node is
//!   marked, for every node in turn.
//!
//! Pairs that agree in all four are graphs like the Shrikhande graph and the 4 × 4 rook's graph:
//! same size, all nodes alike, and still alike from the view of any single node. No network that is
//! actually built is such a pair. The hash is not cryptographic: its keys are fixed, and someone
//! who tries can make two networks collide.

mod refine;

use std::fmt;
use std::str::FromStr;

use motet_units::NodeId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::components;
use crate::network::Network;
use refine::{Graph, digest, total};

/// The identity of a network up to names and order. Prints and reads as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(u128);

/// What this version of the computation gives; counted up when the same network gets another
/// signature, which makes every plan on disk a stranger to its network.
const VERSION: u128 = 1;

/// Link visits that marking nodes and measuring distances may take; they bound the time of a
/// signature to about a second, and never change with the machine.
const MARKING_WORK: usize = 1 << 25;
const DISTANCE_WORK: usize = 1 << 27;

/// Marking is worth it only if each marked colouring can spread this many rounds.
const MARKING_ROUNDS: usize = 16;

impl Signature {
    /// The signature of a network.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let graph = Graph::new(network);
        let colours = graph.refined(graph.first_colours(), graph.round_limit());
        Self(digest([
            VERSION,
            network.nodes().len() as u128,
            network.links().len() as u128,
            total(colours.iter().copied()),
            component_structure(network, &colours),
            marked_structure(&graph, &colours),
        ]))
    }

    /// The number behind the text, for types of other crates that hold the same signature.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

/// The multiset, over the components, of their colours and of the distances within them.
fn component_structure(network: &Network, colours: &[u128]) -> u128 {
    let (component, count) = components::weak(network);
    let mut sums = vec![0u128; count];
    // A class is the nodes of one colour in one component.
    let mut members: Vec<(usize, u128, NodeId)> = Vec::with_capacity(colours.len());
    for node in network.node_ids() {
        let (component, colour) = (component[node.index()], colours[node.index()]);
        sums[component] = sums[component].wrapping_add(colour);
        members.push((component, colour, node));
    }
    members.sort_unstable();
    let mut rarest: Vec<&[(usize, u128, NodeId)]> = vec![&[]; count];
    for class in members.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let best = &mut rarest[class[0].0];
        // Classes come by colour, so of equally rare ones the least colour stays.
        if best.is_empty() || class.len() < best.len() {
            *best = class;
        }
    }
    let sources: usize = rarest.iter().map(|it| it.len()).sum();
    let mut distances = Distances::new(network, colours, DISTANCE_WORK / sources.max(1));
    total(rarest.iter().zip(sums).map(|(class, sum)| {
        let seen = total(class.iter().map(|it| distances.from(it.2)));
        digest([2, sum, seen])
    }))
}

/// Breadth-first search over links both ways, layer by layer, as far as the work allows.
struct Distances<'a> {
    colours: &'a [u128],
    /// The distinct neighbours of node i are `neighbours[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
    neighbours: Vec<NodeId>,
    /// Neighbour visits allowed from one source.
    work: usize,
    /// The last search that saw each node.
    seen: Vec<u32>,
    search: u32,
}

impl<'a> Distances<'a> {
    fn new(network: &Network, colours: &'a [u128], work: usize) -> Self {
        let mut starts = vec![0];
        let mut neighbours = Vec::new();
        for node in network.node_ids() {
            let mut near: Vec<NodeId> = components::neighbours(network, node).collect();
            near.sort_unstable();
            near.dedup();
            neighbours.extend(near);
            starts.push(neighbours.len());
        }
        Self { colours, starts, neighbours, work, seen: vec![0; colours.len()], search: 0 }
    }

    fn near(&self, node: NodeId) -> &[NodeId] {
        &self.neighbours[self.starts[node.index()]..self.starts[node.index() + 1]]
    }

    /// A digest of the colours at each distance. A layer is taken whole or not at all, so that
    /// the order of nodes has no say in where the search stops.
    fn from(&mut self, source: NodeId) -> u128 {
        self.search += 1;
        self.seen[source.index()] = self.search;
        let mut layer = vec![source];
        let mut next = Vec::new();
        let mut result = 0;
        let mut work = 0;
        while !layer.is_empty() {
            let colours = total(layer.iter().map(|it| self.colours[it.index()]));
            result = digest([3, result, colours, layer.len() as u128]);
            work += layer.iter().map(|it| self.near(*it).len()).sum::<usize>();
            if work > self.work {
                break;
            }
            for node in layer.drain(..) {
                for slot in self.starts[node.index()]..self.starts[node.index() + 1] {
                    let near = self.neighbours[slot];
                    if self.seen[near.index()] != self.search {
                        self.seen[near.index()] = self.search;
                        next.push(near);
                    }
                }
            }
            std::mem::swap(&mut layer, &mut next);
        }
        result
    }
}

/// The multiset, over the nodes that share their colour, of the colouring that follows when the
/// node is marked. A node with a colour of its own is as good as marked already.
fn marked_structure(graph: &Graph, colours: &[u128]) -> u128 {
    let mut sorted = colours.to_vec();
    sorted.sort_unstable();
    let alone = |colour: u128| {
        let first = sorted.partition_point(|it| *it < colour);
        sorted.get(first + 1) != Some(&colour)
    };
    let shared: Vec<usize> = (0..colours.len()).filter(|it| !alone(colours[*it])).collect();
    let round = shared.len().saturating_mul(graph.work());
    if round == 0 || MARKING_WORK / round < MARKING_ROUNDS {
        return 0;
    }
    let rounds = MARKING_WORK / round;
    total(shared.into_iter().map(|node| {
        let mut marked = colours.to_vec();
        marked[node] = digest([4, colours[node]]);
        let after = graph.refined(marked, rounds);
        digest([5, colours[node], total(after.into_iter())])
    }))
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is not a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a network signature; expected 32 hexadecimal digits")]
pub struct ParseSignatureError {
    /// What was given.
    pub text: String,
}

impl FromStr for Signature {
    type Err = ParseSignatureError;
    fn from_str(text: &str) -> Result<Self, ParseSignatureError> {
        // The length check refuses what the radix parser would let pass: "+1", short forms.
        let hex = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let value = if hex { u128::from_str_radix(text, 16).ok() } else { None };
        value.map(Self).ok_or_else(|| ParseSignatureError { text: text.to_owned() })
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
