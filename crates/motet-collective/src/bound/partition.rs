//! [`Partition`]: the nodes taken apart by rank, server, rack, pod or datacenter.
//!
//! The tightest cut of a real network mostly runs along one of these seams. Trying them first
//! costs one pass over the links, gives the exact methods a good start, and means that where
//! several cuts are equally tight the one with a name is reported.

use std::collections::BTreeMap;
use std::fmt;

use motet_net::{Location, Network, NodeKind};

use super::graph::BoundGraph;

/// What the parts of a partition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Rank,
    Server,
    Rack,
    /// What hangs together without spines, optical switches and border routers.
    Pod,
    Datacenter,
    /// No place that has a name: whatever sets of nodes a search found.
    Group,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rank => "rank",
            Self::Server => "server",
            Self::Rack => "rack",
            Self::Pod => "pod",
            Self::Datacenter => "datacenter",
            Self::Group => "group",
        })
    }
}

const NONE: u32 = u32::MAX;

/// One kind of location of a node.
pub(super) type Place = fn(&Location) -> Option<&String>;

/// Disjoint sets of nodes, each with at least one rank of the group. Nodes may be in none.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub(super) level: Level,
    of: Vec<u32>,
    pub(super) parts: usize,
}

impl Partition {
    /// By rank, by pod, and by each kind of location that is known; the smallest parts first.
    pub(super) fn all(network: &Network, graph: &BoundGraph) -> Vec<Self> {
        let by_place = |level, place| Self::by_place(network, graph, level, place);
        let all = vec![
            Self::by_rank(graph),
            by_place(Level::Server, |it| it.server.as_ref()),
            by_place(Level::Rack, |it| it.rack.as_ref()),
            Self::by_pod(network, graph),
            by_place(Level::Datacenter, |it| it.dc.as_ref()),
        ];
        all.into_iter().filter(|it| it.parts > 0).collect()
    }

    /// Sets that were found: for each node the number of its set below `parts`, or `u32::MAX`.
    pub(super) const fn found(of: Vec<u32>, parts: usize) -> Self {
        Self { level: Level::Group, of, parts }
    }

    fn by_pod(network: &Network, graph: &BoundGraph) -> Self {
        let above = |node: usize| {
            let kind = network.nodes()[node].kind;
            matches!(kind, NodeKind::Spine | NodeKind::Ocs | NodeKind::Border)
        };
        let mut of = vec![NONE; graph.nodes()];
        let mut parts = 0;
        for rank in &graph.ranks {
            if of[*rank as usize] != NONE {
                continue;
            }
            of[*rank as usize] = parts as u32;
            let mut open = vec![*rank as usize];
            while let Some(node) = open.pop() {
                // Every arc has its opposite, so this follows links both ways.
                for to in graph.arcs_of(node).map(|it| graph.head(it)) {
                    if of[to] == NONE && !above(to) {
                        of[to] = parts as u32;
                        open.push(to);
                    }
                }
            }
            parts += 1;
        }
        Self { level: Level::Pod, of, parts }
    }

    fn by_rank(graph: &BoundGraph) -> Self {
        let mut of = vec![NONE; graph.nodes()];
        for (rank, node) in graph.ranks.iter().enumerate() {
            of[*node as usize] = rank as u32;
        }
        Self { level: Level::Rank, of, parts: graph.ranks.len() }
    }

    fn by_place(network: &Network, graph: &BoundGraph, level: Level, place: Place) -> Self {
        let location = |node: usize| place(&network.nodes()[node].location);
        let mut numbers: BTreeMap<&String, u32> = BTreeMap::new();
        for rank in &graph.ranks {
            let next = numbers.len() as u32;
            if let Some(name) = location(*rank as usize) {
                numbers.entry(name).or_insert(next);
            }
        }
        let number = |node: usize| location(node).and_then(|it| numbers.get(it)).copied();
        let of = (0..graph.nodes())
            .map(|node| number(node).filter(|_| graph.usable[node]).unwrap_or(NONE))
            .collect();
        Self { level, of, parts: numbers.len() }
    }

    /// The part of a node, if it is in one.
    pub(super) fn of(&self, node: usize) -> Option<usize> {
        Some(self.of[node]).filter(|it| *it != NONE).map(|it| it as usize)
    }

    /// Whether every rank is in a part.
    pub(super) fn covers(&self, graph: &BoundGraph) -> bool {
        graph.ranks.iter().all(|it| self.of[*it as usize] != NONE)
    }

    /// The bandwidth out of and into each part.
    pub(super) fn borders(&self, graph: &BoundGraph) -> Borders {
        let mut borders = Borders { out: vec![0; self.parts], into: vec![0; self.parts] };
        for (from, to, arc) in graph.links() {
            let (from, to) = (self.of(from), self.of(to));
            if from == to {
                continue;
            }
            if let Some(part) = from {
                borders.out[part] += graph.capacity(arc);
            }
            if let Some(part) = to {
                borders.into[part] += graph.capacity(arc);
            }
        }
        borders
    }

    /// One part, or all but it, as a set of usable nodes.
    pub(super) fn side(&self, graph: &BoundGraph, part: usize, sends: bool) -> Vec<bool> {
        (0..graph.nodes())
            .map(|node| graph.usable[node] && (self.of(node) == Some(part)) == sends)
            .collect()
    }
}

/// Capacity across the border of each part.
#[derive(Clone, Debug)]
pub(super) struct Borders {
    pub(super) out: Vec<u128>,
    pub(super) into: Vec<u128>,
}
