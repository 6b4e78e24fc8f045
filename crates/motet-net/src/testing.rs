//! Small networks for the tests of this crate: random multigraphs and rings.

use motet_units::{Bandwidth, Duration, NodeId};
use proptest::prelude::*;

use crate::link::{LinkClass, LinkSpec};
use crate::network::{Network, NetworkBuilder};
use crate::node::{Node, NodeKind};

/// The numbers are few and small, so that ties and parallel links of equal cost come up often.
fn spec() -> impl Strategy<Value = LinkSpec> {
    let class = prop::sample::select(LinkClass::ALL.to_vec());
    (class, 1u64..4, 0u64..4, 1u32..3).prop_map(|(class, gbit, ns, lanes)| {
        LinkSpec::new(class, Bandwidth::gbit_per_s(gbit * 8), Duration::from_ns(ns))
            .with_lanes(lanes)
    })
}

fn kind() -> impl Strategy<Value = NodeKind> {
    prop::sample::select(vec![NodeKind::Gpu, NodeKind::Nic, NodeKind::Leaf, NodeKind::Border])
}

/// A network of 2 to `nodes` nodes and 1 to `links` links, half of them duplex, many parallel.
pub(crate) fn multigraph(nodes: usize, links: usize) -> impl Strategy<Value = Network> {
    (2..=nodes).prop_flat_map(move |count| {
        let link = (0..count, 1..count, spec(), any::<bool>());
        let node = (kind(), 0usize..4);
        (prop::collection::vec(node, count), prop::collection::vec(link, 1..=links)).prop_map(
            |(nodes, links)| {
                let count = nodes.len();
                let mut b = NetworkBuilder::new("random");
                for (index, (kind, server)) in nodes.into_iter().enumerate() {
                    let mut node = Node::new(format!("n{index}"), kind);
                    // One in four stands in no server.
                    if server > 0 {
                        node = node.in_server(format!("s{server}"));
                    }
                    b.add_node(node).unwrap();
                }
                for (from, step, spec, duplex) in links {
                    let (from, to) = (from, (from + step) % count);
                    let (from, to) = (NodeId::from_index(from), NodeId::from_index(to));
                    if duplex {
                        b.add_duplex(from, to, spec).unwrap();
                    } else {
                        b.add_link(from, to, spec).unwrap();
                    }
                }
                b.build().unwrap()
            },
        )
    })
}

/// Disjoint duplex rings of nodes of one kind, of these lengths.
pub(crate) fn rings(lengths: &[usize], kind: NodeKind) -> Network {
    let mut b = NetworkBuilder::new("rings");
    let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(10), Duration::from_ns(500));
    for length in lengths {
        let ids: Vec<NodeId> = (0..*length)
            .map(|_| b.add_node(Node::new(format!("g{}", b.nodes().len()), kind)).unwrap())
            .collect();
        for (index, from) in ids.iter().enumerate() {
            b.add_duplex(*from, ids[(index + 1) % length], spec).unwrap();
        }
    }
    b.build().unwrap()
}

pub(crate) fn ring(length: usize, kind: NodeKind) -> Network {
    rings(&[length], kind)
}
