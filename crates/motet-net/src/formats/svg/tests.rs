//! Pictures are well-formed, hold every node, and are gathered where there are too many.

use super::*;
use crate::formats::xml;
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, LinkId, NodeId};

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
    assert!(svg.contains("too many to draw: each server is one box"));
    let huge = write(&cluster(400));
    assert!(xml::parse(&huge).unwrap().elements.len() < 40);
    assert!(huge.contains("too many to draw: each kind of node is one box"));
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
    let picture = Picture::of(&network, MAX_ITEMS);
    assert_eq!(grid::columns(&picture), None);
    let scene = force::layout(&picture);
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

/// GPUs on a grid, each joined to the next in its row and column.
fn grid_of(rows: u32, columns: u32, wrap: bool) -> Network {
    let mut builder = NetworkBuilder::new("grid");
    for index in 0..rows * columns {
        builder.add_node(Node::new(format!("g{index}"), NodeKind::Gpu)).unwrap();
    }
    let mut join = |from: u32, to: u32| {
        builder.add_duplex(NodeId(from), NodeId(to), spec(LinkClass::Other)).unwrap();
    };
    for row in 0..rows {
        for column in 0..columns {
            let at = row * columns + column;
            if wrap || column + 1 < columns {
                join(at, row * columns + (column + 1) % columns);
            }
            if wrap || row + 1 < rows {
                join(at, (row + 1) % rows * columns + column);
            }
        }
    }
    builder.build().unwrap()
}

#[test]
fn grids_are_found() {
    for wrap in [false, true] {
        for (rows, columns) in [(4, 4), (3, 5), (5, 3), (2, 6)] {
            let picture = Picture::of(&grid_of(rows, columns, wrap), MAX_ITEMS);
            let found = grid::columns(&picture);
            assert_eq!(found, Some(columns as usize), "{rows} x {columns}, wrap {wrap}");
            let scene = grid::layout(&picture, columns as usize);
            assert!(scene.at[0].0 < scene.at[1].0 && scene.at[0].1 == scene.at[1].1);
        }
    }
    let mut picture = Picture::of(&grid_of(4, 4, true), MAX_ITEMS);
    picture.lines.pop();
    assert_eq!(grid::columns(&picture), None, "one line is missing");
}

fn traffic(id: LinkId) -> Traffic {
    match id.0 {
        // Links come in pairs; the first pair is used one way.
        0 => Traffic { utilization: 0.25, bytes: Bytes::mib(3) },
        _ => Traffic::default(),
    }
}

#[test]
fn each_direction_is_drawn() {
    let network = grid_of(2, 2, false);
    let svg = write_utilization(&network, "what & when", traffic);
    let titles = titles(&svg);
    // The drawing's own, 4 nodes, 8 links.
    assert_eq!(titles.len(), 1 + 4 + 8);
    let title = |it: &str| titles.iter().filter(|title| *title == it).count();
    assert_eq!(title("g0 → g1: other 25 GB/s, busy 25.0% of the time, 3 MiB"), 1);
    assert_eq!(title("g1 → g0: other 25 GB/s, idle"), 1);
    assert!(svg.contains(
        "other: 1 of 8 links used, busy 3.1% of the time on average, 25.0% at most, 3 MiB"
    ));
    assert!(svg.contains(">what &amp; when<"));
    // Only the group of the stroke and its arrow has this colour: no step of the legend is at 25%.
    assert_eq!(svg.matches(heat::paint(0.25).as_str()).count(), 1);
    assert_eq!(svg.matches(heat::colour(0.25).as_str()).count(), 1);
    assert_eq!(svg, write_utilization(&network, "what & when", traffic));
    // A dark colour for every class that is used.
    let document = xml::parse(&svg).unwrap();
    assert!(svg.contains("prefers-color-scheme:dark"));
    for class in document.elements.iter().filter_map(|it| it.get("class")) {
        assert!(svg.contains(&format!(".{class}{{")), "{class}");
    }
}

#[test]
fn one_way_links_have_one_stroke() {
    let mut builder = NetworkBuilder::new("one way");
    for name in ["a", "b"] {
        builder.add_node(Node::new(name, NodeKind::Gpu)).unwrap();
    }
    builder.add_link(NodeId(1), NodeId(0), spec(LinkClass::Wan)).unwrap();
    builder.add_link(NodeId(1), NodeId(0), spec(LinkClass::Wan)).unwrap();
    let svg = write_utilization(&builder.build().unwrap(), "", traffic);
    let expected = "b → a: wan 50 GB/s, 1 of 2 links used, busy 12.5% of the time on average, \
                    25.0% at most, 3 MiB";
    assert_eq!(titles(&svg).iter().filter(|it| it.contains("wan")).collect::<Vec<_>>(), [expected]);
}

/// What is inside a gathered server shows on its box.
#[test]
fn gathered_servers_show_what_is_inside() {
    let busy = |id: LinkId| Traffic {
        utilization: if id.0 == 2 { 1.0 } else { 0.0 },
        bytes: Bytes::new(u64::from(id.0 == 2)),
    };
    let svg = write_utilization(&cluster(100), "", busy);
    let expected = "s0: 4 gpu (gpu); inside: 1 of 16 links used, busy 6.2% of the time on \
                    average, 100.0% at most, 1 B";
    assert!(titles(&svg).iter().any(|it| it == expected));
    assert!(titles(&svg).iter().any(|it| it == "s1: 4 gpu (gpu); inside: none of 16 links used"));
    assert!(svg.contains("the colour of the busiest"));
}

#[test]
fn nothing_is_a_picture_of_traffic_too() {
    let network = NetworkBuilder::new("").build().unwrap();
    assert_eq!(titles(&write_utilization(&network, "", traffic)), [""]);
}

/// A leaf right above a switch, joined to the GPU right below it: the line must not seem to end at
/// the switch.
#[test]
fn lines_go_around_boxes() {
    let mut builder = NetworkBuilder::new("around");
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    let inside = |name: &str, kind: NodeKind| Node::new(name, kind).in_server("s");
    let switch = builder.add_node(inside("switch", NodeKind::NvSwitch)).unwrap();
    for name in ["a", "b", "c"] {
        let gpu = builder.add_node(inside(name, NodeKind::Gpu)).unwrap();
        builder.add_duplex(gpu, switch, spec(LinkClass::NvLink)).unwrap();
        if name == "b" {
            builder.add_duplex(gpu, leaf, spec(LinkClass::Roce)).unwrap();
        }
    }
    let picture = Picture::of(&builder.build().unwrap(), MAX_ITEMS);
    let scene = layered::layout(&picture);
    assert!((scene.at[0].0 - scene.at[1].0).abs() < 0.1, "one above the other");
    for (line, course) in picture.lines.iter().zip(course::courses(&picture, &scene)) {
        assert_eq!(course.path().contains('Q'), line.class == LinkClass::Roce);
        let (x, y) = scene.at[1];
        let covered = (1..100).map(|it| course.at(f64::from(it) / 100.0).0);
        let covered = covered.filter(|at| (at.0 - x).abs() < 25.0 && (at.1 - y).abs() < 13.0);
        assert!(line.class == LinkClass::NvLink || covered.count() == 0);
    }
}

/// A box around each of two datacenters, named, that does not reach into the other.
#[test]
fn datacenters_have_boxes() {
    let svg = write(&crate::builders::testing::build("two-dc", &[]));
    let document = xml::parse(&svg).unwrap();
    let boxes: Vec<(f64, f64)> = document
        .elements
        .iter()
        .filter(|it| it.name == "rect" && it.get("rx") == Some("8"))
        .map(|it| ["x", "width"].map(|key| it.get(key).unwrap().parse::<f64>().unwrap()))
        .map(|[x, width]| (x, x + width))
        .collect();
    assert_eq!(boxes.len(), 2, "{svg}");
    assert!(boxes[0].1 < boxes[1].0 || boxes[1].1 < boxes[0].0, "{boxes:?}");
    assert!(svg.contains(">dc0</text>") && svg.contains(">dc1</text>"));
    assert!(svg.contains("prefers-color-scheme:dark"));
}
