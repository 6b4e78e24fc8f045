//! Every public sample file, read and counted. The expected counts were taken with grep and a
//! separate XML parser, not with the readers here.

use motet_units::Bytes;

use super::*;
use crate::{LinkClass, Network, NodeKind};

/// The text of a sample, or `None` with a message where the samples are missing.
fn sample(path: &str) -> Option<String> {
    motet_testdata::sample(path)
}

fn no_files(_: &str) -> Result<String, String> {
    Err("no files here".to_owned())
}

fn read_sample(path: &str) -> Option<ReadNetwork> {
    let text = sample(path)?;
    let name = path.rsplit('/').next();
    let read = read_any(&text, name, &ReadOptions::default(), &no_files);
    Some(read.unwrap_or_else(|it| panic!("{path}: {it}")))
}

/// GPU-to-GPU connections and their lanes.
fn gpu_links(network: &Network) -> (usize, u32) {
    let fast = |it: &&crate::Link| matches!(it.spec.class, LinkClass::NvLink | LinkClass::Xgmi);
    let links: Vec<_> = network.links().iter().filter(fast).collect();
    (links.len() / 2, links.iter().map(|it| it.spec.lanes).sum::<u32>() / 2)
}

/// File, GPUs, NICs, CPUs, PCIe switches, GPU connections, lanes.
type NcclRow = (&'static str, usize, usize, usize, usize, usize, u32);

const NCCL: [NcclRow; 32] = [
    // Its NVLinks lead each GPU back to itself, a mistake in the file, and are left out.
    ("ncv4-topo", 4, 1, 4, 0, 0, 0),
    ("ndv2-topo", 8, 1, 2, 0, 0, 0),
    ("ndv4-topo", 8, 8, 4, 4, 0, 0),
    ("p4d-24xl-topo", 8, 4, 2, 4, 0, 0),
    ("rccl_topo_16p1h_vm", 16, 8, 4, 0, 28, 56),
    ("rccl_topo_3p_pcie_1", 3, 1, 2, 3, 0, 0),
    ("rccl_topo_4p1h_1", 4, 2, 2, 4, 4, 4),
    ("rccl_topo_4p2h_1", 8, 1, 1, 10, 8, 8),
    ("rccl_topo_4p3l", 4, 2, 1, 6, 6, 6),
    ("rccl_topo_4p3l_ia", 8, 1, 1, 10, 12, 12),
    ("rccl_topo_4p3l_n2_1", 8, 1, 4, 8, 12, 12),
    ("rccl_topo_4p4h", 16, 16, 1, 20, 24, 24),
    ("rccl_topo_8p1h", 8, 4, 2, 14, 12, 26),
    ("rccl_topo_8p1h_2", 8, 2, 4, 1, 12, 26),
    ("rccl_topo_8p1h_4", 8, 8, 2, 22, 12, 26),
    ("rccl_topo_8p1h_n1", 8, 4, 2, 14, 12, 26),
    ("rccl_topo_8p6l_1nic", 8, 1, 2, 8, 24, 24),
    ("rccl_topo_8p6l_3nic", 8, 3, 2, 8, 24, 24),
    ("rccl_topo_8p6l_5nic", 8, 5, 2, 8, 24, 24),
    ("rccl_topo_8p_4nics", 8, 4, 4, 20, 12, 12),
    ("rccl_topo_8p_90a_1", 8, 1, 3, 0, 12, 12),
    ("rccl_topo_8p_940vm", 8, 8, 2, 0, 28, 28),
    ("rccl_topo_8p_pcie_1", 8, 1, 1, 10, 0, 0),
    ("rccl_topo_8p_rome", 8, 1, 2, 8, 8, 8),
    ("rccl_topo_8p_rome_4n_2", 8, 4, 4, 20, 12, 12),
    ("rccl_topo_8p_rome_n2", 8, 1, 4, 8, 8, 8),
    // 8 bridges and one card with two ports.
    ("rccl_topo_8p_rome_n2_2", 8, 2, 4, 9, 8, 8),
    ("rccl_topo_8p_rome_n4_1", 8, 1, 7, 8, 12, 12),
    ("rccl_topo_8p_rome_vm1", 8, 1, 4, 0, 12, 12),
    ("rccl_topo_8p_ts1_1", 8, 2, 4, 8, 8, 8),
    ("rccl_topo_8p_ts1_n4_1", 8, 2, 8, 8, 8, 8),
    ("rccl_topo_collnet_n1", 8, 1, 4, 8, 12, 12),
];

#[test]
fn nccl_topologies() {
    for (file, gpus, nics, cpus, switches, connections, lanes) in NCCL {
        let Some(read) = read_sample(&format!("nccl-topo/{file}.xml")) else { return };
        let network = &read.network;
        assert_eq!(read.format, NetworkFormat::NcclTopology);
        let counts = [NodeKind::Gpu, NodeKind::Nic, NodeKind::Cpu, NodeKind::PcieSwitch];
        assert_eq!(counts.map(|it| network.count(it)), [gpus, nics, cpus, switches], "{file}");
        assert_eq!(network.nodes().len(), gpus + nics + cpus + switches, "{file}");
        assert_eq!(gpu_links(network), (connections, lanes), "{file}");
        // Every device but the CPUs hangs on one PCIe link, except interfaces that several
        // CPUs list; CPUs are joined pairwise.
        let pcie = network.links().iter().filter(|it| it.spec.class == LinkClass::Pcie).count();
        assert!(pcie / 2 >= gpus + nics + switches, "{file}: {pcie}");
        let smp = network.links().iter().filter(|it| it.spec.class == LinkClass::Smp).count();
        assert_eq!(smp, cpus * (cpus - 1), "{file}");
        assert!(network.links().iter().all(|it| it.reverse.is_some()), "{file}");
    }
}

#[test]
fn every_rank_of_a_topology_reaches_every_other() {
    for (file, gpus, ..) in NCCL {
        let Some(read) = read_sample(&format!("nccl-topo/{file}.xml")) else { return };
        let mix = crate::TierMix::of(&read.network, read.network.ranks());
        assert_eq!((mix.unreachable, read.network.ranks().len()), (0, gpus), "{file}");
    }
}

#[test]
fn an_nccl_graph_dump() {
    let Some(read) = read_sample("nccl-topo/ncv4-graph.xml") else { return };
    assert_eq!(read.format, NetworkFormat::NcclGraph);
    let dump = read.graphs.unwrap();
    let channels: Vec<_> = dump.graphs.iter().map(|it| (it.name(), it.channels.len())).collect();
    assert_eq!(channels, [("ring", 2), ("tree", 4), ("collnet chain", 4)]);
    // One ring each way over four GPUs: four duplex links of one channel's 12 GB/s.
    assert_eq!((read.network.ranks().len(), read.network.links().len()), (4, 8));
    assert!(read.network.links().iter().all(|it| it.spec.bandwidth.as_gb_per_s_f64() == 12.0));
    assert!(read.notes[0].starts_with("an NCCL graph dump"), "{:?}", read.notes);
}

#[test]
fn wide_area_networks() {
    for (file, nodes, links) in [
        ("Abilene.gml", 11, 28),
        ("Abilene.graphml", 11, 28),
        ("Nsfnet.gml", 13, 30),
        ("Sprint.gml", 11, 36),
        ("Geant2012.graphml", 40, 122),
        ("B4.json", 12, 38),
    ] {
        let Some(read) = read_sample(&format!("wan/{file}")) else { return };
        let network = &read.network;
        assert_eq!((network.nodes().len(), network.links().len()), (nodes, links), "{file}");
        assert_eq!(network.count(NodeKind::Border), nodes, "{file}");
        assert!(network.links().iter().all(|it| it.reverse.is_some()), "{file}");
        let again = graphml::read(&graphml::write(network), &WanDefaults::default()).unwrap();
        assert_eq!(&again.network, network, "{file}");
    }
}

#[test]
fn gml_and_graphml_of_one_network_agree() {
    let Some(gml) = read_sample("wan/Abilene.gml") else { return };
    let Some(graphml) = read_sample("wan/Abilene.graphml") else { return };
    let ends = |read: &ReadNetwork| -> Vec<_> {
        let network = &read.network;
        let name = |it| network.node(it).name.clone();
        network.links().iter().map(|it| (name(it.from), name(it.to), it.spec)).collect()
    };
    assert_eq!(ends(&gml), ends(&graphml));
    // New York to Chicago: 1146 km at two thirds of the speed of light, on an OC-192c.
    let first = &gml.network.links()[0];
    assert_eq!(first.spec.latency.to_string(), "5.733 ms");
    assert_eq!(first.spec.bandwidth.bits_per_s(), 9_953_280_000);
}

#[test]
fn taccl_topologies_and_sketches() {
    // GPUs, NICs, links, and the bandwidth of the first link: chunk ÷ β.
    for (file, gpus, nics, links, first) in [
        ("dgx2-1MB", 16, 8, (16 + 16) * 2, 125_000_000_000),
        ("ndv2-1MB", 8, 1, (16 + 8) * 2, 43_478_260_870),
    ] {
        let Some(read) = read_sample(&format!("taccl/taccl_topo-{file}.json")) else { return };
        let network = &read.network;
        let count = |kind| network.count(kind);
        assert_eq!((count(NodeKind::Gpu), count(NodeKind::Nic)), (gpus, nics), "{file}");
        assert_eq!(network.links().len(), links, "{file}");
        let bytes = network.links()[0].spec.bandwidth.bits_per_s() / 8;
        assert!(bytes.abs_diff(first) <= 1, "{file}: {bytes}");
        assert_eq!(read.notes, [format!("costs are for chunks of {}", Bytes::new(1_000_000))]);
    }
    for sketch in ["sk1-dgx2-n2", "sk1-ndv2-n2", "sk2-dgx2-n2", "sk2-ndv2-n2"] {
        let Some(text) = sample(&format!("taccl/taccl_sketch_{sketch}.json")) else { return };
        let error = read_any(&text, None, &ReadOptions::default(), &no_files).unwrap_err();
        assert!(error.problem.contains("is a TACCL sketch"), "{sketch}: {error}");
    }
}

/// Every topology file of a server, three times on a leaf–spine fabric: all ranks, all NICs, and
/// one connected network if one server is. Files of providers that have only PCIe
/// name the template of the box.
#[test]
fn servers_from_every_topology_file() {
    for (file, gpus, nics, ..) in NCCL {
        let path = format!("nccl-topo/{file}.xml");
        let Some(xml) = sample(&path) else { return };
        let fetch = |_: &str| Ok(xml.clone());
        let text =
            "[[server]]\nfile = \"topo.xml\"\ncount = 3\n[[fabric]]\nkind = \"leaf-spine\"\n";
        let read = cluster_toml::read(text, &fetch).unwrap_or_else(|it| panic!("{path}: {it}"));
        let count = |kind| read.network.count(kind);
        assert_eq!((count(NodeKind::Gpu), count(NodeKind::Nic)), (3 * gpus, 3 * nics), "{path}");
        let alone = nccl_xml::read(&xml).unwrap().network;
        let parts = |it: &Network| crate::Summary::of(it).components;
        assert!(parts(&alone) > 1 || parts(&read.network) == 1, "{path}");
    }
    for (file, template) in
        [("ndv4-topo", "dgx-a100"), ("ndv2-topo", "ndv2"), ("p4d-24xl-topo", "dgx-a100")]
    {
        let Some(read) = read_sample(&format!("nccl-topo/{file}.xml")) else { return };
        let named = |it: &String| it.contains(&format!("a template such as `{template}`"));
        assert!(read.notes.iter().any(named), "{file}: {:?}", read.notes);
    }
}
