//! Two binary trees, each for half of the data. Every rank is a leaf in one and an inner node in
//! the other (Sanders, Speck and Träff, 2009).
//!
//! An inner node of a binary tree sends everything twice, a leaf sends nothing. With two such trees
//! every rank sends everything once, as in a ring, but in a logarithmic number of steps. Ranks are
//! taken in the order of a short ring, so that most edges stay inside servers. Several such rings
//! ([`ring`]) are used, so that edges between servers are spread over all NICs.

use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::ring;
use super::routes::Routes;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// Most rings whose order is used.
const MOST_RINGS: usize = 8;

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    // The collecting and the spreading trees of an AllReduce must have the same roots, so both use
    // these rings.
    let rings = ring::rings(task, fabric, MOST_RINGS).map_err(|it| plan::explained(task, it))?;
    plan::lower(task, fabric, |it| forest(task, it, &rings))
}

fn forest(task: &Task<'_>, fabric: &Fabric, rings: &[Vec<Rank>]) -> Result<Forest, SynthError> {
    let routes = Routes::new(fabric, plan::part_bytes(task));
    let mut trees = Vec::new();
    for ring in rings {
        for second in [false, true] {
            trees.push(match task.goal.root() {
                Some(root) => below(root, ring, second),
                None => over(ring, second),
            });
        }
    }
    plan::route(routes, &trees)
}

/// One of the two trees over all ranks.
fn over(ring: &[Rank], second: bool) -> Sketched {
    let (top, pairs) = tree(ring.len(), second);
    let steps =
        pairs.into_iter().map(|(from, to)| ClassicStep::cheapest(ring[from], ring[to])).collect();
    Sketched { root: ring.get(top).copied().unwrap_or_default(), weight: 1, steps }
}

/// One of the two trees over all ranks but the root, which sends to its top.
fn below(root: Rank, ring: &[Rank], second: bool) -> Sketched {
    let start = ring.iter().position(|it| *it == root).map_or(0, |it| it + 1);
    let rest: Vec<Rank> =
        (0..ring.len().saturating_sub(1)).map(|it| ring[(start + it) % ring.len()]).collect();
    let mut tree = over(&rest, second);
    if !rest.is_empty() {
        tree.steps.insert(0, ClassicStep::cheapest(root, tree.root));
    }
    Sketched { root, ..tree }
}

/// The top and the edges, parents first, of a binary tree over positions 0 to `count` − 1. In the
/// first tree the even positions are leaves, in the second the odd ones (the last may be either).
fn tree(count: usize, second: bool) -> (usize, Vec<(usize, usize)>) {
    if count == 0 {
        return (0, Vec::new());
    }
    let mut edges = Vec::with_capacity(count - 1);
    let top = grow(0, count, &mut edges);
    // The second tree is the first one mirrored (even count) or shifted by one (odd count): both
    // swap even and odd positions.
    let place = |it: usize| match (second, count % 2) {
        (false, _) => it,
        (true, 0) => count - 1 - it,
        (true, _) => (it + 1) % count,
    };
    (place(top), edges.into_iter().map(|(a, b)| (place(a), place(b))).collect())
}

/// The subtree over `count` positions from `start`. Its top is the odd position, counted from the
/// start, that leaves a full binary tree on its left.
fn grow(start: usize, count: usize, edges: &mut Vec<(usize, usize)>) -> usize {
    if count == 1 {
        return start;
    }
    let left = count.next_power_of_two() / 2 - 1;
    // With an empty left part, a leaf would become the top.
    let left = left.max(1);
    let top = start + left;
    for (from, count) in [(start, left), (top + 1, count - left - 1)] {
        if count > 0 {
            let at = edges.len();
            edges.push((top, 0));
            edges[at].1 = grow(from, count, edges);
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Trees, of logarithmic depth, and nobody has two children in both.
        #[test]
        fn are_trees(count in 1usize..400) {
            let mut children = [vec![0; count], vec![0; count]];
            for (second, children) in [false, true].into_iter().zip(&mut children) {
                let (top, edges) = tree(count, second);
                let mut depth = vec![None; count];
                depth[top] = Some(0u32);
                for (from, to) in edges {
                    let above = depth[from];
                    prop_assert!(above.is_some() && depth[to].is_none());
                    depth[to] = above.map(|it| it + 1);
                    children[from] += 1;
                }
                prop_assert!(depth.iter().all(Option::is_some));
                let deepest = depth.into_iter().flatten().max().unwrap_or(0);
                prop_assert!(deepest <= count.ilog2() + 1);
                prop_assert!(children.iter().all(|it| *it <= 2));
            }
            let twice = (0..count).filter(|it| children[0][*it] == 2 && children[1][*it] == 2);
            prop_assert_eq!(twice.count(), 0);
        }
    }
}
