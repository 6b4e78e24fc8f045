//! [`Arborist`]: the cheapest tree from a root over directed links of given lengths.
//!
//! First the shortest path between every two ranks through devices that are not ranks; then, over
//! those paths, the minimum arborescence by the method of Chu, Liu and Edmonds: every rank takes
//! its cheapest incoming path; where that makes a cycle, the cycle is merged into one node and the
//! search goes on.

use motet_graph::{Dijkstra, Hop};
use motet_units::{LinkId, NodeId, Rank};

use super::roads::Roads;
use super::spanning::{Branch, Found};
use crate::fabric::Fabric;

const NONE: u32 = u32::MAX;

/// A path between two ranks, by the ranks themselves, even if they have been merged into cycles
/// since.
#[derive(Clone, Copy, Debug)]
struct TreeArc {
    length: f64,
    from: u32,
    to: u32,
}

const NO_WAY: TreeArc = TreeArc { length: f64::INFINITY, from: NONE, to: NONE };

/// Buffers, reused between searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Arborist {
    ranks: usize,
    nodes: usize,
    /// Lengths of the shortest paths between ranks, row by row.
    length: Vec<f64>,
    /// The last link into each node on the shortest path from each rank.
    via: Vec<u32>,
    turned: bool,
    search: Dijkstra<f64>,
    /// Paths between the nodes that ranks have been merged into; rows are `2 · ranks` apart.
    ways: Vec<TreeArc>,
    /// The path chosen into each node.
    chosen: Vec<TreeArc>,
    /// The merged node that each node has become part of.
    into: Vec<u32>,
    /// The nodes that are not part of another one.
    alive: Vec<u32>,
    /// For the search of cycles: the start of the walk that first came to each node.
    mark: Vec<u32>,
}

impl Arborist {
    /// Finds the shortest paths for these link lengths. With `turned`, trees are built against the
    /// direction of the data, for collecting.
    pub(super) fn survey(&mut self, roads: &Roads, lengths: &[f64], turned: bool) {
        let fabric = &roads.fabric;
        self.turned = turned;
        self.ranks = fabric.rank_count();
        self.nodes = fabric.node_count();
        if self.search.nodes() != self.nodes {
            self.search = Dijkstra::new(self.nodes);
        }
        self.length.clear();
        self.length.resize(self.ranks * self.ranks, f64::INFINITY);
        self.via.clear();
        self.via.resize(self.ranks * self.nodes, NONE);
        for rank in fabric.ranks() {
            self.survey_from(roads, lengths, rank);
        }
    }

    fn survey_from(&mut self, roads: &Roads, lengths: &[f64], rank: Rank) {
        let fabric = &roads.fabric;
        let is_end = |node: NodeId| fabric.rank(node).filter(|it| *it != rank);
        self.search.search([(fabric.node(rank).0, 0.0)], |node| {
            let node = NodeId(node);
            let out = if is_end(node).is_some() { &[] } else { fabric.outgoing(node) };
            let hop = |it: &LinkId| (it.0, fabric.to(*it).0, lengths[it.index()]);
            out.iter().map(hop).map(|(arc, to, length)| Hop { arc, to, length })
        });
        let via = &mut self.via[rank.index() * self.nodes..(rank.index() + 1) * self.nodes];
        via.copy_from_slice(self.search.last_arcs());
        for node in self.search.order().iter().copied().map(NodeId) {
            if let Some(reached) = is_end(node) {
                let (from, to) = if self.turned { (reached, rank) } else { (rank, reached) };
                let length = &mut self.length[from.index() * self.ranks + to.index()];
                *length = self.search.distance(node.0);
            }
        }
    }

    /// The cost of the cheapest tree from `root`; its paths are kept for [`tree`](Self::tree).
    /// `None` if some rank cannot be reached.
    pub(super) fn cost(&mut self, root: Rank) -> Option<f64> {
        self.begin(root);
        let wide = 2 * self.ranks;
        let mut numbers = self.ranks as u32;
        let mut merged: Vec<(u32, Vec<u32>)> = Vec::new();
        loop {
            self.choose(root, wide)?;
            let Some(cycle) = self.cycle(root) else { break };
            self.merge(&cycle, numbers, wide);
            merged.push((numbers, cycle));
            numbers += 1;
        }
        // Expands merged cycles again: the path into a cycle replaces one of the cycle's own.
        for (number, cycle) in merged.into_iter().rev() {
            let way = self.chosen[number as usize];
            let mut member = way.to;
            while self.into[member as usize] != number {
                member = self.into[member as usize];
            }
            debug_assert!(cycle.contains(&member));
            self.chosen[member as usize] = way;
        }
        let length = |it: &TreeArc| self.length[it.from as usize * self.ranks + it.to as usize];
        let ways = self.chosen[..self.ranks].iter();
        Some(ways.filter(|it| it.from != NONE).map(length).sum())
    }

    /// The tree whose cost was last asked for.
    pub(super) fn tree(&self, fabric: &Fabric, root: Rank, cost: f64) -> Found {
        let mut children: Vec<Vec<Rank>> = vec![Vec::new(); self.ranks];
        for (to, way) in self.chosen[..self.ranks].iter().enumerate() {
            if to != root.index() && way.from != NONE {
                children[way.from as usize].push(Rank::from_index(to));
            }
        }
        let mut branches = Vec::with_capacity(self.ranks.saturating_sub(1));
        let mut open = vec![root];
        let mut next = 0;
        while let Some(from) = open.get(next).copied() {
            next += 1;
            for to in &children[from.index()] {
                branches.push(Branch { from, to: *to, links: self.links(fabric, from, *to) });
                open.push(*to);
            }
        }
        Found { cost, root, branches }
    }

    fn links(&self, fabric: &Fabric, from: Rank, to: Rank) -> Vec<LinkId> {
        let (start, end) = if self.turned { (to, from) } else { (from, to) };
        let via = &self.via[start.index() * self.nodes..(start.index() + 1) * self.nodes];
        let mut links = Vec::new();
        let mut node = fabric.node(end);
        while node != fabric.node(start) && via[node.index()] != NONE {
            let link = LinkId(via[node.index()]);
            links.push(link);
            node = fabric.from(link);
        }
        // The path is found from its end, which is where a tree against the data begins.
        if !self.turned {
            links.reverse();
        }
        links
    }

    fn begin(&mut self, root: Rank) {
        let (ranks, wide) = (self.ranks, 2 * self.ranks);
        self.ways.resize(wide * wide, NO_WAY);
        for from in 0..ranks {
            for to in 0..ranks {
                let usable = from != to && to != root.index();
                let length = if usable { self.length[from * ranks + to] } else { f64::INFINITY };
                self.ways[from * wide + to] = TreeArc { length, from: from as u32, to: to as u32 };
            }
        }
        self.alive.clear();
        self.alive.extend(0..ranks as u32);
        self.into.clear();
        self.into.resize(wide, NONE);
        self.chosen.clear();
        self.chosen.resize(wide, NO_WAY);
    }

    /// Chooses the cheapest incoming path of each node that has none yet.
    fn choose(&mut self, root: Rank, wide: usize) -> Option<()> {
        for at in 0..self.alive.len() {
            let to = self.alive[at] as usize;
            if to == root.index() || self.chosen[to].from != NONE {
                continue;
            }
            let mut best = NO_WAY;
            for from in &self.alive {
                let way = self.ways[*from as usize * wide + to];
                if *from as usize != to && way.length < best.length {
                    best = way;
                }
            }
            if best.from == NONE {
                return None;
            }
            self.chosen[to] = best;
        }
        Some(())
    }

    /// The merged node that a rank is part of now.
    fn now(&self, rank: u32) -> u32 {
        let mut number = rank;
        while self.into[number as usize] != NONE {
            number = self.into[number as usize];
        }
        number
    }

    /// A cycle of chosen paths, if there is one.
    fn cycle(&mut self, root: Rank) -> Option<Vec<u32>> {
        self.mark.clear();
        self.mark.resize(2 * self.ranks, NONE);
        for start in self.alive.clone() {
            let mut number = start;
            while number != root.0 && self.mark[number as usize] == NONE {
                self.mark[number as usize] = start;
                number = self.now(self.chosen[number as usize].from);
            }
            if number == root.0 || self.mark[number as usize] != start {
                continue;
            }
            let mut cycle = vec![number];
            let mut next = self.now(self.chosen[number as usize].from);
            while next != number {
                cycle.push(next);
                next = self.now(self.chosen[next as usize].from);
            }
            return Some(cycle);
        }
        None
    }

    /// Merges a cycle into one node. A path into it costs what it adds over the cycle's path that
    /// it replaces.
    fn merge(&mut self, cycle: &[u32], number: u32, wide: usize) {
        for member in cycle {
            self.into[*member as usize] = number;
        }
        self.alive.retain(|it| !cycle.contains(it));
        for other in &self.alive {
            let (mut into, mut out) = (NO_WAY, NO_WAY);
            for member in cycle {
                let way = self.ways[*other as usize * wide + *member as usize];
                let length = way.length - self.chosen[*member as usize].length;
                if length < into.length {
                    into = TreeArc { length: length.max(0.0), ..way };
                }
                let way = self.ways[*member as usize * wide + *other as usize];
                if way.length < out.length {
                    out = way;
                }
            }
            self.ways[*other as usize * wide + number as usize] = into;
            self.ways[number as usize * wide + *other as usize] = out;
        }
        self.alive.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_units::Seed;
    use rand::RngExt;

    /// The least over every choice of one way into each rank that makes a tree.
    fn by_force(length: &[f64], ranks: usize, root: usize) -> f64 {
        let mut best = f64::INFINITY;
        let mut parent = vec![0usize; ranks];
        'choices: loop {
            let is_tree = (0..ranks).all(|start| {
                let mut at = start;
                for _ in 0..ranks {
                    if at == root {
                        return true;
                    }
                    at = parent[at];
                }
                at == root
            });
            if is_tree {
                let others = (0..ranks).filter(|it| *it != root);
                best = best.min(others.map(|it| length[parent[it] * ranks + it]).sum());
            }
            let mut digit = 0;
            loop {
                if digit == ranks {
                    break 'choices;
                }
                parent[digit] += 1;
                if digit != root && parent[digit] < ranks {
                    break;
                }
                parent[digit] = 0;
                digit += 1;
            }
        }
        best
    }

    #[test]
    fn costs_what_the_best_of_all_trees_costs() {
        let mut stream = Seed::new(11).stream("arborescence");
        for ranks in 2..6usize {
            for _ in 0..200 {
                let mut arborist = Arborist { ranks, nodes: ranks, ..Arborist::default() };
                let mut length = vec![f64::INFINITY; ranks * ranks];
                for from in 0..ranks {
                    for to in (0..ranks).filter(|it| *it != from) {
                        length[from * ranks + to] = f64::from(stream.random_range(0..12u32));
                    }
                }
                arborist.length.clone_from(&length);
                for root in 0..ranks {
                    let cost = arborist.cost(Rank::from_index(root)).unwrap();
                    assert_eq!(cost, by_force(&length, ranks, root), "{length:?} from {root}");
                }
            }
        }
    }
}
