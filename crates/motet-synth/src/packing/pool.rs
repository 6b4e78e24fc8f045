//! [`Pool`]: the trees known so far, each once, with what they load.

use rustc_hash::FxHashMap;

use motet_units::Rank;

use super::roads::Roads;
use super::spanning::{Branch, Found};
use crate::tree::{Edge, Forest, PairForest, PathTable, Tree, TreePair};

/// A tree, or a pair of trees, that may carry part of the data.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Whose data it carries: the index of its root among roots, or 0 for an AllReduce.
    pub(super) group: u32,
    /// With weight 1.
    tree: Tree,
    /// For an AllReduce: the tree that collects. Its `tree` spreads.
    collect: Option<Tree>,
    /// How often it uses each row that it uses at all.
    pub(super) loads: Vec<(u32, f64)>,
}

/// All trees known.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) columns: Vec<Column>,
    paths: PathTable,
    known: FxHashMap<(u32, Vec<u32>), u32>,
    /// Memory for counting, one way and the other.
    count: [Vec<f64>; 2],
}

impl Pool {
    /// Adds a tree that spreads, or one that collects, found on the turned fabric.
    pub(super) fn add_tree(
        &mut self,
        roads: &Roads,
        group: u32,
        found: &Found,
        collects: bool,
    ) -> usize {
        let tree = self.numbered(found.root, &found.branches);
        let loads = self.loads(roads, &[(&tree, collects)]);
        self.add(group, tree, None, loads)
    }

    /// Adds a tree and its mirror.
    pub(super) fn add_mirrored(&mut self, roads: &Roads, found: &Found) -> usize {
        let spread = self.numbered(found.root, &found.branches);
        let mirrored = found.branches.iter().map(|it| Branch {
            links: it.links.iter().filter_map(|link| roads.opposite(*link)).collect(),
            from: it.from,
            to: it.to,
        });
        let mirrored: Vec<Branch> = mirrored.collect();
        let collect = self.numbered(found.root, &mirrored);
        let loads = self.loads(roads, &[(&spread, false), (&collect, true)]);
        self.add(0, spread, Some(collect), loads)
    }

    /// Adds two trees with one root.
    pub(super) fn add_pair(&mut self, roads: &Roads, collect: &Found, spread: &Found) -> usize {
        let spread = self.numbered(spread.root, &spread.branches);
        let collect = self.numbered(collect.root, &collect.branches);
        let loads = self.loads(roads, &[(&spread, false), (&collect, true)]);
        self.add(0, spread, Some(collect), loads)
    }

    fn numbered(&mut self, root: Rank, branches: &[Branch]) -> Tree {
        let edge =
            |it: &Branch| Edge { from: it.from, to: it.to, path: self.paths.number(&it.links) };
        Tree { root, weight: 1, edges: branches.iter().map(edge).collect() }
    }

    fn add(
        &mut self,
        group: u32,
        tree: Tree,
        collect: Option<Tree>,
        loads: Vec<(u32, f64)>,
    ) -> usize {
        let mut key: Vec<u32> = Vec::new();
        for half in [Some(&tree), collect.as_ref()].into_iter().flatten() {
            let from = key.len();
            key.extend(half.edges.iter().map(|it| it.path));
            key[from..].sort_unstable();
        }
        let number = self.columns.len() as u32;
        let known = *self.known.entry((group, key)).or_insert(number);
        if known == number {
            self.columns.push(Column { group, tree, collect, loads });
        }
        known as usize
    }

    /// How much each row is used, in times of what the trees carry.
    fn loads(&mut self, roads: &Roads, halves: &[(&Tree, bool)]) -> Vec<(u32, f64)> {
        let mut loads: Vec<(u32, f64)> = Vec::new();
        for (half, (tree, _)) in halves.iter().enumerate() {
            self.count[half].resize(roads.rows(), 0.0);
            for edge in &tree.edges {
                let path = self.paths.path(edge.path);
                for link in path {
                    let Some(row) = roads.row(*link) else { continue };
                    loads.push((row as u32, 0.0));
                    self.count[half][row] += 1.0;
                }
            }
        }
        loads.sort_unstable_by_key(|it| it.0);
        loads.dedup_by_key(|it| it.0);
        for (row, load) in &mut loads {
            let [one, other] = &mut self.count;
            let one = std::mem::take(&mut one[*row as usize]);
            let other = other.get_mut(*row as usize).map_or(0.0, std::mem::take);
            // Where a row is both ways, each half loads one direction of it.
            *load = if roads.is_both_ways() { one.max(other) } else { one + other };
        }
        loads
    }

    /// The trees with these weights, as a forest.
    pub(super) fn forest(&self, weights: &[u32]) -> Forest {
        let mut paths = PathTable::default();
        let used = self.columns.iter().zip(weights).filter(|(_, weight)| **weight > 0);
        let trees = used.map(|(it, weight)| self.renumbered(&it.tree, *weight, &mut paths));
        let trees = trees.collect();
        Forest { paths: paths.into_paths(), trees }
    }

    /// The pairs with these weights.
    pub(super) fn pairs(&self, weights: &[u32]) -> PairForest {
        let mut paths = PathTable::default();
        let mut pairs = Vec::new();
        for (column, weight) in self.columns.iter().zip(weights).filter(|it| *it.1 > 0) {
            let Some(collect) = &column.collect else { continue };
            let collect = self.renumbered(collect, *weight, &mut paths);
            let spread = self.renumbered(&column.tree, *weight, &mut paths);
            pairs.push(TreePair { collect, spread });
        }
        PairForest { paths: paths.into_paths(), pairs }
    }

    fn renumbered(&self, tree: &Tree, weight: u32, paths: &mut PathTable) -> Tree {
        let edge = |it: &Edge| Edge { path: paths.number(self.paths.path(it.path)), ..*it };
        Tree { root: tree.root, weight, edges: tree.edges.iter().map(edge).collect() }
    }
}
