//! Makes packed trees lower, at the same loads.
//!
//! A rank may get another parent in its tree if the arc from there has capacity to spare, or if another tree
//! of the same weight uses that arc and takes over the rank's present arc in exchange: both arcs lead into
//! the same rank, so no load changes. The ranks of each tree are tried, those of most delay first, as long as
//! the sum of squared delays falls; squares, because a program is as slow as its tallest tree.

use super::net::FlowNet;
use super::pack::Packed;
use crate::watch::Watch;

/// Most times that all trees are gone through.
const ROUNDS: usize = 8;

/// Marks a rank without a parent: the root.
const NONE: u32 = u32::MAX;

/// A tree whose arcs are being exchanged.
struct Growing {
    root: u32,
    weight: u64,
    /// The arc into each rank; [`NONE`] at the root.
    into: Vec<u32>,
    /// The delay from the root to each rank.
    reach: Vec<u64>,
}

struct Shortener<'a> {
    net: &'a FlowNet,
    /// Per arc: its delay.
    length: &'a [u64],
    trees: Vec<Growing>,
    /// Per arc: the capacity that no tree uses.
    spare: Vec<u64>,
    /// Per arc: the trees that use it.
    users: Vec<Vec<u32>>,
    order: Vec<u32>,
}

/// Lowers trees packed into `net`, whose arcs have these delays, as far as time allows.
pub(super) fn shorten(net: &FlowNet, length: &[u64], trees: &mut [Packed], watch: Watch<'_>) {
    let mut work = Shortener::new(net, length, trees);
    for _ in 0..ROUNDS {
        let mut moved = false;
        for tree in 0..trees.len() as u32 {
            if watch.out_of_time() {
                break;
            }
            moved |= work.lower(tree);
        }
        if !moved {
            break;
        }
    }
    for (tree, lower) in trees.iter_mut().zip(&work.trees) {
        tree.arcs.clear();
        let ranks = 0..net.ranks() as u32;
        tree.arcs.extend(ranks.map(|it| lower.into[it as usize]).filter(|it| *it != NONE));
        tree.arcs.sort_by_key(|it| lower.reach[net.head(*it) as usize]);
    }
}

impl<'a> Shortener<'a> {
    fn new(net: &'a FlowNet, length: &'a [u64], packed: &[Packed]) -> Self {
        let mut spare: Vec<u64> = (0..net.arc_count() as u32).map(|it| net.capacity(it)).collect();
        let mut users = vec![Vec::new(); net.arc_count()];
        let mut trees = Vec::with_capacity(packed.len());
        for (number, tree) in (0..).zip(packed) {
            let mut into = vec![NONE; net.ranks()];
            let mut reach = vec![0; net.ranks()];
            for arc in &tree.arcs {
                let (from, to) = (net.tail(*arc) as usize, net.head(*arc) as usize);
                into[to] = *arc;
                reach[to] = reach[from] + length[*arc as usize];
                spare[*arc as usize] -= tree.weight;
                users[*arc as usize].push(number);
            }
            trees.push(Growing { root: tree.root, weight: tree.weight, into, reach });
        }
        Self { net, length, trees, spare, users, order: Vec::new() }
    }

    /// Gives ranks of one tree parents from which they have less delay, where possible; returns whether any
    /// moved.
    fn lower(&mut self, tree: u32) -> bool {
        let growing = &self.trees[tree as usize];
        let mut ranks: Vec<u32> = (0..self.net.ranks() as u32).collect();
        ranks.sort_by_key(|it| std::cmp::Reverse(growing.reach[*it as usize]));
        let mut moved = false;
        let root = growing.root;
        for rank in ranks.into_iter().filter(|it| *it != root) {
            moved |= self.lower_rank(tree, rank);
        }
        moved
    }

    fn lower_rank(&mut self, tree: u32, rank: u32) -> bool {
        let net = self.net;
        let growing = &self.trees[tree as usize];
        let old = growing.into[rank as usize];
        let mut best: Option<(f64, u32, Option<u32>)> = None;
        for back in net.arcs_of(rank) {
            let arc = *back ^ 1;
            if net.capacity(arc) < growing.weight || arc == old {
                continue;
            }
            let reach = growing.reach[net.tail(arc) as usize] + self.length[arc as usize];
            if reach >= growing.reach[rank as usize] || self.hangs_from(tree, net.tail(arc), rank) {
                continue;
            }
            let gain = self.change(tree, rank, arc);
            if self.spare[arc as usize] >= growing.weight {
                if best.is_none_or(|it| gain < it.0) {
                    best = Some((gain, arc, None));
                }
                continue;
            }
            for other in &self.users[arc as usize] {
                let same = self.trees[*other as usize].weight == growing.weight;
                if !same || *other == tree || self.hangs_from(*other, net.tail(old), rank) {
                    continue;
                }
                let change = gain + self.change(*other, rank, old);
                if change < 0.0 && best.is_none_or(|it| change < it.0) {
                    best = Some((change, arc, Some(*other)));
                }
            }
        }
        let Some((_, arc, other)) = best else { return false };
        self.hang(tree, rank, arc);
        if let Some(other) = other {
            self.hang(other, rank, old);
        }
        true
    }

    /// Whether `rank` is `above` or in the subtree below it.
    fn hangs_from(&self, tree: u32, mut rank: u32, above: u32) -> bool {
        let into = &self.trees[tree as usize].into;
        loop {
            if rank == above {
                return true;
            }
            match into[rank as usize] {
                NONE => return false,
                arc => rank = self.net.tail(arc),
            }
        }
    }

    /// By how much the tree's sum of squared delays would change if `arc` led to `rank` instead of its
    /// present arc.
    fn change(&self, tree: u32, rank: u32, arc: u32) -> f64 {
        let growing = &self.trees[tree as usize];
        let reach = growing.reach[self.net.tail(arc) as usize] + self.length[arc as usize];
        let shift = reach as f64 - growing.reach[rank as usize] as f64;
        let mut change = 0.0;
        for below in 0..self.net.ranks() as u32 {
            let now = growing.reach[below as usize];
            // Only ranks of more delay than this one can be below it.
            let candidate = below == rank || now > growing.reach[rank as usize];
            if candidate && self.hangs_from(tree, below, rank) {
                let now = now as f64;
                change += (now + shift) * (now + shift) - now * now;
            }
        }
        change
    }

    /// Makes `arc` the one that leads to `rank`.
    fn hang(&mut self, tree: u32, rank: u32, arc: u32) {
        let growing = &mut self.trees[tree as usize];
        let old = std::mem::replace(&mut growing.into[rank as usize], arc);
        self.users[old as usize].retain(|it| *it != tree);
        self.users[arc as usize].push(tree);
        // In an exchange one tree takes an arc before the other gives it up: in between, what is spare is
        // negative, so sums wrap.
        let spare = &mut self.spare;
        spare[old as usize] = spare[old as usize].wrapping_add(growing.weight);
        spare[arc as usize] = spare[arc as usize].wrapping_sub(growing.weight);
        self.measure(tree);
    }

    /// Computes the delays of a tree anew.
    fn measure(&mut self, tree: u32) {
        let growing = &mut self.trees[tree as usize];
        let net = self.net;
        growing.reach.fill(u64::MAX);
        growing.reach[growing.root as usize] = 0;
        for rank in 0..net.ranks() as u32 {
            let mut at = rank;
            while growing.reach[at as usize] == u64::MAX {
                self.order.push(at);
                at = net.tail(growing.into[at as usize]);
            }
            while let Some(next) = self.order.pop() {
                let length = self.length[growing.into[next as usize] as usize];
                growing.reach[next as usize] = growing.reach[at as usize] + length;
                at = next;
            }
        }
    }
}
