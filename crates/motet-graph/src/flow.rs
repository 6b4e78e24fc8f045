//! [`MaxFlow`]: the greatest flow into some nodes, exact, with its least cut.
//!
//! The source stands outside the graph: each node has a *supply*, as much as the source may feed
//! into it. The sinks are given with each question, each with a *demand*, the most that it takes.
//!
//! Dinic's algorithm runs backwards, from the sinks: levels count the steps to the nearest sink,
//! and augmenting paths are grown from the sinks until they meet supply. Where supply lies close to
//! the sinks, only that corner of the graph is ever looked at, and clearing up afterwards costs no
//! more than what was touched. So a caller that asks for the flow into one node after another, and
//! makes the supply of nodes it is done with [endless](Capacity::ENDLESS), pays little more for all
//! of them than for the first few.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use crate::arcs::{Arcs, PairedArcs};

/// A whole number that can flow.
pub trait Capacity:
    Copy + Ord + Debug + Add<Output = Self> + Sub<Output = Self> + AddAssign + SubAssign
{
    const ZERO: Self;

    /// A supply or demand that never runs out; far from overflow when a few are added. The sum of
    /// all other capacities and supplies must stay below it.
    const ENDLESS: Self;
}

impl Capacity for u64 {
    const ZERO: Self = 0;
    const ENDLESS: Self = Self::MAX / 8;
}

impl Capacity for u128 {
    const ZERO: Self = 0;
    const ENDLESS: Self = Self::MAX / 8;
}

/// A graph with capacities and supplies, and the state of the last flow.
#[derive(Clone, Debug)]
pub struct MaxFlow<G, C> {
    graph: G,
    capacity: Vec<C>,
    /// What each arc can still carry.
    left: Vec<C>,
    supply: Vec<C>,
    supply_left: Vec<C>,
    /// The sinks of the present question and what each still takes.
    sinks: Vec<(u32, C)>,
    /// What a flow has changed and the next must set back; of an arc, its opposite too.
    touched_arcs: Vec<u32>,
    touched_nodes: Vec<u32>,
    levels: Levels,
    /// The arcs from the node that the search is at to the sink, the one into the sink first.
    path: Vec<u32>,
}

impl<G: Arcs, C: Capacity> MaxFlow<G, C> {
    /// No capacity and no supply anywhere yet.
    pub fn new(graph: G) -> Self {
        let (nodes, arcs) = (graph.node_count(), graph.arc_count());
        Self {
            graph,
            capacity: vec![C::ZERO; arcs],
            left: vec![C::ZERO; arcs],
            supply: vec![C::ZERO; nodes],
            supply_left: vec![C::ZERO; nodes],
            sinks: Vec::new(),
            touched_arcs: Vec::new(),
            touched_nodes: Vec::new(),
            levels: Levels::new(nodes),
            path: Vec::new(),
        }
    }

    /// The graph that was given.
    pub fn graph(&self) -> &G {
        &self.graph
    }

    pub fn capacity(&self, arc: usize) -> C {
        self.capacity[arc]
    }

    pub fn set_capacity(&mut self, arc: usize, amount: C) {
        self.clear();
        self.capacity[arc] = amount;
        self.left[arc] = amount;
    }

    /// Sets the capacity of every arc.
    pub fn set_capacities(&mut self, of: impl Fn(usize) -> C) {
        self.clear();
        for (arc, capacity) in self.capacity.iter_mut().enumerate() {
            *capacity = of(arc);
        }
        self.left.copy_from_slice(&self.capacity);
    }

    pub fn supply(&self, node: usize) -> C {
        self.supply[node]
    }

    pub fn set_supply(&mut self, node: usize, amount: C) {
        self.clear();
        self.supply[node] = amount;
        self.supply_left[node] = amount;
    }

    /// The greatest flow into the sinks together, or `limit` if that much is possible. Each sink
    /// comes with its demand. Afterwards, if the flow is less than the limit,
    /// [`is_sending`](Self::is_sending) tells the least cut.
    pub fn flow_into(&mut self, sinks: impl IntoIterator<Item = (u32, C)>, limit: C) -> C {
        self.clear();
        self.sinks.clear();
        self.sinks.extend(sinks);
        let mut flow = C::ZERO;
        for at in 0..self.sinks.len() {
            // What the source feeds into a sink has arrived; none of it may be used twice.
            let (sink, demand) = self.sinks[at];
            let direct = self.supply_left[sink as usize].min(demand).min(limit - flow);
            self.draw(sink as usize, direct);
            flow += self.arrived(at, direct);
        }
        while flow < limit && self.find_levels() {
            for at in 0..self.sinks.len() {
                let (sink, demand) = self.sinks[at];
                let amount = self.block(sink as usize, demand.min(limit - flow));
                flow += self.arrived(at, amount);
            }
        }
        flow
    }

    /// After a flow below its limit: whether `node` is on the source's side of the least cut. Of
    /// several least cuts it is the one nearest to the sinks, whose receiving side is smallest.
    pub fn is_sending(&self, node: usize) -> bool {
        !self.levels.has(node)
    }

    /// What the last flow sends over an arc. Between arcs that are each other's opposite only the
    /// difference flows, over one of them.
    pub fn flow(&self, arc: usize) -> C {
        let (capacity, left) = (self.capacity[arc], self.left[arc]);
        if left < capacity { capacity - left } else { C::ZERO }
    }

    fn clear(&mut self) {
        for arc in self.touched_arcs.drain(..) {
            let opposite = self.graph.opposite(arc as usize);
            self.left[arc as usize] = self.capacity[arc as usize];
            self.left[opposite] = self.capacity[opposite];
        }
        for node in self.touched_nodes.drain(..) {
            self.supply_left[node as usize] = self.supply[node as usize];
        }
    }

    /// Lowers the demand of the sink in this place by what reached it.
    fn arrived(&mut self, at: usize, amount: C) -> C {
        let demand = &mut self.sinks[at].1;
        if *demand < C::ENDLESS {
            *demand -= amount;
        }
        amount
    }

    /// Takes from the supply of a node.
    fn draw(&mut self, node: usize, amount: C) {
        if self.supply[node] < C::ENDLESS {
            self.supply_left[node] -= amount;
            self.touched_nodes.push(node as u32);
        }
    }

    /// Steps to the nearest sink with demand left, of every node up to the nearest with supply
    /// left; false if there is none. A node's arcs are looked at from behind: the opposite of an
    /// arc out of it leads in.
    fn find_levels(&mut self) -> bool {
        self.levels.begin();
        for (sink, demand) in &self.sinks {
            if *demand > C::ZERO {
                self.levels.reach(*sink as usize, 0);
            }
        }
        let (mut next, mut last) = (0, u32::MAX);
        while let Some(node) = self.levels.queue.get(next).map(|it| *it as usize) {
            next += 1;
            let level = self.levels.level[node];
            if level >= last {
                break;
            }
            for arc in self.graph.arcs_of(node) {
                let from = self.graph.head(arc);
                if self.levels.has(from) || self.left[self.graph.opposite(arc)] == C::ZERO {
                    continue;
                }
                self.levels.reach(from, level + 1);
                if self.supply_left[from] > C::ZERO {
                    last = level + 1;
                }
            }
        }
        last != u32::MAX
    }

    /// Augments along paths into `sink` that gain a level with each step until no such path is
    /// left, or `limit` has arrived.
    fn block(&mut self, sink: usize, limit: C) -> C {
        let mut flow = C::ZERO;
        let mut node = sink;
        self.path.clear();
        while flow < limit {
            if self.supply_left[node] > C::ZERO {
                flow += self.augment(node, limit - flow);
                node = self.back_to_open(sink);
            } else if let Some((into, from)) = self.advance(node) {
                self.path.push(into as u32);
                node = from;
            } else {
                let Some(dead) = self.path.pop() else { break };
                node = self.graph.head(dead as usize);
                self.levels.cursor[node] += 1;
            }
        }
        flow
    }

    /// The next arc into `node` with room from a node one level farther away, and that node.
    fn advance(&mut self, node: usize) -> Option<(usize, usize)> {
        let wanted = self.levels.level[node] + 1;
        let mut nth = self.levels.cursor[node];
        let found = loop {
            let Some(arc) = self.graph.nth_arc_of(node, nth) else { break None };
            let (into, from) = (self.graph.opposite(arc), self.graph.head(arc));
            if self.levels.is_at(from, wanted) && self.left[into] > C::ZERO {
                break Some((into, from));
            }
            nth += 1;
        };
        self.levels.cursor[node] = nth;
        found
    }

    /// Sends what fits along the path from `node` to the sink.
    fn augment(&mut self, node: usize, limit: C) -> C {
        let room = self.path.iter().map(|it| self.left[*it as usize]);
        let amount = room.fold(limit.min(self.supply_left[node]), C::min);
        self.draw(node, amount);
        for arc in &self.path {
            let arc = *arc as usize;
            self.left[arc] -= amount;
            self.left[self.graph.opposite(arc)] += amount;
        }
        self.touched_arcs.extend_from_slice(&self.path);
        amount
    }

    /// Shortens the path to before its first full arc (first seen from the sink), where the
    /// search goes on.
    fn back_to_open(&mut self, sink: usize) -> usize {
        let full = self.path.iter().position(|it| self.left[*it as usize] == C::ZERO);
        self.path.truncate(full.unwrap_or(self.path.len()));
        match self.path.last() {
            // The path's last arc leads out of the node reached.
            Some(arc) => self.graph.head(self.graph.opposite(*arc as usize)),
            None => sink,
        }
    }
}

/// Graphs that grow between flows.
impl<C: Capacity> MaxFlow<PairedArcs, C> {
    /// Adds an arc and its opposite, both without capacity; the number of the first.
    pub fn add_pair(&mut self, from: u32, to: u32) -> u32 {
        self.capacity.extend([C::ZERO; 2]);
        self.left.extend([C::ZERO; 2]);
        self.graph.add_pair(from, to)
    }

    /// Takes away all arcs of a node and their capacity, so that searches pass it by.
    pub fn isolate(&mut self, node: u32) {
        self.clear();
        for arc in self.graph.isolate(node) {
            for arc in [arc as usize, self.graph.opposite(arc as usize)] {
                self.capacity[arc] = C::ZERO;
                self.left[arc] = C::ZERO;
            }
        }
    }
}

/// How far nodes are from the sinks in the present round, and where the search at each goes on.
#[derive(Clone, Debug)]
struct Levels {
    /// The level of each node, where `stamp` says that it was reached in the present round.
    level: Vec<u32>,
    stamp: Vec<u32>,
    round: u32,
    cursor: Vec<u32>,
    queue: Vec<u32>,
}

impl Levels {
    fn new(nodes: usize) -> Self {
        Self {
            level: vec![0; nodes],
            stamp: vec![0; nodes],
            round: 0,
            cursor: vec![0; nodes],
            queue: Vec::new(),
        }
    }

    /// A new round, in which no node is reached yet.
    fn begin(&mut self) {
        if self.round == u32::MAX {
            self.stamp.fill(0);
            self.round = 0;
        }
        self.round += 1;
        self.queue.clear();
    }

    fn has(&self, node: usize) -> bool {
        self.stamp[node] == self.round
    }

    fn is_at(&self, node: usize, level: u32) -> bool {
        self.has(node) && self.level[node] == level
    }

    fn reach(&mut self, node: usize, level: u32) {
        self.stamp[node] = self.round;
        self.level[node] = level;
        self.cursor[node] = 0;
        self.queue.push(node as u32);
    }
}

#[cfg(test)]
mod tests;
