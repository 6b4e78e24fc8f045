//! The models of servers: how many of what, how it is wired, and how fast.
//!
//! Sources of the defaults, all of which are parameters (docs/cluster-file.md names them box by
//! box):
//! - NVLink: 25 GB/s a link and direction in generations 2 to 4 (V100 6 links, A100 12, H100, H200
//!   and GH200 18), 50 in generation 5 (B200 18), from NVIDIA's data sheets. The readers of files
//!   use the same figures ([`speeds`](crate::formats)).
//! - Infinity Fabric: links of 16 lanes at 25 GT/s on the MI250 and 32 GT/s on the MI300X (Linux,
//!   `amdgpu_xgmi_early_init`), so 50 and 64 GB/s a link and direction, as in AMD's data sheets.
//! - PCIe: what NCCL counts for 16 lanes: 12 GB/s in generation 3, 24 in 4, 48 in 5.
//! - Between sockets: NCCL's figures again: 6 GB/s Broadwell, 10 Skylake, 16 AMD, 22 Sapphire
//!   Rapids. Between Grace CPUs about 75 GB/s, as CSCS states for the nodes of Alps.
//! - NICs: the ones the box is sold with: 100 Gbit/s (DGX-1, DGX-2, NDv2), 200 (DGX A100,
//!   MI250, GH200), 400 (DGX H100, H200 and B200, MI300X).
//! - Latency: 0.3 µs from GPU to GPU inside a box, as in TACCL's example topologies, so half of
//!   it for each of the two links by way of an NVSwitch.

use super::boxes::build;
use super::{COUNT, DETAIL, FABRIC, NAME, NIC_LATENCY, PCIE_LATENCY, RACK};
use crate::builders::common::DC;
use crate::builders::template::{Family, Param, ParamKind, Template};

/// How the GPUs of a box are joined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inside {
    /// Each GPU to the NVSwitches, with so many lanes.
    Switch { lanes: u32 },
    /// GPU to GPU: (a, b, lanes, whether within one package).
    Wires(&'static [(u8, u8, u32, bool)]),
}

/// What is in a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) gpus: usize,
    pub(super) inside: Inside,
    /// How many PCIe switches stand between the GPUs and the CPUs. With none each GPU has a CPU of
    /// its own on the same module, which NVLink-C2C joins (a superchip).
    pub(super) pcie_switches: usize,
    pub(super) cpus: usize,
    /// Which of the GPUs that share a NIC sends for it and which receives, where `attach` is
    /// `relay`.
    pub(super) relay: (usize, usize),
    /// The parameter with the rate of the GPU links.
    pub(super) link: &'static str,
}

impl Model {
    /// The same box with only its first `gpus` GPUs; a superchip that stays out takes its CPU with
    /// it.
    pub(super) fn with_gpus(&self, gpus: usize) -> Self {
        let cpus = if self.pcie_switches == 0 { gpus } else { self.cpus };
        Self { gpus, cpus, ..*self }
    }

    /// The wires between GPUs that take part; none where GPUs are joined by switches.
    pub(super) fn wires(&self) -> impl Iterator<Item = &'static (u8, u8, u32, bool)> {
        let wires = match self.inside {
            Inside::Switch { .. } => &[],
            Inside::Wires(wires) => wires,
        };
        let gpus = self.gpus;
        wires.iter().filter(move |it| usize::from(it.0.max(it.1)) < gpus)
    }
}

/// A server template; `$extra` are parameters that only some models have.
macro_rules! server {
    ($const:ident, $name:literal, $doc:literal, $model:expr, attach = $attach:literal,
     nics = $nics:literal at $nic:literal, pcie = $pcie:literal, smp = $smp:literal,
     links = $links:expr $(, $extra:expr)*) => {
        pub(in super::super) const $const: Template = Template {
            name: $name,
            family: Family::Server,
            doc: $doc,
            params: &[
                COUNT,
                DETAIL,
                Param::new(
                    "attach",
                    ParamKind::Choice(&["share", "relay"]),
                    $attach,
                    "flat: each GPU has its share of its NIC, or one GPU sends and one receives for it",
                ),
                FABRIC,
                Param::count("nics", (0, 64), $nics, "how many NICs; must divide the GPUs"),
                Param::new("nic", ParamKind::Bandwidth, $nic, "the rate of each NIC"),
                NIC_LATENCY,
                $links[0],
                $links[1],
                Param::new("pcie", ParamKind::Bandwidth, $pcie, "the rate of each PCIe link"),
                PCIE_LATENCY,
                Param::new("smp", ParamKind::Bandwidth, $smp, "the rate between CPU sockets"),
                $($extra,)*
                RACK,
                NAME,
                DC,
            ],
            build: |assembly, args| build(assembly, args, &$model),
        };
    };
}

/// The parameters of GPUs joined by NVSwitches.
const fn switched(rate: &'static str) -> [Param; 2] {
    [
        Param::new("nvlink", ParamKind::Bandwidth, rate, "the rate of all NVLinks of a GPU"),
        Param::new(
            "nvlink-latency",
            ParamKind::Latency,
            "150 ns",
            "between a GPU and the NVSwitches: half of the way from GPU to GPU",
        ),
    ]
}

/// The parameters of GPUs joined to one another.
const fn wired(name: &'static str, rate: &'static str) -> [Param; 2] {
    [
        Param::new(name, ParamKind::Bandwidth, rate, "the rate of one lane between two GPUs"),
        Param::new("nvlink-latency", ParamKind::Latency, "300 ns", "between two GPUs"),
    ]
}

const NVLS: Param = Param::new(
    "nvls",
    ParamKind::Flag,
    "true",
    "whether programs may ask the NVSwitches to copy and reduce (NVLink SHARP)",
);

/// Some of the GPUs of a box: a job need not have all of them.
const GPUS: Param =
    Param::count("gpus", (1, 8), "8", "how many of the GPUs take part; NICs follow, if not given");

/// The same for a node of four superchips; with one it is a single superchip.
const SUPERCHIPS: Param = Param::count("gpus", (1, 4), "4", "how many superchips a node has");

const C2C: Param = Param::new(
    "c2c",
    ParamKind::Bandwidth,
    "450 GB/s",
    "the rate between a GPU and the CPU of its superchip, each way",
);

/// The hybrid cube mesh of eight V100s: two squares with diagonals, four edges between them.
const CUBE_MESH: Inside = Inside::Wires(&[
    (0, 1, 2, false),
    (0, 2, 1, false),
    (0, 3, 1, false),
    (0, 4, 2, false),
    (1, 2, 1, false),
    (1, 3, 2, false),
    (1, 5, 1, false),
    (2, 3, 2, false),
    (2, 6, 2, false),
    (3, 7, 1, false),
    (4, 5, 2, false),
    (4, 6, 1, false),
    (4, 7, 1, false),
    (5, 6, 1, false),
    (5, 7, 2, false),
    (6, 7, 2, false),
]);

/// Four V100s, each with two of its six NVLinks to every other.
const FOUR_V100: Inside = Inside::Wires(&[
    (0, 1, 2, false),
    (0, 2, 2, false),
    (0, 3, 2, false),
    (1, 2, 2, false),
    (1, 3, 2, false),
    (2, 3, 2, false),
]);

/// Four GH200, each with six of its 18 NVLinks to every other.
const FOUR_GH200: Inside = Inside::Wires(&[
    (0, 1, 6, false),
    (0, 2, 6, false),
    (0, 3, 6, false),
    (1, 2, 6, false),
    (1, 3, 6, false),
    (2, 3, 6, false),
]);

/// Eight MI300X, each with one of its seven Infinity Fabric links to every other.
const MI300X_MESH: Inside = Inside::Wires(&[
    (0, 1, 1, false),
    (0, 2, 1, false),
    (0, 3, 1, false),
    (0, 4, 1, false),
    (0, 5, 1, false),
    (0, 6, 1, false),
    (0, 7, 1, false),
    (1, 2, 1, false),
    (1, 3, 1, false),
    (1, 4, 1, false),
    (1, 5, 1, false),
    (1, 6, 1, false),
    (1, 7, 1, false),
    (2, 3, 1, false),
    (2, 4, 1, false),
    (2, 5, 1, false),
    (2, 6, 1, false),
    (2, 7, 1, false),
    (3, 4, 1, false),
    (3, 5, 1, false),
    (3, 6, 1, false),
    (3, 7, 1, false),
    (4, 5, 1, false),
    (4, 6, 1, false),
    (4, 7, 1, false),
    (5, 6, 1, false),
    (5, 7, 1, false),
    (6, 7, 1, false),
]);

/// Eight MI250 of two dies each: four lanes inside a package, one or two between packages.
const MI250_MESH: Inside = Inside::Wires(&[
    (0, 1, 4, true),
    (0, 4, 2, false),
    (0, 8, 1, false),
    (1, 5, 1, false),
    (1, 9, 1, false),
    (1, 10, 1, false),
    (2, 3, 4, true),
    (2, 6, 1, false),
    (2, 9, 1, false),
    (2, 10, 1, false),
    (3, 7, 2, false),
    (3, 11, 1, false),
    (4, 5, 4, true),
    (4, 6, 1, false),
    (5, 6, 1, false),
    (5, 7, 1, false),
    (6, 7, 4, true),
    (8, 9, 4, true),
    (8, 12, 2, false),
    (9, 13, 1, false),
    (10, 11, 4, true),
    (10, 14, 1, false),
    (11, 15, 2, false),
    (12, 13, 4, true),
    (12, 14, 1, false),
    (13, 14, 1, false),
    (13, 15, 1, false),
    (14, 15, 4, true),
]);

const V100_BOX: Model =
    Model { gpus: 8, inside: CUBE_MESH, pcie_switches: 4, cpus: 2, relay: (0, 1), link: "nvlink" };

const HGX: Model = Model {
    gpus: 8,
    inside: Inside::Switch { lanes: 18 },
    pcie_switches: 4,
    cpus: 2,
    relay: (0, 1),
    link: "nvlink",
};

server!(
    DGX_1, "dgx-1", "DGX-1: 8 V100 in a hybrid cube mesh, 4 NICs", V100_BOX,
    attach = "share", nics = "4" at "100 Gbit/s", pcie = "12 GB/s", smp = "6 GB/s",
    links = wired("nvlink", "25 GB/s")
);

// Servers of four SXM2 modules: two GPUs and a NIC behind a PCIe switch on each of two sockets.
server!(
    V100_X4, "v100-x4", "4 V100 SXM2, two NVLinks between any two, 2 NICs",
    Model { gpus: 4, inside: FOUR_V100, pcie_switches: 2, ..V100_BOX },
    attach = "share", nics = "2" at "100 Gbit/s", pcie = "12 GB/s", smp = "10 GB/s",
    links = wired("nvlink", "25 GB/s")
);

// The one NIC is shared by all eight GPUs; as in TACCL's sketch, GPU 0 sends and GPU 1 receives.
server!(
    NDV2, "ndv2", "Azure NDv2: 8 V100 wired as in a DGX-1, 1 NIC", V100_BOX,
    attach = "relay", nics = "1" at "100 Gbit/s", pcie = "12 GB/s", smp = "10 GB/s",
    links = wired("nvlink", "25 GB/s")
);

// Two GPUs share a NIC; as in TACCL's sketch, the odd one sends and the even one receives.
server!(
    DGX_2, "dgx-2", "DGX-2: 16 V100 on NVSwitches, 8 NICs",
    Model { gpus: 16, inside: Inside::Switch { lanes: 6 }, pcie_switches: 8, relay: (1, 0), ..HGX },
    attach = "relay", nics = "8" at "100 Gbit/s", pcie = "12 GB/s", smp = "10 GB/s",
    links = switched("150 GB/s")
);

server!(
    DGX_A100, "dgx-a100", "DGX A100: 8 A100 on NVSwitches, 8 NICs",
    Model { inside: Inside::Switch { lanes: 12 }, ..HGX },
    attach = "share", nics = "8" at "200 Gbit/s", pcie = "24 GB/s", smp = "16 GB/s",
    links = switched("300 GB/s"), GPUS
);

server!(
    DGX_H100, "dgx-h100", "DGX H100: 8 H100 on NVSwitches, 8 NICs", HGX,
    attach = "share", nics = "8" at "400 Gbit/s", pcie = "48 GB/s", smp = "22 GB/s",
    links = switched("450 GB/s"), NVLS
);

server!(
    DGX_H200, "dgx-h200", "DGX H200: 8 H200 on NVSwitches, 8 NICs", HGX,
    attach = "share", nics = "8" at "400 Gbit/s", pcie = "48 GB/s", smp = "22 GB/s",
    links = switched("450 GB/s"), NVLS
);

server!(
    MI250, "mi250", "8 MI250 of two dies each, 16 ranks on Infinity Fabric, 8 NICs",
    Model { gpus: 16, inside: MI250_MESH, link: "xgmi", ..HGX },
    attach = "share", nics = "8" at "200 Gbit/s", pcie = "24 GB/s", smp = "16 GB/s",
    links = wired("xgmi", "50 GB/s")
);

server!(
    DGX_B200, "dgx-b200", "DGX B200: 8 B200 on NVSwitches, 8 NICs", HGX,
    attach = "share", nics = "8" at "400 Gbit/s", pcie = "48 GB/s", smp = "40 GB/s",
    links = switched("900 GB/s"), NVLS
);

// As on Alps (CSCS's docs/alps/hardware.md has a schematic with every rate): the four GPUs of a node joined directly, a Grace CPU and a NIC for each.
server!(
    GH200, "gh200", "4 GH200 superchips, six NVLinks between any two, 4 NICs",
    Model { gpus: 4, inside: FOUR_GH200, pcie_switches: 0, cpus: 4, ..HGX },
    attach = "share", nics = "4" at "200 Gbit/s", pcie = "48 GB/s", smp = "75 GB/s",
    links = wired("nvlink", "25 GB/s"), SUPERCHIPS, C2C
);

server!(
    MI300X, "mi300x", "8 MI300X, each joined to every other by Infinity Fabric, 8 NICs",
    Model { gpus: 8, inside: MI300X_MESH, link: "xgmi", ..HGX },
    attach = "share", nics = "8" at "400 Gbit/s", pcie = "48 GB/s", smp = "16 GB/s",
    links = wired("xgmi", "64 GB/s"), GPUS
);
