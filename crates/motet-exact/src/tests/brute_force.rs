//! The search against trying every program, on tiny networks.

use std::collections::BTreeSet;

use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration};
use proptest::prelude::*;

use super::cross_check::plainly_possible;
use super::*;

pub(super) fn link(gb_per_s: u64) -> LinkSpec {
    LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(gb_per_s), Duration::from_ns(500))
}

/// A network of GPUs with a capacity per ordered pair; 0 for no link.
pub(super) fn network(ranks: usize, capacities: &[u64]) -> Network {
    let mut builder = NetworkBuilder::new("tiny");
    let nodes: Vec<_> = (0..ranks)
        .map(|it| builder.add_node(Node::new(format!("g{it}"), NodeKind::Gpu)).unwrap())
        .collect();
    for (number, capacity) in capacities.iter().enumerate() {
        let (from, to) = (number / ranks, number % ranks);
        if from != to && *capacity > 0 {
            builder.add_link(nodes[from], nodes[to], link(*capacity)).unwrap();
        }
    }
    builder.build().unwrap()
}

/// Everything that ranks can have after each number of steps, tried out.
struct Tries<'a> {
    ranks: usize,
    chunks: usize,
    capacities: &'a [u64],
}

impl Tries<'_> {
    /// Who has what, as a bit per chunk and rank.
    fn start(&self) -> u32 {
        let mut has = 0;
        for chunk in 0..self.ranks * self.chunks {
            has |= 1 << (chunk * self.ranks + chunk / self.chunks);
        }
        has
    }

    fn possible(&self, has: u32, steps: u32, rounds: u32) -> bool {
        let all = (1u32 << (self.ranks * self.ranks * self.chunks)) - 1;
        if steps == 0 {
            return rounds == 0 && has == all;
        }
        let share = if steps == 1 { rounds..=rounds } else { 1..=rounds + 1 - steps };
        share.into_iter().any(|share| {
            let mut left: Vec<u64> =
                self.capacities.iter().map(|it| it * u64::from(share)).collect();
            let mut ends = BTreeSet::new();
            self.send(has, 0, has, &mut left, &mut ends);
            ends.into_iter().any(|it| self.possible(it, steps - 1, rounds - share))
        })
    }

    /// Decides how the `cell`-th chunk and rank get together in this step, and goes on.
    fn send(&self, had: u32, cell: usize, has: u32, left: &mut [u64], ends: &mut BTreeSet<u32>) {
        if cell == self.ranks * self.ranks * self.chunks {
            ends.insert(has);
            return;
        }
        let (chunk, to) = (cell / self.ranks, cell % self.ranks);
        if had >> cell & 1 == 0 {
            for from in 0..self.ranks {
                let link = from * self.ranks + to;
                if from != to && left[link] > 0 && had >> (chunk * self.ranks + from) & 1 == 1 {
                    left[link] -= 1;
                    self.send(had, cell + 1, has | 1 << cell, left, ends);
                    left[link] += 1;
                }
            }
        }
        self.send(had, cell + 1, has, left, ends);
    }
}

fn agree(ranks: usize, capacities: &[u64], chunks: u32, points: &[(u32, u32)]) {
    // Capacities are in units of the slowest link that there is.
    let links = || (0..ranks * ranks).filter(|it| it / ranks != it % ranks);
    let unit = links().map(|it| capacities[it]).filter(|it| *it > 0).min().unwrap_or(1);
    let mut scaled = vec![0; ranks * ranks];
    links().for_each(|it| scaled[it] = capacities[it] / unit);
    let network = network(ranks, capacities);
    let task = task(&network, CollectiveKind::AllGather);
    let fabric = Fabric::new(&task).unwrap();
    let tries = Tries { ranks, chunks: chunks as usize, capacities: &scaled };
    let exact = Exact::new(&task, &fabric);
    for (steps, rounds) in points {
        let possible = tries.possible(tries.start(), *steps, *rounds);
        let Ok(exact) = &exact else {
            assert!(!possible);
            continue;
        };
        let point = Point { chunks, steps: *steps, rounds: *rounds };
        // Without bounds, which settle most of what is impossible on so small networks.
        assert_eq!(plainly_possible(exact, point), possible, "{point} on {capacities:?}");
        match exact.solve(point, &GENEROUS) {
            Answer::Possible(plan) => {
                assert!(possible, "{point} on {capacities:?}");
                check(&plan, &fabric);
            }
            Answer::Impossible(_) => assert!(!possible, "{point} on {capacities:?}"),
            Answer::Unknown => panic!("{point} on {capacities:?} was not settled"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn three_ranks_two_chunks(capacities in prop::collection::vec(0u64..4, 9)) {
        agree(3, &capacities, 2, &[(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (2, 4)]);
    }

    #[test]
    fn four_ranks_one_chunk(capacities in prop::collection::vec(0u64..3, 16)) {
        agree(4, &capacities, 1, &[(1, 1), (2, 2), (1, 2), (3, 3), (2, 3)]);
    }
}

/// Networks that look the same from every rank, where symmetry is broken and folded.
#[test]
fn symmetric_networks() {
    let ring = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0];
    let one_way = [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0];
    let crossed = [0, 2, 0, 1, 2, 0, 1, 0, 0, 1, 0, 2, 1, 0, 2, 0];
    let full = [1; 16];
    for capacities in [ring, one_way, crossed, full] {
        agree(4, &capacities, 1, &[(1, 1), (2, 2), (1, 2), (2, 3), (3, 3)]);
    }
    let triangle = [0, 1, 1, 1, 0, 1, 1, 1, 0];
    let thick = [0, 2, 1, 1, 0, 2, 2, 1, 0];
    for capacities in [triangle, thick] {
        agree(3, &capacities, 2, &[(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)]);
    }
}

/// Where chunks must be across a thin cable some steps before the end.
#[test]
fn thin_waists() {
    let barbell = [0, 2, 0, 0, 2, 0, 1, 0, 0, 1, 0, 2, 0, 0, 2, 0];
    let lopsided = [0, 1, 0, 0, 3, 0, 1, 0, 0, 1, 0, 1, 0, 0, 2, 0];
    for capacities in [barbell, lopsided] {
        agree(4, &capacities, 1, &[(3, 3), (3, 4), (4, 4), (3, 5), (4, 5), (5, 5)]);
    }
}
