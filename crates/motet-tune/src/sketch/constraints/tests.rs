//! Sketches: rules, connections, errors at their places, and text that comes back the same.

use super::*;
use crate::sketch::locality;
use motet_net::builders::{self, Params};
use motet_units::NodeId;

fn build(kind: &str, words: &[&str]) -> Network {
    let params = Params::from_words(words.iter().copied()).unwrap();
    builders::find(kind).unwrap().build(&params).unwrap()
}

fn ring() -> Network {
    build("ring", &[])
}

/// Two DGX A100 with four NICs each, two GPUs and a NIC behind each PCIe switch.
fn pair() -> Network {
    build("dgx-a100", &["count=2", "nics=4", "detail=full"])
}

const BOUND: &str = r#"name = "one rail"

[binding]
"s0-gpu0" = "s0-nic0"
"s0-gpu1" = "s0-nic0"
"s1-gpu0" = "s1-nic0"
"s1-gpu1" = "s1-nic0"

[[group]]
nics = ["s0-nic0", "s1-nic0"]
send = ["s0-gpu1", "s1-gpu1"]
receive = ["s0-gpu0", "s1-gpu0"]
"#;

fn used(network: &Network, sketch: &Sketch) -> Vec<String> {
    let links = network.link_ids().filter(|it| sketch.allowed[it.index()]);
    let outside = links.filter(|it| !locality::joins_gpus(network, *it));
    outside.filter_map(|it| rules::between(network, it)).collect()
}

#[test]
fn rules_allow_and_forbid() {
    let network = ring();
    let count =
        |text: &str| Sketch::read(text, &network).unwrap().allowed.iter().filter(|it| **it).count();
    let all = network.links().len();
    assert_eq!(count(""), all);
    let first = &network.nodes()[0].name;
    assert_eq!(count(&format!("[links]\nforbid = [\"node:{first}\"]")), all - 4);
    assert_eq!(count(&format!("[links]\nallow = [\"{first} -> *\"]")), 2);
    assert_eq!(count("[links]\nforbid = [\"* -> *\"]"), 0);
}

#[test]
fn what_matches_nothing_is_an_error_at_its_place() {
    let error = Sketch::read("[links]\nforbid = [\"node:nobody\"]", &ring()).unwrap_err();
    assert_eq!(error.at.map(|it| it.line), Some(2));
    assert!(error.problem.contains("matches `node:nobody`"), "{error}");
    for bad in ["links = 3", "[links]\nallow = [\"gpu\"]", "[links]\nbogus = 1"] {
        assert!(Sketch::read(bad, &ring()).unwrap_err().at.is_some(), "{bad}");
    }
}

#[test]
fn connections_leave_their_ways_and_nothing_else_of_the_host() {
    let network = pair();
    let sketch = Sketch::read(BOUND, &network).unwrap();
    let mut left = used(&network, &sketch);
    left.sort();
    let mut wanted = Vec::new();
    for server in ["s0", "s1"] {
        for (from, to) in
            [("gpu1", "pcie0"), ("pcie0", "nic0"), ("nic0", "pcie0"), ("pcie0", "gpu0")]
        {
            wanted.push(format!("{server}-{from} -> {server}-{to}"));
        }
        wanted.push(format!("{server}-nic0 -> leaf0"));
        wanted.push(format!("leaf0 -> {server}-nic0"));
    }
    wanted.sort();
    assert_eq!(left, wanted);
    // NVLink stays whole, and the pairs are those that the group says.
    assert_eq!(sketch.allowed.iter().filter(|it| **it).count(), wanted.len() + 2 * 2 * 8);
    let servers = Servers::of(&network);
    let connections = sketch.connections.unwrap();
    let name = |it: NodeId| network.node(it).name.as_str();
    let pairs: Vec<(&str, &str)> =
        connections.pairs(&servers).map(|it| (name(it.0), name(it.1))).collect();
    assert_eq!(pairs, [("s0-gpu1", "s1-gpu0"), ("s1-gpu1", "s0-gpu0")]);
}

#[test]
fn a_server_without_nvlink_keeps_its_inside() {
    let text = "name = \"pcie only\"\n".to_owned()
        + &["a", "b"].map(|it| {
            format!(
                "[[node]]\nname = \"{it}0\"\nkind = \"gpu\"\nserver = \"{it}\"\n\
                 [[node]]\nname = \"{it}1\"\nkind = \"gpu\"\nserver = \"{it}\"\n\
                 [[node]]\nname = \"{it}s\"\nkind = \"pcie-switch\"\nserver = \"{it}\"\n\
                 [[node]]\nname = \"{it}n\"\nkind = \"nic\"\nserver = \"{it}\"\n"
            )
        })
        .concat()
        + &["a0 as", "a1 as", "an as", "b0 bs", "b1 bs", "bn bs", "an bn"].map(|it| {
            let (from, to) = it.split_once(' ').unwrap();
            format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nbandwidth = \"10 GB/s\"\nlatency = \"1 us\"\n")
        })
        .concat();
    let network = motet_net::formats::cluster_toml::read(&text, &|_| Err(String::new()));
    let network = network.unwrap().network;
    let sketch = Sketch::read("[binding]\na0 = \"an\"\nb0 = \"bn\"", &network).unwrap();
    assert!(sketch.allowed.iter().all(|it| *it), "{:?}", used(&network, &sketch));
}

#[test]
fn text_comes_back_the_same() {
    let network = pair();
    let more = format!(
        "{BOUND}\n[links]\nforbid = [\"class:smp\"]\n\n[[above]]\nsize = \"10 MB\"\n\
         forbid = [\"node:s0-cpu0\"]\n"
    );
    for text in [BOUND, &more, "", "name = \"a \\\"quoted\\\" \\u0007 name\""] {
        let sketch = Sketch::read(text, &network).unwrap();
        let written = sketch.write(&network);
        assert_eq!(Sketch::read(&written, &network).unwrap(), sketch, "{written}");
        assert_eq!(Sketch::read(&written, &network).unwrap().write(&network), written);
    }
    assert_eq!(Sketch::read(BOUND, &network).unwrap().write(&network), BOUND);
}

#[test]
fn sizes_matter_above() {
    let network = pair();
    let text = "[[above]]\nsize = \"10 MB\"\nforbid = [\"class:smp\"]";
    let sketch = Sketch::read(text, &network).unwrap();
    let count = |size| sketch.allowed_for(size).iter().filter(|it| !**it).count();
    assert_eq!((count(Bytes::new(10_000_000)), count(Bytes::new(10_000_001))), (0, 4));
}

#[test]
fn misfits_have_a_place_and_a_remedy() {
    let network = pair();
    for (from, to, line, part) in [
        ("\"s0-gpu1\" = \"s0-nic0\"", "\"s0-gpu1\" = \"s1-nic0\"", 5, "leads outside by no way"),
        ("\"s0-gpu1\" = \"s0-nic0\"", "\"s0-gpu1\" = \"nic9\"", 5, "no node called `nic9`"),
        ("\"s0-gpu1\" = \"s0-nic0\"", "\"s0-pcie1\" = \"s0-nic0\"", 5, "is a pcie-switch"),
        ("nics = [\"s0-nic0\"", "nics = [\"s0-nic1\", \"s0-nic0\"", 10, "the second NIC"),
        ("nics = [\"s0-nic0\"", "nics = [\"leaf0\"", 10, "stands in no server"),
        ("send = [\"s0-gpu1\"", "send = [\"s0-gpu2\"", 11, "is not bound"),
        ("[[group]]", "[[group]]\nnics = [\"s0-nic0\"]\n[[group]]", 12, "is in two groups"),
        ("[[group]]", "[[group]]\nports = []", 10, "unknown field `ports`"),
        ("[[group]]", "[[above]]\nsize = \"big\"\nforbid = []\n[[group]]", 10, "big"),
    ] {
        let text = BOUND.replace(from, to);
        assert_ne!(text, BOUND, "{from}");
        let error = Sketch::read(&text, &network).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
        assert_eq!(error.at.map(|it| it.line), Some(line), "{to}: {error}");
    }
    let error = Sketch::read("[[group]]\nnics = []", &network).unwrap_err();
    assert!(error.problem.contains("without a [binding]") && error.remedy.is_some(), "{error}");
}

/// What is near: the same PCIe switch, then the same CPU, then the other socket.
#[test]
fn locality_counts_sockets_then_hosts_then_links() {
    let network = pair();
    let servers = Servers::of(&network);
    assert_eq!(servers.list().len(), 2);
    assert_eq!(servers.list()[0].ports.len(), 4);
    assert!(servers.list()[0].joined && !servers.list()[0].one_way);
    let ways = servers.ways(&network, network.ranks()[0]);
    let distances: Vec<(u32, u32, u32)> =
        ways.iter().map(|it| (it.distance.sockets, it.distance.hosts, it.distance.hops)).collect();
    assert_eq!(distances, [(0, 0, 2), (0, 1, 4), (1, 2, 5), (1, 2, 5)]);
    assert!(ways.iter().all(|it| it.to_port.len() == it.from_port.len()));
    let flat = build("dgx-a100", &["count=2"]);
    let ways = Servers::of(&flat).ways(&flat, flat.ranks()[3]);
    assert_eq!(ways.len(), 1);
    assert!(ways[0].port == flat.ranks()[3] && ways[0].to_port.is_empty());
    let relay = build("dgx-2", &["count=2"]);
    assert!(Servers::of(&relay).list()[0].one_way);
}
