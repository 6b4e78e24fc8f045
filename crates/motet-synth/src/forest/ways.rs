//! [`ArcLinks`]: over which links data goes on each arc of a net from which switches were taken out.

use motet_units::{LinkId, NodeId};
use rustc_hash::FxHashMap;

use super::split::SplitStep;
use crate::fabric::Fabric;
use crate::tree::PathTable;

/// Part of an arc's capacity, and the way that it takes, as an index into [`ArcLinks::ways`].
#[derive(Clone, Copy, Debug)]
struct Piece {
    way: u32,
    amount: u64,
}

/// A way: a link, or two ways joined where a switch was.
#[derive(Clone, Copy, Debug)]
enum ArcRoute {
    Link(LinkId),
    /// One way, then another.
    Joined(u32, u32),
}

/// The pieces of every arc. It begins with the links of the fabric, and then follows the steps by which
/// switches were taken out.
#[derive(Debug, Default)]
pub(super) struct ArcLinks {
    ways: Vec<ArcRoute>,
    /// Per arc, by its ends.
    pieces: FxHashMap<(u32, u32), Vec<Piece>>,
}

/// A path that takes part of an arc's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// Its number in the path table.
    pub(super) path: u32,
    pub(super) amount: u64,
}

impl ArcLinks {
    /// Adds a link, whose capacity is part of an arc's.
    pub(super) fn add_link(&mut self, from: u32, to: u32, link: LinkId, amount: u64) {
        if amount > 0 {
            let way = self.new_way(ArcRoute::Link(link));
            self.pieces.entry((from, to)).or_default().push(Piece { way, amount });
        }
    }

    fn new_way(&mut self, way: ArcRoute) -> u32 {
        self.ways.push(way);
        self.ways.len() as u32 - 1
    }

    /// Does to the pieces what was done to the net.
    pub(super) fn follow(&mut self, steps: &[SplitStep]) {
        for step in steps {
            match *step {
                SplitStep::Trim { from, to, amount } => {
                    self.take(from, to, amount);
                }
                SplitStep::Split { from, switch, to, amount } => {
                    let there = self.take(from, switch, amount);
                    let onward = self.take(switch, to, amount);
                    if from != to {
                        let joined = self.join(there, onward);
                        self.pieces.entry((from, to)).or_default().extend(joined);
                    }
                }
            }
        }
    }

    /// Takes pieces of an arc, one of the right amount if there is one, else the largest first.
    fn take(&mut self, from: u32, to: u32, amount: u64) -> Vec<Piece> {
        let Some(pieces) = self.pieces.get_mut(&(from, to)) else { return Vec::new() };
        let mut left = amount;
        let mut taken = Vec::new();
        while left > 0 && !pieces.is_empty() {
            let fits = pieces.iter().position(|it| it.amount == left);
            let largest = || (0..pieces.len()).rev().max_by_key(|it| pieces[*it].amount);
            let Some(at) = fits.or_else(largest) else { break };
            let part = pieces[at].amount.min(left);
            taken.push(Piece { amount: part, ..pieces[at] });
            pieces[at].amount -= part;
            if pieces[at].amount == 0 {
                pieces.remove(at);
            }
            left -= part;
        }
        taken
    }

    /// Joins pieces into a switch with pieces out of it, amount by amount.
    fn join(&mut self, mut first: Vec<Piece>, mut second: Vec<Piece>) -> Vec<Piece> {
        let mut joined = Vec::new();
        while let (Some(a), Some(b)) = (first.last_mut(), second.last_mut()) {
            let amount = a.amount.min(b.amount);
            let way = (a.way, b.way);
            a.amount -= amount;
            b.amount -= amount;
            if a.amount == 0 {
                first.pop();
            }
            if b.amount == 0 {
                second.pop();
            }
            let way = self.new_way(ArcRoute::Joined(way.0, way.1));
            joined.push(Piece { way, amount });
        }
        joined
    }

    /// The lanes of an arc between two ranks, most capacity first.
    pub(super) fn lanes(
        &self,
        from: u32,
        to: u32,
        fabric: &Fabric,
        table: &mut PathTable,
    ) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut links = Vec::new();
        for piece in self.pieces.get(&(from, to)).into_iter().flatten() {
            links.clear();
            self.collect(piece.way, &mut links);
            cut_short(&mut links, fabric);
            let path = table.number(&links);
            match lanes.iter_mut().find(|it| it.path == path) {
                Some(lane) => lane.amount += piece.amount,
                None => lanes.push(Lane { path, amount: piece.amount }),
            }
        }
        lanes.sort_by_key(|it| (std::cmp::Reverse(it.amount), it.path));
        lanes
    }

    /// Appends the links of a way in order.
    fn collect(&self, way: u32, links: &mut Vec<LinkId>) {
        let mut open = vec![way];
        while let Some(way) = open.pop() {
            match self.ways[way as usize] {
                ArcRoute::Link(link) => links.push(link),
                ArcRoute::Joined(first, second) => open.extend([second, first]),
            }
        }
    }
}

/// Leaves out cycles.
fn cut_short(links: &mut Vec<LinkId>, fabric: &Fabric) {
    let mut kept: Vec<LinkId> = Vec::with_capacity(links.len());
    let mut seen: Vec<NodeId> = Vec::with_capacity(links.len() + 1);
    for link in links.iter() {
        if seen.is_empty() {
            seen.push(fabric.from(*link));
        }
        let to = fabric.to(*link);
        if let Some(at) = seen.iter().position(|it| *it == to) {
            seen.truncate(at + 1);
            kept.truncate(at);
        } else {
            seen.push(to);
            kept.push(*link);
        }
    }
    *links = kept;
}
