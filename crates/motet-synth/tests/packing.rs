//! Packed trees reach the bound by packing spanning trees.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::builders::{self, Params};
use motet_net::formats::cluster_toml;
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, NetworkState, Node, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::{Fabric, Goal, Lowered, Lowering, Task, Trees, packing};
use motet_units::{Bandwidth, Bytes, Duration, NodeId};
use proptest::prelude::*;

fn template(name: &str, params: &[(&str, &str)]) -> Network {
    let mut given = Params::new();
    for (key, value) in params {
        given.set(*key, *value);
    }
    builders::find(name).unwrap().build(&given).unwrap()
}

fn all_reduce(network: &Network, size: Bytes) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    Task::new(network, Goal::new(CollectiveKind::AllReduce, ranks).unwrap(), size)
}

fn verified(lowered: Lowered, network: &Network) -> Verified<Program> {
    Verified::new(lowered.program, Some(network)).unwrap()
}

fn simulated(program: &Verified<Program>, task: &Task<'_>, state: &NetworkState) -> Duration {
    let routed = Routed::new(program, task.network, SwitchForwarding::CutThrough).unwrap();
    Simulation::new(&Prepared::new(&routed), task.size).state(state).run().unwrap().time
}

fn algbw(size: Bytes, time: Duration) -> f64 {
    size.get() as f64 / time.as_ps() as f64 * 1e3
}

/// In GB/s: what no program exceeds whose switches only forward.
fn packing_bound(task: &Task<'_>) -> f64 {
    let work = task.bound().unwrap().work.unwrap();
    assert!(work.is_packing);
    work.time_per_byte.inverse().unwrap().to_f64() / 1e9
}

#[test]
fn a_mesh_comes_within_three_percent_of_eighty() {
    let sides = [("rows", "4"), ("columns", "4"), ("bandwidth", "50 GB/s"), ("latency", "200 ns")];
    let network = template("mesh", &sides);
    let task = all_reduce(&network, Bytes::gib(1));
    assert!((packing_bound(&task) - 80.0).abs() < 1e-9);
    let fabric = Fabric::new(&task).unwrap();
    let pairs = packing::pack(&fabric).unwrap().pairs;
    let lowered = Lowering::new(&task, &fabric, Trees::Both(&pairs)).unwrap().best(150_000);
    let program = verified(lowered.unwrap(), &network);
    let reached = algbw(task.size, simulated(&program, &task, &task.state));
    assert!((77.5..=80.0).contains(&reached), "{reached}");
}

#[test]
fn packings_of_real_networks_are_within_a_hundredth_of_their_bound() {
    for name in ["dgx1", "dgx-a100-x1", "dgx-a100-x2", "mesh-4x4", "mi250-x1", "torus-4x4"] {
        let text = motet_testdata::ours(&format!("networks/{name}.toml"));
        let network = cluster_toml::read(&text, &|_| Err("not needed".to_owned())).unwrap().network;
        let task = all_reduce(&network, Bytes::mib(64));
        let (bound, fabric) = (packing_bound(&task), Fabric::new(&task).unwrap());
        let packed = packing::pack(&fabric).unwrap();
        assert!(packed.algbw > bound * 0.99, "{name}: {} of {bound}", packed.algbw);
        assert!(packed.algbw <= bound * 1.000_001 && packed.bound >= bound * 0.999_999, "{name}");
    }
}

/// Up to nine nodes in one piece, GPUs first, whose links are equal both ways or not.
fn network(equal: bool) -> impl Strategy<Value = Network> {
    (2usize..7, 0usize..3).prop_flat_map(move |(gpus, switches)| {
        let count = gpus + switches;
        let link = (0..count, 1..count.max(2), 1u64..6, 1u64..6);
        prop::collection::vec(link, count..=count * 3).prop_map(move |links| {
            let mut builder = NetworkBuilder::new("random");
            for index in 0..count {
                let kind = if index < gpus { NodeKind::Gpu } else { NodeKind::Leaf };
                builder.add_node(Node::new(format!("n{index}"), kind)).unwrap();
            }
            let chain = (1..count).map(|it| (it - 1, 1, 1, 2));
            for (from, step, there, back) in chain.chain(links) {
                let (a, b) = (NodeId(from as u32), NodeId(((from + step) % count) as u32));
                let spec = |gb| {
                    let rate = Bandwidth::gb_per_s(gb);
                    LinkSpec::new(LinkClass::Other, rate, Duration::from_us(1))
                };
                builder.add_link(a, b, spec(there)).unwrap();
                builder.add_link(b, a, spec(if equal { there } else { back })).unwrap();
            }
            builder.build().unwrap()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Without switches nothing holds a link longer than its own bandwidth does, and a packing is
    /// all that the bound allows.
    #[test]
    fn packings_of_random_networks_reach_their_bound(network in network(true)) {
        let task = all_reduce(&network, Bytes::mib(1));
        let (bound, fabric) = (packing_bound(&task), Fabric::new(&task).unwrap());
        let packed = packing::pack(&fabric).unwrap();
        prop_assert!(packed.algbw <= bound * 1.000_001);
        if network.count(NodeKind::Leaf) == 0 {
            prop_assert!(packed.algbw > bound * 0.98, "{} of {bound}", packed.algbw);
        }
    }

    #[test]
    fn programs_over_unequal_links_verify(network in network(false)) {
        let task = all_reduce(&network, Bytes::mib(1));
        let fabric = Fabric::new(&task).unwrap();
        let pairs = packing::pack(&fabric).unwrap().pairs;
        let lowering = Lowering::new(&task, &fabric, Trees::Both(&pairs)).unwrap();
        for slices in [1, 3, 40] {
            let lowered = lowering.with_slices(slices).unwrap();
            let makespan = lowered.makespan;
            let program = verified(lowered, &network);
            prop_assert!(simulated(&program, &task, &task.state) <= makespan);
        }
    }
}

#[test]
fn one_rank_alone_keeps_what_it_has() {
    let network = template("ring", &[("gpus", "2")]);
    let task = Task::new(&network, Goal::new(CollectiveKind::AllReduce, 1).unwrap(), Bytes::kib(1));
    let fabric = Fabric::new(&task).unwrap();
    verified(packing::synthesize(&task, &fabric).unwrap(), &network);
}
