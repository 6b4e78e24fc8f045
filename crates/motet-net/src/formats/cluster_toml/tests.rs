//! Tests of the cluster file as a whole: reading, errors with their places, writing and back.

use motet_units::{Bandwidth, Duration, NodeId, Rank};
use proptest::prelude::*;

use super::{read, write};
use crate::builders::testing::is_connected;
use crate::formats::{Position, ReadError};
use crate::link::{LinkClass, LinkSpec};
use crate::network::{Network, NetworkBuilder};
use crate::node::{Location, Node, NodeKind};
use crate::tier::Tier;

fn no_files(_: &str) -> Result<String, String> {
    Err("no files here".to_owned())
}

fn ok(text: &str) -> Network {
    read(text, &no_files).unwrap_or_else(|it| panic!("{it}\n{text}")).network
}

fn error(text: &str) -> ReadError {
    read(text, &no_files).unwrap_err()
}

const PAIR: &str = r#"
name = "pair"
[[node]]
name = "g0"
kind = "gpu"
server = "a"
rank = 1
[[node]]
name = "g1"
kind = "gpu"
rack = "r"
dc = "d"
rank = 0
[node.properties]
sm = 90
busid = "0000:1b:00.0"
[[link]]
from = "g0"
to = "g1"
bandwidth = "50 GB/s"
latency = "500 ns"
class = "nvlink"
lanes = 2
[[link]]
from = "g1"
to = "g0"
bandwidth = "100 Gbit/s"
latency = "1 us"
duplex = false
tier = 3
"#;

#[test]
fn explicit_graph() {
    let net = ok(PAIR);
    assert_eq!(net.name(), "pair");
    assert_eq!(net.ranks(), [NodeId(1), NodeId(0)]);
    let node = net.node(NodeId(1));
    assert_eq!(node.properties["sm"], "90");
    assert_eq!(node.location.rack.as_deref(), Some("r"));
    let links = net.links();
    assert_eq!(links.len(), 3);
    assert_eq!(links[0].spec.lanes, 2);
    assert_eq!(links[0].reverse.map(|it| it.0), Some(1));
    assert_eq!((links[2].reverse, links[2].spec.tier), (None, Tier::new(3)));
    assert_eq!(ok(&write(&net)), net);
}

/// Each error names the key or name, its place, and what to do.
#[test]
fn errors_have_places() {
    let node = "[[node]]\nname = \"g0\"\nkind = \"gpu\"\n";
    let link = "[[link]]\nfrom = \"g0\"\nto = \"g1\"\nbandwidth = \"1 GB/s\"\nlatency = \"0\"\n";
    let two = format!("{node}[[node]]\nname = \"g1\"\nkind = \"gpu\"\n");
    let cases: Vec<(String, (usize, usize), &str, &str)> = vec![
        ("nod = 1".into(), (1, 1), "has no key `nod`", "`node`"),
        ("[node]\nname = \"a\"".into(), (1, 1), "header [[node]], not a table", ""),
        ("node = 3".into(), (1, 8), "not a number", ""),
        (format!("{node}sever = \"a\""), (4, 1), "no key `sever`", "`server`"),
        ("[[node]]\nkind = \"gpu\"".into(), (1, 1), "needs `name`", "write name"),
        ("[[node]]\nname = \"a\"\nkind = \"gpuu\"".into(), (3, 8), "not a node kind", ""),
        (format!("{node}{node}"), (5, 8), "two nodes called `g0`", ""),
        (format!("{node}rank = -1"), (4, 8), "whole number", ""),
        (format!("{node}rank = 3"), (4, 8), "out of range", ""),
        (format!("{node}multicast = 1"), (4, 13), "true or false", ""),
        (format!("{node}in_network = true"), (4, 14), "array of words", "\"copy\""),
        (format!("{node}in_network = [\"copi\"]"), (4, 15), "did you mean `copy`", ""),
        (format!("{node}properties = {{ a = [] }}"), (4, 20), "property `a`", ""),
        (format!("{node}{link}"), (6, 6), "no node `g1`", "`g0`"),
        (format!("{two}{link}bandwith = 3"), (12, 1), "no key `bandwith`", "`bandwidth`"),
        (format!("{two}{}", link.replace("1 GB/s", "1 GB")), (10, 13), "`GB` in `1 GB`", ""),
        (format!("{two}{}", link.replace("1 GB/s", "0 GB/s")), (10, 13), "no bandwidth", ""),
        (format!("{two}{}", link.replace("\"0\"", "5")), (11, 11), "text in quotes", ""),
        (format!("{two}{}", link.replace("g1", "g0")), (9, 6), "to itself", ""),
        (format!("{two}{link}lanes = 0"), (12, 9), "from 1", ""),
        (format!("{two}{link}tier = 5"), (12, 8), "from 0 to 4", ""),
        (format!("{two}{link}class = \"fast\""), (12, 9), "link class", ""),
        ("[[server]]\ncount = 2".into(), (1, 1), "needs `kind`", "dgx-a100"),
        ("[[server]]\nkind = \"dgx-a10\"".into(), (2, 8), "no server of kind", "`dgx-a100`"),
        ("[[server]]\nkind = \"ring\"".into(), (2, 8), "no kind of server", "[[fabric]]"),
        ("[[fabric]]\nkind = \"ring\"\ngpu = 3".into(), (3, 1), "no key `gpu`", "`gpus`"),
        ("[[fabric]]\nkind = \"ring\"\ngpus = 1".into(), (3, 8), "`gpus`: `1` is not", ""),
        ("[[fabric]]\nkind = \"ring\"\ngpus = [3]".into(), (3, 8), "not a list", ""),
        ("[[wan]]\nfile = \"a.gml\"".into(), (2, 8), "no files here", ""),
        ("[[node]]\nname = ".into(), (2, 8), "not TOML", ""),
    ];
    for (text, (line, column), problem, remedy) in cases {
        let error = error(&text);
        assert_eq!(error.at, Some(Position { line, column }), "{error}\n{text}");
        assert!(error.problem.contains(problem), "{error}\n{text}");
        assert!(error.remedy.unwrap_or_default().contains(remedy), "{text}");
    }
}

#[test]
fn hostile_files_are_refused() {
    let deep = format!("node = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(error(&deep).problem.contains("not TOML"));
    let huge = "[[fabric]]\nkind = \"mesh\"\nrows = 1048576\ncolumns = 1048576";
    assert!(error(huge).problem.contains("at most"));
    // Each fits, all together do not.
    let half = |name: &str| {
        format!("[[fabric]]\nkind = \"mesh\"\nrows = 800\ncolumns = 800\nname = \"{name}\"\n")
    };
    let both = error(&format!("{}{}", half("a"), half("b")));
    assert!(both.problem.contains("at most") && both.at.is_some_and(|it| it.line == 6), "{both}");
}

#[test]
fn templates_and_explicit_parts_together() {
    let net = ok(r#"
        name = "mixed"
        [[server]]
        kind = "dgx-a100"
        count = 2
        [[node]]
        name = "storage"
        kind = "cpu"
        [[server]]
        kind = "dgx-h100"
        nvls = true
        [[fabric]]
        kind = "leaf-spine"
        leaves = 3
        [[link]]
        from = "storage"
        to = "leaf0"
        bandwidth = "10 GB/s"
        latency = "1 us"
    "#);
    assert!(is_connected(&net));
    assert_eq!(net.ranks().len(), 24);
    // File order: the explicit node stands between the servers.
    assert_eq!(net.find("storage"), Some(NodeId(18)));
    assert_eq!(net.node(net.ranks()[16]).name, "s2-gpu0");
    let leaf = net.find("leaf0").unwrap();
    assert_eq!(net.outgoing(leaf).len(), 8 + 2 + 1);
    assert_eq!(ok(&write(&net)), net);
}

#[test]
fn servers_alone_are_joined_by_a_switch() {
    let servers = "[[server]]\nkind = \"dgx-a100\"\ncount = 2\n";
    assert!(is_connected(&ok(servers)));
    // Two tables as well; and not if a link says how.
    assert!(is_connected(&ok(&format!("{servers}{servers}"))));
    let link = "[[link]]\nfrom = \"s0-gpu0\"\nto = \"s1-gpu0\"\nbandwidth = \"25 GB/s\"\n\
                latency = \"2 us\"\n";
    let net = ok(&format!("{servers}{link}"));
    assert_eq!((net.count(NodeKind::Leaf), net.links().len()), (0, 2 * 16 + 2));
}

#[test]
fn a_wan_file_is_fetched() {
    let fetch = |file: &str| match file {
        "wan.gml" => Ok("graph [ node [ id 0 label \"X, Y\" ] node [ id 1 label \"Z\" ] \
                         edge [ source 0 target 1 ] ]"
            .to_owned()),
        _ => Err("missing".to_owned()),
    };
    let text = r#"
        [[server]]
        kind = "dgx-1"
        dc = "Z"
        [[wan]]
        file = "wan.gml"
        datacenters = ["X, Y"]
        gpus = 3
    "#;
    let read_once = read(text, &fetch).unwrap();
    assert!(read_once.notes.iter().any(|it| it.starts_with("wan.gml: ")), "{:?}", read_once.notes);
    let net = read_once.network;
    assert!(is_connected(&net));
    assert_eq!(net.ranks().len(), 8 + 3);
    let error = read(&text.replace("X, Y", "Y"), &fetch).unwrap_err();
    assert_eq!(error.at.map(|it| (it.line, it.column)), Some((7, 23)));
}

/// Every example in the docs reads, and is one connected network.
#[test]
fn the_examples_in_the_docs_read() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cluster-file.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let fetch = |file: &str| {
        if file == "topo.xml" {
            return Ok(include_str!("../../builders/server/two-gpus.xml").to_owned());
        }
        Ok("graph [ node [ id 0 label \"Chicago\" ] node [ id 1 label \"Denver\" ] \
            edge [ source 0 target 1 ] ]"
            .to_owned())
    };
    let examples: Vec<&str> =
        docs.split("```toml\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    assert!(examples.len() > 8);
    for example in examples {
        let net = read(example, &fetch).unwrap_or_else(|it| panic!("{it}\n{example}")).network;
        assert!(is_connected(&net), "{example}");
    }
}

/// Every file of the sample data reads, and reads back from what is written.
#[test]
fn sample_networks() {
    for (name, text) in motet_testdata::our_networks() {
        let net = ok(&text);
        assert!(is_connected(&net), "{name}");
        assert_eq!(ok(&write(&net)), net, "{name}");
    }
}

/// The reference of two DGX A100 and more draws NICs, and two switches for odd and even ones.
#[test]
fn dgx_a100_as_the_literature_draws_it() {
    use crate::builders::testing::{reference, same_profile};
    for count in [2, 4, 8] {
        let reference = reference(&format!("dgx-a100-x{count}"));
        let net = ok(&format!(
            "[[server]]\nkind = \"dgx-a100\"\ncount = {count}\ndetail = \"nics\"\n\
             [[fabric]]\nkind = \"rail\"\nrails = 2\nspines = 0\nports-per-leaf = 64\n"
        ));
        same_profile(&net, &reference);
    }
}

fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{1,6}",
        "\\PC{0,6}",
        prop::sample::select(vec![
            "",
            "a\"b",
            "back\\slash",
            "tab\t",
            "line\nbreak\r",
            "\u{0}\u{7f}",
            "'''",
            "\"\"\"",
            "[[node]]",
            "#",
            "ü µ 中",
            "\u{85}\u{200b}\u{feff}"
        ])
        .prop_map(str::to_owned),
    ]
}

prop_compose! {
    fn any_node()(
        name in odd_text(),
        kind in prop::sample::select(NodeKind::ALL.to_vec()),
        server in prop::option::of(odd_text()),
        rack in prop::option::of(odd_text()),
        dc in prop::option::of(odd_text()),
        (multicast, reduces) in any::<(bool, bool)>(),
        (copies, adds, spreads) in any::<(bool, bool, bool)>(),
        properties in prop::collection::btree_map(odd_text(), odd_text(), 0..3),
    ) -> Node {
        let location = Location { server, rack, dc };
        let in_network = crate::InNetwork { copies, reduces: adds, spreads };
        Node { name, kind, location, rank: None, multicast, reduces, in_network, properties }
    }
}

prop_compose! {
    fn any_spec()(
        ps: u64,
        bits in 1u64..,
        class in prop::sample::select(LinkClass::ALL.to_vec()),
        lanes in 1u32..u32::MAX,
        tier in prop::option::of(0u8..5),
    ) -> LinkSpec {
        let (latency, bandwidth) = (Duration::from_ps(ps), Bandwidth::from_bits_per_s(bits));
        LinkSpec { latency, bandwidth, class, lanes, tier: tier.and_then(Tier::new) }
    }
}

prop_compose! {
    fn any_network()(
        name in odd_text(),
        nodes in prop::collection::vec(any_node(), 2..8),
        links in prop::collection::vec((0usize..8, 0usize..8, any_spec(), any::<bool>()), 0..12),
        ranked: bool,
    ) -> Network {
        let mut builder = NetworkBuilder::new(name);
        let mut gpus = 0;
        for mut node in nodes {
            if builder.find(&node.name).is_some() {
                continue;
            }
            if ranked && node.kind == NodeKind::Gpu {
                node.rank = Some(Rank(gpus));
                gpus += 1;
            }
            builder.add_node(node).unwrap();
        }
        for (from, to, spec, duplex) in links {
            let count = builder.nodes().len();
            let (from, to) = (NodeId::from_index(from % count), NodeId::from_index(to % count));
            if from != to && duplex {
                builder.add_duplex(from, to, spec).unwrap();
            } else if from != to {
                builder.add_link(from, to, spec).unwrap();
            }
        }
        builder.build().unwrap()
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(net in any_network()) {
        let text = write(&net);
        prop_assert_eq!(read(&text, &no_files).map(|it| it.network), Ok(net), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\[\\[(node|link|server|fabric|wan)\\]\\]\n|(name|kind|from|to|count|gpus) = (\"(ring|gpu|a|dgx-1)\"|[0-9]{1,3})\n|\\PC){0,12}") {
        let _ = read(&text, &no_files);
    }
}
