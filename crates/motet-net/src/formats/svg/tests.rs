//! Pictures are well-formed, hold every node, and are gathered where there are too many.

use super::*;
use crate::formats::xml;
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration, NodeId};

fn spec(class: LinkClass) -> LinkSpec {
    LinkSpec::new(class, Bandwidth::gb_per_s(25), Duration::ZERO)
}

/// Servers of four GPUs and a NIC on one leaf.
fn cluster(servers: usize) -> Network {
    let mut builder = NetworkBuilder::new("cluster <1>");
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    for server in 0..servers {
        let name = format!("s{server}");
        let mut add = |kind: NodeKind, index: usize| {
            let node = Node::new(format!("{name}-{kind}{index}"), kind).in_server(&name);
            builder.add_node(node).unwrap()
        };
        let nic = add(NodeKind::Nic, 0);
        let gpus: Vec<NodeId> = (0..4).map(|it| add(NodeKind::Gpu, it)).collect();
        for (index, gpu) in gpus.iter().enumerate() {
            builder.add_duplex(*gpu, nic, spec(LinkClass::Pcie)).unwrap();
            let next = gpus[(index + 1) % 4];
            builder.add_duplex(*gpu, next, spec(LinkClass::NvLink)).unwrap();
        }
        builder.add_duplex(nic, leaf, spec(LinkClass::Roce)).unwrap();
    }
    builder.build().unwrap()
}

/// The names in `<title>` elements, after checking that the text is XML.
fn titles(svg: &str) -> Vec<String> {
    let document = xml::parse(svg).unwrap();
    let titles = document.elements.iter().filter(|it| it.name == "title");
    titles.map(|it| it.text.clone()).collect()
}

/// Boxes of one row must not cover each other.
fn overlaps(svg: &str) -> usize {
    let document = xml::parse(svg).unwrap();
    let number = |it: &xml::Element, key: &str| it.get(key).unwrap().parse::<f64>().unwrap();
    let boxes: Vec<[f64; 3]> = document
        .elements
        .iter()
        .filter(|it| it.name == "rect" && it.get("rx") == Some("5"))
        .map(|it| [number(it, "x"), number(it, "y"), number(it, "width")])
        .collect();
    let cover = |a: &[f64; 3], b: &[f64; 3]| {
        (a[1] - b[1]).abs() < 20.0 && a[0] < b[0] + b[2] - 0.2 && b[0] < a[0] + a[2] - 0.2
    };
    let pairs =
        boxes.iter().enumerate().flat_map(|(i, a)| boxes[i + 1..].iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| cover(a, b)).count()
}

#[test]
fn every_node_and_line_is_drawn() {
    let svg = write(&cluster(3));
    let titles = titles(&svg);
    assert_eq!(titles[0], "cluster <1>");
    for name in ["leaf (leaf)", "s0-gpu3 (gpu)", "s2-nic0 (nic)"] {
        assert!(titles.iter().any(|it| it == name), "{name}");
    }
    // The drawing's own, 16 nodes, 3 × (4 + 4 + 1) lines.
    assert_eq!(titles.len(), 1 + 16 + 27);
    assert_eq!(overlaps(&svg), 0);
    assert_eq!(svg, write(&cluster(3)));
}

#[test]
fn large_networks_are_gathered() {
    let svg = write(&cluster(100));
    let titles = titles(&svg);
    assert!(titles.iter().any(|it| it == "s99: 4 gpu (gpu)"), "{:?}", titles.last());
    // 100 servers, the leaf, 100 lines.
    assert_eq!(titles.len(), 1 + 101 + 100);
    let huge = write(&cluster(400));
    assert!(xml::parse(&huge).unwrap().elements.len() < 40);
}

#[test]
fn places_make_a_map() {
    let mut builder = NetworkBuilder::new("map");
    for (name, latitude, longitude) in [("north", 60.0, 10.0), ("south", 40.0, 10.0)] {
        let node = Node::new(name, NodeKind::Border)
            .with_property("latitude", f64::to_string(&latitude))
            .with_property("longitude", f64::to_string(&longitude));
        builder.add_node(node).unwrap();
    }
    builder.add_duplex(NodeId(0), NodeId(1), spec(LinkClass::Wan)).unwrap();
    let network = builder.build().unwrap();
    let scene = map::layout(&Picture::of(&network, MAX_ITEMS));
    assert!(scene.at[0].1 < scene.at[1].1 && scene.at[0].0 == scene.at[1].0);
    assert_eq!(titles(&write(&network)).len(), 4);
}

#[test]
fn one_kind_spreads_out() {
    let mut builder = NetworkBuilder::new("ring");
    for index in 0..9 {
        builder.add_node(Node::new(format!("g{index}"), NodeKind::Gpu)).unwrap();
    }
    for index in 0..9 {
        let next = NodeId((index + 1) % 9);
        builder.add_duplex(NodeId(index), next, spec(LinkClass::Other)).unwrap();
    }
    let network = builder.build().unwrap();
    let scene = force::layout(&Picture::of(&network, MAX_ITEMS));
    for (index, a) in scene.at.iter().enumerate() {
        for b in &scene.at[index + 1..] {
            assert!((a.0 - b.0).hypot(a.1 - b.1) > 30.0, "{a:?} {b:?}");
        }
    }
}

#[test]
fn nothing_is_a_picture_too() {
    let network = NetworkBuilder::new("").build().unwrap();
    assert_eq!(titles(&write(&network)), [""]);
}
