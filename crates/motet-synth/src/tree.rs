//! [`Tree`] and [`Forest`]: spanning trees over ranks, with weights.
//!
//! Along a tree the root's data spreads to every other rank, each rank passing on what it received. Read
//! backwards, the same tree collects into its root the sum of what all ranks have. Weights say what share
//! of the data each tree carries. Most methods find forests and leave the rest to [`crate::lower`].

use motet_units::{LinkId, Rank};
use rustc_hash::FxHashMap;

use crate::fabric::{Fabric, Path};

/// One edge of a tree: a rank that has the data sends it to one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: Rank,
    pub to: Rank,
    /// The path it takes, as an index into the forest's paths.
    pub path: u32,
}

/// A spanning tree out of a root, on the fabric it was found on (which may be turned round).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub root: Rank,
    /// What share of the root's data the tree carries, relative to the other trees of the forest; at least
    /// 1.
    pub weight: u32,
    /// Parents before children; every rank but the root is reached once.
    pub edges: Vec<Edge>,
}

impl Tree {
    /// How many steps it takes to the farthest rank.
    #[must_use]
    pub fn height(&self) -> usize {
        let last = self.edges.iter().map(|it| it.from.index().max(it.to.index())).max();
        let mut depth = vec![0usize; last.map_or(0, |it| it + 1)];
        for edge in &self.edges {
            depth[edge.to.index()] = depth[edge.from.index()] + 1;
        }
        depth.into_iter().max().unwrap_or(0)
    }
}

/// Trees, and the paths that their edges take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forest {
    pub paths: Vec<Path>,
    pub trees: Vec<Tree>,
}

impl Forest {
    /// The weights of all trees out of `root` together.
    #[must_use]
    pub fn weight_of(&self, root: Rank) -> u64 {
        self.trees.iter().filter(|it| it.root == root).map(|it| u64::from(it.weight)).sum()
    }

    #[must_use]
    pub fn height(&self) -> usize {
        self.trees.iter().map(Tree::height).max().unwrap_or(0)
    }

    /// What every link carries, in the forest's unit.
    #[must_use]
    pub fn loads(&self, fabric: &Fabric) -> Vec<u64> {
        let mut loads = vec![0u64; fabric.link_count()];
        for tree in &self.trees {
            for edge in &tree.edges {
                for link in &self.paths[edge.path as usize] {
                    loads[link.index()] += u64::from(tree.weight);
                }
            }
        }
        loads
    }
}

/// Numbers paths, so that equal ones are stored once.
#[derive(Clone, Debug, Default)]
pub struct PathTable {
    paths: Vec<Path>,
    known: FxHashMap<Path, u32>,
}

impl PathTable {
    /// The number of `path`, which it is given if it has none yet.
    pub fn number(&mut self, path: &[LinkId]) -> u32 {
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.paths.push(path.to_vec());
        self.known.insert(path.to_vec(), number);
        number
    }

    /// The path with this number, which [`number`](Self::number) gave.
    #[must_use]
    pub fn path(&self, number: u32) -> &[LinkId] {
        &self.paths[number as usize]
    }

    #[must_use]
    pub fn into_paths(self) -> Vec<Path> {
        self.paths
    }
}

/// A tree that collects and one that spreads, with the same root and weight: how an AllReduce
/// uses trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePair {
    /// Found on the fabric turned round.
    pub collect: Tree,
    pub spread: Tree,
}

/// Both halves of an AllReduce. The paths of `collect` trees lead out of the root on the fabric
/// turned round; they are in the same table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairForest {
    pub paths: Vec<Path>,
    pub pairs: Vec<TreePair>,
}

impl PairForest {
    /// Pairs two forests root by root, cutting trees where their weights end at different places.
    /// Each root's weights must add up to the same in both; what does not is left out.
    #[must_use]
    pub fn of(collect: &Forest, spread: &Forest) -> Self {
        let mut paths = PathTable::default();
        let mut pairs = Vec::new();
        let mut renumbered = |forest: &Forest, tree: &Tree, weight: u32| Tree {
            root: tree.root,
            weight,
            edges: tree
                .edges
                .iter()
                .map(|it| Edge { path: paths.number(&forest.paths[it.path as usize]), ..*it })
                .collect(),
        };
        let mut used = vec![0u32; spread.trees.len()];
        for up in &collect.trees {
            let mut left = up.weight;
            for (down, used) in spread.trees.iter().zip(&mut used) {
                if left == 0 {
                    break;
                }
                let weight = left.min(down.weight - *used);
                if down.root != up.root || weight == 0 {
                    continue;
                }
                *used += weight;
                left -= weight;
                let collect = renumbered(collect, up, weight);
                pairs.push(TreePair { collect, spread: renumbered(spread, down, weight) });
            }
        }
        Self { paths: paths.into_paths(), pairs }
    }
}
