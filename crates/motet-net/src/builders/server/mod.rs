//! Servers: boxes of GPUs with an inner fabric, NICs, and at full detail PCIe switches and CPUs.
//!
//! - [`models`]: what is in each box, and its speeds.
//! - [`boxes`]: how a model becomes nodes, links and open ports.
//! - [`nvl72`]: the rack-scale GB200 and GB300 systems, which are no boxes.
//! - [`from_file`]: servers from the topology file that NCCL writes on one of them.
//!
//! Three levels of detail:
//! - `flat`: GPUs and their fabric; each GPU has its share of the NICs as a port. This is how
//!   the synthesis literature draws a cluster, and the default.
//! - `nics`: also a node for each NIC.
//! - `full`: also PCIe switches and CPUs.

mod boxes;
mod from_file;
mod models;
mod nvl72;

use super::assembly::{Assembly, Place};
use super::find;
use super::template::{AUTO, Args, Param, ParamKind, Params, Template, TemplateError};

pub(super) use from_file::SERVER_FILE;
pub(super) use models::{
    DGX_1, DGX_2, DGX_A100, DGX_B200, DGX_H100, DGX_H200, GH200, MI250, MI300X, NDV2, V100_X4,
};
pub(super) use nvl72::{GB200_NVL72, GB300_NVL72};

const COUNT: Param = Param::count("count", (1, 65_536), "1", "how many servers");
const DETAIL: Param = Param::new(
    "detail",
    ParamKind::Choice(&["flat", "nics", "full"]),
    "flat",
    "flat: GPUs and their fabric; nics: also NICs; full: also PCIe switches and CPUs",
);
const FABRIC: Param = Param::new(
    "fabric",
    ParamKind::Choice(&["none", "switch", "direct", "rail", "rail-optical"]),
    AUTO,
    "what joins all ports that are open after these servers; auto: a following fabric table, or \
     one switch if nothing else joins them; none: leave them open",
);
const RACK: Param = Param::new("rack", ParamKind::Text, "", "the rack the servers stand in");
const NAME: Param = Param::new(
    "name",
    ParamKind::Text,
    "s",
    "servers are called this and a number: s0, s1; their nodes s0-gpu0, s0-nic0",
);
/// A wire, a switch and a wire take 1.6 µs with this, and PCIe on both ends makes the 2.6 µs
/// from GPU to GPU over the network of TACCL's example topologies.
const NIC_LATENCY: Param =
    Param::new("nic-latency", ParamKind::Latency, "800 ns", "from a NIC to the first switch");
/// Two of these from GPU to NIC, by way of a PCIe switch.
const PCIE_LATENCY: Param = Param::new(
    "pcie-latency",
    ParamKind::Latency,
    "250 ns",
    "of each PCIe link, and between CPU sockets; a flat port has two of them before its NIC",
);

/// Servers for a fabric that has none to join: flat DGX H100s.
pub(super) fn add_plain(
    assembly: &mut Assembly<'_>,
    place: &Place,
    count: usize,
) -> Result<(), TemplateError> {
    let mut params = Params::new();
    params.set("count", count.to_string());
    params.set("name", format!("{}s", place.prefix));
    params.set("dc", place.dc.clone().unwrap_or_default());
    assembly.add(&DGX_H100, &params)
}

/// Does what the parameter `fabric` asks for.
fn join(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    if args.is_auto("fabric") {
        return Ok(());
    }
    let fabric = args.text("fabric")?;
    if fabric == "none" {
        assembly.leave_ports_open();
        return Ok(());
    }
    let template: &Template = find(&fabric)?;
    let mut params = Params::new();
    params.set("dc", args.text("dc")?);
    assembly.add(template, &params)
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, fails, reference, same_profile};
    use crate::in_network::InNetwork;
    use crate::link::LinkClass;
    use crate::node::NodeKind;

    #[test]
    fn flat_boxes() {
        let net = build("dgx-a100", &[]);
        assert_eq!((net.nodes().len(), net.links().len()), (9, 16));
        let link = net.links()[0].spec;
        assert_eq!((link.bandwidth.to_string().as_str(), link.lanes), ("300 GB/s", 12));
        assert_eq!(link.class, LinkClass::NvLink);
        assert_eq!(build("dgx-h100", &[]).links()[0].spec.bandwidth.to_string(), "450 GB/s");
        assert_eq!(build("dgx-2", &[]).count(NodeKind::Gpu), 16);
        assert_eq!(build("dgx-b200", &[]).links()[0].spec.bandwidth.to_string(), "900 GB/s");
    }

    /// Seven links of 64 GB/s from each MI300X; 150 GB/s between any two of four GH200s, each of
    /// which has a CPU of its own.
    #[test]
    fn boxes_wired_all_to_all() {
        let net = build("mi300x", &[]);
        assert_eq!((net.nodes().len(), net.links().len()), (8, 8 * 7));
        assert!(net.links().iter().all(|it| it.spec.bandwidth.to_string() == "64 GB/s"));
        let net = build("gh200", &["detail=full"]);
        assert_eq!((net.count(NodeKind::Cpu), net.count(NodeKind::Nic)), (4, 4));
        let gpu = net.find("s0-gpu2").unwrap();
        let rate = |class| {
            let links = net.outgoing(gpu).iter().map(|it| net.link(*it).spec);
            let rates = links.filter(|it| it.class == class).map(|it| it.bandwidth.to_string());
            rates.collect::<Vec<_>>()
        };
        assert_eq!(rate(LinkClass::NvLink), ["150 GB/s"; 3]);
        assert_eq!(rate(LinkClass::C2c), ["450 GB/s"]);
        assert_eq!(rate(LinkClass::Pcie), [""; 0]);
        let one = build("gh200", &["gpus=1", "count=2", "detail=full"]);
        assert_eq!((one.count(NodeKind::Gpu), one.count(NodeKind::Cpu)), (2, 2));
        assert!(crate::builders::testing::is_connected(&one));
    }

    /// Half of the GPUs of a box come with half of its NICs, unless the user says otherwise.
    #[test]
    fn nics_follow_the_gpus() {
        let half = build("dgx-a100", &["gpus=4", "detail=nics"]);
        assert_eq!((half.count(NodeKind::Gpu), half.count(NodeKind::Nic)), (4, 4));
        let error = fails("dgx-a100", &["gpus=6", "nics=4"]);
        assert_eq!(error.remedy.as_deref(), Some("try `nics=3`"));
    }

    /// Each of four V100s has 150 GB/s each way, and shares a PCIe switch with a NIC and a GPU.
    #[test]
    fn four_v100s_and_part_of_a_box() {
        let net = build("v100-x4", &["detail=full", "count=3"]);
        assert_eq!((net.count(NodeKind::Gpu), net.count(NodeKind::Nic)), (12, 6));
        let gpu = net.find("s2-gpu1").unwrap();
        let nvlink = net.outgoing(gpu).iter().map(|it| net.link(*it).spec);
        let rates = nvlink.filter(|it| it.class == LinkClass::NvLink).map(|it| it.bandwidth);
        assert_eq!(rates.map(|it| it.to_string()).collect::<Vec<_>>(), ["50 GB/s"; 3]);
        let half = build("dgx-a100", &["gpus=4", "nics=4", "detail=full"]);
        assert_eq!((half.count(NodeKind::Gpu), half.count(NodeKind::PcieSwitch)), (4, 4));
        assert!(fails("dgx-a100", &["gpus=4", "nics=8"]).problem.contains("divide the 4 GPUs"));
    }

    #[test]
    fn full_boxes() {
        let net = build("dgx-a100", &["detail=full", "count=2"]);
        let one = [
            (NodeKind::Gpu, 8),
            (NodeKind::NvSwitch, 1),
            (NodeKind::Nic, 8),
            (NodeKind::PcieSwitch, 4),
            (NodeKind::Cpu, 2),
        ];
        for (kind, count) in one {
            assert_eq!(net.count(kind), 2 * count, "{kind}");
        }
        // NVLink, GPU and NIC to PCIe switch, switch to CPU, between CPUs, NIC to the one leaf.
        assert_eq!(net.links().len(), 2 * 2 * (8 + 8 + 8 + 4 + 1 + 8));
        let nic = net.find("s1-nic7").unwrap();
        let ends: Vec<&str> =
            net.outgoing(nic).iter().map(|it| net.node(net.link(*it).to).name.as_str()).collect();
        assert_eq!(ends, ["s1-pcie3", "leaf0"]);
    }

    /// 0.3 µs from GPU to GPU by NVSwitch, 2.6 µs over the network, at every detail.
    #[test]
    fn latencies_are_those_of_taccl() {
        let routes: [(&str, &[&str]); 3] = [
            ("flat", &["s0-gpu0", "leaf0", "s1-gpu0"]),
            ("nics", &["s0-gpu0", "s0-nic0", "leaf0", "s1-nic0", "s1-gpu0"]),
            (
                "full",
                &["s0-gpu0", "s0-pcie0", "s0-nic0", "leaf0", "s1-nic0", "s1-pcie0", "s1-gpu0"],
            ),
        ];
        for (detail, route) in routes {
            let net = build("dgx-a100", &["count=2", &format!("detail={detail}")]);
            let along = |route: &[&str]| -> u64 {
                let hop = |pair: &[&str]| {
                    let (from, to) = (net.find(pair[0]).unwrap(), net.find(pair[1]).unwrap());
                    let links = net.outgoing(from).iter().map(|it| net.link(*it));
                    links.filter(|it| it.to == to).map(|it| it.spec.latency.as_ps()).sum::<u64>()
                };
                route.windows(2).map(hop).sum()
            };
            assert_eq!(along(route), 2_600_000, "{detail}");
            assert_eq!(along(&["s0-gpu0", "s0-nvswitch", "s0-gpu7"]), 300_000);
        }
    }

    #[test]
    fn nvlink_switches_serve_programs_since_hopper() {
        let switch = |template: &str, words: &[&str]| {
            let net = build(template, words);
            let node = net.node(net.find("s0-nvswitch").unwrap());
            // By themselves they only forward.
            assert!(!node.multicast && !node.reduces);
            node.in_network
        };
        assert_eq!(switch("dgx-h100", &[]), InNetwork::NVLS);
        assert_eq!(switch("dgx-b200", &[]), InNetwork::NVLS);
        assert_eq!(switch("dgx-h200", &["nvls=false"]), InNetwork::NONE);
        assert_eq!(switch("dgx-a100", &[]), InNetwork::NONE);
        assert!(fails("dgx-1", &["nvls=true"]).problem.contains("no parameter `nvls`"));
    }

    #[test]
    fn rack_scale() {
        let net = build("gb200-nvl72", &[]);
        assert_eq!((net.nodes().len(), net.links().len()), (73, 144));
        let servers: std::collections::BTreeSet<_> =
            net.nodes().iter().filter_map(|it| it.location.server.clone()).collect();
        assert_eq!(servers.len(), 18);
        let net = build("gb200-nvl72", &["detail=full", "trays=9"]);
        assert_eq!(net.count(NodeKind::Cpu), 18);
        assert_eq!(net.count(NodeKind::Nic), 36);
        assert_eq!(net.links().len(), 2 * (36 + 36 + 36 + 9));
    }

    #[test]
    fn as_the_literature_draws_them() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("dgx1", "dgx-1", &[]),
            ("dgx-a100-x1", "dgx-a100", &[]),
            ("mi250-x1", "mi250", &[]),
            ("mi250-x2", "mi250", &["count=2", "nic=32 GB/s"]),
            ("mi250-x4", "mi250", &["count=4", "nic=32 GB/s"]),
            ("ndv2-x2", "ndv2", &["count=2", "fabric=direct"]),
            ("ndv2-x4", "ndv2", &["count=4"]),
            ("dgx2-x2", "dgx-2", &["count=2", "fabric=direct", "nvlink=125 GB/s"]),
        ];
        for (file, kind, words) in cases {
            let reference = reference(file);
            same_profile(&build(kind, words), &reference);
        }
    }

    #[test]
    fn says_what_does_not_fit() {
        assert!(fails("dgx-a100", &["nics=3"]).problem.contains("divide"));
        let error = fails("dgx-a100", &["attach=relay"]);
        assert!(error.problem.contains("at least two GPUs"), "{error}");
        let error = fails("dgx-a100", &["count=65536", "detail=full"]);
        assert!(error.problem.contains("at most"), "{error}");
    }
}
