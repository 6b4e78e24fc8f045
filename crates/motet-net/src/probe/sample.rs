//! Which pairs of hosts to probe: few, chosen so that every class of way is seen.
//!
//! Hosts are grouped by rack and racks by datacenter. Within a group of few, all pairs; of many, a
//! few rings through all members in random order, so that each member is probed with a bounded
//! number of others and all are connected. Between racks, and then between datacenters, the same
//! over the groups, each pair of groups standing for a few pairs of hosts, every time others. So
//! the number of probes grows with the hosts, not with their square: at most
//! `rings × (hosts + representatives × (racks + datacenters))`.
//!
//! Pairs that carried little in the past are left out, unless without them a part of the network
//! would not be seen at all.

use std::collections::{BTreeMap, BTreeSet};

use motet_graph::DisjointSets;
use motet_units::{Seed, Stream};
use rand::RngExt;

use super::history::History;
use super::hosts::Host;

/// Two hosts by index, the lesser first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The lesser index.
    pub a: usize,
    /// The greater index.
    pub b: usize,
}

impl Pair {
    /// The pair of two different hosts, in either order.
    #[must_use]
    pub fn new(a: usize, b: usize) -> Self {
        Self { a: a.min(b), b: a.max(b) }
    }
}

/// How far apart two hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// In one rack or subnet.
    Rack,
    /// In racks of one datacenter.
    Racks,
    /// In different datacenters.
    Dcs,
}

impl Class {
    /// How far apart these two are.
    #[must_use]
    pub fn of(a: &Host, b: &Host) -> Self {
        match (a.dc == b.dc, a.rack == b.rack) {
            (false, _) => Self::Dcs,
            (true, true) => Self::Rack,
            (true, false) => Self::Racks,
        }
    }
}

/// How many to choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleOptions {
    /// Rings through the members of a large group; each member is then in two pairs a ring.
    pub rings: usize,
    /// Pairs of hosts that stand for a pair of racks or datacenters.
    pub representatives: usize,
    /// Past utilization below which a pair is left out.
    pub low: f64,
    /// From which the rings are drawn.
    pub seed: Seed,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { rings: 2, representatives: 2, low: 0.01, seed: Seed::new(1) }
    }
}

/// The chosen pairs, those of the nearest class first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The pairs to probe.
    pub pairs: Vec<Pair>,
    /// Would have been chosen, but carried too little in the past.
    pub left_out: Vec<Pair>,
}

/// Chooses the pairs to probe among the hosts `of` (indices into `hosts`).
#[must_use]
pub fn sample(hosts: &[Host], of: &[usize], history: &History, options: &SampleOptions) -> Sample {
    let mut random = options.seed.stream("probe-sample");
    let mut racks: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    let mut dcs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for index in of.iter().copied() {
        let host = &hosts[index];
        racks.entry((&host.dc, &host.rack)).or_default().push(index);
        dcs.entry(&host.dc).or_default().push(index);
    }
    let mut chosen = BTreeSet::new();
    for members in racks.values() {
        for (a, b) in edges(members.len(), options.rings, &mut random) {
            chosen.insert(Pair::new(members[a], members[b]));
        }
    }
    let mut racks_of: BTreeMap<&str, Vec<&Vec<usize>>> = BTreeMap::new();
    for ((dc, _), members) in &racks {
        racks_of.entry(dc).or_default().push(members);
    }
    for groups in racks_of.values() {
        join_groups(groups, options, &mut random, &mut chosen);
    }
    let groups: Vec<&Vec<usize>> = dcs.values().collect();
    join_groups(&groups, options, &mut random, &mut chosen);
    let class = |it: &Pair| Class::of(&hosts[it.a], &hosts[it.b]);
    let mut pairs: Vec<Pair> = chosen.into_iter().collect();
    pairs.sort_by_key(|it| (class(it), *it));
    leave_out(hosts, pairs, history, options.low)
}

/// Pairs of a group: all if there are few members, else rings in random order.
fn edges(members: usize, rings: usize, random: &mut Stream) -> BTreeSet<(usize, usize)> {
    let rings = rings.max(1);
    let mut edges = BTreeSet::new();
    // A ring has as many pairs as members; so many rings are no fewer than all pairs.
    if members <= 2 * rings + 1 {
        edges.extend((0..members).flat_map(|b| (0..b).map(move |a| (a, b))));
        return edges;
    }
    for _ in 0..rings {
        let order = shuffled(members, random);
        for place in 0..members {
            let (a, b) = (order[place], order[(place + 1) % members]);
            edges.insert((a.min(b), a.max(b)));
        }
    }
    edges
}

fn shuffled(count: usize, random: &mut Stream) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.random_range(0..=last));
    }
    order
}

/// Pairs of groups, each by some of its members. Every time the next ones stand for a group, so
/// that no host is probed by all.
fn join_groups(
    groups: &[&Vec<usize>],
    options: &SampleOptions,
    random: &mut Stream,
    chosen: &mut BTreeSet<Pair>,
) {
    let orders: Vec<Vec<usize>> = groups.iter().map(|it| shuffled(it.len(), random)).collect();
    let mut turn = vec![0usize; groups.len()];
    let mut next = |group: usize| {
        let order = &orders[group];
        turn[group] += 1;
        groups[group][order[turn[group] % order.len()]]
    };
    for (a, b) in edges(groups.len(), options.rings, random) {
        for _ in 0..options.representatives.max(1) {
            chosen.insert(Pair::new(next(a), next(b)));
        }
    }
}

/// Leaves out the pairs that carried little, but for those that hold the sample together.
fn leave_out(hosts: &[Host], pairs: Vec<Pair>, history: &History, low: f64) -> Sample {
    let is_low =
        |it: &Pair| history.of_hosts(&hosts[it.a], &hosts[it.b]).is_some_and(|share| share < low);
    let mut groups = DisjointSets::new(hosts.len());
    for pair in pairs.iter().filter(|it| !is_low(it)) {
        groups.join(pair.a, pair.b);
    }
    let mut sample = Sample::default();
    for pair in pairs {
        if is_low(&pair) && groups.join(pair.a, pair.b).is_none() {
            sample.left_out.push(pair);
        } else {
            sample.pairs.push(pair);
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(places: &[(u8, u8)]) -> Vec<Host> {
        let host = |(index, (dc, rack)): (usize, &(u8, u8))| Host {
            name: format!("h{index}"),
            address: String::new(),
            rack: format!("r{rack}"),
            dc: format!("d{dc}"),
            gpus: 1,
        };
        places.iter().enumerate().map(host).collect()
    }

    fn parts(count: usize, pairs: &[Pair]) -> usize {
        let mut groups = DisjointSets::new(count);
        count - pairs.iter().filter(|it| groups.join(it.a, it.b).is_some()).count()
    }

    /// 1024 hosts in 32 racks: 2 % of all pairs would be 10,000.
    #[test]
    fn many_hosts_need_few_probes() {
        let places: Vec<(u8, u8)> = (0..1024u32).map(|it| (0, (it / 32) as u8)).collect();
        let hosts = hosts(&places);
        let all: Vec<usize> = (0..hosts.len()).collect();
        let sample = sample(&hosts, &all, &History::default(), &SampleOptions::default());
        let near =
            sample.pairs.iter().filter(|it| Class::of(&hosts[it.a], &hosts[it.b]) == Class::Rack);
        let near = near.count();
        assert!((1900..=2048).contains(&near), "{near}");
        assert!(sample.pairs.len() <= 2048 + 128, "{}", sample.pairs.len());
        // No host is asked by everyone.
        let mut times = vec![0; hosts.len()];
        for pair in &sample.pairs {
            times[pair.a] += 1;
            times[pair.b] += 1;
        }
        assert!(times.iter().all(|it| (2..=12).contains(it)), "{:?}", times.iter().max());
    }

    #[test]
    fn idle_ways_are_left_out_but_nothing_is_lost() {
        let places: Vec<(u8, u8)> = (0..12).map(|it| (0, it / 4)).collect();
        let hosts = hosts(&places);
        let all: Vec<usize> = (0..hosts.len()).collect();
        let mut history = History::default();
        history.add("r0", "r1", 0.0).unwrap();
        history.add("r1", "r2", 0.4).unwrap();
        let options = SampleOptions::default();
        let found = sample(&hosts, &all, &history, &options);
        assert_eq!(parts(12, &found.pairs), 1);
        assert_eq!(found.left_out.len(), 2);
        let between = |it: &&Pair| {
            (it.a < 4 && (4..8).contains(&it.b)) || (it.b < 4 && (4..8).contains(&it.a))
        };
        assert_eq!(found.pairs.iter().filter(between).count(), 0);
        // Where all is idle, just enough stays to hold it together.
        for a in ["r0", "r1", "r2"] {
            history.add(a, "r2", 0.0).unwrap();
        }
        let mut idle = History::default();
        for a in 0..12 {
            for b in 0..a {
                idle.add(&format!("h{a}"), &format!("h{b}"), 0.0).unwrap();
            }
        }
        assert_eq!(sample(&hosts, &all, &idle, &options).pairs.len(), 11);
    }

    proptest! {
        #[test]
        fn connected_few_and_the_same_every_time(
            places in prop::collection::vec((0u8..3, 0u8..12), 1..120),
            seed: u64,
            rings in 1usize..4,
            representatives in 1usize..4,
            idle in prop::collection::vec((0u8..12, 0u8..12), 0..8),
        ) {
            let hosts = hosts(&places);
            let all: Vec<usize> = (0..hosts.len()).collect();
            let mut history = History::default();
            for (a, b) in idle {
                history.add(&format!("r{a}"), &format!("r{b}"), 0.0).unwrap();
            }
            let options = SampleOptions { rings, representatives, low: 0.5, seed: Seed::new(seed) };
            let found = sample(&hosts, &all, &history, &options);
            prop_assert_eq!(&found, &sample(&hosts, &all, &history, &options));
            prop_assert_eq!(parts(hosts.len(), &found.pairs), 1);
            let count = |it: &dyn Fn(&Host) -> String| hosts.iter().map(it).collect::<BTreeSet<_>>().len();
            let (racks, dcs) = (count(&|it| format!("{}/{}", it.dc, it.rack)), count(&|it| it.dc.clone()));
            let most = rings * (hosts.len() + representatives * (racks + dcs));
            prop_assert!(found.pairs.len() + found.left_out.len() <= most);
            prop_assert!(found.pairs.iter().all(|it| it.a < it.b && it.b < hosts.len()));
            let classes: Vec<Class> = found.pairs.iter().map(|it| Class::of(&hosts[it.a], &hosts[it.b])).collect();
            prop_assert!(classes.is_sorted(), "the nearest first");
        }
    }
}
