//! Packs spanning trees into a network of ranks (Edmonds): trees of the required total weight out of every root, within the capacity
//! of every arc.
//!
//! Trees are grown one at a time, nearest ranks first, so that they are low. Arcs are not checked one by one:
//! when a tree spans, flows tell the greatest weight with which it can be taken out of the net such that all
//! trees still due can follow ([`Packer::most`]); the cuts that limit its weight keep the next attempt from
//! the same mistake ([`CutPool`]). Only if that fails a few times is a tree grown with a check of every arc
//! ([`Packer::grow_exactly`]), which cannot fail. So the packing is as exact as the textbook's and takes far
//! fewer flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cuts::CutPool;
use super::net::{ENDLESS, FlowNet};
use crate::watch::Watch;

/// Attempts at a tree of one weight before a lower weight is tried.
const ATTEMPTS: usize = 6;

/// A tree, as arcs of the net, parents first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) root: u32,
    pub(super) weight: u64,
    pub(super) arcs: Vec<u32>,
}

/// Packs trees into a net without switches: out of every rank, as much weight as it has supply, which the net
/// must be able to feed to all ranks. `length` is the delay of each arc; trees of less delay are preferred.
/// `None` if time was up before all were packed.
pub(super) fn pack(net: FlowNet, length: &[u64], watch: Watch<'_>) -> Option<Vec<Packed>> {
    let mut packer = Packer::new(net, length);
    let mut trees = Vec::new();
    while let Some(root) = packer.next_root() {
        if watch.out_of_time() {
            return None;
        }
        let tree = packer.next_tree(root);
        // A tree of no weight would mean that the net does not feed all ranks.
        if tree.weight == 0 {
            break;
        }
        packer.commit(&tree);
        trees.push(tree);
    }
    Some(trees)
}

struct Packer<'a> {
    /// What is left of the net; the supply of a rank is the weight of trees still due out of it.
    net: FlowNet,
    length: &'a [u64],
    /// All supplies together.
    due: u64,
    pool: CutPool,
    in_tree: Vec<bool>,
    /// The delay from the root to each rank of the tree.
    reach: Vec<u64>,
    /// Arcs out of the tree: the delay to their heads, `u64::MAX` less their capacity, the arc.
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

impl<'a> Packer<'a> {
    fn new(net: FlowNet, length: &'a [u64]) -> Self {
        let ranks = net.ranks();
        let due = (0..ranks as u32).map(|it| net.supply(it)).sum();
        let slack = |rank: u32| {
            let into: u64 = net.incoming(rank).map(|it| it.1).sum();
            (into + net.supply(rank)).saturating_sub(due)
        };
        let slacks: Vec<u64> = (0..ranks as u32).map(slack).collect();
        Self {
            length,
            due,
            pool: CutPool::new(&slacks),
            in_tree: vec![false; ranks],
            reach: vec![0; ranks],
            heap: BinaryHeap::new(),
            net,
        }
    }

    /// The root with the most weight still to be packed.
    fn next_root(&self) -> Option<u32> {
        let open = (0..self.net.ranks() as u32).filter(|it| self.net.supply(*it) > 0);
        open.max_by_key(|it| (self.net.supply(*it), Reverse(*it)))
    }

    /// A tree out of `root` and the greatest weight for it, tried from all that is due at the root downwards.
    fn next_tree(&mut self, root: u32) -> Packed {
        let mut target = self.net.supply(root);
        let mut best = Packed { root, weight: 0, arcs: Vec::new() };
        while target > best.weight {
            for _ in 0..ATTEMPTS {
                let Some(arcs) = self.grow(root, target) else { break };
                let weight = self.most(root, &arcs, target);
                if weight > best.weight {
                    best = Packed { root, weight, arcs };
                }
                if weight == target {
                    return best;
                }
            }
            target /= 2;
        }
        if best.weight == 0 {
            best = self.grow_exactly(root);
        }
        best
    }

    /// A tree out of `root` that no known set forbids at this weight.
    fn grow(&mut self, root: u32, weight: u64) -> Option<Vec<u32>> {
        self.begin(root);
        let mut arcs = Vec::with_capacity(self.net.ranks() - 1);
        self.offer(root, weight);
        while let Some(Reverse((reach, _, arc))) = self.heap.pop() {
            let (from, to) = (self.net.tail(arc), self.net.head(arc));
            if self.in_tree[to as usize] || !self.pool.allows(root, weight, from, to) {
                continue;
            }
            self.pool.enter(from, to);
            self.in_tree[to as usize] = true;
            self.reach[to as usize] = reach;
            arcs.push(arc);
            if arcs.len() + 1 == self.net.ranks() {
                return Some(arcs);
            }
            self.offer(to, weight);
        }
        None
    }

    fn begin(&mut self, root: u32) {
        self.pool.begin();
        self.heap.clear();
        self.in_tree.fill(false);
        self.in_tree[root as usize] = true;
        self.reach[root as usize] = 0;
    }

    /// Adds the arcs out of a rank that joined the tree to the candidates.
    fn offer(&mut self, rank: u32, weight: u64) {
        for arc in self.net.arcs_of(rank) {
            let capacity = self.net.capacity(*arc);
            if capacity >= weight && !self.in_tree[self.net.head(*arc) as usize] {
                let reach = self.reach[rank as usize] + self.length[*arc as usize];
                self.heap.push(Reverse((reach, u64::MAX - capacity, *arc)));
            }
        }
    }

    /// The greatest weight, at most `target`, with which a tree can be taken out of the net such that all trees
    /// still due can follow. Cuts that allow no more are remembered.
    fn most(&mut self, root: u32, arcs: &[u32], target: u64) -> u64 {
        let mut weight = target;
        let mut passed: Vec<(u32, u64)> = Vec::with_capacity(self.net.ranks());
        let due_at_root = self.net.supply(root);
        self.set_aside(root, arcs, weight);
        for rank in 0..self.net.ranks() as u32 {
            while weight > 0 {
                let due = self.due - weight;
                if self.net.flow(&[rank], due) >= due {
                    break;
                }
                let inside: Vec<bool> =
                    (0..self.net.ranks() as u32).map(|it| !self.net.is_sending(it)).collect();
                self.give_back(arcs, weight, &passed);
                self.net.set_supply(root, due_at_root);
                let lower = self.weight_allowed_by(root, arcs, &inside);
                weight = lower.min(weight - 1);
                self.set_aside(root, arcs, weight);
                for (rank, _) in &passed {
                    self.net.set_supply(*rank, ENDLESS);
                }
            }
            if weight == 0 {
                break;
            }
            let supply = if rank == root { due_at_root } else { self.net.supply(rank) };
            passed.push((rank, supply));
            self.net.set_supply(rank, ENDLESS);
        }
        self.give_back(arcs, weight, &passed);
        self.net.set_supply(root, due_at_root);
        weight
    }

    /// Takes a tree of this weight out of the net, for a question.
    fn set_aside(&mut self, root: u32, arcs: &[u32], weight: u64) {
        for arc in arcs {
            self.net.set_capacity(*arc, self.net.capacity(*arc) - weight);
        }
        self.net.set_supply(root, self.net.supply(root) - weight);
    }

    /// Undoes [`set_aside`](Self::set_aside), except for the root's supply, and gives the ranks of `passed`,
    /// whose supplies were made endless, their own back.
    fn give_back(&mut self, arcs: &[u32], weight: u64, passed: &[(u32, u64)]) {
        for (rank, supply) in passed {
            self.net.set_supply(*rank, *supply);
        }
        for arc in arcs {
            self.net.set_capacity(*arc, self.net.capacity(*arc) + weight);
        }
    }

    /// The weight that a set of ranks allows the tree; the set is remembered.
    fn weight_allowed_by(&mut self, root: u32, arcs: &[u32], inside: &[bool]) -> u64 {
        let has = |rank: u32| inside[rank as usize];
        let mut slack = 0u64;
        for rank in (0..self.net.ranks() as u32).filter(|it| has(*it)) {
            let into = self.net.incoming(rank).filter(|(from, _)| !has(*from));
            slack += into.map(|it| it.1).sum::<u64>() + self.net.supply(rank);
        }
        let slack = slack.saturating_sub(self.due);
        let enters = |arc: &&u32| has(self.net.head(**arc)) && !has(self.net.tail(**arc));
        let entered = arcs.iter().filter(enters).count() as u64;
        let excess = entered.saturating_sub(u64::from(!has(root)));
        self.pool.add(has, slack);
        slack.checked_div(excess).unwrap_or(u64::MAX)
    }

    /// Grows a tree arc by arc, with a flow for each that proves that all trees can still be completed. Its
    /// weight is the least that any of its arcs allows.
    fn grow_exactly(&mut self, root: u32) -> Packed {
        let mut weight = self.net.supply(root);
        let mut arcs: Vec<u32> = Vec::new();
        self.begin(root);
        self.offer(root, 1);
        while let Some(Reverse((reach, _, arc))) = self.heap.pop() {
            let (from, to) = (self.net.tail(arc), self.net.head(arc));
            if self.in_tree[to as usize] || !self.pool.allows(root, 1, from, to) {
                continue;
            }
            let room = self.room(root, &arcs, weight, arc);
            if room == 0 {
                continue;
            }
            weight = room;
            self.pool.enter(from, to);
            self.in_tree[to as usize] = true;
            self.reach[to as usize] = reach;
            arcs.push(arc);
            if arcs.len() + 1 == self.net.ranks() {
                return Packed { root, weight, arcs };
            }
            self.offer(to, 1);
        }
        Packed { root, weight: 0, arcs }
    }

    /// The greatest weight, at most `weight`, with which an arc can join a tree begun with `arcs`: the
    /// maximum flow into its head, with endless supply at its tail, beyond what is due from other trees.
    fn room(&mut self, root: u32, arcs: &[u32], weight: u64, arc: u32) -> u64 {
        let (from, to) = (self.net.tail(arc), self.net.head(arc));
        let most = weight.min(self.net.capacity(arc));
        let due_at_root = self.net.supply(root);
        self.set_aside(root, arcs, weight);
        let supply = self.net.supply(from);
        self.net.set_supply(from, ENDLESS);
        let others = self.due - weight;
        let room = self.net.flow(&[to], others + most).saturating_sub(others);
        self.net.set_supply(from, supply);
        self.give_back(arcs, weight, &[]);
        self.net.set_supply(root, due_at_root);
        room
    }

    /// Takes a tree out of the net for good.
    fn commit(&mut self, tree: &Packed) {
        self.pool.begin();
        for arc in &tree.arcs {
            self.net.set_capacity(*arc, self.net.capacity(*arc) - tree.weight);
            self.pool.enter(self.net.tail(*arc), self.net.head(*arc));
        }
        self.pool.pay(tree.root, tree.weight);
        self.net.set_supply(tree.root, self.net.supply(tree.root) - tree.weight);
        self.due -= tree.weight;
    }
}
