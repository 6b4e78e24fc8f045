//! Shortest paths from one node: Dijkstra's algorithm with labels, exact for costs that are a sum
//! plus a maximum.
//!
//! Under cut-through forwarding a path costs Σα + max β, so the cheapest path to a node need not
//! extend the cheapest path to the node before it: a detour over fast links costs latency, but does
//! not pay a higher maximum if a slow link follows anyway. Each node therefore keeps every label
//! (sum, maximum) that some continuation could make optimal, and drops the rest. If the metric has
//! no maximum, that is one label per node, and this is plain Dijkstra.
//!
//! Labels leave the queue by sum, then hops. Each link adds a hop and never lowers the sum, so
//! whatever a label is compared with is already final.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use motet_units::{LinkId, NodeId};

use super::Path;
use super::search::{Cost, Search};
use crate::network::Network;

const NONE: u32 = u32::MAX;

/// A way to a node.
#[derive(Clone, Copy, Debug)]
struct Label {
    sum: u64,
    max: u64,
    hops: u32,
    node: NodeId,
    /// The link it came over and the label it came from; `NONE` at the start.
    link: LinkId,
    parent: u32,
    /// The next label kept at the same node.
    next: u32,
}

impl Label {
    fn total(&self) -> u64 {
        self.sum.saturating_add(self.max)
    }
}

/// Where a search begins and what it must avoid; the k-shortest search begins in mid-path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'q> {
    /// The first node of the whole path.
    pub(super) origin: NodeId,
    /// The node to go on from, and the sum and maximum so far.
    pub(super) at: NodeId,
    pub(super) spent: (u64, u64),
    pub(super) target: Option<NodeId>,
    /// Paths that cost more are of no interest.
    pub(super) limit: u64,
    /// Nodes not to visit, sorted.
    pub(super) avoid_nodes: &'q [NodeId],
    /// Links not to use, sorted.
    pub(super) avoid_links: &'q [LinkId],
}

impl Query<'static> {
    pub(super) fn from(origin: NodeId) -> Self {
        Self {
            origin,
            at: origin,
            spent: (0, 0),
            target: None,
            limit: u64::MAX,
            avoid_nodes: &[],
            avoid_links: &[],
        }
    }

    pub(super) fn between(from: NodeId, to: NodeId) -> Self {
        Self { target: Some(to), ..Self::from(from) }
    }
}

/// The shortest paths from one node to every other, as [`Search::all_from`] gives them.
#[derive(Clone, Debug)]
pub struct ShortestPaths<'a> {
    network: &'a Network,
    start: NodeId,
    labels: Vec<Label>,
    /// Of each node the last label kept, from which `next` leads to the others.
    heads: Vec<u32>,
}

impl<'a> ShortestPaths<'a> {
    pub(super) fn run(search: &Search<'a>, query: Query<'_>) -> Self {
        let network = search.network();
        let mut found = Self {
            network,
            start: query.at,
            labels: Vec::new(),
            heads: vec![NONE; network.nodes().len()],
        };
        let (sum, max) = query.spent;
        let first = Label {
            sum,
            max,
            hops: 0,
            node: query.at,
            link: LinkId(NONE),
            parent: NONE,
            next: NONE,
        };
        let mut waiting = vec![first];
        let mut queue = BinaryHeap::from([Reverse((sum, 0u32, max, 0usize))]);
        // Falls to the cost of the best way to the target seen so far.
        let mut limit = query.limit;
        while let Some(Reverse((sum, hops, _, slot))) = queue.pop() {
            if sum > limit {
                break;
            }
            let label = waiting[slot];
            let Some(kept) = found.keep(label) else {
                continue;
            };
            if query.target == Some(label.node) {
                continue;
            }
            for link in network.outgoing(label.node) {
                let to = network.link(*link).to;
                if !search.may_pass(query.origin, *link)
                    || query.avoid_nodes.binary_search(&to).is_ok()
                    || query.avoid_links.binary_search(link).is_ok()
                {
                    continue;
                }
                let Some((sum, max)) = search.extend((label.sum, label.max), *link) else {
                    continue;
                };
                // Going on never lowers the total, so what is over the limit stays over it.
                let total = sum.saturating_add(max);
                if total > limit {
                    continue;
                }
                if query.target == Some(to) {
                    limit = total;
                }
                let hops = hops + 1;
                queue.push(Reverse((sum, hops, max, waiting.len())));
                waiting.push(Label {
                    sum,
                    max,
                    hops,
                    node: to,
                    link: *link,
                    parent: kept,
                    next: NONE,
                });
            }
        }
        found
    }

    /// Keeps a label unless one at its node makes it useless; its place if it is to be extended.
    fn keep(&mut self, label: Label) -> Option<u32> {
        let mut at = self.heads[label.node.index()];
        while at != NONE {
            let old = self.labels[at as usize];
            if old.sum == label.sum && old.max == label.max && old.hops == label.hops {
                if self.order(&label, &old) == Ordering::Less {
                    // Same cost and hops by an earlier list of links: whatever was extended
                    // from the old one stands, by the new way.
                    let place = &mut self.labels[at as usize];
                    (place.link, place.parent) = (label.link, label.parent);
                }
                return None;
            }
            if self.beats(&old, &label) {
                return None;
            }
            at = old.next;
        }
        // Fewer than 2³² labels: each takes over 40 bytes of memory before it gets here.
        let place = NodeId::from_index(self.labels.len()).0;
        let head = &mut self.heads[label.node.index()];
        self.labels.push(Label { next: *head, ..label });
        *head = place;
        Some(place)
    }

    /// Whether every continuation of `new` costs at least as much as the same one of `old`, and
    /// does not win the tie either.
    fn beats(&self, old: &Label, new: &Label) -> bool {
        // The second way: even if all of the old maximum were still to pay, nothing is gained.
        let sure = (old.max <= new.max && old.sum < new.sum) || old.total() < new.sum;
        let tie = (old.max <= new.max && old.sum <= new.sum) || old.total() <= new.sum;
        sure || (tie && self.order(old, new) != Ordering::Greater)
    }

    /// Fewer hops first, then by the list of links.
    fn order(&self, a: &Label, b: &Label) -> Ordering {
        let mut order = a.hops.cmp(&b.hops);
        if order != Ordering::Equal {
            return order;
        }
        // Walking back, the last difference seen is the first of the path.
        let (mut a, mut b) = (*a, *b);
        loop {
            order = a.link.cmp(&b.link).then(order);
            if a.parent == b.parent {
                return order;
            }
            // Equal hops: both have a parent or neither has, and then they were equal above.
            (a, b) = (self.labels[a.parent as usize], self.labels[b.parent as usize]);
        }
    }

    fn best(&self, to: NodeId) -> Option<Label> {
        let mut at = *self.heads.get(to.index())?;
        let mut best: Option<Label> = None;
        while at != NONE {
            let label = self.labels[at as usize];
            let better = best.is_none_or(|best| {
                let cost = label.total().cmp(&best.total());
                cost.then_with(|| self.order(&label, &best)) == Ordering::Less
            });
            if better {
                best = Some(label);
            }
            at = label.next;
        }
        best
    }

    /// The cost of the shortest path to a node; zero to the start itself.
    #[must_use]
    pub fn cost(&self, to: NodeId) -> Option<Cost> {
        self.best(to).map(|it| Cost(it.total()))
    }

    /// The shortest path to a node; `None` if there is none, or it is the start itself.
    #[must_use]
    pub fn path(&self, to: NodeId) -> Option<Path> {
        let links = self.links(to)?;
        Some(Path::join(self.network, self.start, links))
    }

    /// From the end back to the start, each time by the least loaded of the links that a shortest path
    /// may come over; of equally loaded ones the first.
    pub(super) fn least_loaded(
        &self,
        search: &Search<'_>,
        to: NodeId,
        load: impl Fn(LinkId) -> u64,
    ) -> Option<Path> {
        let mut at = self.best(to)?;
        let mut links = Vec::with_capacity(at.hops as usize);
        while at.hops > 0 {
            let before = |link: &LinkId| {
                let from = self.best(self.network.link(*link).from)?;
                let arrives = search.extend((from.sum, from.max), *link) == Some((at.sum, at.max));
                let may = search.may_pass(self.start, *link) && from.hops + 1 == at.hops;
                (arrives && may).then_some((load(*link), *link, from))
            };
            let ways = self.network.incoming(at.node).iter().filter_map(before);
            let (_, link, from) = ways.min_by_key(|it| (it.0, it.1))?;
            links.push(link);
            at = from;
        }
        links.reverse();
        (!links.is_empty()).then(|| Path::join(self.network, self.start, links))
    }

    /// The links of the shortest path, at least one.
    pub(super) fn links(&self, to: NodeId) -> Option<Vec<LinkId>> {
        let mut label = self.best(to)?;
        let mut links = Vec::with_capacity(label.hops as usize);
        while label.parent != NONE {
            links.push(label.link);
            label = self.labels[label.parent as usize];
        }
        links.reverse();
        (!links.is_empty()).then_some(links)
    }
}

#[cfg(test)]
mod tests;
