//! What must hold of every forest, on random networks and on the sample networks.

use motet_collective::{CollectiveKind, Verified, bound};
use motet_net::formats::cluster_toml;
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, NodeId, Rank};
use proptest::prelude::*;

use super::{ForestOptions, Room, forest, synthesize};
use crate::fabric::Fabric;
use crate::task::{Goal, SynthError, Task};
use crate::tree::Forest;

fn task(network: &Network, kind: CollectiveKind, size: Bytes) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    Task::new(network, Goal::rooted(kind, ranks, Rank(0)).unwrap(), size)
}

fn fabric_of(task: &Task<'_>) -> Fabric {
    let fabric = Fabric::new(task).unwrap();
    match task.goal.kind() {
        CollectiveKind::AllGather | CollectiveKind::Broadcast => fabric,
        _ => fabric.turned_round(),
    }
}

/// Every tree spans, parents come first, paths lead where they should through no third rank, and
/// roots have equal weights.
fn check_trees(forest: &Forest, fabric: &Fabric, roots: &[Rank]) {
    let weight = forest.weight_of(roots[0]);
    assert!(weight > 0);
    assert!(roots.iter().all(|it| forest.weight_of(*it) == weight));
    for tree in &forest.trees {
        assert!(roots.contains(&tree.root));
        let mut has = vec![false; fabric.rank_count()];
        has[tree.root.index()] = true;
        for edge in &tree.edges {
            assert!(has[edge.from.index()] && !has[edge.to.index()], "{tree:?}");
            has[edge.to.index()] = true;
            let path = &forest.paths[edge.path as usize];
            let mut at = fabric.node(edge.from);
            for (index, link) in path.iter().enumerate() {
                assert_eq!(fabric.from(*link), at);
                at = fabric.to(*link);
                assert_eq!(fabric.rank(at).is_some(), index + 1 == path.len());
            }
            assert_eq!(at, fabric.node(edge.to));
        }
        assert!(has.iter().all(|it| *it));
    }
}

/// How long the busiest link is busy, by the bandwidth bound.
fn load(forest: &Forest, fabric: &Fabric, task: &Task<'_>) -> f64 {
    let collective = task.goal.collective(1).unwrap();
    let bound = bound::bound(task.network, &collective).unwrap();
    let loads = forest.loads(fabric);
    let busy = |it: &motet_units::LinkId| loads[it.index()] as f64 / fabric.bits_per_s(*it) as f64;
    let busiest = fabric.links().iter().map(busy).fold(0.0, f64::max);
    let root = forest.trees[0].root;
    let parts = if task.goal.root().is_some() { 1.0 } else { fabric.rank_count() as f64 };
    8.0 * busiest / (parts * forest.weight_of(root) as f64) / bound.time_per_byte.to_f64()
}

fn ratio_of_program(task: &Task<'_>) -> f64 {
    let lowered = synthesize(task, ForestOptions { most_transfers: 200_000 }).unwrap();
    let program = Verified::new(lowered.program, Some(task.network)).unwrap();
    let routed = Routed::new(&program, task.network, SwitchForwarding::CutThrough).unwrap();
    let time = Simulation::new(&Prepared::new(&routed), task.size).run().unwrap().time;
    assert!(time <= lowered.makespan);
    let bound = bound::bound(task.network, &task.goal.collective(1).unwrap()).unwrap();
    time.as_ps() as f64 / bound.time(task.size).as_ps() as f64
}

fn sample(name: &str) -> Network {
    let text = motet_testdata::ours(&format!("networks/{name}.toml"));
    let read = cluster_toml::read(&text, &|_| unreachable!("it names no other file"));
    read.unwrap().network
}

#[test]
fn sample_networks_reach_the_bound() {
    for name in ["dgx1", "dgx-a100-x1", "dgx-a100-x2", "mesh-4x4", "torus-4x4", "ndv2-x2"] {
        let network = sample(name);
        for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
            let task = task(&network, kind, Bytes::gib(1));
            let fabric = fabric_of(&task);
            for room in [Room::All, Room::Needed, Room::Near(Duration::from_ns(600))] {
                let found = forest(&task, &fabric, room).unwrap();
                check_trees(&found, &fabric, &fabric.ranks().collect::<Vec<_>>());
                assert!(load(&found, &fabric, &task) <= 1.002_001, "{name} {room:?}");
            }
            let ratio = ratio_of_program(&task);
            assert!(ratio <= 1.01, "{name} {kind}: {ratio}");
        }
    }
}

#[test]
fn one_switch_gives_stars() {
    let network = sample("dgx-a100-x1");
    let task = task(&network, CollectiveKind::AllGather, Bytes::gib(1));
    let found = forest(&task, &fabric_of(&task), Room::All).unwrap();
    assert_eq!((found.trees.len(), found.height()), (8, 1));
}

#[test]
fn a_rank_out_of_reach_is_an_error_with_its_cut() {
    let mut builder = NetworkBuilder::new("apart");
    let nodes = ["a", "b", "c"].map(|it| builder.add_node(Node::new(it, NodeKind::Gpu)).unwrap());
    builder.add_duplex(nodes[0], nodes[1], spec(8)).unwrap();
    builder.add_link(nodes[2], nodes[0], spec(8)).unwrap();
    let network = builder.build().unwrap();
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        let task = task(&network, kind, Bytes::mib(1));
        let error = forest(&task, &fabric_of(&task), Room::All).unwrap_err();
        assert!(matches!(error, SynthError::Impossible(_)), "{error}");
    }
}

#[test]
fn other_collectives_and_a_fabric_the_wrong_way_round_are_refused() {
    let mut builder = NetworkBuilder::new("pair");
    let nodes = ["a", "b"].map(|it| builder.add_node(Node::new(it, NodeKind::Gpu)).unwrap());
    builder.add_duplex(nodes[0], nodes[1], spec(8)).unwrap();
    let network = builder.build().unwrap();
    let scatter = task(&network, CollectiveKind::Scatter, Bytes::mib(1));
    assert!(synthesize(&scatter, ForestOptions::default()).is_err());
    let gather = task(&network, CollectiveKind::AllGather, Bytes::mib(1));
    let turned = Fabric::new(&gather).unwrap().turned_round();
    assert!(matches!(forest(&gather, &turned, Room::All), Err(SynthError::NotForMethod { .. })));
}

fn spec(gbit: u64) -> LinkSpec {
    let bandwidth = Bandwidth::from_bits_per_s(gbit * 1_000_000_000);
    LinkSpec::new(LinkClass::Other, bandwidth, Duration::from_ns(500))
}

/// Ranks in a ring so that all are joined, more links at random, and switches with random ports.
/// A switch takes in from each neighbour as much as it gives out to it; links between ranks are
/// unequal both ways.
fn random_network() -> impl Strategy<Value = Network> {
    (4usize..12, 0usize..4).prop_flat_map(|(ranks, switches)| {
        let ring = prop::collection::vec(1u64..40, ranks);
        let chords = prop::collection::vec((0..ranks, 0..ranks, 1u64..100), 0..2 * ranks);
        let ports = prop::collection::vec((0..ranks, 1u64..200), 2..ranks);
        let trunk = prop::collection::vec(1u64..200, switches);
        let ports = prop::collection::vec(ports, switches);
        (ring, chords, ports, trunk).prop_map(build)
    })
}

type Drawn = (Vec<u64>, Vec<(usize, usize, u64)>, Vec<Vec<(usize, u64)>>, Vec<u64>);

fn build((ring, chords, ports, trunk): Drawn) -> Network {
    let mut builder = NetworkBuilder::new("random");
    let gpu = |index: usize| Node::new(format!("gpu{index}"), NodeKind::Gpu);
    let gpus: Vec<NodeId> = (0..ring.len()).map(|it| builder.add_node(gpu(it)).unwrap()).collect();
    for (index, gbit) in ring.iter().enumerate() {
        builder.add_link(gpus[index], gpus[(index + 1) % gpus.len()], spec(*gbit)).unwrap();
    }
    for (from, to, gbit) in chords.into_iter().filter(|it| it.0 != it.1) {
        builder.add_link(gpus[from], gpus[to], spec(gbit)).unwrap();
    }
    let mut last = None;
    for ((index, ports), trunk) in ports.into_iter().enumerate().zip(trunk) {
        let switch = builder.add_node(Node::new(format!("switch{index}"), NodeKind::Leaf)).unwrap();
        for (rank, gbit) in ports {
            builder.add_duplex(gpus[rank], switch, spec(gbit)).unwrap();
        }
        if let Some(last) = last.replace(switch) {
            builder.add_duplex(last, switch, spec(trunk)).unwrap();
        }
    }
    builder.build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_networks_are_filled(network in random_network(), kind in 0usize..4) {
        let kind = [
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Broadcast,
            CollectiveKind::Reduce,
        ][kind];
        let task = task(&network, kind, Bytes::mib(1));
        let fabric = fabric_of(&task);
        let roots: Vec<Rank> = match task.goal.root() {
            Some(root) => vec![root],
            None => fabric.ranks().collect(),
        };
        for room in [Room::All, Room::Needed, Room::Near(Duration::from_ns(600))] {
            let found = forest(&task, &fabric, room).unwrap();
            check_trees(&found, &fabric, &roots);
            let load = load(&found, &fabric, &task);
            prop_assert!(load <= 1.01, "{} {:?}", load, room);
        }
        let lowered = synthesize(&task, ForestOptions { most_transfers: 2000 }).unwrap();
        prop_assert!(Verified::new(lowered.program, Some(&network)).is_ok());
    }
}

/// Two datacenters 5 ms apart with 4 and 8 GPUs, whose own links are what limits them: the WAN could carry
/// three times as much as has to cross it, and trees that used it all would leave receivers waiting.
#[test]
fn trees_cross_far_links_only_as_often_as_they_must() {
    let mut builder = NetworkBuilder::new("unequal");
    let spec = |gbit: u64, late| {
        LinkSpec::new(LinkClass::Other, Bandwidth::from_bits_per_s(gbit * 1_000_000_000), late)
    };
    let (near, far) = (Duration::from_us(1), Duration::from_ms(5));
    let mut borders = Vec::new();
    for (dc, gpus) in [("a", 4), ("b", 8)] {
        let mut add = |name: String, kind| builder.add_node(Node::new(name, kind).in_dc(dc));
        let border = add(format!("border-{dc}"), NodeKind::Border).unwrap();
        let gpus: Vec<NodeId> =
            (0..gpus).map(|it| add(format!("{dc}{it}"), NodeKind::Gpu).unwrap()).collect();
        for gpu in gpus {
            builder.add_duplex(gpu, border, spec(200, near)).unwrap();
        }
        borders.push(border);
    }
    builder.add_duplex(borders[0], borders[1], spec(400, far)).unwrap();
    let network = builder.build().unwrap();
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        let ratio = ratio_of_program(&task(&network, kind, Bytes::gib(1)));
        assert!(ratio <= 1.08, "{kind}: {ratio}");
    }
}
