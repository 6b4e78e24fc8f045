//! Round trips of our own files, foreign files, and what is refused.

use super::*;
use crate::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind, Tier};
use motet_units::{Bandwidth, Duration, NodeId, Rank};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const FOREIGN: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d0"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d1"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d2"/>
  <key attr.name="capacity" attr.type="double" for="edge" id="d0"><default>100</default></key>
  <graph edgedefault="undirected">
    <node id="0"><data key="d0">X</data><data key="d1">1</data><data key="d2">2</data></node>
    <node id="1"><data key="d0">Y</data></node>
    <edge source="0" target="1"><data key="d0">2000</data></edge>
    <edge source="1" target="0" directed="true"/>
  </graph>
</graphml>"#;

#[test]
fn reads_foreign_files() {
    let read = read(FOREIGN, &WanDefaults::default()).unwrap();
    let network = &read.network;
    assert_eq!(network.find("X"), Some(NodeId(0)));
    assert_eq!(network.nodes()[0].properties["longitude"], "2");
    let bits: Vec<u64> = network.links().iter().map(|it| it.spec.bandwidth.bits_per_s()).collect();
    assert_eq!(bits, [2_000_000_000, 2_000_000_000, 100_000_000]);
}

#[test]
fn says_what_is_wrong_and_where() {
    for (from, to, line, part) in [
        ("<node id=\"1\">", "<node>", 9, "no `id`"),
        ("<node id=\"1\">", "<node id=\"0\">", 9, "two nodes"),
        ("target=\"1\"", "target=\"7\"", 10, "no node has that id"),
        ("target=\"1\"", "", 10, "no `target`"),
        ("<edge source=\"1\"", "<hyperedge/><edge source=\"1\"", 11, "hyperedges"),
        ("Y</data>", "Y</data><graph/>", 9, "graph of its own"),
        ("</graphml>", "<graph/></graphml>", 13, "second <graph>"),
    ] {
        let error = read(&FOREIGN.replace(from, to), &WanDefaults::default()).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
        assert_eq!(error.at.map(|it| it.line), Some(line), "{to}: {error}");
    }
    assert!(read("<svg/>", &WanDefaults::default()).unwrap_err().problem.contains("no <graph>"));
}

#[test]
fn refuses_files_of_our_own_that_were_broken() {
    let mut builder = NetworkBuilder::new("pair");
    let a = builder.add_node(Node::new("a", NodeKind::Gpu)).unwrap();
    let b = builder.add_node(Node::new("b", NodeKind::Gpu)).unwrap();
    let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(1), Duration::ZERO);
    builder.add_duplex(a, b, spec).unwrap();
    let text = write(&builder.build().unwrap());
    for (from, to, part) in [
        ("1 GB/s", "fast", "`fast` is not a number"),
        (">nvlink<", ">string<", "is not a link class"),
        (">l1<", ">l9<", "is not the edge after it"),
        ("source=\"n1\" target=\"n0\"", "source=\"n0\" target=\"n1\"", "not the reverse"),
        ("key=\"graph.motet\">1", "key=\"graph.motet\">2", "version `2`"),
        (">b<", ">a<", "two nodes called `a`"),
        ("<data key=\"edge.bandwidth\">1 GB/s</data>", "", "no `bandwidth`"),
    ] {
        let error = read(&text.replace(from, to), &WanDefaults::default()).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    let text = "[ -~é\n\t]{0,6}";
    let place = proptest::option::of(text);
    let places = (place.clone(), place.clone(), place);
    let properties = btree_map(text, text, 0..3);
    (text, 0..NodeKind::ALL.len(), places, any::<[bool; 5]>(), properties).prop_map(
        |(name, kind, (server, rack, dc), can, properties)| {
            let [multicast, reduces, copies, adds, spreads] = can;
            let mut node = Node::new(name, NodeKind::ALL[kind]);
            node.location = crate::Location { server, rack, dc };
            (node.multicast, node.reduces, node.properties) = (multicast, reduces, properties);
            node.in_network = crate::InNetwork { copies, reduces: adds, spreads };
            node
        },
    )
}

fn any_spec() -> impl Strategy<Value = LinkSpec> {
    (0..LinkClass::ALL.len(), 1u64.., any::<u64>(), any::<u32>(), 0u8..6).prop_map(
        |(class, bits, ps, lanes, tier)| LinkSpec {
            latency: Duration::from_ps(ps),
            bandwidth: Bandwidth::from_bits_per_s(bits),
            class: LinkClass::ALL[class],
            lanes,
            tier: Tier::new(tier),
        },
    )
}

type AnyLink = (usize, usize, bool, LinkSpec);

fn build(mut nodes: Vec<Node>, links: &[AnyLink], ranked: bool) -> Network {
    let mut builder = NetworkBuilder::new("any <&> \"name\"");
    let gpus = nodes.iter_mut().filter(|it| it.kind == NodeKind::Gpu);
    if ranked {
        let gpus: Vec<&mut Node> = gpus.collect();
        let count = gpus.len();
        for (index, gpu) in gpus.into_iter().enumerate() {
            gpu.rank = Some(Rank::from_index(count - 1 - index));
        }
    }
    for (index, mut node) in nodes.into_iter().enumerate() {
        node.name = format!("{}{index}", node.name);
        builder.add_node(node).unwrap();
    }
    for (from, to, duplex, spec) in links {
        let count = builder.nodes().len();
        let (from, to) = (NodeId::from_index(from % count), NodeId::from_index(to % count));
        if from != to && *duplex {
            builder.add_duplex(from, to, *spec).unwrap();
        } else if from != to {
            builder.add_link(from, to, *spec).unwrap();
        }
    }
    builder.build().unwrap()
}

proptest! {
    #[test]
    fn what_is_written_comes_back(
        nodes in vec(any_node(), 1..8),
        links in vec((0usize..8, 0usize..8, any::<bool>(), any_spec()), 0..12),
        ranked: bool,
    ) {
        let network = build(nodes, &links, ranked);
        let again = read(&write(&network), &WanDefaults::default()).unwrap();
        prop_assert_eq!(&again.network, &network);
        prop_assert!(again.notes.is_empty());
    }
}
