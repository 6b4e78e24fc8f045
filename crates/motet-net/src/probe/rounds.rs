//! Which probes may run at once: those that share neither a host nor, between racks or
//! datacenters, the way out of one.

use std::collections::BTreeSet;

use super::hosts::Host;
use super::sample::{Class, Pair};

/// What a probe keeps busy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Busy<'a> {
    Host(usize),
    Rack(&'a str, &'a str),
    Dc(&'a str),
}

fn busy<'a>(hosts: &'a [Host], pair: Pair) -> Vec<Busy<'a>> {
    let (a, b) = (&hosts[pair.a], &hosts[pair.b]);
    let mut busy = vec![Busy::Host(pair.a), Busy::Host(pair.b)];
    let class = Class::of(a, b);
    for host in [a, b] {
        if class >= Class::Racks {
            busy.push(Busy::Rack(&host.dc, &host.rack));
        }
        if class == Class::Dcs {
            busy.push(Busy::Dc(&host.dc));
        }
    }
    busy
}

/// The pairs in rounds of at most `most`, in order as far as that goes.
#[must_use]
pub fn rounds(hosts: &[Host], pairs: &[Pair], most: usize) -> Vec<Vec<Pair>> {
    let mut rounds: Vec<(Vec<Pair>, BTreeSet<Busy<'_>>)> = Vec::new();
    // Rounds before this one are full.
    let mut open = 0;
    for pair in pairs {
        let needs = busy(hosts, *pair);
        while rounds.get(open).is_some_and(|it| it.0.len() >= most.max(1)) {
            open += 1;
        }
        let free = |it: &&mut (Vec<Pair>, BTreeSet<Busy<'_>>)| {
            it.0.len() < most.max(1) && needs.iter().all(|need| !it.1.contains(need))
        };
        match rounds.iter_mut().skip(open).find(free) {
            Some((members, taken)) => {
                members.push(*pair);
                taken.extend(needs);
            }
            None => rounds.push((vec![*pair], needs.into_iter().collect())),
        }
    }
    rounds.into_iter().map(|it| it.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_round_disturbs_itself(
            places in prop::collection::vec((0u8..2, 0u8..4), 2..24),
            picks in prop::collection::vec((0usize..24, 0usize..24), 0..60),
            most in 1usize..6,
        ) {
            let host = |(dc, rack): &(u8, u8)| Host {
                name: String::new(), address: String::new(),
                rack: rack.to_string(), dc: dc.to_string(), gpus: 1,
            };
            let hosts: Vec<Host> = places.iter().map(host).collect();
            let pairs: Vec<Pair> = picks.into_iter()
                .map(|(a, b)| Pair::new(a % hosts.len(), b % hosts.len()))
                .filter(|it| it.a != it.b)
                .collect();
            let rounds = rounds(&hosts, &pairs, most);
            let mut all: Vec<Pair> = rounds.iter().flatten().copied().collect();
            let mut given = pairs.clone();
            all.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(all, given);
            for round in &rounds {
                prop_assert!(round.len() <= most);
                for (index, a) in round.iter().enumerate() {
                    for b in &round[index + 1..] {
                        let (a, b) = (busy(&hosts, *a), busy(&hosts, *b));
                        prop_assert!(a.iter().all(|it| !b.contains(it)));
                    }
                }
            }
        }
    }
}
