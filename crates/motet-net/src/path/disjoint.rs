//! Link-disjoint paths: as many as there are, over as few links in total as possible.
//!
//! This is a minimum-cost flow in which every link carries one unit or none. Each round adds the
//! shortest augmenting path, on which a link already in use may be given up again and then counts
//! −1; successive shortest paths keep the total minimal for the number of paths reached. A minimal
//! flow has no cycle, so following it from the first node gives simple paths.

use std::collections::VecDeque;

use motet_units::{LinkId, NodeId};

use super::Path;
use super::search::Search;

pub(super) fn run(search: &Search<'_>, from: NodeId, to: NodeId, most: usize) -> Vec<Path> {
    if from == to {
        return Vec::new();
    }
    let network = search.network();
    let usable = network.link_ids().map(|id| {
        let link = network.link(id);
        let open = search.extend((0, 0), id).is_some() && search.may_pass(from, id);
        open && link.to != from && link.from != to
    });
    let usable: Vec<bool> = usable.collect();
    let mut used = vec![false; usable.len()];
    let mut count = 0;
    while count < most {
        let Some(turned) = cheapest_way(search, &usable, &used, from, to) else {
            break;
        };
        for link in turned {
            used[link.index()] = !used[link.index()];
        }
        count += 1;
    }
    let mut paths: Vec<Path> = (0..count).map(|_| follow(search, &mut used, from, to)).collect();
    paths.sort_by(|a, b| a.hops().cmp(&b.hops()).then_with(|| a.links().cmp(b.links())));
    paths
}

/// The links to turn on or off for one more path at the least cost, by Bellman–Ford with a queue.
fn cheapest_way(
    search: &Search<'_>,
    usable: &[bool],
    used: &[bool],
    from: NodeId,
    to: NodeId,
) -> Option<Vec<LinkId>> {
    let network = search.network();
    let mut cost: Vec<Option<i64>> = vec![None; network.nodes().len()];
    let mut via: Vec<Option<(LinkId, NodeId)>> = vec![None; network.nodes().len()];
    let mut waits = vec![false; network.nodes().len()];
    let mut queue = VecDeque::from([from]);
    cost[from.index()] = Some(0);
    while let Some(node) = queue.pop_front() {
        waits[node.index()] = false;
        let Some(here) = cost[node.index()] else {
            continue;
        };
        let on = network.outgoing(node).iter().filter(|it| !used[it.index()]);
        let off = network.incoming(node).iter().filter(|it| used[it.index()]);
        let on = on.map(|it| (*it, network.link(*it).to, here + 1));
        let off = off.map(|it| (*it, network.link(*it).from, here - 1));
        for (link, next, reached) in on.chain(off) {
            let better = cost[next.index()].is_none_or(|it| reached < it);
            if !usable[link.index()] || !better {
                continue;
            }
            cost[next.index()] = Some(reached);
            via[next.index()] = Some((link, node));
            if !std::mem::replace(&mut waits[next.index()], true) {
                queue.push_back(next);
            }
        }
    }
    cost[to.index()]?;
    let mut links = Vec::new();
    let mut at = to;
    while at != from {
        let (link, before) = via[at.index()]?;
        links.push(link);
        at = before;
    }
    Some(links)
}

/// Takes one path out of the flow. As much flow leaves every node between the ends as enters it.
fn follow(search: &Search<'_>, used: &mut [bool], from: NodeId, to: NodeId) -> Path {
    let network = search.network();
    let mut links = Vec::new();
    let mut at = from;
    while at != to {
        let next = network.outgoing(at).iter().find(|it| used[it.index()]);
        let Some(next) = next else { break };
        used[next.index()] = false;
        links.push(*next);
        at = network.link(*next).to;
    }
    Path::join(network, from, links)
}

#[cfg(test)]
mod tests {
    use super::super::{Metric, Transit};
    use super::*;
    use crate::testing::multigraph;
    use proptest::prelude::*;

    /// Of all sets of disjoint paths the largest size, and the fewest links at that size.
    fn best_packing(paths: &[Path], used: &mut Vec<LinkId>) -> (usize, usize) {
        let Some((first, rest)) = paths.split_first() else {
            return (0, 0);
        };
        let without = best_packing(rest, used);
        if first.links().iter().any(|it| used.contains(it)) {
            return without;
        }
        let kept = used.len();
        used.extend(first.links());
        let (count, links) = best_packing(rest, used);
        used.truncate(kept);
        let with = (count + 1, links + first.hops());
        if (with.0, without.1) > (without.0, with.1) { with } else { without }
    }

    proptest! {
        #[test]
        fn most_paths_over_fewest_links(network in multigraph(5, 8), all: bool, most in 0usize..5) {
            let transit = if all { Transit::All } else { Transit::NotGpus };
            let search = Search::new(&network, Metric::Hops).through(transit);
            let (from, to) = (NodeId(0), NodeId(1));
            let found = search.disjoint(from, to, usize::MAX);
            let every = search.k_shortest(from, to, 60);
            prop_assume!(every.len() <= 16);
            let links = found.iter().map(Path::hops).sum::<usize>();
            prop_assert_eq!((found.len(), links), best_packing(&every, &mut Vec::new()));
            let mut seen: Vec<LinkId> = found.iter().flat_map(|it| it.links().to_vec()).collect();
            seen.sort_unstable();
            prop_assert!(seen.windows(2).all(|it| it[0] != it[1]));
            for path in &found {
                prop_assert!(every.contains(path), "{path:?} is no simple path from end to end");
            }
            prop_assert_eq!(search.disjoint(from, to, most).len(), most.min(found.len()));
        }
    }
}
