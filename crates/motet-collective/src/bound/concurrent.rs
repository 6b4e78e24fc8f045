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

use motet_graph::{Dijkstra, Hop, NO_ARC};

use super::demand::Demands;
use super::graph::BoundGraph;

/// When the routing found is this close to the bound, the bound is good enough.
pub(super) const GAP: f64 = 1.005;

/// How much a link that one rank's traffic fills grows longer: so much at first, and less and
/// less after so many rounds, to settle down.
const STEP: f64 = 0.1;
const STEADY_ROUNDS: usize = 256;

/// Most times that the ways of one rank are looked for in a round.
const MAX_TURNS: usize = 16;

/// The outcome of a search.
#[derive(Clone, Debug)]
pub(super) struct RoutingSearch {
    /// Lengths per arc, the most promising first.
    pub(super) lengths: Vec<Vec<f64>>,
    /// A time that some routing takes, in chunks per unit of bandwidth.
    pub(super) reached: f64,
}

/// Looks for good lengths, given a bound already known, within `rounds` rounds.
pub(super) fn search(
    graph: &BoundGraph,
    demands: &Demands<'_>,
    known: f64,
    rounds: usize,
) -> RoutingSearch {
    let capacity: Vec<f64> = (0..graph.arcs()).map(|it| graph.capacity(it) as f64).collect();
    let mut router = DemandRouter::new(graph, &capacity);
    let mut best = (0.0, router.lengths.clone());
    let mut mean = vec![0.0; graph.arcs()];
    let (mut bound, mut reached) = (known, f64::INFINITY);
    let mut since = 0;
    for round in 1..=rounds {
        // Any run of rounds, averaged, is a routing: forget the clumsy first ones now and then.
        if round.is_power_of_two() {
            router.loads.fill(0.0);
            mean.fill(0.0);
            since = round - 1;
        }
        router.step = STEP * STEADY_ROUNDS as f64 / round.max(STEADY_ROUNDS) as f64;
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
        let fullest = fullest.map(|(load, b)| load / b).fold(0.0, f64::max);
        reached = f64::min(reached, fullest / (round - since) as f64);
        if reached <= bound * GAP {
            break;
        }
    }
    RoutingSearch { lengths: vec![mean, best.1], reached }
}

/// Routes over shortest ways and stretches what it used.
struct DemandRouter<'g> {
    graph: &'g BoundGraph,
    step: f64,
    lengths: Vec<f64>,
    loads: Vec<f64>,
    /// The shortest ways from the rank whose turn it is.
    ways: Dijkstra<f64>,
    /// Chunks that must pass through each node.
    wanted: Vec<f64>,
}

impl<'g> DemandRouter<'g> {
    fn new(graph: &'g BoundGraph, capacity: &[f64]) -> Self {
        Self {
            graph,
            step: STEP,
            lengths: capacity.iter().map(|b| if *b > 0.0 { 1.0 / b } else { 0.0 }).collect(),
            loads: vec![0.0; graph.arcs()],
            ways: Dijkstra::new(graph.nodes()),
            wanted: vec![0.0; graph.nodes()],
        }
    }

    /// Routes what rank `from` sends; returns chunks times distance. Of what would overfill a
    /// link within `time`, only as much is routed as fits before the ways are looked for anew.
    fn route(&mut self, demands: &Demands<'_>, from: usize, capacity: &[f64], time: f64) -> f64 {
        let mut travelled = 0.0;
        let mut receivers = demands.from(from).map(|it| self.graph.ranks[it.0]);
        let (first, second) = (receivers.next(), receivers.next());
        let mut left: f64 = if first.is_some() { 1.0 } else { 0.0 };
        // What lies farther than the only receiver is on no way to it.
        let goal = first.filter(|_| second.is_none());
        for turn in 1..=MAX_TURNS {
            if left <= 0.0 {
                break;
            }
            self.shortest_ways(self.graph.ranks[from], goal);
            let fullest = self.gather(demands, from, capacity) / time;
            let share = if turn == MAX_TURNS { left } else { left.min(1.0 / fullest) };
            left -= share;
            for (to, chunks) in demands.from(from) {
                let node = self.graph.ranks[to];
                travelled += self.ways.distance(node) * chunks as f64 * share;
            }
            for node in self.ways.order() {
                let amount = std::mem::replace(&mut self.wanted[*node as usize], 0.0) * share;
                let arc = self.ways.last_arcs()[*node as usize] as usize;
                if amount > 0.0 && arc != NO_ARC as usize {
                    self.loads[arc] += amount;
                    let full = (amount / (capacity[arc] * time)).min(1.0);
                    self.lengths[arc] *= 1.0 + self.step * full;
                }
            }
        }
        travelled
    }

    /// What must pass into each node, down the tree of shortest ways; returns the time that the
    /// fullest arc would take.
    fn gather(&mut self, demands: &Demands<'_>, from: usize, capacity: &[f64]) -> f64 {
        for (to, chunks) in demands.from(from) {
            self.wanted[self.graph.ranks[to] as usize] += chunks as f64;
        }
        let mut fullest = 0.0;
        for node in self.ways.order().iter().rev() {
            let amount = self.wanted[*node as usize];
            let arc = self.ways.last_arcs()[*node as usize] as usize;
            if amount > 0.0 && arc != NO_ARC as usize {
                self.wanted[self.graph.head(self.graph.opposite(arc))] += amount;
                fullest = f64::max(fullest, amount / capacity[arc]);
            }
        }
        fullest
    }

    /// The shortest ways over the present lengths: to all nodes, or to those that are no farther than `goal`.
    fn shortest_ways(&mut self, start: u32, goal: Option<u32>) {
        let (graph, lengths) = (self.graph, &self.lengths);
        let hops = |node: u32| {
            let open = graph.arcs_of(node as usize).filter(|it| graph.capacity(*it) > 0);
            open.map(|arc| Hop {
                arc: arc as u32,
                to: graph.head(arc) as u32,
                length: lengths[arc],
            })
        };
        match goal {
            Some(goal) => _ = self.ways.search_to(goal, [(start, 0.0)], hops),
            None => self.ways.search([(start, 0.0)], hops),
        }
    }
}
