//! [`Net`]: a directed graph of whole capacities, and the greatest flow into some of its nodes.
//!
//! Every question of this method is one about flows into a node: each node has a supply that a
//! source outside may feed into it, and what counts is how much reaches the sinks. Dinic's
//! algorithm runs backwards, from the sinks, so that only their neighbourhood is looked at when
//! supply is near; after a flow, only what it touched is cleared.
//!
//! [`Net::least`] asks for the least over all ranks. Once a rank has been asked, only node sets
//! on whose sending side it lies are still open, so that its supply becomes endless and the flows
//! into later ranks stay short: all ranks together cost little more than the first few.

use rustc_hash::FxHashMap;

/// Supply that never runs out; far from overflow when a few are added.
pub(super) const ENDLESS: u64 = u64::MAX / 8;

/// Nodes `0..ranks` are the ranks; all others are switches.
#[derive(Clone, Debug)]
pub(super) struct Net {
    ranks: usize,
    /// Where each arc leads; arc `a` and its opposite `a ^ 1` are made together.
    head: Vec<u32>,
    capacity: Vec<u64>,
    arcs: Vec<Vec<u32>>,
    known: FxHashMap<(u32, u32), u32>,
    supply: Vec<u64>,
    left: Vec<u64>,
    supply_left: Vec<u64>,
    touched_arcs: Vec<u32>,
    touched_nodes: Vec<u32>,
    /// The distance to the sinks, where `stamp` says that it was set in the present round.
    level: Vec<u32>,
    stamp: Vec<u32>,
    round: u32,
    cursor: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<u32>,
}

impl Net {
    pub(super) fn new(ranks: usize, nodes: usize) -> Self {
        Self {
            ranks,
            head: Vec::new(),
            capacity: Vec::new(),
            arcs: vec![Vec::new(); nodes],
            known: FxHashMap::default(),
            supply: vec![0; nodes],
            left: Vec::new(),
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

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    pub(super) fn nodes(&self) -> usize {
        self.arcs.len()
    }

    pub(super) fn arc_count(&self) -> usize {
        self.head.len()
    }

    pub(super) fn is_rank(&self, node: u32) -> bool {
        (node as usize) < self.ranks
    }

    /// The arcs out of a node, those without capacity among them.
    pub(super) fn arcs_of(&self, node: u32) -> &[u32] {
        &self.arcs[node as usize]
    }

    pub(super) fn head(&self, arc: u32) -> u32 {
        self.head[arc as usize]
    }

    pub(super) fn tail(&self, arc: u32) -> u32 {
        self.head[(arc ^ 1) as usize]
    }

    pub(super) fn capacity(&self, arc: u32) -> u64 {
        self.capacity[arc as usize]
    }

    /// The arc between two nodes, if one was ever added.
    pub(super) fn arc(&self, from: u32, to: u32) -> Option<u32> {
        self.known.get(&(from, to)).copied()
    }

    pub(super) fn capacity_between(&self, from: u32, to: u32) -> u64 {
        self.arc(from, to).map_or(0, |it| self.capacity(it))
    }

    /// The neighbours that a node sends to, with how much.
    pub(super) fn outgoing(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.arcs[node as usize].iter();
        all.map(|it| (self.head(*it), self.capacity(*it))).filter(|(_, it)| *it > 0)
    }

    /// The neighbours that send to a node, with how much.
    pub(super) fn incoming(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.arcs[node as usize].iter();
        all.map(|it| (self.head(*it), self.capacity(*it ^ 1))).filter(|(_, it)| *it > 0)
    }

    /// Adds capacity from one node to another.
    pub(super) fn add(&mut self, from: u32, to: u32, amount: u64) {
        let arc = match self.arc(from, to) {
            Some(arc) => arc,
            None => self.new_pair(from, to),
        };
        self.set_capacity(arc, self.capacity(arc) + amount);
    }

    /// Takes capacity away; the caller knows that it is there.
    pub(super) fn take(&mut self, from: u32, to: u32, amount: u64) {
        if let Some(arc) = self.arc(from, to) {
            self.set_capacity(arc, self.capacity(arc).saturating_sub(amount));
        }
    }

    pub(super) fn set_capacity(&mut self, arc: u32, amount: u64) {
        self.clear();
        self.capacity[arc as usize] = amount;
        self.left[arc as usize] = amount;
    }

    pub(super) fn set_supply(&mut self, node: u32, amount: u64) {
        self.clear();
        self.supply[node as usize] = amount;
        self.supply_left[node as usize] = amount;
    }

    pub(super) fn supply(&self, node: u32) -> u64 {
        self.supply[node as usize]
    }

    /// Forgets the arcs of a node that has no capacity left, so that searches pass it by.
    pub(super) fn isolate(&mut self, node: u32) {
        self.clear();
        for arc in std::mem::take(&mut self.arcs[node as usize]) {
            for arc in [arc, arc ^ 1] {
                self.capacity[arc as usize] = 0;
                self.left[arc as usize] = 0;
            }
            let other = self.head(arc);
            self.arcs[other as usize].retain(|it| *it != arc ^ 1);
        }
    }

    fn new_pair(&mut self, from: u32, to: u32) -> u32 {
        let arc = self.head.len() as u32;
        self.head.extend([to, from]);
        self.capacity.extend([0, 0]);
        self.left.extend([0, 0]);
        self.arcs[from as usize].push(arc);
        self.arcs[to as usize].push(arc + 1);
        self.known.insert((from, to), arc);
        self.known.insert((to, from), arc + 1);
        arc
    }

    /// The least flow over all ranks into that rank and the sinks `with`, or `limit` if all reach
    /// it, or `enough` if that is as low as the caller needs to know. A node in `endless` has all
    /// the supply that is wanted.
    pub(super) fn least(&mut self, with: &[u32], endless: &[u32], limit: u64, enough: u64) -> u64 {
        let mut before: Vec<(u32, u64)> = Vec::with_capacity(self.ranks + endless.len());
        for node in endless {
            before.push((*node, self.supply(*node)));
            self.set_supply(*node, ENDLESS);
        }
        let mut sinks = with.to_vec();
        let mut least = limit;
        if with.iter().any(|it| self.is_rank(*it)) {
            least = self.flow(&sinks, least);
        } else {
            sinks.push(0);
            for rank in 0..self.ranks as u32 {
                if self.supply(rank) >= ENDLESS {
                    continue;
                }
                if let Some(last) = sinks.last_mut() {
                    *last = rank;
                }
                least = self.flow(&sinks, least);
                if least <= enough {
                    least = enough;
                    break;
                }
                before.push((rank, self.supply(rank)));
                self.set_supply(rank, ENDLESS);
            }
        }
        for (node, supply) in before.into_iter().rev() {
            self.set_supply(node, supply);
        }
        least
    }

    /// Whether every rank can get `amount` from all supplies together.
    pub(super) fn feeds_all(&mut self, amount: u64) -> bool {
        amount == 0 || self.least(&[], &[], amount, amount - 1) >= amount
    }

    /// The greatest flow into the sinks together, or `limit` if that much is possible.
    pub(super) fn flow(&mut self, sinks: &[u32], limit: u64) -> u64 {
        self.clear();
        let mut flow = 0;
        for sink in sinks {
            // What the source feeds into a sink has arrived; none of it may be used twice.
            let direct = std::mem::take(&mut self.supply_left[*sink as usize]);
            self.touched_nodes.push(*sink);
            flow = (flow + direct).min(limit);
        }
        while flow < limit && self.find_levels(sinks) {
            for sink in sinks {
                flow += self.block(*sink, limit - flow);
            }
        }
        flow
    }

    /// After a flow below its limit: whether `node` is on the source's side of the least cut.
    pub(super) fn is_sending(&self, node: u32) -> bool {
        self.stamp[node as usize] != self.round
    }

    fn clear(&mut self) {
        for arc in self.touched_arcs.drain(..) {
            self.left[arc as usize] = self.capacity[arc as usize];
        }
        for node in self.touched_nodes.drain(..) {
            self.supply_left[node as usize] = self.supply[node as usize];
        }
    }

    /// Levels outwards from the sinks as far as the nearest supply; whether there is any.
    fn find_levels(&mut self, sinks: &[u32]) -> bool {
        self.round += 1;
        self.queue.clear();
        for sink in sinks {
            self.reach(*sink, 0);
        }
        let (mut next, mut last) = (0, u32::MAX);
        while let Some(node) = self.queue.get(next).copied() {
            next += 1;
            let level = self.level[node as usize];
            if level >= last {
                break;
            }
            for at in 0..self.arcs[node as usize].len() {
                let arc = self.arcs[node as usize][at];
                let from = self.head[arc as usize];
                if self.left[(arc ^ 1) as usize] > 0 && self.stamp[from as usize] != self.round {
                    self.reach(from, level + 1);
                    if self.supply_left[from as usize] > 0 {
                        last = level + 1;
                    }
                }
            }
        }
        last != u32::MAX
    }

    fn reach(&mut self, node: u32, level: u32) {
        self.stamp[node as usize] = self.round;
        self.level[node as usize] = level;
        self.cursor[node as usize] = 0;
        self.queue.push(node);
    }

    /// Augments along shortest ways from supplies to `sink` until none is left.
    fn block(&mut self, sink: u32, limit: u64) -> u64 {
        let mut flow = 0;
        self.path.clear();
        let mut node = sink;
        while flow < limit {
            if self.supply_left[node as usize] > 0 {
                let amount = self.augment(node, limit - flow);
                flow += amount;
                self.path.clear();
                node = sink;
                continue;
            }
            match self.advance(node) {
                Some(arc) => {
                    self.path.push(arc);
                    node = self.head[arc as usize];
                }
                None => {
                    let Some(arc) = self.path.pop() else { break };
                    node = self.tail(arc);
                    self.cursor[node as usize] += 1;
                }
            }
        }
        flow
    }

    /// The next arc (against the flow) from a node to one a level farther from the sinks.
    fn advance(&mut self, node: u32) -> Option<u32> {
        let arcs = &self.arcs[node as usize];
        let wanted = self.level[node as usize] + 1;
        while let Some(arc) = arcs.get(self.cursor[node as usize] as usize).copied() {
            let from = self.head[arc as usize] as usize;
            let goes = self.left[(arc ^ 1) as usize] > 0;
            if goes && self.stamp[from] == self.round && self.level[from] == wanted {
                return Some(arc);
            }
            self.cursor[node as usize] += 1;
        }
        None
    }

    /// Sends as much as fits from the supply at `source` down the path.
    fn augment(&mut self, source: u32, limit: u64) -> u64 {
        let on_path = self.path.iter().map(|it| self.left[(it ^ 1) as usize]);
        let amount = on_path.fold(limit.min(self.supply_left[source as usize]), u64::min);
        for arc in &self.path {
            self.left[(arc ^ 1) as usize] -= amount;
            self.left[*arc as usize] += amount;
            self.touched_arcs.extend([*arc, arc ^ 1]);
        }
        if self.supply[source as usize] < ENDLESS {
            self.supply_left[source as usize] -= amount;
            self.touched_nodes.push(source);
        }
        amount
    }
}
