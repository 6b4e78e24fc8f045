//! Signatures: the same whatever the order and the names, different for any other change.

use super::*;
use crate::link::{Link, LinkClass, LinkSpec};
use crate::network::NetworkBuilder;
use crate::node::{Node, NodeKind};
use crate::testing::{multigraph, ring, rings};
use motet_units::{Bandwidth, Duration, LinkId, Seed};
use proptest::prelude::*;
use rand::Rng;

/// A random order of 0..count.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut stream = Seed::new(seed).stream("shuffle");
    let mut keyed: Vec<(u64, usize)> = (0..count).map(|it| (stream.next_u64(), it)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|it| it.1).collect()
}

/// The network with these links, each made by itself, nodes as they are.
fn with_links(network: &Network, links: &[Link]) -> Network {
    let mut b = NetworkBuilder::new("copy");
    for node in network.nodes() {
        b.add_node(node.clone()).unwrap();
    }
    for link in links {
        b.add_link(link.from, link.to, link.spec).unwrap();
    }
    b.build().unwrap()
}

/// The same network with nodes and links in another order, other names, servers renamed and
/// properties added. The lost duplex pairing does not count.
fn disguised(network: &Network, seed: u64) -> Network {
    let order = shuffled(network.nodes().len(), seed);
    let mut place = vec![NodeId(0); order.len()];
    let mut b = NetworkBuilder::new("disguised");
    for (new, old) in order.iter().enumerate() {
        place[*old] = NodeId::from_index(new);
        let mut node = network.nodes()[*old].clone().with_property("busid", new.to_string());
        node.name = format!("other{new}");
        node.location.server = node.location.server.map(|it| format!("renamed-{it}"));
        b.add_node(node).unwrap();
    }
    for old in shuffled(network.links().len(), seed ^ 1) {
        let link = network.links()[old];
        b.add_link(place[link.from.index()], place[link.to.index()], link.spec).unwrap();
    }
    b.build().unwrap()
}

proptest! {
    #[test]
    fn order_and_names_do_not_count(network in multigraph(9, 20), seed: u64) {
        let other = disguised(&network, seed);
        prop_assert_eq!(Signature::of(&network), Signature::of(&other));
    }

    #[test]
    fn every_feature_of_a_link_counts(network in multigraph(8, 16), which: u32) {
        let original = Signature::of(&network);
        let which = which as usize % network.links().len();
        let link = network.links()[which];
        let id = LinkId::from_index(which);
        let mut changes = Vec::new();
        let mut change = |edit: &dyn Fn(&mut Link)| {
            let mut links = network.links().to_vec();
            // Tiers follow from classes unless said; say them, so that one thing changes.
            links[which].spec.tier = Some(network.tier(id));
            edit(&mut links[which]);
            changes.push(links);
        };
        change(&|it| it.spec.bandwidth = Bandwidth::from_bits_per_s(it.spec.bandwidth.bits_per_s() + 1));
        change(&|it| it.spec.latency += Duration::from_ps(1));
        change(&|it| it.spec.lanes += 1);
        change(&|it| {
            let next = LinkClass::ALL.iter().position(|at| *at == it.spec.class).unwrap() + 1;
            it.spec.class = LinkClass::ALL[next % LinkClass::ALL.len()];
        });
        change(&|it| it.spec.tier = crate::Tier::new((network.tier(id).get() + 1) % 5));
        let mut links = network.links().to_vec();
        links.remove(which);
        changes.push(links);
        let mut links = network.links().to_vec();
        links.push(link);
        changes.push(links);
        for links in &changes {
            prop_assert_ne!(Signature::of(&with_links(&network, links)), original);
        }
        // Without a change, the copy is the same.
        prop_assert_eq!(Signature::of(&with_links(&network, network.links())), original);
    }

    #[test]
    fn every_feature_of_a_node_counts(network in multigraph(8, 16), which: u32) {
        let original = Signature::of(&network);
        let which = which as usize % network.nodes().len();
        // Kinds take part in tiers; fix the tiers so that one thing changes.
        let edited = |edit: &dyn Fn(&mut Node)| {
            let mut b = NetworkBuilder::new("copy");
            for (index, node) in network.nodes().iter().enumerate() {
                let mut node = node.clone();
                if index == which {
                    edit(&mut node);
                }
                b.add_node(node).unwrap();
            }
            for id in network.link_ids() {
                let link = network.link(id);
                let spec = LinkSpec { tier: Some(network.tier(id)), ..link.spec };
                b.add_link(link.from, link.to, spec).unwrap();
            }
            Signature::of(&b.build().unwrap())
        };
        prop_assert_eq!(edited(&|_| {}), original);
        prop_assert_ne!(edited(&|it| it.kind = NodeKind::Ocs), original);
        prop_assert_ne!(edited(&|it| it.multicast = true), original);
        prop_assert_ne!(edited(&|it| it.reduces = true), original);
        prop_assert_ne!(edited(&|it| it.in_network.copies = true), original);
        prop_assert_eq!(edited(&|it| it.location.rack = Some("r".to_owned())), original);
    }
}

#[test]
fn rings_differ() {
    let of = |lengths: &[usize]| Signature::of(&rings(lengths, NodeKind::Gpu));
    assert_ne!(of(&[6]), of(&[3, 3]));
    assert_ne!(of(&[3, 5]), of(&[4, 4]));
    assert_eq!(of(&[3, 5]), of(&[5, 3]));
    // Too large to mark nodes: components tell.
    assert_ne!(of(&[2000]), of(&[1000, 1000]));
}

/// A torus of `width` × `height` leaves.
fn torus(width: usize, height: usize) -> Network {
    let mut b = NetworkBuilder::new("torus");
    for node in 0..width * height {
        b.add_node(Node::new(node.to_string(), NodeKind::Leaf)).unwrap();
    }
    let spec = LinkSpec::new(LinkClass::Roce, Bandwidth::gbit_per_s(400), Duration::from_us(1));
    for x in 0..width {
        for y in 0..height {
            let at = |x: usize, y: usize| NodeId::from_index((x % width) * height + y % height);
            b.add_duplex(at(x, y), at(x + 1, y), spec).unwrap();
            b.add_duplex(at(x, y), at(x, y + 1), spec).unwrap();
        }
    }
    b.build().unwrap()
}

/// Colour refinement sees nothing in a torus; marking (small) and distances (large) do. Ten
/// thousand nodes that all look alike are the worst case for time too.
#[test]
fn tori_differ() {
    assert_ne!(Signature::of(&torus(4, 9)), Signature::of(&torus(6, 6)));
    let large = torus(100, 100);
    let signature = Signature::of(&large);
    assert_ne!(signature, Signature::of(&torus(50, 200)));
    assert_eq!(signature, Signature::of(&disguised(&large, 3)));
}

/// The prism over a triangle and K₃,₃: six nodes of degree three, from each of which three are
/// near and two far. Only marking a node tells them apart.
#[test]
fn marking_tells_what_distances_do_not() {
    let of = |pairs: [(u32, u32); 9]| {
        let six = rings(&[6], NodeKind::Gpu);
        let spec = six.links()[0].spec;
        let link = |(a, b): (u32, u32)| {
            let (from, to) = (NodeId(a), NodeId(b));
            let there = Link { from, to, spec, reverse: None };
            [there, Link { from: to, to: from, ..there }]
        };
        let links: Vec<Link> = pairs.into_iter().flat_map(link).collect();
        Signature::of(&with_links(&six, &links))
    };
    let prism = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)];
    let k33 = [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)];
    assert_ne!(of(prism), of(k33));
}

/// A line is the worst case for the number of rounds.
#[test]
fn a_long_line_is_bounded() {
    let long = rings(&[10_000], NodeKind::Gpu);
    let line = with_links(&long, &long.links()[2..]);
    let signature = Signature::of(&line);
    assert_ne!(signature, Signature::of(&long));
    assert_eq!(signature, Signature::of(&disguised(&line, 5)));
}

/// Plans on disk carry signatures: a change here must come with a new `VERSION`.
#[test]
fn the_signature_never_changes() {
    let signature = Signature::of(&ring(8, NodeKind::Gpu));
    assert_eq!(signature.to_string(), "578c9677db34bbf04cc6a8221595704e");
}

#[test]
fn text_round_trips() {
    let signature = Signature(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    let text = "0123456789abcdef0011223344556677";
    assert_eq!(signature.to_string(), text);
    assert_eq!(text.parse(), Ok(signature));
    assert_eq!(serde_json::to_string(&signature).unwrap(), format!("\"{text}\""));
    let read: Signature = serde_json::from_str(&format!("\"{text}\"")).unwrap();
    assert_eq!(read, signature);
    for bad in ["", "0123", "+123456789abcdef0011223344556677", "g123456789abcdef0011223344556677"]
    {
        assert!(bad.parse::<Signature>().is_err(), "{bad}");
    }
}

#[test]
fn the_empty_network_has_a_signature() {
    let empty = NetworkBuilder::new("empty").build().unwrap();
    assert_ne!(Signature::of(&empty), Signature::of(&ring(2, NodeKind::Gpu)));
}
