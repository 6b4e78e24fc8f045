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
//! much as all sets allow is put on the rank (a least cut each, [`MaxFlow`]); sets
//! that allow no more are kept and merged where they meet (Cunningham's method for the strength;
//! the border of a set of ranks is the least over the switches that go with it, which is
//! submodular too). The sets found give a lower ratio, from which it starts again (Dinkelbach),
//! until none is left.

use motet_graph::{Capacity, MaxFlow};

use super::graph::BoundGraph;
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
pub(super) fn strength(graph: &BoundGraph, start: Ratio) -> Option<Strength> {
    if graph.ranks.len() < 2 || graph.ranks.len() > MAX_RANKS {
        return None;
    }
    let mut search = StrengthSearch::new(graph);
    let mut best = Strength { ratio: start, sets: None };
    while let Some(block_of) = search.below(best.ratio) {
        let (of, parts) = search.with_switches(&block_of);
        let border = search.borders(&of);
        match Ratio::new(border, parts.saturating_sub(1) as u128) {
            Some(ratio) if ratio < best.ratio => best = Strength { ratio, sets: Some((of, parts)) },
            // Sets in sum below zero have a lower ratio; anything else would be endless.
            _ => return None,
        }
    }
    Some(best)
}

/// Flows into sets. Both directions of a link count together here, so that a border is the same
/// whichever way it is crossed; a set is the receiving side of a flow, the smallest there is.
struct StrengthSearch<'g> {
    graph: &'g BoundGraph,
    /// The capacities of both directions of each arc together.
    whole: Vec<u128>,
    flow: MaxFlow<&'g BoundGraph, u128>,
}

impl<'g> StrengthSearch<'g> {
    fn new(graph: &'g BoundGraph) -> Self {
        let both = |arc: usize| graph.capacity(arc) + graph.capacity(graph.opposite(arc));
        let whole = (0..graph.arcs()).map(both).collect();
        Self { graph, whole, flow: MaxFlow::new(graph) }
    }

    /// Every link `scale` times as wide.
    fn rescale(&mut self, scale: u128) {
        let whole = &self.whole;
        self.flow.set_capacities(|arc| whole[arc] * scale);
    }

    /// The borders of disjoint sets of nodes together, both directions counted: `of` gives each
    /// node's set, or [`NONE`].
    fn borders(&self, of: &[u32]) -> u128 {
        let inside = (0..self.graph.nodes()).filter(|it| of[*it] != NONE);
        let border = |node: usize| {
            let leaving = self.graph.arcs_of(node);
            leaving.filter(move |it| of[self.graph.head(*it)] != of[node]).map(|it| self.whole[it])
        };
        inside.flat_map(border).sum()
    }

    /// Blocks of ranks whose borders, less `ratio` each, sum to less than −`ratio`: the number of
    /// each rank's block. `None` if there are none.
    fn below(&mut self, ratio: Ratio) -> Option<Vec<u32>> {
        let (scale, fee) = (ratio.denominator(), i128::try_from(ratio.numerator()).ok()?);
        let graph = self.graph;
        let ranks = graph.ranks.len();
        self.rescale(scale);
        for node in &graph.ranks {
            self.flow.set_supply(*node as usize, u128::ENDLESS);
        }
        let (mut sum, mut positive) = (0i128, 0i128);
        // The ranks before this one on which more than nothing is put.
        let mut sinks: Vec<(u32, u128)> = Vec::with_capacity(ranks);
        let mut block_of: Vec<u32> = (0..ranks as u32).collect();
        for (rank, node) in graph.ranks.iter().enumerate() {
            let put = i128::try_from(self.least_cut(*node, &sinks)).ok()? - positive - fee;
            sum += put;
            let tight: Vec<u32> = (0..=rank)
                .filter(|it| !self.flow.is_sending(graph.ranks[*it] as usize))
                .map(|it| block_of[it])
                .collect();
            for block in &mut block_of[..=rank] {
                if tight.contains(block) {
                    *block = rank as u32;
                }
            }
            if put > 0 {
                positive += put;
                sinks.push((*node, put.unsigned_abs()));
            } else {
                self.flow.set_supply(*node as usize, put.unsigned_abs());
            }
        }
        (sum < -fee).then_some(block_of)
    }

    /// The least of border + what is put outside the set − what is below zero inside, over sets
    /// with the rank at `node` and without later ranks. What is put on ranks is in `sinks` where it is
    /// above zero, and is the rank's supply where it is below.
    fn least_cut(&mut self, node: u32, sinks: &[(u32, u128)]) -> u128 {
        self.flow.set_supply(node as usize, 0);
        let inside = sinks.iter().copied().chain([(node, u128::ENDLESS)]);
        self.flow.flow_into(inside, u128::ENDLESS)
    }

    /// The blocks with the switches that make their borders least, numbered from 0.
    fn with_switches(&mut self, block_of: &[u32]) -> (Vec<u32>, usize) {
        let mut blocks: Vec<u32> = block_of.to_vec();
        blocks.sort_unstable();
        blocks.dedup();
        let mut of = vec![NONE; self.graph.nodes()];
        self.rescale(1);
        for (part, block) in (0..).zip(&blocks) {
            let mut inside = Vec::new();
            for (node, of_rank) in self.graph.ranks.iter().zip(block_of) {
                let is_inside = of_rank == block;
                inside.extend(is_inside.then_some((*node, u128::ENDLESS)));
                let supply = if is_inside { 0 } else { u128::ENDLESS };
                self.flow.set_supply(*node as usize, supply);
            }
            self.flow.flow_into(inside, u128::ENDLESS);
            // The smallest least cuts of disjoint sets are disjoint.
            for (node, of) in of.iter_mut().enumerate() {
                if !self.flow.is_sending(node) {
                    *of = part;
                }
            }
        }
        (of, blocks.len())
    }
}
