//! The k shortest simple paths, by Yen's algorithm with Lawler's refinement.
//!
//! The paths not yet given fall into classes: those that follow a given path up to one of its
//! nodes and leave it there over a link that no path given so far took from the same beginning.
//! Each class's best is one shortest-path search, and the best of these bests comes next. A path
//! is itself the best of its class, so only the classes from where it left its own parent need
//! a search (Lawler). Links, not nodes, tell paths apart, so parallel links need no care.
//!
//! The search of a class begins with the sum and maximum its beginning has spent, which keeps it
//! exact for metrics with a maximum too.

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
