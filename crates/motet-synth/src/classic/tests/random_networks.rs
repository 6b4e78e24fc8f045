//! Random connected networks of GPUs and switches with unequal links.

use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, NodeId};
use proptest::prelude::*;

use super::super::methods;
use super::super::testing::{make, simulated, task};
use crate::task::SynthError;

/// (from, to, Gbit/s, ns)
type Cable = (usize, usize, u64, u64);

fn build(gpus: usize, switches: usize, parents: &[Cable], more: &[Cable], servers: u8) -> Network {
    let mut builder = NetworkBuilder::new("random");
    for index in 0..gpus + switches {
        let kind = if index < gpus { NodeKind::Gpu } else { NodeKind::Leaf };
        let mut node = Node::new(index.to_string(), kind);
        if servers > 0 && index < gpus {
            node.location.server = Some((index % usize::from(servers)).to_string());
        }
        builder.add_node(node).unwrap();
    }
    let nodes = gpus + switches;
    let mut join = |a: usize, b: usize, gbit: u64, ns: u64| {
        let (rate, latency) = (Bandwidth::gbit_per_s(gbit), Duration::from_ns(ns));
        let spec = LinkSpec::new(LinkClass::Other, rate, latency);
        builder.add_duplex(NodeId::from_index(a), NodeId::from_index(b), spec).unwrap();
    };
    // Each node to one before it: connected.
    for (node, cable) in (1..nodes).zip(parents) {
        join(cable.0 % node, node, cable.2, cable.3);
    }
    for cable in more {
        let (a, b) = (cable.0 % nodes, cable.1 % nodes);
        if a != b {
            join(a, b, cable.2, cable.3);
        }
    }
    builder.build().unwrap()
}

fn cable() -> impl Strategy<Value = Cable> {
    (0usize..100, 0usize..100, 1u64..400, 0u64..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_method_is_right(
        (gpus, switches) in (1usize..8, 0usize..4),
        parents in prop::collection::vec(cable(), 11),
        more in prop::collection::vec(cable(), 0..10),
        servers in 0u8..4,
        size in 1u64..10_000_000,
    ) {
        let network = build(gpus, switches, &parents, &more, servers);
        for method in methods() {
            for kind in method.collectives {
                let mut task = task(&network, *kind, 1);
                task.size = Bytes::new(size);
                match make(method, &task) {
                    Ok(lowered) => {
                        simulated(&task, lowered);
                    }
                    Err(SynthError::NotForMethod { .. }) => prop_assert!(
                        matches!(
                            method.name,
                            "dimension-wise" | "exchanged" | "nccl-ring" | "nccl-tree"
                        ),
                        "{} {kind}", method.name
                    ),
                    Err(error) => prop_assert!(false, "{} {kind}: {error}", method.name),
                }
            }
        }
    }
}
