//! [`Spanner`]: the cheapest tree over all ranks, used in both directions, for given lengths of
//! links.
//!
//! Ranks are joined by paths through devices that are not ranks. It suffices to consider, for each
//! link, the path between the ranks nearest to its two ends: the cheapest tree over those paths is
//! the cheapest of all (Mehlhorn's shortcut for Steiner trees), and one search from all ranks at
//! once finds them. Prim's method then grows the tree from a root.
//!
//! A shallow tree is better, since data waits at every step. With a penalty for depth the trees
//! become a little more expensive and much shallower; the caller chooses the penalty.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_graph::{Dijkstra, Hop};
use motet_units::{LinkId, NodeId, Rank};

use super::roads::Roads;
use crate::fabric::Fabric;

const NONE: u32 = u32::MAX;

/// A float as a sort key: the bit patterns of non-negative floats sort as the floats do.
fn key(length: f64) -> u64 {
    length.to_bits()
}

/// One edge of a tree and the links it takes, from parent to child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) links: Vec<LinkId>,
}

/// A tree found, parents first, and what it costs.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) cost: f64,
    pub(super) root: Rank,
    pub(super) branches: Vec<Branch>,
}

/// A path between two ranks over a given link.
#[derive(Clone, Copy, Debug)]
struct SpanningArc {
    link: LinkId,
    to: u32,
    length: f64,
}

/// Buffers, reused between searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Spanner {
    /// For every node the distance to its nearest rank, and the last link of the path from that rank.
    near: Dijkstra<f64>,
    /// For every node its nearest rank.
    nearest: Vec<u32>,
    /// The paths from rank r: `start[r]..start[r + 1]` of `ways`.
    start: Vec<u32>,
    ways: Vec<SpanningArc>,
    unsorted: Vec<(u32, SpanningArc)>,
    grow: BinaryHeap<Reverse<(u64, u32, u32)>>,
    depth: Vec<u32>,
}

impl Spanner {
    /// Takes new lengths; each is that of a link and its opposite together.
    pub(super) fn survey(&mut self, roads: &Roads, trips: &[f64]) {
        self.find_nearest(&roads.fabric, trips);
        self.find_ways(roads, trips);
    }

    /// The cheapest tree for the lengths last surveyed, grown from `root`. Each step of depth costs
    /// `fee` times the mean path length extra. `None` if some rank cannot be reached.
    pub(super) fn tree(&mut self, roads: &Roads, root: Rank, fee: f64) -> Option<Found> {
        let ranks = roads.fabric.rank_count();
        let mean =
            self.ways.iter().map(|it| it.length).sum::<f64>() / self.ways.len().max(1) as f64;
        let fee = fee * mean;
        self.depth.clear();
        self.depth.resize(ranks, NONE);
        self.grow.clear();
        self.depth[root.index()] = 0;
        self.reach_from(root.0, fee);
        let mut order = Vec::with_capacity(ranks.saturating_sub(1));
        let mut cost = 0.0;
        while let Some(Reverse((_, at, from))) = self.grow.pop() {
            let way = self.ways[at as usize];
            if self.depth[way.to as usize] != NONE {
                continue;
            }
            self.depth[way.to as usize] = self.depth[from as usize] + 1;
            cost += way.length;
            order.push((Rank(from), at));
            self.reach_from(way.to, fee);
        }
        if order.len() + 1 < ranks {
            return None;
        }
        let branch = |(from, at): &(Rank, u32)| {
            let way = self.ways[*at as usize];
            Branch { from: *from, to: Rank(way.to), links: self.links_of(roads, way.link) }
        };
        Some(Found { cost, root, branches: order.iter().map(branch).collect() })
    }

    fn reach_from(&mut self, from: u32, fee: f64) {
        let extra = fee * f64::from(self.depth[from as usize]);
        for at in self.start[from as usize]..self.start[from as usize + 1] {
            let way = self.ways[at as usize];
            if self.depth[way.to as usize] == NONE {
                self.grow.push(Reverse((key(way.length + extra), at, from)));
            }
        }
    }

    fn find_nearest(&mut self, fabric: &Fabric, trips: &[f64]) {
        if self.near.nodes() != fabric.node_count() {
            self.near = Dijkstra::new(fabric.node_count());
        }
        self.near.search(fabric.ranks().map(|it| (fabric.node(it).0, 0.0)), |node| {
            let out = fabric.outgoing(NodeId(node)).iter();
            out.map(|it| Hop { arc: it.0, to: fabric.to(*it).0, length: trips[it.index()] })
        });
        self.nearest.clear();
        self.nearest.resize(fabric.node_count(), NONE);
        for rank in fabric.ranks() {
            self.nearest[fabric.node(rank).index()] = rank.0;
        }
        for node in self.near.order() {
            if let Some(link) = self.near.last_arc(*node) {
                self.nearest[*node as usize] = self.nearest[fabric.from(LinkId(link)).index()];
            }
        }
    }

    /// For each link the path between the ranks nearest to its ends, in rows by rank.
    fn find_ways(&mut self, roads: &Roads, trips: &[f64]) {
        let fabric = &roads.fabric;
        self.unsorted.clear();
        for link in fabric.links() {
            let (from, to) = (fabric.from(*link).index(), fabric.to(*link).index());
            let (near, far) = (self.nearest[from], self.nearest[to]);
            let apart = self.near.distances();
            let length = apart[from] + trips[link.index()] + apart[to];
            if near != far && near != NONE && far != NONE && length < f64::INFINITY {
                self.unsorted.push((near, SpanningArc { link: *link, to: far, length }));
            }
        }
        let ranks = fabric.rank_count();
        self.start.clear();
        self.start.resize(ranks + 1, 0);
        for (from, _) in &self.unsorted {
            self.start[*from as usize + 1] += 1;
        }
        for rank in 0..ranks {
            self.start[rank + 1] += self.start[rank];
        }
        let mut next = self.start.clone();
        let nothing = SpanningArc { link: LinkId(0), to: 0, length: 0.0 };
        self.ways.clear();
        self.ways.resize(self.unsorted.len(), nothing);
        for (from, way) in &self.unsorted {
            self.ways[next[*from as usize] as usize] = *way;
            next[*from as usize] += 1;
        }
    }

    /// All links of the path over `link`, between the ranks nearest to its ends.
    fn links_of(&self, roads: &Roads, link: LinkId) -> Vec<LinkId> {
        let fabric = &roads.fabric;
        let mut links = Vec::new();
        let mut node = fabric.from(link).index();
        while let Some(before) = self.near.last_arc(node as u32).map(LinkId) {
            links.push(before);
            node = fabric.from(before).index();
        }
        links.reverse();
        links.push(link);
        node = fabric.to(link).index();
        while let Some(towards) = self.near.last_arc(node as u32).map(LinkId) {
            // A path whose length is that of a round trip has a path back.
            links.extend(roads.opposite(towards));
            node = fabric.from(towards).index();
        }
        links
    }
}

/// The same tree with the middle of its longest path as root, parents first.
pub(super) fn recentred(found: Found, roads: &Roads) -> Found {
    let ranks = roads.fabric.rank_count();
    let mut near: Vec<Vec<u32>> = vec![Vec::new(); ranks];
    for (number, branch) in (0..).zip(&found.branches) {
        near[branch.from.index()].push(number);
        near[branch.to.index()].push(number);
    }
    let walk = |start: Rank| {
        let mut order: Vec<(Rank, u32)> = vec![(start, NONE)];
        let mut next = 0;
        while let Some((rank, came)) = order.get(next).copied() {
            next += 1;
            for number in near[rank.index()].iter().filter(|it| **it != came) {
                let branch = &found.branches[*number as usize];
                let to = if branch.from == rank { branch.to } else { branch.from };
                order.push((to, *number));
            }
        }
        order
    };
    let last = |order: &[(Rank, u32)]| order.last().map_or(found.root, |it| it.0);
    let far = last(&walk(found.root));
    let order = walk(far);
    let mut way = vec![last(&order)];
    let mut came = vec![NONE; ranks];
    for (rank, number) in &order {
        came[rank.index()] = *number;
    }
    while let Some(number) = way.last().map(|it| came[it.index()]).filter(|it| *it != NONE) {
        let branch = &found.branches[number as usize];
        let here = way[way.len() - 1];
        way.push(if branch.to == here { branch.from } else { branch.to });
    }
    let root = way[way.len() / 2];
    let mut branches = Vec::with_capacity(found.branches.len());
    for (rank, number) in walk(root) {
        let Some(branch) = found.branches.get(number as usize) else { continue };
        if branch.to == rank {
            branches.push(branch.clone());
        } else {
            let back = branch.links.iter().rev().filter_map(|it| roads.opposite(*it));
            branches.push(Branch { from: branch.to, to: branch.from, links: back.collect() });
        }
    }
    Found { cost: found.cost, root, branches }
}
