//! [`Ways`]: the graph that data is routed over.
//!
//! Switches cut through, so the transmission time that a link adds depends on how fast data comes to it:
//! behind a slow link a fast one adds nothing. A switch is therefore several nodes here, one for each rate at
//! which data can come to it; ranks, which store and forward, are one node each and come first. An arc is a
//! link together with the rate at which data crosses it. Whatever that rate is, a byte keeps a link busy for
//! as long as the link's own bandwidth says.

use std::ops::Deref;

use motet_graph::{Dijkstra, Hop, Rows};
use motet_units::{LinkId, NodeId};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;

/// Most rates told apart; if there are more, some are taken for the next lower one.
const MOST_RATES: usize = 16;

/// A directed graph in compressed rows. Nodes below `ranks` are the ranks.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pub(super) ranks: usize,
    /// The arcs out of node n: `start[n]..start[n + 1]`.
    start: Vec<u32>,
    /// Per arc: the node that it leads out of.
    pub(super) tail: Vec<u32>,
    /// Per arc: the node that it leads to.
    pub(super) head: Vec<u32>,
    /// Per arc: its link.
    pub(super) link: Vec<LinkId>,
    /// Per arc: picoseconds for which a byte keeps the link busy.
    pub(super) busy: Vec<f64>,
    /// Per arc: picoseconds per byte by which the link is slower than the links since the last rank; 0 if it is
    /// not slower.
    pub(super) slower: Vec<f64>,
    /// The arcs into each node.
    into: Rows,
    links: usize,
}

impl Ways {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let rates = Rates::of(fabric);
        let ranks = fabric.rank_count();
        let mut nodes: Vec<(NodeId, u64)> =
            fabric.ranks().map(|it| (fabric.node(it), u64::MAX)).collect();
        let mut known: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        let mut ways = Self {
            ranks,
            start: vec![0],
            tail: Vec::new(),
            head: Vec::new(),
            link: Vec::new(),
            busy: Vec::new(),
            slower: Vec::new(),
            into: Rows::default(),
            links: fabric.link_count(),
        };
        let mut at = 0;
        while let Some((node, rate)) = nodes.get(at).copied() {
            for link in fabric.outgoing(node) {
                let through = rates.class(rate.min(fabric.bits_per_s(*link)));
                let to = fabric.to(*link);
                let head = match fabric.rank(to) {
                    Some(rank) => rank.0,
                    None => *known.entry((to.0, through)).or_insert_with(|| {
                        nodes.push((to, through));
                        nodes.len() as u32 - 1
                    }),
                };
                ways.tail.push(at as u32);
                ways.head.push(head);
                ways.link.push(*link);
                ways.busy.push(ps_per_byte(fabric.bits_per_s(*link)));
                let before = if rate == u64::MAX { 0.0 } else { ps_per_byte(rate) };
                ways.slower.push(ps_per_byte(through) - before);
            }
            ways.start.push(ways.head.len() as u32);
            at += 1;
        }
        let heads = (0..).zip(&ways.head).map(|(arc, head)| (*head as usize, arc));
        ways.into = Rows::group(ways.nodes(), heads);
        ways
    }

    pub(super) fn nodes(&self) -> usize {
        self.start.len() - 1
    }

    pub(super) fn arcs(&self) -> usize {
        self.head.len()
    }

    /// How many links the network has, usable or not.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    pub(super) fn out_of(&self, node: usize) -> std::ops::Range<usize> {
        self.start[node] as usize..self.start[node + 1] as usize
    }

    pub(super) fn into(&self, node: usize) -> &[u32] {
        self.into.row(node)
    }
}

fn ps_per_byte(bits_per_s: u64) -> f64 {
    8e12 / bits_per_s as f64
}

/// The rates that are told apart, ascending.
struct Rates(Vec<u64>);

impl Rates {
    fn of(fabric: &Fabric) -> Self {
        let mut all: Vec<u64> = fabric.links().iter().map(|it| fabric.bits_per_s(*it)).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() > MOST_RATES {
            all = (0..MOST_RATES).map(|it| all[it * all.len() / MOST_RATES]).collect();
        }
        Self(all)
    }

    /// The greatest rate told apart that is not above `rate`.
    fn class(&self, rate: u64) -> u64 {
        let above = self.0.partition_point(|it| *it <= rate);
        above.checked_sub(1).map_or(rate, |it| self.0[it])
    }
}

/// Shortest paths from one node to all others, for arc lengths that change from search to search.
#[derive(Debug)]
pub(super) struct Shortest(Dijkstra<f64>);

impl Shortest {
    pub(super) fn new(ways: &Ways) -> Self {
        Self(Dijkstra::new(ways.nodes()))
    }

    /// Searches from a node; `length` gives the length of an arc, never below zero.
    pub(super) fn search(&mut self, ways: &Ways, from: usize, length: impl Fn(usize) -> f64) {
        self.run(ways, from, true, length);
    }

    /// The same over paths that no other rank forwards.
    pub(super) fn search_straight(
        &mut self,
        ways: &Ways,
        from: usize,
        length: impl Fn(usize) -> f64,
    ) {
        self.run(ways, from, false, length);
    }

    fn run(&mut self, ways: &Ways, from: usize, relays: bool, length: impl Fn(usize) -> f64) {
        self.0.search([(from as u32, 0.0)], |node| {
            let node = node as usize;
            let ends = !relays && node < ways.ranks && node != from;
            let arcs = if ends { 0..0 } else { ways.out_of(node) };
            arcs.map(|arc| Hop { arc: arc as u32, to: ways.head[arc], length: length(arc) })
        });
    }

    /// Whether a shortest path to the arc's head, which must have been reached, ends with this arc, as nearly
    /// as floats can tell.
    pub(super) fn is_last(&self, ways: &Ways, arc: usize, length: f64) -> bool {
        let (from, to) = (ways.tail[arc], ways.head[arc]);
        let distance = self.distance(to);
        // An arc so short that floats lose it counts only if the search took it, so that there are no cycles.
        self.last_arc(to) == Some(arc as u32)
            || self.distance(from) < distance
                && self.distance(from) + length <= distance * (1.0 + 1e-9)
    }
}

impl Deref for Shortest {
    type Target = Dijkstra<f64>;

    fn deref(&self) -> &Dijkstra<f64> {
        &self.0
    }
}
