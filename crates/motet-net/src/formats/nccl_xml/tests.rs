//! Small topologies written by hand, one trait of real files each.

use motet_units::{Bandwidth, Duration, NodeId};

use super::read;
use crate::{LinkClass, LinkSpec, Network, NodeKind};

fn network(text: &str) -> Network {
    read(text).unwrap().network
}

/// The link between two nodes by name, with its class.
fn link(network: &Network, a: &str, b: &str, class: LinkClass) -> Option<LinkSpec> {
    let (a, b) = (network.find(a)?, network.find(b)?);
    let leads = |it: &&crate::Link| (it.from, it.to, it.spec.class) == (a, b, class);
    network.links().iter().find(leads).map(|it| it.spec)
}

fn gpu(busid: &str, dev: u32, inside: &str) -> String {
    format!(
        "<pci busid=\"{busid}\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
         <gpu dev=\"{dev}\" sm=\"90\" rank=\"{dev}\" gdr=\"1\">{inside}</gpu></pci>\n"
    )
}

fn system(inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<system version=\"2\" extra=\"x\">\n<cpu numaid=\"0\" \
             arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n{inside}</cpu>\n</system>"
    )
}

#[test]
fn nvswitches_are_one() {
    let links = "<nvlink target=\"0000:07:00.0\" count=\"5\" tclass=\"0x068000\"/>\
                 <nvlink target=\"0000:06:00.0\" count=\"4\" tclass=\"0x068000\"/>";
    let hidden = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
    let text = system(&(gpu("0000:18:00.0", 0, links) + &gpu("0000:19:00.0", 1, hidden)));
    let network = network(&text);
    assert_eq!(network.count(NodeKind::NvSwitch), 1);
    let spec = link(&network, "gpu0", "nvswitch", LinkClass::NvLink).unwrap();
    assert_eq!((spec.lanes, spec.bandwidth.to_string()), (9, "225 GB/s".to_owned()));
    assert_eq!(link(&network, "nvswitch", "gpu1", LinkClass::NvLink).unwrap().lanes, 18);
}

#[test]
fn both_listings_or_one_make_one_duplex_link() {
    let to = |bus: &str| format!("<nvlink target=\"{bus}\" count=\"4\" tclass=\"0x030200\"/>");
    let both = gpu("0000:1A:00.0", 0, &to("0000:1b:00.0"))
        + &gpu("0000:1b:00.0", 1, &to("00000000:1a:00.0"));
    let one = gpu("0000:1A:00.0", 0, &to("0000:1b:00.0")) + &gpu("0000:1b:00.0", 1, "");
    for text in [both, one] {
        let network = network(&system(&text));
        let nvlinks = network.links().iter().filter(|it| it.spec.class == LinkClass::NvLink);
        assert_eq!(nvlinks.count(), 2);
        assert_eq!(link(&network, "gpu1", "gpu0", LinkClass::NvLink).unwrap().lanes, 4);
    }
    let uneven = gpu("0000:1a:00.0", 0, &to("0000:1b:00.0"))
        + &gpu("0000:1b:00.0", 1, &to("0000:1a:00.0").replace('4', "2"));
    let uneven = read(&system(&uneven)).unwrap();
    assert_eq!(link(&uneven.network, "gpu0", "gpu1", LinkClass::NvLink).unwrap().lanes, 4);
    assert!(uneven.notes[0].contains("different number"), "{:?}", uneven.notes);
}

#[test]
fn links_to_nowhere_are_left_out_with_a_note() {
    let itself = "<nvlink target=\"0000:1a:00.0\" count=\"12\" tclass=\"0x030200\"/>";
    let gone = "<xgmi target=\"0000:ff:00.0\" count=\"1\" tclass=\"0x038000\"/>";
    let read = read(&system(&gpu("0000:1a:00.0", 0, &format!("{itself}{gone}")))).unwrap();
    assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
    assert!(read.network.links().iter().all(|it| it.spec.class == LinkClass::Pcie));
}

#[test]
fn power_and_grace_reach_their_cpu() {
    let power = "<nvlink target=\"0004:00:00.0\" count=\"3\" tclass=\"0x068001\"/>";
    let grace = "<c2c bw=\"44712\" count=\"10\"/>";
    let network = network(&system(&gpu("0000:1a:00.0", 0, &format!("{power}{grace}"))));
    assert_eq!(link(&network, "gpu0", "cpu0", LinkClass::NvLink).unwrap().lanes, 3);
    let c2c = link(&network, "gpu0", "cpu0", LinkClass::C2c).unwrap();
    assert_eq!(c2c.bandwidth.to_string(), "447.12 GB/s");
}

#[test]
fn devices_by_class_only_and_other_devices() {
    let text = system(
        "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">
           <pci busid=\"0001:00:00.0\" class=\"0x120000\" link_speed=\"Unknown\" link_width=\"0\"/>
           <pci busid=\"0101:00:00.0\" class=\"0x020700\"/>
           <pci busid=\"0102:00:00.0\" class=\"0x010802\"/>
         </pci>",
    );
    let read = read(&text).unwrap();
    let network = &read.network;
    let count = |kind| network.count(kind);
    assert_eq!(
        (count(NodeKind::Gpu), count(NodeKind::Nic), count(NodeKind::PcieSwitch)),
        (1, 1, 1)
    );
    let spec = link(network, "gpu0", "pcie-ffff:ff:01.0", LinkClass::Pcie).unwrap();
    assert_eq!(spec.bandwidth, Bandwidth::gb_per_s(12));
    assert!(read.notes[0].contains("left out 1 devices"), "{:?}", read.notes);
}

#[test]
fn ports_of_one_card_share_its_slot() {
    let port = |function: u32| {
        format!(
            "<pci busid=\"0000:4c:00.{function}\" class=\"0x020000\" link_speed=\"8 GT/s\" link_width=\"16\">\
             <nic><net name=\"mlx5_{function}\" dev=\"{function}\" speed=\"100000\" port=\"1\"/></nic></pci>"
        )
    };
    let network = network(&system(&(port(0) + &port(1))));
    assert_eq!((network.count(NodeKind::Nic), network.count(NodeKind::PcieSwitch)), (2, 1));
    let card = network.find("card-0000:4c:00.0").unwrap();
    assert_eq!(network.outgoing(card).len(), 3);
    let nic = network.node(network.find("mlx5_1").unwrap());
    assert_eq!(nic.properties["bandwidth"], "12.5 GB/s");
}

#[test]
fn an_interface_that_two_cpus_list_is_one() {
    let nic = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\"/></nic>";
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"0\">{nic}</cpu><cpu numaid=\"1\">{nic}</cpu></system>"
    );
    let network = network(&text);
    assert_eq!(network.count(NodeKind::Nic), 1);
    assert!(link(&network, "eth0", "cpu1", LinkClass::Pcie).is_some());
}

#[test]
fn several_hosts_are_several_servers_around_one_switch() {
    let hidden = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
    let host = |hash: &str, rank: u32| {
        let gpu = gpu("0000:18:00.0", rank, hidden);
        format!("<cpu host_hash=\"{hash}\" numaid=\"0\" arch=\"arm64\">{gpu}</cpu>")
    };
    let text = format!("<system version=\"1\">{}{}</system>", host("0xb", 1), host("0xa", 0));
    let network = network(&text);
    let servers: Vec<_> =
        network.ranks().iter().map(|it| network.node(*it).location.server.clone()).collect();
    assert_eq!(servers, [Some("s1".to_owned()), Some("s0".to_owned())]);
    assert_eq!(network.count(NodeKind::NvSwitch), 1);
    assert!(network.find("s0-cpu0").is_some() && network.find("s1-cpu0").is_some());
}

#[test]
fn ranks_hold_where_they_are_complete() {
    let swapped = gpu("0000:1a:00.0", 1, "") + &gpu("0000:1b:00.0", 0, "");
    let swapped = network(&system(&swapped));
    assert_eq!(swapped.ranks(), [swapped.find("gpu0").unwrap(), swapped.find("gpu1").unwrap()]);
    assert_eq!(swapped.node(swapped.ranks()[0]).properties["busid"], "0000:1b:00.0");
    let partial = gpu("0000:1a:00.0", 8, "") + &gpu("0000:1b:00.0", 9, "");
    let partial = read(&system(&partial)).unwrap();
    assert_eq!(partial.network.gpu(motet_units::Rank(0)), partial.network.find("gpu0"));
    assert!(partial.notes[0].contains("ranks follow file order"), "{:?}", partial.notes);
}

#[test]
fn files_by_hand_without_pci_are_read() {
    let text = "<system version=\"1\"><cpu numaid=\"0\">
        <gpu dev=\"0\" sm=\"80\"><nvlink target=\"1\" count=\"12\"/></gpu>
        <gpu dev=\"1\" sm=\"80\"><nvlink target=\"0\" count=\"12\"/></gpu>
        <net name=\"mlx5_0\" speed=\"400000\"/></cpu></system>";
    let network = network(text);
    let spec = link(&network, "gpu0", "gpu1", LinkClass::NvLink).unwrap();
    assert_eq!((spec.lanes, spec.bandwidth), (12, Bandwidth::gb_per_s(300)));
    assert!(link(&network, "mlx5_0", "cpu0", LinkClass::Pcie).is_some());
}

#[test]
fn pci_links_join_switches() {
    let switch = |bus: &str, other: &str| {
        format!(
            "<pci busid=\"{bus}\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\
             <pcilink target=\"{other}\"/></pci>"
        )
    };
    let network = network(&system(
        &(switch("0000:01:00.0", "0000:02:00.0") + &switch("0000:02:00.0", "0000:01:00.0")),
    ));
    let spec = link(&network, "pcie-0000:01:00.0", "pcie-0000:02:00.0", LinkClass::Pcie).unwrap();
    assert_eq!(spec.bandwidth, Bandwidth::gb_per_s(24));
    assert_eq!(network.outgoing(NodeId(1)).len(), 2);
}

#[test]
fn graph_dumps_imply_a_network() {
    let text = "<graphs version=\"1\">
      <graph id=\"0\" pattern=\"4\" nchannels=\"2\" speedintra=\"20.6\" speedinter=\"12.5\" typeintra=\"NVL\" typeinter=\"PIX\">
        <channel><net dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"0\"/><net dev=\"0\"/></channel>
        <channel><net dev=\"1\"/><gpu dev=\"1\"/><gpu dev=\"0\"/><net dev=\"1\"/></channel>
      </graph>
      <graph id=\"3\" pattern=\"5\" nchannels=\"0\" speedintra=\"0\" speedinter=\"0\"/></graphs>";
    let read = read(text).unwrap();
    let network = &read.network;
    assert_eq!((network.count(NodeKind::Gpu), network.count(NodeKind::Nic)), (2, 2));
    let spec = link(network, "gpu1", "gpu0", LinkClass::NvLink).unwrap();
    assert_eq!(spec.bandwidth.to_string(), "41.2 GB/s");
    // The ring goes out by the network, so it does not close inside.
    assert_eq!(link(network, "gpu0", "gpu1", LinkClass::NvLink), None);
    assert!(link(network, "net1", "gpu1", LinkClass::Pcie).is_some());
    let error = super::read(&text.replace("20.6", "fast")).unwrap_err();
    assert!(error.problem.contains("speedintra=\"fast\""), "{error}");
    assert_eq!(error.at.map(|it| it.line), Some(2));
}

#[test]
fn graph_dumps_keep_what_they_say_of_channels() {
    let text = "<graphs version=\"1\">
      <graph id=\"0\" pattern=\"4\" crossnic=\"2\" latencyinter=\"2.5\" samechannels=\"0\"/>
      <graph id=\"1\" pattern=\"1\"/></graphs>";
    let graphs = read(text).unwrap().graphs.unwrap().graphs;
    let said = |index: usize| {
        let it = &graphs[index];
        (it.cross_nic, it.same_channels, it.latency_inter)
    };
    assert_eq!(said(0), (Some(2), Some(false), Duration::from_ns(2500)));
    assert_eq!(said(1), (None, None, Duration::ZERO));
    for (right, wrong) in [("\"2.5\"", "\"-1\""), ("crossnic=\"2\"", "crossnic=\"x\"")] {
        let error = read(&text.replace(right, wrong)).unwrap_err();
        assert_eq!(error.at.map(|it| it.line), Some(2), "{error}");
    }
}

#[test]
fn says_what_is_wrong_and_where() {
    let bad = gpu("0000:1a:00.0", 0, "\n<nvlink target=\"x\" count=\"many\"/>");
    let error = read(&system(&bad)).unwrap_err();
    assert!(error.problem.contains("`many` is not a number of links"), "{error}");
    assert_eq!(error.at.map(|it| it.line), Some(5));
    assert!(read("<systems/>").unwrap_err().problem.contains("<systems> is not"));
    let many = "<cpu/>".repeat(65);
    let error = read(&format!("<system>{many}</system>")).unwrap_err();
    assert!(error.problem.contains("more than 64 CPUs"), "{error}");
    let many = "<gpu/>".repeat(33);
    let error = read(&format!("<system><pci>{many}</pci></system>")).unwrap_err();
    assert!(error.problem.contains("more than 32 GPUs"), "{error}");
}
