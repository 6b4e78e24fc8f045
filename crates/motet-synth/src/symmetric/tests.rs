//! Patterns verify, use every direction alike, and come near the bound on what has translations.

use motet_collective::bound::bound;
use motet_collective::{CollectiveKind, Verified};
use motet_net::builders::{Params, find};
use motet_net::{Network, NetworkBuilder};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::Bandwidth;

use super::*;
use crate::task::Goal;

const LINK: &str = "bandwidth=50GiB/s latency=500ns";

fn build(words: &str) -> Network {
    let (name, params) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(params.split_whitespace()).unwrap();
    find(name).unwrap().build(&params).unwrap()
}

/// Verifies and simulates the program; its time and the bound's, in microseconds.
fn times(network: &Network, kind: CollectiveKind, size: Bytes) -> (f64, f64) {
    let ranks = network.ranks().len() as u32;
    let task = Task::new(network, Goal::new(kind, ranks).unwrap(), size);
    let fabric = Fabric::new(&task).unwrap();
    let lowered =
        synthesize(&task, &fabric, &LazyGrid::new(&fabric), Seed::new(1), 1 << 20).unwrap();
    let bound = bound(network, lowered.program.collective()).unwrap().program_time(size);
    let program = Verified::new(lowered.program, Some(network)).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    let outcome = Simulation::new(&Prepared::new(&routed), size).run().unwrap();
    assert!(outcome.time <= lowered.makespan, "{:?} > {:?}", outcome.time, lowered.makespan);
    (outcome.time.as_us_f64(), bound.as_us_f64())
}

#[test]
fn large_sizes_reach_the_bound() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let networks = [
        "torus-2d rows=4 columns=4",
        "torus-2d rows=8 columns=8",
        "torus-2d rows=6 columns=10",
        "torus-2d rows=2 columns=5",
        "torus-3d x=4 y=4 z=4",
        "torus-3d x=3 y=4 z=5",
        "ring gpus=7",
        "ring gpus=16",
        "hypercube dimensions=3",
        "hypercube dimensions=5",
        "full-mesh gpus=8",
    ];
    for words in networks {
        let network = build(&format!("{words} {LINK}"));
        for kind in [AllGather, ReduceScatter, AllReduce] {
            let (time, bound) = times(&network, kind, Bytes::gib(1));
            assert!(time <= 1.01 * bound, "{words} {kind}: {time} µs, bound {bound}");
        }
    }
}

#[test]
fn small_sizes_take_little_more_than_the_latency() {
    let torus = build(&format!("torus-2d rows=16 columns=16 {LINK}"));
    let (time, bound) = times(&torus, CollectiveKind::AllGather, Bytes::kib(1));
    assert!(time <= 1.01 * bound, "{time} µs, bound {bound}");
    let (time, _) = times(&torus, CollectiveKind::AllGather, Bytes::mib(1));
    assert!(time <= 9.0, "{time} µs");
}

#[test]
fn directions_are_used_by_their_bandwidth() {
    let torus = build(&format!("torus-2d rows=5 columns=6 {LINK}"));
    let mut b = NetworkBuilder::new("unequal");
    for node in torus.nodes() {
        b.add_node(node.clone()).unwrap();
    }
    for link in torus.links() {
        let mut spec = link.spec;
        if link.from.index() / 6 == link.to.index() / 6 {
            spec.bandwidth = Bandwidth::gb_per_s(20);
        }
        b.add_link(link.from, link.to, spec).unwrap();
    }
    let network = b.build().unwrap();
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        let (time, bound) = times(&network, kind, Bytes::gib(1));
        assert!(time <= 1.02 * bound, "{kind}: {time} µs, bound {bound}");
    }
}

#[test]
fn other_networks_and_collectives_are_refused() {
    let refused = |words: &str, kind: CollectiveKind| {
        let network = build(words);
        let goal = Goal::rooted(kind, network.ranks().len() as u32, motet_units::Rank(0)).unwrap();
        let task = Task::new(&network, goal, Bytes::mib(1));
        let fabric = Fabric::new(&task).unwrap();
        let error = synthesize(&task, &fabric, &LazyGrid::new(&fabric), Seed::new(1), 1 << 20);
        matches!(error, Err(SynthError::NotForMethod { .. }))
    };
    assert!(refused("mesh", CollectiveKind::AllGather));
    assert!(refused("dgx-a100", CollectiveKind::AllGather));
    assert!(refused("torus-2d", CollectiveKind::Broadcast));
    assert!(!refused("torus-2d", CollectiveKind::AllGather));
}
