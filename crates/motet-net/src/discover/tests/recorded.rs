//! Recorded topologies of real servers, written as sysfs trees and read back: the network must be
//! the one that the file itself gives.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, NodeId};

use super::tree::Tree;
use crate::discover::{Measured, Options, discover, with_measured};
use crate::formats::{nccl_xml, xml};
use crate::provenance::Provenance;
use crate::{LinkClass, Network, Node, NodeKind};

/// What a node is called whatever order it was found in.
fn key(node: &Node) -> String {
    let property = |key: &str| node.properties.get(key).map(|it| it.to_lowercase());
    match node.kind {
        NodeKind::Cpu => format!("cpu{}", property("numaid").unwrap_or_default()),
        NodeKind::Nic => format!("{} {}", node.name, property("busid").unwrap_or_default()),
        _ => property("busid").unwrap_or_else(|| node.name.to_lowercase()),
    }
}

/// Interfaces that no PCI device carries, and switches with nothing below that counts.
fn is_left_out(network: &Network, id: NodeId) -> bool {
    let node = network.node(id);
    match node.kind {
        NodeKind::Nic => !node.properties.contains_key("busid"),
        NodeKind::PcieSwitch => network.incoming(id).len() < 2,
        _ => false,
    }
}

/// Of each node: its kind, rank-independent facts, and its links.
fn profile(network: &Network) -> BTreeMap<String, Vec<String>> {
    let mut nodes = BTreeMap::new();
    for id in network.node_ids().filter(|it| !is_left_out(network, *it)) {
        let node = network.node(id);
        let mut lines = vec![node.kind.to_string()];
        lines.extend(node.properties.get("bandwidth").cloned());
        for link in network.outgoing(id).iter().map(|it| network.link(*it)) {
            if !is_left_out(network, link.to) {
                let (spec, to) = (link.spec, key(network.node(link.to)));
                lines.push(format!("{} {} {} {to}", spec.class, spec.bandwidth, spec.lanes));
            }
        }
        lines.sort();
        nodes.insert(key(node), lines);
    }
    nodes
}

fn read_back(text: &str) -> (Network, crate::Sourced) {
    let expected = nccl_xml::read(text).unwrap().network;
    let tree = Tree::of(&xml::parse(text).unwrap());
    let smi = (!tree.smi.is_empty()).then_some(tree.smi.as_str());
    let options = Options { nvidia_smi: smi, name: "recorded" };
    (expected, discover(tree.root(), &options).unwrap())
}

#[test]
fn recorded_servers_come_back() {
    let Some(folder) = motet_testdata::samples("nccl-topo") else { return };
    let (mut compared, mut different) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // A graph dump is no topology, and no sysfs can have two devices at one address.
        if !text.contains("<system") || name == "rccl_topo_4p4h.xml" {
            continue;
        }
        let (expected, found) = read_back(&text);
        let (expected_profile, found_profile) = (profile(&expected), profile(&found.network));
        for (key, lines) in &expected_profile {
            if found_profile.get(key) != Some(lines) {
                different
                    .push(format!("{name} {key}: {lines:?}, found {:?}", found_profile.get(key)));
            }
        }
        let more = found_profile.keys().filter(|it| !expected_profile.contains_key(*it));
        different.extend(more.map(|it| format!("{name} has no {it}")));
        assert_eq!(found.network.ranks().len(), expected.ranks().len(), "{name}");
        assert_eq!(found.links.len(), found.network.links().len());
        compared += 1;
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(compared >= 30, "{compared}");
}

fn server(name: &str) -> Option<crate::Sourced> {
    let text = motet_testdata::sample(&format!("nccl-topo/{name}"))?;
    Some(read_back(&text).1)
}

#[test]
fn figures_say_where_they_come_from() {
    let Some(found) = server("rccl_topo_8p_90a_1.xml") else { return };
    for id in found.network.link_ids() {
        let sources = found.sources(id);
        let expected = match found.network.link(id).spec.class {
            LinkClass::Pcie => Provenance::Read,
            _ => Provenance::Template,
        };
        assert_eq!(sources.bandwidth.provenance, expected, "{}", sources.bandwidth);
        assert_eq!(sources.latency.provenance, Provenance::Template);
    }
    let xgmi = found.tally().into_iter().find(|it| it.class == LinkClass::Xgmi).unwrap();
    assert_eq!((xgmi.provenance, xgmi.bandwidths), (Provenance::Template, 24));
    // The file with comments is one that reads back to the same network.
    let toml = found.cluster_toml();
    assert!(toml.contains("# bandwidth read: 16.0 GT/s PCIe x16 in sysfs"), "{toml}");
    let fetch = |_: &str| Err(String::new());
    let again = crate::formats::cluster_toml::read(&toml, &fetch).unwrap().network;
    assert_eq!(again, found.network);
}

#[test]
fn what_was_measured_replaces_what_was_read() {
    let Some(found) = server("ndv4-topo.xml") else { return };
    let before = found.network.clone();
    let bus = |rank: u32| {
        let gpu = before.gpu(motet_units::Rank(rank)).unwrap();
        Some(before.node(gpu).properties["busid"].clone())
    };
    let figure = |from: Option<String>, to: Option<String>, gb: u64| Measured {
        from,
        to,
        bandwidth: Bandwidth::gb_per_s(gb),
        latency: motet_units::Duration::from_us(2),
        direct: true,
    };
    let measured = [
        figure(None, bus(0), 25),
        figure(bus(0), None, 23),
        figure(None, bus(1), 22),
        figure(bus(0), bus(1), 19),
        figure(Some("0000:99:00.0".to_owned()), None, 1),
    ];
    let after = with_measured(found.clone(), &measured).unwrap();
    let pcie = |network: &Network, rank: u32| {
        let gpu = network.gpu(motet_units::Rank(rank)).unwrap();
        network.incoming(gpu)[0]
    };
    let (first, second, third) =
        (pcie(&after.network, 0), pcie(&after.network, 1), pcie(&after.network, 2));
    // The lesser of the two ways; one way where only one was measured; else as it was.
    assert_eq!(after.network.link(first).spec.bandwidth, Bandwidth::gb_per_s(23));
    assert_eq!(after.network.link(second).spec.bandwidth, Bandwidth::gb_per_s(22));
    assert_eq!(after.network.link(third), before.link(third));
    for link in [first, second] {
        let back = after.network.link(link).reverse.unwrap();
        assert_eq!(after.sources(link).bandwidth.provenance, Provenance::Measured);
        assert_eq!(after.sources(back).bandwidth.provenance, Provenance::Measured);
    }
    assert_eq!(after.sources(third).bandwidth, found.sources(third).bandwidth);
    // Two GPUs joined by PCIe only share links: nothing is ascribed to one of them.
    let changed = after.network.links().iter().zip(before.links()).filter(|(a, b)| a != b).count();
    assert_eq!(changed, 4);
    assert!(after.notes.iter().any(|it| it.contains("sysfs does not show")));
}

#[test]
fn measured_nvlinks_go_to_the_switch() {
    let Some(found) = server("p4d-24xl-topo.xml") else { return };
    // The file has no NVLinks; eight of this GPU have a switch by template.
    assert_eq!(found.network.count(NodeKind::NvSwitch), 0, "the recorded tree has no device ids");
    let hgx = (0..8).fold(Tree::new(), |tree, gpu| {
        let files = [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330")];
        tree.device("devices/pci0000:00", &format!("0000:0{gpu}:00.0"), &files);
        tree
    });
    let found = discover(hgx.root(), &Options::default()).unwrap();
    let switch = found.network.find("nvswitch").unwrap();
    assert_eq!(found.network.incoming(switch).len(), 8);
    let measured: Vec<Measured> = [(0, 1, 400), (0, 2, 410), (1, 0, 390)]
        .into_iter()
        .map(|(from, to, gb)| Measured {
            from: Some(format!("0000:0{from}:00.0")),
            to: Some(format!("0000:0{to}:00.0")),
            bandwidth: Bandwidth::gb_per_s(gb),
            latency: motet_units::Duration::from_us(2),
            direct: true,
        })
        .collect();
    let after = with_measured(found, &measured).unwrap();
    let up = |rank: u32| {
        let gpu = after.network.gpu(motet_units::Rank(rank)).unwrap();
        let links = after.network.outgoing(gpu).iter().map(|it| after.network.link(*it));
        links.filter(|it| it.spec.class == LinkClass::NvLink).map(|it| it.spec.bandwidth).next()
    };
    // Out at best 410, in at best 390: the lesser.
    assert_eq!(up(0), Some(Bandwidth::gb_per_s(390)));
    assert_eq!(up(3).unwrap().to_string(), "450 GB/s");
}
