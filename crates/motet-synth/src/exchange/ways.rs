//! [`Ways`]: the graph that data is routed over.
//!
//! How much a link delays what comes to it through a switch depends on how fast that comes: behind a
//! slow link a fast one adds nothing. A switch is therefore several nodes here, one for each rate
//! at which data can come to it; ranks, which store and forward, are one node each and come first.
//! An arc is a link together with the rate at which it is used. However fast data comes, a link is
//! busy with a byte for as long as its own rate says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_units::{LinkId, NodeId};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;

/// Most rates told apart; of more, some count as the next lower one.
const MOST_RATES: usize = 16;

/// A directed graph in compressed rows. Nodes below `ranks` are the ranks.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pub(super) ranks: usize,
    start: Vec<u32>,
    pub(super) tail: Vec<u32>,
    pub(super) head: Vec<u32>,
    pub(super) link: Vec<LinkId>,
    /// Picoseconds for which a byte keeps the link busy.
    pub(super) busy: Vec<f64>,
    /// Picoseconds by which this link delays a byte more than the links before it did.
    pub(super) slower: Vec<f64>,
    in_start: Vec<u32>,
    in_arcs: Vec<u32>,
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
            in_start: Vec::new(),
            in_arcs: Vec::new(),
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
        ways.index_heads();
        ways
    }

    fn index_heads(&mut self) {
        let nodes = self.nodes();
        self.in_start = vec![0; nodes + 1];
        for head in &self.head {
            self.in_start[*head as usize + 1] += 1;
        }
        for node in 0..nodes {
            self.in_start[node + 1] += self.in_start[node];
        }
        let mut next = self.in_start.clone();
        self.in_arcs = vec![0; self.head.len()];
        for (arc, head) in (0..).zip(&self.head) {
            self.in_arcs[next[*head as usize] as usize] = arc;
            next[*head as usize] += 1;
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.start.len() - 1
    }

    pub(super) fn arcs(&self) -> usize {
        self.head.len()
    }

    /// Links of the network, used or not.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    pub(super) fn out_of(&self, node: usize) -> std::ops::Range<usize> {
        self.start[node] as usize..self.start[node + 1] as usize
    }

    pub(super) fn into(&self, node: usize) -> &[u32] {
        &self.in_arcs[self.in_start[node] as usize..self.in_start[node + 1] as usize]
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

/// Shortest ways from one node to all others under changing lengths.
#[derive(Debug)]
pub(super) struct Shortest {
    pub(super) distance: Vec<f64>,
    /// The arc by which each node was reached.
    last: Vec<u32>,
    /// Nodes reached, nearest first.
    pub(super) order: Vec<u32>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Shortest {
    pub(super) fn new(ways: &Ways) -> Self {
        Self {
            distance: vec![f64::INFINITY; ways.nodes()],
            last: vec![u32::MAX; ways.nodes()],
            order: Vec::with_capacity(ways.nodes()),
            queue: BinaryHeap::new(),
        }
    }

    /// The arc by which each node was reached; `u32::MAX` for the start and what was not.
    pub(super) fn last_arcs(&self) -> &[u32] {
        &self.last
    }

    /// Dijkstra's algorithm; `length` gives the length of an arc, never below zero.
    pub(super) fn search(&mut self, ways: &Ways, from: usize, length: impl Fn(usize) -> f64) {
        self.run(ways, from, true, length);
    }

    /// The same over ways that pass by no other rank.
    pub(super) fn search_straight(
        &mut self,
        ways: &Ways,
        from: usize,
        length: impl Fn(usize) -> f64,
    ) {
        self.run(ways, from, false, length);
    }

    fn run(&mut self, ways: &Ways, from: usize, relays: bool, length: impl Fn(usize) -> f64) {
        self.distance.fill(f64::INFINITY);
        self.last.fill(u32::MAX);
        self.order.clear();
        self.distance[from] = 0.0;
        // Floats that are not negative sort like their bits.
        self.queue.push(Reverse((0, from as u32)));
        while let Some(Reverse((bits, node))) = self.queue.pop() {
            let node = node as usize;
            let distance = f64::from_bits(bits);
            if distance > self.distance[node] {
                continue;
            }
            self.order.push(node as u32);
            if !relays && node < ways.ranks && node != from {
                continue;
            }
            for arc in ways.out_of(node) {
                let through = distance + length(arc);
                let to = ways.head[arc] as usize;
                if through < self.distance[to] {
                    self.distance[to] = through;
                    self.last[to] = arc as u32;
                    self.queue.push(Reverse((through.to_bits(), to as u32)));
                }
            }
        }
    }

    /// Whether a shortest way to the arc's head, which must have been reached, ends with this arc,
    /// as nearly as floats can tell.
    pub(super) fn is_last(&self, ways: &Ways, arc: usize, length: f64) -> bool {
        let (from, to) = (ways.tail[arc] as usize, ways.head[arc] as usize);
        let distance = self.distance[to];
        // An arc so short that floats lose it is last only if it was taken: no circles.
        self.last[to] == arc as u32
            || self.distance[from] < distance
                && self.distance[from] + length <= distance * (1.0 + 1e-9)
    }
}
