//! [`Apart`]: the least cut between some nodes and others, links counted both ways.
//!
//! A maximum flow from a source that feeds nodes to a sink that drains them, Dinic's method.
//! Unlike [`Flow`](super::flow), which is made for one sink after another, it lets every node have
//! a supply and a drain of its own: what [`strength`](super::strength) asks for.

use std::collections::VecDeque;

use super::graph::Graph;

/// More than any flow can be.
pub(super) const ENDLESS: u128 = u128::MAX >> 2;

const FAR: u32 = u32::MAX;

/// Capacities both ways together, times a scale, and what flows.
#[derive(Debug)]
pub(super) struct Apart<'g> {
    graph: &'g Graph,
    /// Both directions of an arc together.
    whole: Vec<u128>,
    left: Vec<u128>,
    /// What the source may still feed into each node, and the sink still drain.
    pub(super) supply: Vec<u128>,
    pub(super) drain: Vec<u128>,
    level: Vec<u32>,
    cursor: Vec<u32>,
    queue: VecDeque<u32>,
    path: Vec<u32>,
}

impl<'g> Apart<'g> {
    pub(super) fn new(graph: &'g Graph) -> Self {
        let nodes = graph.nodes();
        let both = |arc: usize| graph.capacity(arc) + graph.capacity(graph.opposite(arc));
        let whole: Vec<u128> = (0..graph.arcs()).map(both).collect();
        Self {
            graph,
            left: whole.clone(),
            whole,
            supply: vec![0; nodes],
            drain: vec![0; nodes],
            level: vec![FAR; nodes],
            cursor: vec![0; nodes],
            queue: VecDeque::new(),
            path: Vec::new(),
        }
    }

    /// Every link `scale` times as wide, empty, and no supply or drain anywhere.
    pub(super) fn clear(&mut self, scale: u128) {
        for (left, whole) in self.left.iter_mut().zip(&self.whole) {
            *left = whole * scale;
        }
        self.supply.fill(0);
        self.drain.fill(0);
    }

    /// The greatest flow. Afterwards [`on_sending_side`](Self::on_sending_side) tells the least
    /// cut, the smallest of them if there are several.
    pub(super) fn run(&mut self) -> u128 {
        let mut flow = 0;
        while self.find_levels() {
            flow += self.block();
        }
        flow
    }

    pub(super) fn on_sending_side(&self, node: usize) -> bool {
        self.level[node] != FAR
    }

    /// The borders of disjoint sets of nodes together, both ways, unscaled: `of` gives each node's
    /// set, or `none` for a node in no set.
    pub(super) fn borders(&self, of: &[u32], none: u32) -> u128 {
        let inside = (0..self.graph.nodes()).filter(|it| of[*it] != none);
        let border = |node: usize| {
            let leaving = self.graph.arcs_of(node);
            leaving.filter(move |it| of[self.graph.head(*it)] != of[node]).map(|it| self.whole[it])
        };
        inside.flat_map(border).sum()
    }

    /// Steps from the source; whether the sink is reached.
    fn find_levels(&mut self) -> bool {
        self.level.fill(FAR);
        self.queue.clear();
        for (node, supply) in self.supply.iter().enumerate() {
            if *supply > 0 {
                self.level[node] = 0;
                self.queue.push_back(node as u32);
            }
        }
        let mut reached = false;
        while let Some(node) = self.queue.pop_front() {
            let node = node as usize;
            self.cursor[node] = self.graph.arcs_of(node).start as u32;
            reached |= self.drain[node] > 0;
            for arc in self.graph.arcs_of(node) {
                let to = self.graph.head(arc);
                if self.left[arc] > 0 && self.level[to] == FAR {
                    self.level[to] = self.level[node] + 1;
                    self.queue.push_back(to as u32);
                }
            }
        }
        reached
    }

    fn block(&mut self) -> u128 {
        let mut flow = 0;
        for start in 0..self.graph.nodes() {
            while self.supply[start] > 0 && self.level[start] == 0 {
                match self.augment(start) {
                    0 => break,
                    amount => flow += amount,
                }
            }
        }
        flow
    }

    /// One path from `start` to a drain, one level further with each step.
    fn augment(&mut self, start: usize) -> u128 {
        self.path.clear();
        let mut node = start;
        while self.drain[node] == 0 {
            let end = self.graph.arcs_of(node).end as u32;
            let open = (self.cursor[node]..end).find(|arc| {
                let to = self.graph.head(*arc as usize);
                self.left[*arc as usize] > 0 && self.level[to] == self.level[node] + 1
            });
            self.cursor[node] = open.unwrap_or(end);
            if let Some(arc) = open {
                self.path.push(arc);
                node = self.graph.head(arc as usize);
            } else if let Some(dead) = self.path.pop() {
                node = self.graph.head(self.graph.opposite(dead as usize));
                self.cursor[node] += 1;
            } else {
                return 0;
            }
        }
        let narrowest = self.path.iter().map(|it| self.left[*it as usize]).min();
        let amount = narrowest.unwrap_or(ENDLESS).min(self.supply[start]).min(self.drain[node]);
        for arc in &self.path {
            let arc = *arc as usize;
            self.left[arc] -= amount;
            self.left[self.graph.opposite(arc)] += amount;
        }
        self.supply[start] -= amount;
        self.drain[node] -= amount;
        amount
    }
}
