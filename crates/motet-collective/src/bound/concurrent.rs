//! Good lengths for [`lengths`](super::lengths), by routing traffic and making crowded links long.
//!
//! All demands of one rank after the other are routed over the shortest ways, and each link used
//! becomes longer in proportion to how full it got, so that the next rank avoids it (the
//! multiplicative-weights method for concurrent flow). After each round the lengths prove a time
//! that no routing beats, and the loads of all rounds so far, averaged, are a routing with a time
//! of its own. The two close in on the optimum from both sides; the search stops when they are
//! within [`GAP`], or when its budget of work is spent.
//!
//! Only additions, products and quotients of floats are used, which every machine rounds alike;
//! and whatever lengths come out, the bound drawn from them is exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::demand::Demands;
use super::graph::Graph;

/// When the routing found is this close to the bound, the bound is good enough.
pub(super) const GAP: f64 = 1.005;

/// How much a link that one rank's traffic fills grows longer.
const STEP: f64 = 0.1;

/// The outcome of a search.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Lengths per arc, the most promising first.
    pub(super) lengths: Vec<Vec<f64>>,
    /// A time that some routing takes, in chunks per unit of bandwidth.
    pub(super) reached: f64,
}

/// Looks for good lengths, given a bound already known, within `rounds` rounds.
pub(super) fn search(graph: &Graph, demands: &Demands<'_>, known: f64, rounds: usize) -> Search {
    let capacity: Vec<f64> = (0..graph.arcs()).map(|it| graph.capacity(it) as f64).collect();
    let mut router = Router {
        graph,
        lengths: capacity.iter().map(|b| if *b > 0.0 { 1.0 / b } else { 0.0 }).collect(),
        loads: vec![0.0; graph.arcs()],
        distance: vec![f64::INFINITY; graph.nodes()],
        parent: vec![u32::MAX; graph.nodes()],
        wanted: vec![0.0; graph.nodes()],
        order: Vec::new(),
        queue: BinaryHeap::new(),
    };
    let mut best = (0.0, router.lengths.clone());
    let mut mean = vec![0.0; graph.arcs()];
    let (mut bound, mut reached) = (known, f64::INFINITY);
    for round in 1..=rounds {
        let mut travelled = 0.0;
        for from in 0..demands.ranks() {
            travelled += router.route(demands, from, &capacity, bound);
        }
        let total: f64 = router.lengths.iter().zip(&capacity).map(|(l, b)| l * b).sum();
        let proved = travelled / total;
        if proved > best.0 {
            best = (proved, router.lengths.clone());
        }
        bound = bound.max(proved);
        for (mean, length) in mean.iter_mut().zip(&mut router.lengths) {
            // Divided by the total so that rounds count alike, and floats never run out.
            *length /= total;
            *mean += *length;
        }
        let fullest = router.loads.iter().zip(&capacity).filter(|(_, b)| **b > 0.0);
        reached = fullest.map(|(load, b)| load / b).fold(0.0, f64::max) / round as f64;
        if reached <= bound * GAP {
            break;
        }
    }
    Search { lengths: vec![mean, best.1], reached }
}

/// Routes over shortest ways and stretches what it used.
struct Router<'g> {
    graph: &'g Graph,
    lengths: Vec<f64>,
    loads: Vec<f64>,
    distance: Vec<f64>,
    /// The arc by which each node was reached.
    parent: Vec<u32>,
    /// Chunks that must pass through each node.
    wanted: Vec<f64>,
    order: Vec<u32>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Router<'_> {
    /// Routes what rank `from` sends; returns chunks times distance.
    fn route(&mut self, demands: &Demands<'_>, from: usize, capacity: &[f64], time: f64) -> f64 {
        if demands.from(from).next().is_none() {
            return 0.0;
        }
        self.shortest_ways(self.graph.ranks[from] as usize);
        let mut travelled = 0.0;
        for (to, chunks) in demands.from(from) {
            let node = self.graph.ranks[to] as usize;
            self.wanted[node] += chunks as f64;
            travelled += self.distance[node] * chunks as f64;
        }
        for index in (0..self.order.len()).rev() {
            let node = self.order[index] as usize;
            let amount = std::mem::replace(&mut self.wanted[node], 0.0);
            let Some(arc) = Some(self.parent[node]).filter(|it| *it != u32::MAX) else { continue };
            if amount > 0.0 {
                let arc = arc as usize;
                self.loads[arc] += amount;
                let full = (amount / (capacity[arc] * time)).min(1.0);
                self.lengths[arc] *= 1.0 + STEP * full;
                self.wanted[self.graph.head(self.graph.opposite(arc))] += amount;
            }
        }
        travelled
    }

    /// Dijkstra's algorithm over the present lengths, keeping the tree and the order of nodes.
    fn shortest_ways(&mut self, start: usize) {
        self.distance.fill(f64::INFINITY);
        self.parent.fill(u32::MAX);
        self.order.clear();
        self.distance[start] = 0.0;
        // Floats that are not negative sort like their bits.
        self.queue.push(Reverse((0, start as u32)));
        while let Some(Reverse((bits, node))) = self.queue.pop() {
            let node = node as usize;
            let distance = f64::from_bits(bits);
            if distance > self.distance[node] {
                continue;
            }
            self.order.push(node as u32);
            for arc in self.graph.arcs_of(node) {
                if self.graph.capacity(arc) == 0 {
                    continue;
                }
                let through = distance + self.lengths[arc];
                let to = self.graph.head(arc);
                if through < self.distance[to] {
                    self.distance[to] = through;
                    self.parent[to] = arc as u32;
                    self.queue.push(Reverse((through.to_bits(), to as u32)));
                }
            }
        }
    }
}
