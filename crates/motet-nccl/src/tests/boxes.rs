//! Graphs on known boxes. Where a public GRAPH line is named, the box is drawn from the excerpt
//! of the log there; what it leaves out (sockets, slots, GPU generation) is assumed.

use motet_net::formats::nccl_xml;
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration, NodeId};

use crate::graph::Channel;
use crate::options::CrossNic;
use crate::testing::{build, model};
use crate::{NcclModel, NcclOptions, PathKind};

/// nChannels, bandwidth inside/outside, path types, in NCCL's words.
fn short(line: &str) -> String {
    let words = line.split(", ").skip(2).take(3).collect::<Vec<_>>().join(", ");
    words.replace(".000000", "").replace("00000", "")
}

fn lines(kind: &str, words: &[&str]) -> Vec<String> {
    model(&build(kind, words)).graph_lines().iter().map(|it| short(it)).collect()
}

#[test]
fn dgx_a100() {
    let same = "nChannels 12, bw 20/20, type NVL/PIX";
    assert_eq!(lines("dgx-a100", &[]), [same, same]);
    let pair = lines("dgx-a100", &["count=2"]);
    assert_eq!(pair[0], "nChannels 8, bw 24/24, type NVL/PIX");
    assert_eq!(pair, lines("dgx-a100", &["count=2", "detail=full"]));
}

/// What a dump of an HGX H200 is reported to say: 12 rings and trees at 30 GB/s, NVLS with 8 heads at 40/60.
#[test]
fn dgx_h200() {
    let expected = [
        "nChannels 12, bw 30/30, type NVL/PIX",
        "nChannels 12, bw 30/30, type NVL/PIX",
        "nChannels 8, bw 40/60, type NVL/PIX",
    ];
    assert_eq!(lines("dgx-h200", &[]), expected);
    // What programs may ask of the switches does not matter to NCCL.
    assert_eq!(lines("dgx-h200", &["nvls=true"]), expected);
    let four = lines("dgx-h200", &["count=4"]);
    assert_eq!(four[0], "nChannels 8, bw 48/48, type NVL/PIX");
    assert_eq!(four[2], "nChannels 8, bw 40/48, type NVL/PIX");
}

/// NVLS is NCCL's own choice, unless the machine or the options say that it is off.
#[test]
fn nvls_can_be_turned_off() {
    let switched = |said: Option<&str>, nvls| {
        let mut b = NetworkBuilder::new("box");
        let mut switch = Node::new("nvs", NodeKind::NvSwitch).in_server("s");
        switch.properties.extend(said.map(|it| ("nvls".to_owned(), it.to_owned())));
        let switch = b.add_node(switch).unwrap();
        for index in 0..8 {
            let gpu = Node::new(format!("g{index}"), NodeKind::Gpu).in_server("s");
            let gpu = b.add_node(gpu).unwrap();
            b.add_duplex(gpu, switch, spec(LinkClass::NvLink, 450.0).with_lanes(18)).unwrap();
        }
        let options = NcclOptions { nvls, ..NcclOptions::default() };
        NcclModel::new(&b.build().unwrap(), options).unwrap().communicator().nvls
    };
    assert!(switched(None, None) && switched(Some("1"), None) && switched(Some("0"), Some(true)));
    assert!(!switched(Some("0"), None) && !switched(None, Some(false)));
}

#[test]
fn boxes_of_volta() {
    assert_eq!(lines("dgx-1", &[])[0], "nChannels 6, bw 20/20, type NVL/PIX");
    assert_eq!(lines("dgx-2", &[])[0], "nChannels 6, bw 20/20, type NVL/PIX");
}

fn spec(class: LinkClass, gb: f64) -> LinkSpec {
    let rate = Bandwidth::from_bits_per_s((gb * 8e9) as u64);
    LinkSpec::new(class, rate, Duration::ZERO)
}

struct Box<'a> {
    builder: &'a mut NetworkBuilder,
    server: String,
}

impl Box<'_> {
    fn add(&mut self, name: &str, kind: NodeKind, properties: &[(&str, &str)]) -> NodeId {
        let mut node = Node::new(format!("{}-{name}", self.server), kind).in_server(&self.server);
        for (key, value) in properties {
            node = node.with_property(key, *value);
        }
        self.builder.add_node(node).unwrap()
    }

    fn join(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) {
        self.builder.add_duplex(a, b, spec).unwrap();
    }
}

const INTEL: [(&str, &str); 2] = [("arch", "x86_64"), ("vendor", "GenuineIntel")];

/// NVIDIA/nccl issue 601: four GPUs on two sockets, four interfaces of 10 Gbit/s without GPU
/// Direct: "nChannels 4, speed 1.2/1.2, type SYS/SYS, sameChannels 0".
#[test]
fn two_sockets_and_four_slow_interfaces() {
    let mut builder = NetworkBuilder::new("601");
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    for server in ["a", "b"] {
        let mut it = Box { builder: &mut builder, server: server.to_owned() };
        let cpus = [0, 1].map(|cpu| it.add(&format!("cpu{cpu}"), NodeKind::Cpu, &INTEL));
        it.join(cpus[0], cpus[1], spec(LinkClass::Smp, 6.0));
        for (index, cpu) in [0, 0, 1, 1].into_iter().enumerate() {
            let gpu = it.add(&format!("gpu{index}"), NodeKind::Gpu, &[("sm", "61")]);
            it.join(gpu, cpus[cpu], spec(LinkClass::Pcie, 12.0));
        }
        for (index, cpu) in [0, 0, 1, 1].into_iter().enumerate() {
            let nic = it.add(&format!("nic{index}"), NodeKind::Nic, &[("gdr", "0")]);
            it.join(nic, cpus[cpu], spec(LinkClass::Pcie, 12.0));
            it.join(nic, leaf, spec(LinkClass::Ethernet, 1.25));
        }
    }
    let model = model(&builder.build().unwrap());
    assert_eq!(short(&model.graph_lines()[0]), "nChannels 4, bw 1.2/1.2, type SYS/SYS");
    let channels = &model.distinct_graphs()[0].ring.channels;
    assert_eq!(channels[0], Channel { gpus: vec![0, 1, 2, 3], nets: Some((0, 0)) });
    assert!(channels.iter().all(|it| it.nets.is_some_and(|it| it.0 == it.1)));
}

/// Two GPUs of an NVSwitch box, each with a NIC at its own switch.
fn two_gpus_two_nics() -> Network {
    let mut builder = NetworkBuilder::new("1189");
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    for server in ["a", "b"] {
        let mut it = Box { builder: &mut builder, server: server.to_owned() };
        let cpu = it.add("cpu", NodeKind::Cpu, &INTEL);
        let nvs = it.add("nvs", NodeKind::NvSwitch, &[]);
        for index in 0..2 {
            let switch = it.add(&format!("pcie{index}"), NodeKind::PcieSwitch, &[]);
            let gpu = it.add(&format!("gpu{index}"), NodeKind::Gpu, &[("sm", "90")]);
            let nic = it.add(&format!("nic{index}"), NodeKind::Nic, &[]);
            it.join(switch, cpu, spec(LinkClass::Pcie, 48.0));
            it.join(gpu, switch, spec(LinkClass::Pcie, 48.0));
            it.join(nic, switch, spec(LinkClass::Pcie, 48.0));
            it.join(gpu, nvs, spec(LinkClass::NvLink, 450.0).with_lanes(18));
            it.join(nic, leaf, spec(LinkClass::InfiniBand, 50.0));
        }
    }
    builder.build().unwrap()
}

/// NVIDIA/nccl issue 1189, two H20 with NCCL_CROSS_NIC=1 and NCCL_PXN_DISABLE=1: "crossNic 1,
/// nChannels 4, bw 24/24, type NVL/PIX, sameChannels 0", in by one NIC and out by the other.
#[test]
fn crossing_between_two_nics() {
    let options =
        NcclOptions { cross_nic: CrossNic::Always, no_pxn: true, ..NcclOptions::default() };
    let model = NcclModel::new(&two_gpus_two_nics(), options).unwrap();
    let line = &model.graph_lines()[0];
    assert_eq!(
        line,
        "Pattern 4, crossNic 1, nChannels 4, bw 24.000000/24.000000, type NVL/PIX, sameChannels 0"
    );
    let channels = &model.distinct_graphs()[0].ring.channels;
    let (there, back) = (
        Channel { gpus: vec![0, 1], nets: Some((0, 1)) },
        Channel { gpus: vec![1, 0], nets: Some((1, 0)) },
    );
    assert_eq!(*channels, [there.clone(), back.clone(), there, back]);
}

fn sample(name: &str) -> Option<motet_net::formats::ReadNetwork> {
    let text = motet_testdata::sample(&format!("nccl-topo/{name}"))?;
    Some(nccl_xml::read(&text).unwrap())
}

/// Azure's graph file for NC A100 v4, which replaces the search: two rings in opposite directions.
#[test]
fn graphs_from_a_dump() {
    let (Some(topology), Some(graphs)) = (sample("ncv4-topo.xml"), sample("ncv4-graph.xml")) else {
        return;
    };
    let dump = graphs.graphs.unwrap();
    let model = NcclModel::with_graphs(&topology.network, &dump, NcclOptions::default()).unwrap();
    let comm = model.communicator();
    assert_eq!((comm.ring.channels, comm.channels), (2, 4));
    assert_eq!((comm.ring.type_intra, comm.ring.intra), (PathKind::Sys, 12.0));
    assert!(!comm.ring.same_channels && comm.cpu.is_amd());
    let rings: Vec<Vec<u32>> =
        (0..4).map(|it| model.channels().ring(it).iter().map(|it| it.0).collect()).collect();
    assert_eq!(rings, [[0, 1, 2, 3], [0, 3, 2, 1], [0, 1, 2, 3], [0, 3, 2, 1]]);
}

/// PCIe only: what the search finds by itself on the same box is one ring through the CPUs.
#[test]
fn pcie_only() {
    let Some(topology) = sample("ncv4-topo.xml") else { return };
    let found = model(&topology.network).graph_lines();
    assert_eq!(short(&found[0]), "nChannels 1, bw 12/12, type SYS/PIX");
}

#[test]
fn samples_get_an_answer() {
    let Some(folder) = motet_testdata::samples("nccl-topo") else { return };
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        // NVIDIA's files, and enough of AMD's: their meshes take the search its whole budget.
        if name.starts_with("rccl") && !name.ends_with("_1.xml") {
            continue;
        }
        if let Some(read) = sample(&name).filter(|it| it.graphs.is_none()) {
            let model = model(&read.network);
            assert!(model.communicator().channels > 0, "{name}");
            assert_eq!(model.channels().ring(0).len(), read.network.ranks().len(), "{name}");
        }
    }
}
