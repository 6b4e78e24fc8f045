//! Trees that are incomplete, wrong or hostile: read as far as they go, and reported.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::tree::Tree;
use crate::discover::{Options, discover};
use crate::provenance::Provenance;
use crate::{NodeKind, Sourced};

fn found(tree: &Tree) -> Sourced {
    discover(tree.root(), &Options { nvidia_smi: None, name: "here" }).unwrap()
}

fn says(found: &Sourced, what: &str) -> bool {
    found.unseen.iter().any(|it| it.to_string().contains(what))
}

#[test]
fn an_empty_folder_is_a_machine_of_which_nothing_is_seen() {
    let tree = Tree::new();
    let found = found(&tree);
    assert_eq!((found.network.nodes().len(), found.network.links().len()), (1, 0));
    for what in ["PCI devices", "NUMA nodes", "the CPU model", "GPUs", "NICs"] {
        assert!(says(&found, what), "{what}: {:?}", found.unseen);
    }
    let error = discover(&tree.root().join("nowhere"), &Options::default()).unwrap_err();
    assert!(error.problem.contains("is not a folder"), "{error}");
}

#[test]
fn garbage_in_files_is_reported_and_the_rest_read() {
    let mut tree = Tree::new();
    tree.numa("0", "0-7");
    tree.numa("1", "8-15");
    // Memory without CPUs is no CPU; a name that is no number is no node.
    tree.numa("2", "");
    tree.numa("x", "0");
    let host = "devices/pci0000:00";
    let port = tree.port(host, &[("max_link_speed", "Unknown"), ("max_link_width", "many")]);
    let gpu = [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2331")];
    tree.device(&port, "0000:01:00.0", &[&gpu[..], &[("numa_node", "-1")]].concat());
    tree.device(host, "0000:02:00.0", &[("class", "banana")]);
    tree.device(host, "0000:03:00.0", &[]);
    tree.device(host, "0000:04:00.0", &[("class", "0x020000"), ("numa_node", "77")]);
    fs::create_dir_all(tree.root().join("bus/pci/devices/0000:05:00.0")).unwrap();
    tree.write("bus/pci/devices/0000:05:00.0/class", "0x120000");
    tree.write("devices/system/cpu/modalias", "cpu:type:");
    let found = found(&tree);
    assert_eq!(found.network.count(NodeKind::Cpu), 2);
    assert_eq!(found.network.ranks().len(), 1);
    assert_eq!(found.network.count(NodeKind::Nic), 1);
    for what in [
        "0000:02:00.0: its class `banana`",
        "0000:03:00.0: its class cannot be read",
        "the bridges above 0000:05:00.0",
        "the NUMA node of 0000:01:00.0",
        "the NUMA node of 0000:04:00.0",
        "the name and speed of NIC 0000:04:00.0",
        "0000:05:00.0: an accelerator",
        "NVLinks: H100 or H200 PCIe may be joined by bridges",
        "the CPU model",
    ] {
        assert!(says(&found, what), "{what}: {:#?}", found.unseen);
    }
    let gpu = found.network.ranks()[0];
    let link = found.network.outgoing(gpu)[0];
    assert_eq!(found.sources(link).bandwidth.provenance, Provenance::Guessed);
}

#[test]
fn links_in_circles_and_odd_files_end() {
    let tree = Tree::new();
    fs::create_dir_all(tree.root().join("bus/pci/devices")).unwrap();
    let device = |name: &str| tree.root().join("bus/pci/devices").join(name);
    symlink("0000:02:00.0", device("0000:01:00.0")).unwrap();
    symlink("0000:01:00.0", device("0000:02:00.0")).unwrap();
    // A path that visits the same bridge twice, and one without end.
    symlink("../x/0000:07:00.0/0000:07:00.0/0000:03:00.0", device("0000:03:00.0")).unwrap();
    let deep: String = (0..100).map(|it| format!("0001:{it:02x}:00.0/")).collect();
    symlink(format!("{deep}0000:04:00.0"), device("0000:04:00.0")).unwrap();
    // A folder where a file should be, and a file where a folder should be.
    fs::create_dir_all(tree.root().join("devices/system/cpu/modalias")).unwrap();
    tree.write("class/net", "not a folder");
    tree.write("class/kfd/kfd/topology/nodes/0", "not a folder");
    tree.link("class/infiniband/mlx5_0", "class/infiniband/mlx5_0");
    let found = found(&tree);
    assert_eq!(found.network.nodes().len(), 1);
    for what in ["0000:01:00.0", "0000:03:00.0", "modalias: is not a file", "mlx5_0"] {
        assert!(says(&found, what), "{what}: {:#?}", found.unseen);
    }
}

#[test]
fn ports_that_are_down_and_virtual_interfaces_are_told() {
    let tree = Tree::new();
    let nic = [("class", "0x020700"), ("vendor", "0x15b3")];
    let folder = tree.device("devices/pci0000:00", "0000:01:00.0", &nic);
    tree.interface("infiniband", "mlx5_0", &folder);
    tree.write(&format!("{folder}/infiniband/mlx5_0/ports/1/state"), "1: DOWN");
    tree.write(&format!("{folder}/infiniband/mlx5_0/ports/1/rate"), "10 Gb/sec (4X SDR)");
    tree.interface("net", "ib0", &folder);
    tree.interface("net", "docker0", "devices/virtual");
    tree.interface("net", "lo", "devices/virtual");
    let found = found(&tree);
    let nic = found.network.node(found.network.find("mlx5_0").unwrap());
    assert_eq!(nic.properties.get("bandwidth"), None);
    assert_eq!(
        (nic.properties["state"].as_str(), nic.properties["interface"].as_str()),
        ("DOWN", "ib0")
    );
    assert!(says(&found, "the speed of mlx5_0 port 1: the port is DOWN"), "{:?}", found.unseen);
    assert!(says(&found, "network interfaces docker0: virtual"), "{:?}", found.unseen);
}

#[test]
fn a_link_on_fewer_lanes_than_it_could_is_noted() {
    let mut tree = Tree::new();
    let full = [("max_link_speed", "16.0 GT/s PCIe"), ("max_link_width", "16")];
    let port = tree.port("devices/pci0000:00", &full);
    let now = [("class", "0x030200"), ("vendor", "0x1002"), ("current_link_width", "8")];
    tree.device(&port, "0000:01:00.0", &[&full[..], &now].concat());
    let found = found(&tree);
    assert!(found.notes.iter().any(|it| it.contains("8 lanes of 16")), "{:?}", found.notes);
}

#[test]
fn a_link_is_as_fast_as_its_slower_end() {
    let mut tree = Tree::new();
    let slot = [("max_link_speed", "16.0 GT/s PCIe"), ("max_link_width", "8")];
    let slot = tree.port("devices/pci0000:00", &slot);
    let gpu = [
        ("class", "0x038000"),
        ("vendor", "0x1002"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("max_link_width", "16"),
    ];
    tree.device(&slot, "0000:03:00.0", &gpu);
    let found = found(&tree);
    let link = found.network.link(found.network.outgoing(found.network.ranks()[0])[0]);
    assert_eq!(link.spec.bandwidth, motet_units::Bandwidth::gb_per_s(12));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any text in any of the files gives a network.
    #[test]
    fn any_content_is_taken(texts in prop::collection::vec("\\PC{0,12}|0x03[0-9]{4}|[0-9]{1,6}|-1", 12), smi in "\\PC{0,40}") {
        let tree = Tree::new();
        let host = "devices/pci0000:00/0000:00:01.0/0000:00:02.0/0000:00:03.0";
        let names = ["class", "vendor", "device", "numa_node", "max_link_speed", "max_link_width"];
        let files: Vec<(&str, &str)> =
            names.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let folder = tree.device(host, "0000:01:00.0", &files);
        tree.device(host, "0000:02:00.0", &[("class", "0x030200"), files[1], files[2]]);
        tree.interface("net", "eth0", &folder);
        tree.write(&format!("{folder}/net/eth0/speed"), &texts[6]);
        tree.write("devices/system/node/node0/cpulist", &texts[7]);
        tree.write("devices/system/cpu/modalias", &texts[8]);
        tree.write("class/kfd/kfd/topology/nodes/1/properties", &format!("simd_count 1\nlocation_id {}", texts[9]));
        tree.write("class/kfd/kfd/topology/nodes/1/io_links/0/properties", &format!("type 11\nnode_to {}", texts[10]));
        let options = Options { nvidia_smi: Some(&smi), name: &texts[11] };
        let found = discover(tree.root(), &options).unwrap();
        prop_assert_eq!(found.links.len(), found.network.links().len());
    }
}
