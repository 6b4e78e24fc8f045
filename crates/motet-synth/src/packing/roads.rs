//! [`Roads`]: the links that trees use, and the rows of the linear program.
//!
//! A row is anything with a capacity of its own: a link, or, if every link has an opposite of the
//! same bandwidth, a link and its opposite together. An AllReduce that uses one tree in both
//! directions loads both equally, so half the rows are enough.

use motet_units::{LinkId, NodeId, Rank};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;

const NONE: u32 = u32::MAX;

/// Links and rows; see the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Roads {
    pub(super) fabric: Fabric,
    row_of: Vec<u32>,
    /// The opposite of each link, if it has one; parallel links are matched one to one.
    opposite: Vec<u32>,
    /// Capacity per row, in bits per second; never zero for a link that may be used.
    capacity: Vec<f64>,
    both_ways: bool,
    /// The ranks at the centre of the network: see [`centres`].
    pub(super) centres: Vec<Rank>,
}

impl Roads {
    /// One row per link.
    pub(super) fn one_way(fabric: &Fabric) -> Self {
        let mut row_of = vec![NONE; fabric.link_count()];
        for (row, link) in (0..).zip(fabric.links()) {
            row_of[link.index()] = row;
        }
        Self {
            capacity: fabric.links().iter().map(|it| fabric.bits_per_s(*it) as f64).collect(),
            row_of,
            opposite: opposites(fabric),
            both_ways: false,
            centres: centres(fabric),
            fabric: fabric.clone(),
        }
    }

    /// One row for every link and its opposite, if all have one of the same bandwidth.
    pub(super) fn both_ways(fabric: &Fabric) -> Option<Self> {
        let mut roads = Self::one_way(fabric);
        roads.capacity.clear();
        roads.both_ways = true;
        for link in fabric.links() {
            let back = roads.opposite(*link)?;
            if fabric.bits_per_s(back) != fabric.bits_per_s(*link) {
                return None;
            }
            if *link < back {
                let row = roads.capacity.len() as u32;
                roads.row_of[link.index()] = row;
                roads.row_of[back.index()] = row;
                roads.capacity.push(fabric.bits_per_s(*link) as f64);
            }
        }
        Some(roads)
    }

    pub(super) fn is_both_ways(&self) -> bool {
        self.both_ways
    }

    pub(super) fn rows(&self) -> usize {
        self.capacity.len()
    }

    pub(super) fn capacities(&self) -> &[f64] {
        &self.capacity
    }

    /// The row of a link that may be used.
    pub(super) fn row(&self, link: LinkId) -> usize {
        self.row_of[link.index()] as usize
    }

    pub(super) fn opposite(&self, link: LinkId) -> Option<LinkId> {
        Some(self.opposite[link.index()]).filter(|it| *it != NONE).map(LinkId)
    }

    /// The length of each link, given the lengths of rows; infinite if the link may not be used.
    pub(super) fn lengths(&self, of_row: &[f64], lengths: &mut Vec<f64>) {
        lengths.clear();
        lengths.resize(self.fabric.link_count(), f64::INFINITY);
        for link in self.fabric.links() {
            lengths[link.index()] = of_row[self.row(*link)];
        }
    }

    /// The length of each link plus that of its opposite.
    pub(super) fn round_trips(&self, lengths: &[f64], trips: &mut Vec<f64>) {
        if self.both_ways {
            trips.clear();
            trips.extend_from_slice(lengths);
            return;
        }
        trips.clear();
        trips.resize(lengths.len(), f64::INFINITY);
        for link in self.fabric.links() {
            if let Some(back) = self.opposite(*link) {
                trips[link.index()] = lengths[link.index()] + lengths[back.index()];
            }
        }
    }
}

/// Matches each link with an opposite; parallel links by bandwidth, fastest first.
fn opposites(fabric: &Fabric) -> Vec<u32> {
    let mut between: FxHashMap<(NodeId, NodeId), Vec<LinkId>> = FxHashMap::default();
    for link in fabric.links() {
        between.entry((fabric.from(*link), fabric.to(*link))).or_default().push(*link);
    }
    for links in between.values_mut() {
        links.sort_by_key(|it| (std::cmp::Reverse(fabric.bits_per_s(*it)), *it));
    }
    let mut opposite = vec![NONE; fabric.link_count()];
    for ((from, to), links) in &between {
        let Some(back) = between.get(&(*to, *from)) else { continue };
        for (there, back) in links.iter().zip(back) {
            opposite[there.index()] = back.0;
        }
    }
    opposite
}

/// The ranks with the smallest distance, in links, to their farthest other rank.
fn centres(fabric: &Fabric) -> Vec<Rank> {
    let mut steps = vec![u32::MAX; fabric.node_count()];
    let mut open: Vec<NodeId> = Vec::new();
    let mut farthest: Vec<(u32, Rank)> = Vec::with_capacity(fabric.rank_count());
    for rank in fabric.ranks() {
        steps.fill(u32::MAX);
        steps[fabric.node(rank).index()] = 0;
        open.clear();
        open.push(fabric.node(rank));
        let mut next = 0;
        while let Some(node) = open.get(next).copied() {
            next += 1;
            for link in fabric.outgoing(node) {
                let to = fabric.to(*link);
                if steps[to.index()] == u32::MAX {
                    steps[to.index()] = steps[node.index()] + 1;
                    open.push(to);
                }
            }
        }
        let far = fabric.ranks().map(|it| steps[fabric.node(it).index()]).max().unwrap_or(0);
        farthest.push((far, rank));
    }
    let least = farthest.iter().map(|it| it.0).min().unwrap_or(0);
    farthest.into_iter().filter(|it| it.0 == least).map(|it| it.1).collect()
}
