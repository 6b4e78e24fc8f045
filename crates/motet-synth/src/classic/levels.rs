//! Which ranks are close together: servers, racks and datacenters as nested [`Group`]s.
//!
//! If nodes say where they are (server, rack, datacenter), that decides. Otherwise ranks that reach
//! each other over links of a low tier form a group; and if tiers do not tell them apart, ranks
//! that reach each other over the fastest links.

use motet_graph::DisjointSets;
use motet_net::tier::Tier;
use motet_net::{Location, Network};
use motet_units::{LinkId, Rank};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;
use crate::task::Task;

/// Some ranks and the smaller groups they consist of; a group of the lowest level has no parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its number among all groups of one nesting.
    pub(super) id: usize,
    pub(super) members: Vec<Rank>,
    pub(super) parts: Vec<Group>,
}

/// For each rank the number of its group.
type Labels = Vec<u32>;

/// All ways to divide the ranks into groups, finest first; each consists of whole groups of the one
/// before. Divisions into a single group or into single ranks are left out.
pub(super) fn divisions(task: &Task<'_>, fabric: &Fabric) -> Vec<Labels> {
    let network = task.network;
    let at = |name: fn(&Location) -> Option<&String>| by_location(network, fabric, name);
    let tier =
        |most: u8| Tier::new(most).map(|it| by_links(fabric, |link| network.tier(link) <= it));
    let server = at(|it| it.server.as_ref()).or_else(|| tier(1));
    let rack = at(|it| it.rack.as_ref()).or_else(|| tier(2));
    let dc = at(|it| it.dc.as_ref()).or_else(|| tier(3));
    let mut found: Vec<Labels> = Vec::new();
    for labels in [server, rack, dc].into_iter().flatten() {
        let labels = match found.last() {
            Some(finer) => joined(finer, &labels),
            None => labels,
        };
        if divides(&labels) && found.last() != Some(&labels) {
            found.push(labels);
        }
    }
    if found.is_empty() {
        found.extend(by_bandwidth(fabric));
    }
    found
}

fn count(labels: &[u32]) -> usize {
    labels.iter().max().map_or(0, |it| *it as usize + 1)
}

/// Whether there is more than one group, and one with more than one rank.
fn divides(labels: &[u32]) -> bool {
    count(labels) > 1 && count(labels) < labels.len()
}

/// Turns keys into group numbers, in order of first occurrence.
fn numbered<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> Labels {
    let mut known: FxHashMap<K, u32> = FxHashMap::default();
    keys.map(|it| {
        let next = known.len() as u32;
        *known.entry(it).or_insert(next)
    })
    .collect()
}

/// Groups by location, if every GPU has one.
fn by_location(
    network: &Network,
    fabric: &Fabric,
    name: fn(&Location) -> Option<&String>,
) -> Option<Labels> {
    let place = |rank: Rank| {
        let location = &network.node(fabric.node(rank)).location;
        // Server and rack names may repeat in another datacenter.
        name(location).map(|it| (location.dc.as_ref(), it))
    };
    let places: Vec<_> = fabric.ranks().map(place).collect::<Option<_>>()?;
    Some(numbered(places.into_iter()))
}

/// Groups of ranks that reach each other over links with this property.
fn by_links(fabric: &Fabric, joins: impl Fn(LinkId) -> bool) -> Labels {
    let mut sets = DisjointSets::new(fabric.node_count());
    for link in fabric.links().iter().filter(|it| joins(**it)) {
        sets.join(fabric.from(*link).index(), fabric.to(*link).index());
    }
    numbered(fabric.ranks().map(|it| sets.root(fabric.node(it).index())))
}

/// Groups by the highest bandwidth at which no rank is alone and not all are in one group.
fn by_bandwidth(fabric: &Fabric) -> Option<Labels> {
    let mut rates: Vec<u64> = fabric.links().iter().map(|it| fabric.bits_per_s(*it)).collect();
    rates.sort_unstable();
    rates.dedup();
    rates.iter().rev().take(64).find_map(|least| {
        let labels = by_links(fabric, |link| fabric.bits_per_s(link) >= *least);
        let mut sizes = vec![0; count(&labels)];
        labels.iter().for_each(|it| sizes[*it as usize] += 1);
        (divides(&labels) && sizes.iter().all(|it| *it > 1)).then_some(labels)
    })
}

/// The finest division whose groups consist of whole groups of both.
fn joined(a: &[u32], b: &[u32]) -> Labels {
    let (groups, others) = (count(a), count(b));
    let mut sets = DisjointSets::new(groups + others);
    for (a, b) in a.iter().zip(b) {
        sets.join(*a as usize, groups + *b as usize);
    }
    numbered(a.iter().map(|it| sets.root(*it as usize)))
}

/// Nested groups by the given divisions, finest first. The result is the group of all ranks.
pub(super) fn nest(ranks: usize, divisions: &[&Labels]) -> Group {
    let mut id = 0;
    nest_within((0..ranks).map(Rank::from_index).collect(), divisions, &mut id)
}

fn nest_within(members: Vec<Rank>, divisions: &[&Labels], id: &mut usize) -> Group {
    let number = std::mem::replace(id, *id + 1);
    let Some((coarsest, finer)) = divisions.split_last() else {
        return Group { id: number, members, parts: Vec::new() };
    };
    let labels = numbered(members.iter().map(|it| coarsest[it.index()]));
    let mut parts: Vec<Vec<Rank>> = vec![Vec::new(); count(&labels)];
    for (rank, label) in members.iter().zip(&labels) {
        parts[*label as usize].push(*rank);
    }
    if parts.len() == 1 {
        return nest_within(members, finer, id);
    }
    let parts = parts.into_iter().map(|it| nest_within(it, finer, id)).collect();
    Group { id: number, members, parts }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{network, task};
    use super::*;
    use motet_collective::CollectiveKind;

    fn sizes(spec: &str) -> Vec<usize> {
        let network = network(spec);
        let task = task(&network, CollectiveKind::AllGather, 1 << 20);
        let fabric = Fabric::new(&task).unwrap();
        divisions(&task, &fabric).iter().map(|it| count(it)).collect()
    }

    #[test]
    fn servers_racks_and_datacenters() {
        assert_eq!(sizes("dgx-a100 count=3"), [3]);
        assert_eq!(sizes("dgx-a100 count=1"), [0; 0]);
        assert_eq!(sizes("two-dc gpus=4"), [4, 2]);
        assert_eq!(sizes("leaf-spine leaves=3 gpus-per-leaf=4"), [3]);
        assert_eq!(sizes("torus-2d rows=3 columns=3"), [0; 0]);
    }

    #[test]
    fn nesting_keeps_every_rank_once() {
        let (fine, coarse) = (vec![0, 0, 1, 1, 2, 2, 3], vec![0, 0, 0, 0, 1, 1, 1]);
        let all = nest(7, &[&fine, &coarse]);
        assert_eq!(all.parts.len(), 2);
        assert_eq!(all.parts[1].parts[1].members, [Rank(6)]);
        let leaves = all.parts.iter().flat_map(|it| &it.parts).flat_map(|it| &it.members);
        assert_eq!(leaves.map(|it| it.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
