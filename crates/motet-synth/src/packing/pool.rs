//! [`Pool`]: the pairs of trees known so far, each once, with the load they put on rows.

use rustc_hash::FxHashMap;

use super::roads::Roads;
use super::spanning::{Branch, Found};
use crate::tree::{Edge, PairForest, PathTable, Tree, TreePair};

/// A pair of trees that may carry part of the data.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Both trees have weight 1.
    spread: Tree,
    collect: Tree,
    /// How often the pair uses each row, for the rows it uses at all.
    pub(super) loads: Vec<(u32, f64)>,
}

/// All pairs known.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) columns: Vec<Column>,
    paths: PathTable,
    known: FxHashMap<Vec<u32>, u32>,
    /// Buffers for counting, away from the root and towards it.
    count: [Vec<f64>; 2],
}

impl Pool {
    /// Adds a tree that is used in both directions.
    pub(super) fn add_mirrored(&mut self, roads: &Roads, spread: &Found) -> usize {
        let mirrored = spread.branches.iter().map(|it| Branch {
            links: it.links.iter().filter_map(|link| roads.opposite(*link)).collect(),
            from: it.from,
            to: it.to,
        });
        let collect = Found { branches: mirrored.collect(), ..*spread };
        self.add_pair(roads, &collect, spread)
    }

    /// Adds a collecting and a spreading tree with the same root.
    pub(super) fn add_pair(&mut self, roads: &Roads, collect: &Found, spread: &Found) -> usize {
        let spread = self.numbered(spread);
        let collect = self.numbered(collect);
        let mut key: Vec<u32> = Vec::new();
        for half in [&spread, &collect] {
            let from = key.len();
            key.extend(half.edges.iter().map(|it| it.path));
            key[from..].sort_unstable();
        }
        let number = self.columns.len() as u32;
        let known = *self.known.entry(key).or_insert(number);
        if known == number {
            let loads = self.loads(roads, [&spread, &collect]);
            self.columns.push(Column { spread, collect, loads });
        }
        known as usize
    }

    fn numbered(&mut self, found: &Found) -> Tree {
        let edge =
            |it: &Branch| Edge { from: it.from, to: it.to, path: self.paths.number(&it.links) };
        Tree { root: found.root, weight: 1, edges: found.branches.iter().map(edge).collect() }
    }

    /// The load on each row, as a multiple of what the pair carries.
    fn loads(&mut self, roads: &Roads, halves: [&Tree; 2]) -> Vec<(u32, f64)> {
        let mut loads: Vec<(u32, f64)> = Vec::new();
        for (tree, count) in halves.into_iter().zip(&mut self.count) {
            count.resize(roads.rows(), 0.0);
            for edge in &tree.edges {
                for link in self.paths.path(edge.path) {
                    let row = roads.row(*link);
                    loads.push((row as u32, 0.0));
                    count[row] += 1.0;
                }
            }
        }
        loads.sort_unstable_by_key(|it| it.0);
        loads.dedup_by_key(|it| it.0);
        for (row, load) in &mut loads {
            let [out, into] =
                self.count.each_mut().map(|it| std::mem::take(&mut it[*row as usize]));
            // If a row stands for both directions of a link, each tree loads one direction.
            *load = if roads.is_both_ways() { out.max(into) } else { out + into };
        }
        loads
    }

    /// The pairs whose weight is not zero.
    pub(super) fn pairs(&self, weights: &[u32]) -> PairForest {
        let mut paths = PathTable::default();
        let mut pairs = Vec::new();
        for (column, weight) in self.columns.iter().zip(weights).filter(|it| *it.1 > 0) {
            let collect = self.renumbered(&column.collect, *weight, &mut paths);
            let spread = self.renumbered(&column.spread, *weight, &mut paths);
            pairs.push(TreePair { collect, spread });
        }
        PairForest { paths: paths.into_paths(), pairs }
    }

    fn renumbered(&self, tree: &Tree, weight: u32, paths: &mut PathTable) -> Tree {
        let edge = |it: &Edge| Edge { path: paths.number(self.paths.path(it.path)), ..*it };
        Tree { root: tree.root, weight, edges: tree.edges.iter().map(edge).collect() }
    }
}
