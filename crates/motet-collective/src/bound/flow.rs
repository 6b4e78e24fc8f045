//! [`Flow`]: the greatest flow into one node, exact, with its least cut.
//!
//! The source stands outside the graph: each node has a supply that the source may feed into it.
//! Dinic's algorithm is run backwards, from the sink: levels count the steps to the sink, and
//! augmenting paths are grown from the sink until they meet supply. When supply lies close to the
//! sink (and [`tightest`](super::tightest) makes sure that it mostly does) only that corner of
//! the graph is ever looked at; clearing up afterwards costs no more than what was touched.

use super::graph::Graph;

/// Supply that never runs out.
const ENDLESS: u128 = u128::MAX;

/// The state of a flow into one sink after another.
#[derive(Debug)]
pub(super) struct Flow<'g> {
    graph: &'g Graph,
    /// Capacity left per arc.
    left: Vec<u128>,
    scale: u128,
    supply: Vec<u128>,
    supply_left: Vec<u128>,
    touched_arcs: Vec<u32>,
    touched_nodes: Vec<u32>,
    /// The level of each node, where `stamp` says that it has one in the present round.
    level: Vec<u32>,
    stamp: Vec<u32>,
    round: u32,
    /// Where the search at each node goes on.
    cursor: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<u32>,
}

impl<'g> Flow<'g> {
    pub(super) fn new(graph: &'g Graph) -> Self {
        let nodes = graph.nodes();
        Self {
            graph,
            left: vec![0; graph.arcs()],
            scale: 0,
            supply: vec![0; nodes],
            supply_left: vec![0; nodes],
            touched_arcs: Vec::new(),
            touched_nodes: Vec::new(),
            level: vec![0; nodes],
            stamp: vec![0; nodes],
            round: 0,
            cursor: vec![0; nodes],
            queue: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Every arc `scale` times its capacity, and this supply at each node that has not been made
    /// endless. The caller sees to it that no sum of these overflows.
    pub(super) fn rescale(&mut self, scale: u128, supply: impl Iterator<Item = (usize, u128)>) {
        self.scale = scale;
        for (arc, left) in self.left.iter_mut().enumerate() {
            *left = self.graph.capacity(arc) * scale;
        }
        for (node, amount) in supply {
            if self.supply[node] != ENDLESS {
                self.supply[node] = amount;
            }
        }
        self.supply_left.copy_from_slice(&self.supply);
        self.touched_arcs.clear();
        self.touched_nodes.clear();
    }

    /// From now on the source feeds as much as is wanted into `node`.
    pub(super) fn make_endless(&mut self, node: usize) {
        self.supply[node] = ENDLESS;
        self.supply_left[node] = ENDLESS;
    }

    /// The greatest flow into `sink`, or `limit` if that much is possible. Afterwards, if it is
    /// less, [`on_sending_side`](Self::on_sending_side) tells the least cut.
    pub(super) fn fill_sink(&mut self, sink: usize, limit: u128) -> u128 {
        self.clear();
        let direct = self.supply_left[sink].min(limit);
        // What the source feeds into the sink itself has arrived; none of it may be used twice.
        self.supply_left[sink] = 0;
        self.touched_nodes.push(sink as u32);
        let mut flow = direct;
        while flow < limit && self.find_levels(sink) {
            flow += self.block(sink, limit - flow);
        }
        flow
    }

    /// Whether `node` is on the source's side of the least cut nearest to the sink.
    pub(super) fn on_sending_side(&self, node: usize) -> bool {
        self.stamp[node] != self.round
    }

    fn clear(&mut self) {
        for arc in self.touched_arcs.drain(..) {
            let arc = arc as usize;
            self.left[arc] = self.graph.capacity(arc) * self.scale;
            let opposite = self.graph.opposite(arc);
            self.left[opposite] = self.graph.capacity(opposite) * self.scale;
        }
        for node in self.touched_nodes.drain(..) {
            self.supply_left[node as usize] = self.supply[node as usize];
        }
    }

    /// Steps to the sink of every node up to the nearest with supply left; false if there is
    /// none. A node's arcs are looked at from behind: the opposite of an arc out of it leads in.
    fn find_levels(&mut self, sink: usize) -> bool {
        if self.round == u32::MAX {
            self.stamp.fill(0);
            self.round = 0;
        }
        self.round += 1;
        self.queue.clear();
        self.reach(sink, 0);
        let (mut next, mut last) = (0, u32::MAX);
        while let Some(node) = self.queue.get(next).map(|it| *it as usize) {
            next += 1;
            let level = self.level[node];
            if level >= last {
                break;
            }
            for arc in self.graph.arcs_of(node) {
                let from = self.graph.head(arc);
                if self.stamp[from] == self.round || self.left[self.graph.opposite(arc)] == 0 {
                    continue;
                }
                self.reach(from, level + 1);
                if self.supply_left[from] > 0 {
                    last = level + 1;
                }
            }
        }
        last != u32::MAX
    }

    fn reach(&mut self, node: usize, level: u32) {
        self.stamp[node] = self.round;
        self.level[node] = level;
        self.cursor[node] = self.graph.arcs_of(node).start as u32;
        self.queue.push(node as u32);
    }

    /// Augments along paths that gain a level with each step until no such path is left.
    fn block(&mut self, sink: usize, limit: u128) -> u128 {
        let mut flow = 0;
        let mut node = sink;
        self.path.clear();
        loop {
            if self.supply_left[node] > 0 {
                flow += self.augment(node, limit - flow);
                if flow == limit {
                    return flow;
                }
                node = self.back_to_open(sink);
                continue;
            }
            let end = self.graph.arcs_of(node).end as u32;
            let mut advanced = false;
            while self.cursor[node] < end {
                let into = self.graph.opposite(self.cursor[node] as usize);
                let from = self.graph.head(self.cursor[node] as usize);
                let deeper =
                    self.stamp[from] == self.round && self.level[from] == self.level[node] + 1;
                if deeper && self.left[into] > 0 {
                    self.path.push(into as u32);
                    node = from;
                    advanced = true;
                    break;
                }
                self.cursor[node] += 1;
            }
            if !advanced {
                let Some(dead) = self.path.pop() else { return flow };
                node = self.graph.head(dead as usize);
                self.cursor[node] += 1;
            }
        }
    }

    /// Sends what fits along the path from `node` to the sink.
    fn augment(&mut self, node: usize, limit: u128) -> u128 {
        let narrowest = self.path.iter().map(|it| self.left[*it as usize]).min().unwrap_or(limit);
        let amount = narrowest.min(self.supply_left[node]).min(limit);
        if self.supply_left[node] != ENDLESS {
            self.supply_left[node] -= amount;
            self.touched_nodes.push(node as u32);
        }
        for arc in &self.path {
            let arc = *arc as usize;
            self.left[arc] -= amount;
            self.left[self.graph.opposite(arc)] += amount;
            self.touched_arcs.push(arc as u32);
        }
        amount
    }

    /// Shortens the path to before its first full arc (first seen from the sink), where the
    /// search goes on.
    fn back_to_open(&mut self, sink: usize) -> usize {
        let full = self.path.iter().position(|it| self.left[*it as usize] == 0);
        self.path.truncate(full.unwrap_or(self.path.len()));
        match self.path.last() {
            // The path's last arc leads out of the node reached.
            Some(arc) => self.graph.head(self.graph.opposite(*arc as usize)),
            None => sink,
        }
    }
}
