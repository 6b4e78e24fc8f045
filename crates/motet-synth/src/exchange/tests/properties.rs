//! On any network and for any demands, every method makes a program that is right and no faster
//! than the bound.

use motet_collective::CollectiveKind;
use motet_net::{LinkClass, LinkSpec, Network, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, NodeId, Rank, Seed};
use proptest::prelude::*;
use rand::RngExt;

use super::{bound_of, builder, made, node};
use crate::exchange::{Options, Routing, synthesize};
use crate::task::{Goal, SynthError, Task};

/// GPUs and switches, joined in a ring and at random, with links of very different rates.
fn network(gpus: usize, switches: usize, more: usize, seed: u64) -> Network {
    let mut stream = Seed::new(seed).stream("network");
    let mut builder = builder();
    for at in 0..gpus + switches {
        let (name, kind) = match at < gpus {
            true => (format!("gpu{at}"), NodeKind::Gpu),
            false => (format!("switch{at}"), NodeKind::Leaf),
        };
        let mut node = node(name, kind);
        node.location.server = Some(format!("s{}", at % 3));
        builder.add_node(node).unwrap();
    }
    let nodes = gpus + switches;
    let mut join = |from: usize, to: usize| {
        let rate = [12_500, 25_000, 100_000, 300_000][stream.random_range(0..4)];
        let bandwidth = Bandwidth::from_bits_per_s(rate * 8_000_000);
        let latency = Duration::from_ns(stream.random_range(0..2_000));
        let spec = LinkSpec::new(LinkClass::default(), bandwidth, latency);
        builder.add_link(NodeId::from_index(from), NodeId::from_index(to), spec).unwrap();
    };
    for at in 0..nodes {
        join(at, (at + 1) % nodes);
    }
    let mut other = Seed::new(seed).stream("more");
    for _ in 0..more {
        let (from, to) = (other.random_range(0..nodes), other.random_range(0..nodes));
        if from != to {
            join(from, to);
        }
    }
    builder.build().unwrap()
}

fn goal(kind: u8, ranks: u32, seed: u64) -> Goal {
    let mut stream = Seed::new(seed).stream("goal");
    match kind {
        0 => Goal::new(CollectiveKind::AllToAll, ranks),
        1 => Goal::rooted(CollectiveKind::Gather, ranks, Rank(stream.random_range(0..ranks))),
        2 => Goal::rooted(CollectiveKind::Scatter, ranks, Rank(stream.random_range(0..ranks))),
        3 => {
            let shift = stream.random_range(0..ranks);
            let peer = |it: u32| Some(Rank((it + shift) % ranks)).filter(|_| it % 3 != 1);
            Goal::send_recv((0..ranks).map(peer).collect())
        }
        _ => {
            // Some rows and columns are empty, some counts zero, some large.
            let empty = stream.random_range(0..ranks);
            let count = |it: u32| {
                let large = if stream.random_bool(0.1) { 500 } else { 6 };
                let here = it / ranks != empty && it % ranks != (empty + 1) % ranks;
                if here && stream.random_bool(0.7) { stream.random_range(0..large) } else { 0 }
            };
            Goal::all_to_all_v(ranks, (0..ranks * ranks).map(count).collect())
        }
    }
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_method_is_right_and_keeps_the_bound(
        gpus in 1usize..9, switches in 0usize..4, more in 0usize..24, kind in 0u8..5,
        seed in any::<u64>(), size in prop_oneof![1u64..5_000, 1_000_000u64..100_000_000],
    ) {
        let network = network(gpus.max(2), switches, more, seed);
        let ranks = gpus.min(network.ranks().len()) as u32;
        let task = Task::new(&network, goal(kind, ranks, seed), Bytes::new(size));
        let Ok(whole) = task.goal.collective(1) else { return Ok(()) };
        if let Err(error) = motet_collective::bound::bound(&network, &whole) {
            let found = synthesize(&task, &Options::default());
            prop_assert!(matches!(found, Err(SynthError::Impossible(it)) if it == error));
            return Ok(());
        }
        let bound = bound_of(&task).time(task.size);
        let all = [Routing::Direct, Routing::Flow, Routing::Servers, Routing::Quickest, Routing::Auto];
        for method in all {
            let options = Options { method, effort: 1_000_000, ..Options::default() };
            match synthesize(&task, &options) {
                Ok(_) => prop_assert!(made(&task, &options).1 >= bound),
                Err(SynthError::NotForMethod { .. }) => {
                    prop_assert!(matches!(method, Routing::Servers | Routing::Quickest));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    /// Where links carry transfers by their numbers, no program asks for another order.
    #[test]
    fn numbers_are_kept_where_they_count(seed in any::<u64>(), kind in 1u8..3) {
        let network = network(8, 3, 12, seed);
        let task = Task::new(&network, goal(kind, 8, seed), Bytes::mib(4)).by_numbers();
        if let Ok(it) = synthesize(&task, &Options { method: Routing::Quickest, ..Options::default() }) {
            prop_assert!(it.program.turns().is_empty());
            made(&task, &Options { method: Routing::Quickest, ..Options::default() });
        }
    }

    /// The same task gives the same program.
    #[test]
    fn nothing_is_left_to_chance(seed in any::<u64>(), kind in 0u8..5) {
        let network = network(6, 2, 12, seed);
        let task = Task::new(&network, goal(kind, 6, seed), Bytes::mib(4));
        let (a, b) = (synthesize(&task, &Options::default()), synthesize(&task, &Options::default()));
        prop_assert_eq!(a.unwrap().program, b.unwrap().program);
    }
}
