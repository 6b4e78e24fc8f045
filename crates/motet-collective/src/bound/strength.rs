//! [`strength`]: the groups between which messages are dearest, over all ways to take the network
//! apart, exactly.
//!
//! [`work`](super::work) bounds an AllReduce by any disjoint sets of nodes, each with a rank and
//! together with all ranks: bandwidth across their borders ÷ 4(groups − 1), both directions
//! counted. Without switches the least of that over all partitions is the strength of the network
//! (Nash-Williams, Tutte), which is also the largest packing of spanning trees. With switches it
//! is still the largest packing of trees over the ranks whose edges are ways through switches:
//! take the best prices of links (the dual of the packing), and let a ball grow around each rank
//! at the pace of the prices; balls that meet merge. At every moment the balls are such sets, the
//! cheapest tree pays for the mergers and the prices pay for the borders passed, so that at some
//! moment the borders are no wider than the packing is large.
//!
//! For one ratio x, sets with border(S) − x below zero in sum are found greedily: rank by rank, as
//! much as all sets allow is put on the rank (a least cut each, [`apart`](super::apart)); sets
//! that allow no more are kept and merged where they meet (Cunningham's method for the strength;
//! the border of a set of ranks is the least over the switches that go with it, which is
//! submodular too). The sets found give a lower ratio, from which it starts again (Dinkelbach),
//! until none is left.

use super::apart::{Apart, ENDLESS};
use super::graph::Graph;
use super::ratio::Ratio;

/// With more ranks than this only the partitions that have names are tried.
const MAX_RANKS: usize = 2048;

/// The set of a node that is in none.
const NONE: u32 = u32::MAX;

/// What a search found.
#[derive(Clone, Debug)]
pub(super) struct Strength {
    /// The least border of all sets together ÷ (sets − 1), in units of the graph, both directions
    /// counted.
    pub(super) ratio: Ratio,
    /// Sets that have it: the number of each node's set, or `u32::MAX`, and how many there are.
    /// `None` if no sets are below where the search started.
    pub(super) sets: Option<(Vec<u32>, usize)>,
}

/// The least ratio over all sets, given one that some sets have. `None` if there are too many ranks.
pub(super) fn strength(graph: &Graph, start: Ratio) -> Option<Strength> {
    if graph.ranks.len() < 2 || graph.ranks.len() > MAX_RANKS {
        return None;
    }
    let mut search = Search { graph, flow: Apart::new(graph) };
    let mut best = Strength { ratio: start, sets: None };
    while let Some(block_of) = search.below(best.ratio) {
        let (of, parts) = search.with_switches(&block_of);
        let border = search.flow.borders(&of, NONE);
        match Ratio::new(border, parts.saturating_sub(1) as u128) {
            Some(ratio) if ratio < best.ratio => best = Strength { ratio, sets: Some((of, parts)) },
            // Sets in sum below zero have a lower ratio; anything else would be endless.
            _ => return None,
        }
    }
    Some(best)
}

struct Search<'g> {
    graph: &'g Graph,
    flow: Apart<'g>,
}

impl Search<'_> {
    /// Blocks of ranks whose borders, less `ratio` each, sum to less than −`ratio`: the number of
    /// each rank's block. `None` if there are none.
    fn below(&mut self, ratio: Ratio) -> Option<Vec<u32>> {
        let (scale, fee) = (ratio.denominator(), i128::try_from(ratio.numerator()).ok()?);
        let ranks = self.graph.ranks.len();
        let mut put: Vec<i128> = Vec::with_capacity(ranks);
        let mut block_of: Vec<u32> = (0..ranks as u32).collect();
        for rank in 0..ranks {
            let positive: i128 = put.iter().filter(|it| **it > 0).sum();
            let least = i128::try_from(self.least_cut(rank, &put, scale)).ok()?;
            put.push(least - positive - fee);
            let node = |it: usize| self.graph.ranks[it] as usize;
            let tight: Vec<u32> = (0..=rank)
                .filter(|it| self.flow.on_sending_side(node(*it)))
                .map(|it| block_of[it])
                .collect();
            for block in &mut block_of[..=rank] {
                if tight.contains(block) {
                    *block = rank as u32;
                }
            }
        }
        (put.iter().sum::<i128>() < -fee).then_some(block_of)
    }

    /// The least of border + what is put outside the set − what is below zero inside, over sets
    /// with `rank` and without later ranks.
    fn least_cut(&mut self, rank: usize, put: &[i128], scale: u128) -> u128 {
        self.flow.clear(scale);
        for (other, node) in self.graph.ranks.iter().enumerate() {
            let node = *node as usize;
            match put.get(other) {
                Some(put) if *put > 0 => self.flow.supply[node] = put.unsigned_abs(),
                Some(put) => self.flow.drain[node] = put.unsigned_abs(),
                None if other == rank => self.flow.supply[node] = ENDLESS,
                None => self.flow.drain[node] = ENDLESS,
            }
        }
        self.flow.run()
    }

    /// The blocks with the switches that make their borders least, numbered from 0.
    fn with_switches(&mut self, block_of: &[u32]) -> (Vec<u32>, usize) {
        let mut blocks: Vec<u32> = block_of.to_vec();
        blocks.sort_unstable();
        blocks.dedup();
        let mut of = vec![NONE; self.graph.nodes()];
        for (part, block) in (0..).zip(&blocks) {
            self.flow.clear(1);
            for (rank, node) in self.graph.ranks.iter().enumerate() {
                if block_of[rank] == *block {
                    self.flow.supply[*node as usize] = ENDLESS;
                } else {
                    self.flow.drain[*node as usize] = ENDLESS;
                }
            }
            self.flow.run();
            // The smallest least cuts of disjoint sets are disjoint.
            for (node, of) in of.iter_mut().enumerate() {
                if self.flow.on_sending_side(node) {
                    *of = part;
                }
            }
        }
        (of, blocks.len())
    }
}
