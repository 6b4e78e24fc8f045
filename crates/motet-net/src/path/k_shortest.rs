//! The k shortest simple paths, by Yen's algorithm with Lawler's refinement.
//!
//! The paths not yet returned fall into classes: those that follow a returned path up to one of its
//! nodes and leave it there over a link that no returned path has taken after the same prefix. The
//! best path of a class takes one shortest-path search, and the best over all classes is returned
//! next. A returned path is itself the best of its class, so only the classes from the point where
//! it left its parent need a new search (Lawler). Paths are distinguished by links, not nodes, so
//! parallel links need no special care.
//!
//! The search of a class starts with the sum and the maximum that its prefix has already used,
//! which keeps it exact for metrics with a maximum.

use std::collections::BTreeSet;

use motet_units::{LinkId, NodeId};

use super::Path;
use super::search::{Cost, Search};
use super::shortest::{Query, ShortestPaths};

/// A path that may come next. The order of its fields is the order of paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    cost: Cost,
    hops: usize,
    links: Vec<LinkId>,
    /// How many links it shares with the path it left.
    shared: usize,
}

pub(super) fn run(search: &Search<'_>, from: NodeId, to: NodeId, k: usize) -> Vec<Path> {
    let mut given: Vec<Path> = Vec::new();
    let mut waiting = BTreeSet::new();
    if k > 0 {
        waiting.extend(best_of_class(search, to, &[], &[from], &[], u64::MAX));
    }
    while let Some(next) = waiting.pop_first() {
        let path = Path::join(search.network(), from, next.links);
        given.push(path.clone());
        // Classes do not overlap, so only as many as are still asked for can matter.
        let wanted = k - given.len();
        if wanted == 0 {
            break;
        }
        for shared in next.shared..path.hops() {
            let begin = &path.links()[..shared];
            let mut taken: Vec<LinkId> = given
                .iter()
                .filter(|it| it.hops() > shared && it.links()[..shared] == *begin)
                .map(|it| it.links()[shared])
                .collect();
            taken.sort_unstable();
            let worst = waiting.last().filter(|_| waiting.len() >= wanted);
            let limit = worst.map_or(u64::MAX, |it: &Candidate| it.cost.get());
            let nodes = &path.nodes()[..=shared];
            waiting.extend(best_of_class(search, to, begin, nodes, &taken, limit));
            while waiting.len() > wanted {
                waiting.pop_last();
            }
        }
    }
    given
}

/// The best simple path that begins with the links `begin` (along `nodes`, one more than links)
/// and goes on over none of the links `taken`, which are sorted; none if it costs over `limit`.
fn best_of_class(
    search: &Search<'_>,
    to: NodeId,
    begin: &[LinkId],
    nodes: &[NodeId],
    taken: &[LinkId],
    limit: u64,
) -> Option<Candidate> {
    let (origin, at) = (*nodes.first()?, *nodes.last()?);
    let mut avoid = nodes.to_vec();
    avoid.sort_unstable();
    let query = Query {
        origin,
        at,
        spent: search.prefix(begin)?,
        target: Some(to),
        limit,
        avoid_nodes: &avoid,
        avoid_links: taken,
    };
    let found = ShortestPaths::run(search, query);
    let cost = found.cost(to)?;
    let mut links = begin.to_vec();
    links.extend(found.links(to)?);
    Some(Candidate { cost, hops: links.len(), links, shared: begin.len() })
}

#[cfg(test)]
mod tests;
