//! What is read, and what is refused.

use super::*;

/// Two servers of two GPUs with an NVSwitch, two network cards that are devices themselves, and one switch with
/// ports.
const FABRIC: &str = include_str!("../../../../../fuzz/corpus/net_infragraph/two-servers.json");

fn read_ok(text: &str) -> ReadNetwork {
    read(text).unwrap_or_else(|it| panic!("{it}"))
}

#[test]
fn components_and_slices_become_nodes_and_links() {
    let read = read_ok(FABRIC);
    let network = &read.network;
    let count = |kind| network.nodes().iter().filter(|it| it.kind == kind).count();
    assert_eq!(network.ranks().len(), 4);
    assert_eq!((count(NodeKind::NvSwitch), count(NodeKind::Nic), count(NodeKind::Leaf)), (2, 4, 1));
    // Per server: two GPUs to the NVSwitch, two to a card each; then the cards to the switch. Both ways.
    assert_eq!(network.links().len(), 2 * (2 * (2 + 2) + 4));
    let servers: Vec<_> =
        network.nodes().iter().filter_map(|it| it.location.server.clone()).collect();
    assert!(servers.contains(&"host.1".to_owned()));
    assert!(read.notes.iter().any(|it| it.contains("NVLink 4: 450 GB/s")), "{:?}", read.notes);
}

#[test]
fn a_port_is_a_place_on_a_link() {
    let read = read_ok(FABRIC);
    let network = &read.network;
    let is_nic = |it: NodeId| network.nodes()[it.index()].kind == NodeKind::Nic;
    let is_leaf = |it: NodeId| network.nodes()[it.index()].kind == NodeKind::Leaf;
    let wan: Vec<_> =
        network.links().iter().filter(|it| is_nic(it.from) && is_leaf(it.to)).collect();
    assert_eq!(wan.len(), 4);
    // 400 Gbit/s on the cable; the ports inside the card and the switch say nothing.
    assert!(wan.iter().all(|it| it.spec.bandwidth.to_string() == "50 GB/s"));
    assert!(wan.iter().all(|it| it.spec.latency.to_string() == "500 ns"));
}

#[test]
fn says_what_is_wrong() {
    for (from, to, part) in [
        ("\"host[0:2]\"", "\"hots[0:2]\"", "instance `hots`"),
        ("\"host[0:2]\"", "\"host[0:9]\"", "slice of 0 to 2"),
        ("\"nvsw[0]\"", "\"nvsw[1]\"", "slice of 0 to 1"),
        ("\"nvsw[0]\"", "\"nvs\"", "no component `nvs`"),
        ("\"scheme\": \"many2many\"", "\"scheme\": \"ring\"", "the scheme `ring`"),
        ("\"link\": \"cable\"", "\"link\": \"rope\"", "link `rope`"),
        ("\"device\": \"tor\"", "\"device\": \"tar\"", "device `tar`"),
        ("\"gigabits_per_second\": 400", "\"gigabits_per_second\": -4", "bandwidth of -4"),
        ("nvlink_4", "nvlink_9", "has no bandwidth"),
        ("\"count\": 2", "\"count\": \"two\"", "not an InfraGraph infrastructure"),
        (
            "\"name\": \"nic\", \"count\": 1, \"choice\": \"nic\"",
            "\"name\": \"cx7\", \"count\": 1, \"choice\": \"device\"",
            "contains itself",
        ),
    ] {
        assert!(FABRIC.contains(from), "{from}");
        let error = read(&FABRIC.replacen(from, to, 1)).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
    }
}
