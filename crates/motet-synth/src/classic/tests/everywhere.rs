//! Every method that says it does a collective does it right, for every small number of ranks and
//! on networks of every kind.

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::formats::cluster_toml;

use super::super::methods;
use super::super::testing::{make, network, simulated, task};
use crate::task::SynthError;

/// All methods for all collectives they list; which of them made something.
fn check(network: &Network, size: u64) -> Vec<&'static str> {
    let mut made = Vec::new();
    for method in methods() {
        for kind in method.collectives {
            let task = task(network, *kind, size);
            match make(method, &task) {
                Ok(lowered) => {
                    simulated(&task, lowered);
                    made.push(method.name);
                }
                Err(SynthError::NotForMethod { .. }) => {}
                Err(error) => panic!("{} {kind} on {}: {error}", method.name, network.name()),
            }
        }
    }
    made.dedup();
    made
}

fn does_all_but(network: &Network, except: &[&str]) {
    let made = check(network, 2_000);
    let missing: Vec<&str> = methods()
        .iter()
        .map(|it| it.name)
        .filter(|it| !made.contains(it) && !except.contains(it))
        .collect();
    assert!(missing.is_empty(), "{}: {missing:?} made nothing", network.name());
}

/// What asks for a grid, or for several servers of one size.
const GRIDS: [&str; 2] = ["dimension-wise", "exchanged"];
/// What asks for a network of a certain kind.
const SPECIAL: [&str; 4] = ["dimension-wise", "exchanged", "nccl-ring", "nccl-tree"];

#[test]
fn every_number_of_ranks_on_a_switch() {
    for ranks in 1..=9 {
        does_all_but(&network(&format!("switch gpus={ranks}")), &SPECIAL);
    }
}

#[test]
fn every_number_of_ranks_on_a_ring() {
    for ranks in 3..=9 {
        does_all_but(&network(&format!("ring gpus={ranks}")), &SPECIAL[1..]);
    }
}

#[test]
fn servers_and_fabrics() {
    for spec in ["dgx-a100 count=2", "dgx-h100 count=1", "ndv2 count=2", "dgx-1 count=2"] {
        does_all_but(&network(spec), &GRIDS);
    }
    for spec in [
        "mi250 count=1",
        "two-dc gpus=3",
        "leaf-spine leaves=3 spines=2 gpus-per-leaf=3",
        "fat-tree",
        "dragonfly",
        "jellyfish",
        "rail servers=2",
        "bcube",
        "hammingmesh",
    ] {
        does_all_but(&network(spec), &SPECIAL);
    }
}

#[test]
fn grids() {
    for spec in
        ["mesh rows=3 columns=4", "torus-2d rows=4 columns=4", "torus-3d x=2 y=3 z=4", "hypercube"]
    {
        does_all_but(&network(spec), &SPECIAL[1..]);
    }
}

#[test]
fn sample_networks() {
    for (_, text) in motet_testdata::our_networks() {
        let network = cluster_toml::read(&text, &|it| Err(it.to_owned())).unwrap().network;
        // All methods and collectives on more ranks take minutes and find nothing else.
        if network.ranks().len() <= 16 {
            does_all_but(&network, &SPECIAL);
        }
    }
}

/// Ranks that cannot be reached.
#[test]
fn impossible_tasks_are_refused() {
    use motet_net::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
    use motet_units::{Bandwidth, Duration, NodeId};
    let mut builder = NetworkBuilder::new("one way");
    for name in ["a", "b", "c"] {
        builder.add_node(Node::new(name, NodeKind::Gpu)).unwrap();
    }
    let spec = LinkSpec::new(LinkClass::Other, Bandwidth::gbit_per_s(8), Duration::from_ns(100));
    builder.add_duplex(NodeId(0), NodeId(1), spec).unwrap();
    builder.add_link(NodeId(1), NodeId(2), spec).unwrap();
    let network = builder.build().unwrap();
    for method in methods() {
        for kind in method.collectives {
            let task = task(&network, *kind, 1000);
            match make(method, &task) {
                // Into rank 2, the root, there is a way; out of it, none.
                Ok(lowered) => {
                    assert!(matches!(kind, CollectiveKind::Reduce | CollectiveKind::Gather));
                    simulated(&task, lowered);
                }
                Err(SynthError::Impossible(_)) => assert!(!matches!(kind, CollectiveKind::Reduce)),
                Err(error) => assert!(matches!(error, SynthError::NotForMethod { .. })),
            }
        }
    }
}
