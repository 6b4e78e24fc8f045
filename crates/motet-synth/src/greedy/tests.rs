//! Every collective verifies on networks of every kind, and meshes come near the bound.

use motet_collective::bound::bound;
use motet_collective::{CollectiveKind, Verified};
use motet_net::builders::{Params, find};
use motet_net::{LinkSpec, Network, NetworkBuilder};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::Bandwidth;
use proptest::prelude::*;

use super::*;
use crate::task::Goal;

const LINK: &str = "bandwidth=50GiB/s latency=500ns";

fn build(words: &str) -> Network {
    let (name, params) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(params.split_whitespace()).unwrap();
    find(name).unwrap().build(&params).unwrap()
}

fn goal(kind: CollectiveKind, ranks: u32) -> Goal {
    match kind {
        CollectiveKind::AllToAllV => {
            let counts = (0..ranks * ranks).map(|it| it * 7 % 5).collect();
            Goal::all_to_all_v(ranks, counts).unwrap()
        }
        CollectiveKind::SendRecv => {
            let peer = |it: u32| (!it.is_multiple_of(3)).then_some(Rank((it + ranks / 2) % ranks));
            Goal::send_recv((0..ranks).map(peer).collect()).unwrap()
        }
        kind if kind.has_root() => Goal::rooted(kind, ranks, Rank(ranks - 1)).unwrap(),
        kind => Goal::new(kind, ranks).unwrap(),
    }
}

/// Verifies and simulates the program; its time and the bound's, in microseconds.
fn times(network: &Network, kind: CollectiveKind, size: Bytes, most: u64) -> (f64, f64) {
    let task = Task::new(network, goal(kind, network.ranks().len() as u32), size);
    let fabric = Fabric::new(&task).unwrap();
    let lowered = synthesize(&task, &fabric, Seed::new(1), most).unwrap();
    let bound = bound(network, lowered.program.collective()).unwrap().program_time(size);
    let program = Verified::new(lowered.program, Some(network)).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    let outcome = Simulation::new(&Prepared::new(&routed), size).run().unwrap();
    (outcome.time.as_us_f64(), bound.as_us_f64())
}

#[test]
fn meshes_reach_the_bound() {
    for words in ["mesh rows=4 columns=4", "mesh rows=8 columns=8", "mesh rows=6 columns=10"] {
        let network = build(&format!("{words} {LINK}"));
        for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
            let (time, bound) = times(&network, kind, Bytes::gib(1), 1 << 18);
            assert!(time <= 1.01 * bound, "{words} {kind}: {time} µs, bound {bound}");
        }
    }
}

#[test]
fn every_collective_on_every_kind_of_network() {
    let networks = [
        "dgx-1",
        "dgx-a100 count=1",
        "ndv2",
        "mesh rows=2 columns=3",
        "leaf-spine",
        "jellyfish",
        "two-dc",
    ];
    for words in networks {
        let network = build(words);
        for kind in CollectiveKind::ALL {
            let (time, bound) = times(&network, kind, Bytes::mib(64), 1 << 13);
            assert!(time >= 0.999 * bound, "{words} {kind}: {time} µs, bound {bound}");
            assert!(time <= 4.0 * bound, "{words} {kind}: {time} µs, bound {bound}");
        }
    }
}

#[test]
fn servers_take_everything_in_once() {
    let network = build("dgx-a100 count=2");
    let (time, bound) = times(&network, CollectiveKind::AllGather, Bytes::gib(1), 1 << 18);
    assert!(time <= 1.05 * bound, "{time} µs, bound {bound}");
}

#[test]
fn the_same_seed_gives_the_same_program() {
    let network = build("mi250");
    let task = Task::new(&network, goal(CollectiveKind::AllGather, 16), Bytes::mib(1));
    let fabric = Fabric::new(&task).unwrap();
    let program = |seed| synthesize(&task, &fabric, Seed::new(seed), 1 << 18).unwrap().program;
    assert_eq!(program(3), program(3));
    assert_ne!(program(3), program(4));
}

/// A ring with chords, all links different.
fn irregular(gpus: &[(u8, u8, u8)]) -> Network {
    let plain = build(&format!("ring gpus={}", gpus.len()));
    let mut b = NetworkBuilder::new("irregular");
    let nodes: Vec<_> = plain.nodes().iter().map(|it| b.add_node(it.clone()).unwrap()).collect();
    let nominal = plain.links()[0].spec;
    for (from, (to, bandwidth, latency)) in gpus.iter().enumerate() {
        let spec = LinkSpec {
            bandwidth: Bandwidth::gb_per_s(u64::from(*bandwidth) + 1),
            latency: Duration::from_ns(u64::from(*latency) * 10),
            ..nominal
        };
        let next = (from + 1) % nodes.len();
        b.add_duplex(nodes[from], nodes[next], spec).unwrap();
        let chord = usize::from(*to) % nodes.len();
        if chord != from && chord != next && (chord + 1) % nodes.len() != from {
            b.add_link(nodes[from], nodes[chord], spec).unwrap();
        }
    }
    b.build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Every program verifies and takes no less than the bound.
    #[test]
    fn right_on_irregular_networks(
        gpus in proptest::collection::vec(any::<(u8, u8, u8)>(), 3..10),
        kind in 0..CollectiveKind::ALL.len(),
        kib in 1u64..4096,
    ) {
        let (kind, size) = (CollectiveKind::ALL[kind], Bytes::kib(kib));
        let (time, bound) = times(&irregular(&gpus), kind, size, 1 << 12);
        prop_assert!(time >= 0.999 * bound, "{time} µs, bound {bound}");
    }
}

/// Dies in pairs, pairs in fours: what enters a pair twice wastes the links between pairs.
#[test]
fn groups_within_groups_are_entered_with_care() {
    let network = build("mi250");
    let (time, bound) = times(&network, CollectiveKind::AllGather, Bytes::new(1_000_000), 1 << 18);
    assert!(time <= 1.08 * bound, "{time} µs, bound {bound}");
}

/// The ranks of a box could also send to one another over its NICs, which are needed for what must cross.
#[test]
fn what_stays_inside_does_not_take_the_links_that_lead_out() {
    let network = build("mi250 count=2 attach=relay");
    let (time, bound) = times(&network, CollectiveKind::AllGather, Bytes::new(1_000_000), 1 << 18);
    assert!(time <= 1.15 * bound, "{time} µs, bound {bound}");
}
