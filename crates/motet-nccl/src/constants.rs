//! The constants of NCCL's cost model, by version. Latencies are microseconds, bandwidths GB/s
//! (10⁹ bytes), as NCCL writes them.
//!
//! Source of every figure: `src/graph/tuning.cc` of NVIDIA/nccl at tags v2.28.9-1 and v2.30.7-1
//! (the tuner constants), `src/graph/search.cc` (the speeds), `src/graph/topo.h` (link
//! bandwidths). Between these two versions only Blackwell differs: its per-channel limits for
//! LL128 rings and NVLS trees, and three more speeds in the search. 2.32 has 2.30's constants in
//! other formulas ([`NcclVersion::is_rewritten`]). docs/nccl-model.md says what the terms mean and
//! how sure we are of them.

use super::kinds::{Algorithm, Protocol};

/// A version of NCCL whose model is known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NcclVersion {
    /// 2.28.9. 2.29.7 has the same constants but for 2.30's LL128 limit of Blackwell rings.
    V2_28,
    /// 2.30.7.
    #[default]
    V2_30,
    /// 2.31 and 2.32, by the source of the development branch (2.31.0): the releases themselves are
    /// published as binaries only, so what we read may differ from what they do.
    V2_32,
}

impl NcclVersion {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_28 => "2.28",
            Self::V2_30 => "2.30",
            Self::V2_32 => "2.32",
        }
    }

    /// Whether NCCL's cost model is the one of `src/tuning`, which replaced `src/graph/tuning.cc`
    /// after 2.30. The constants are the same; the formulas differ in six places, all in
    /// [`tuning`](super::tuning).
    #[must_use]
    pub const fn is_rewritten(self) -> bool {
        matches!(self, Self::V2_32)
    }

    #[must_use]
    pub const fn constants(self) -> &'static Constants {
        match self {
            Self::V2_28 => &const { V2_28 },
            Self::V2_30 | Self::V2_32 => &const { V2_30 },
        }
    }
}

/// GPU generations with rows of their own in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// And everything before it.
    Volta,
    Ampere,
    Hopper,
    /// And everything after it.
    Blackwell,
}

impl Generation {
    /// Of a compute capability: 80 is 8.0.
    #[must_use]
    pub const fn of(sm: u32) -> Self {
        match sm {
            0..=79 => Self::Volta,
            80..=89 => Self::Ampere,
            90..=99 => Self::Hopper,
            _ => Self::Blackwell,
        }
    }
}

/// The hardware that one step of an algorithm goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hardware {
    NvLink,
    Pci,
    Net,
}

/// One value per protocol.
pub type PerProtocol = [f64; Protocol::COUNT];
/// One value per algorithm and protocol.
pub type PerAlgorithm = [PerProtocol; Algorithm::COUNT];
/// One value per generation and number of servers: 1, 2, more.
pub type PerScale = [[f64; 3]; 4];

/// The constants of one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// The latency of a collective before its first step, in µs.
    pub base_latency: PerAlgorithm,
    /// The latency of a step over each [`Hardware`], in µs.
    pub hardware_latency: [PerAlgorithm; 3],
    /// The most that LL reaches over all channels. On one server the row is the GPU's
    /// generation; on more it is the CPU's vendor: row 1 for AMD or mixed, row 0 otherwise.
    pub ll_max_bandwidth: PerScale,
    /// The most that one channel reaches: rings and trees under LL128, trees, NVLS trees.
    pub ring_ll128_max: PerScale,
    pub tree_ll128_max: PerScale,
    pub tree_max: PerScale,
    pub nvls_tree_max: PerScale,
    /// The share of NVLink bandwidth that NVLS reaches, per generation.
    pub nvls_efficiency: [f64; 4],
    /// A channel is not started for less traffic than this (`MinTrafficPerChannel` of enqueue.cc; 16 KiB from
    /// 2.24 to 2.28).
    pub least_traffic: u64,
    /// How many collectives fit into one batch of a kernel's work: trees pay the latency of an
    /// aggregated call once per batch. (1024 bytes over the size of the work description.)
    pub colls_per_batch: u32,
    /// Speeds per channel that the graph search tries inside and between servers.
    pub speeds: Speeds,
}

/// Speeds per channel in MB/s, highest first: inside a server, between servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Speeds {
    pub older: [&'static [i64]; 2],
    pub hopper: [&'static [i64]; 2],
    pub blackwell: [&'static [i64]; 2],
}

impl Speeds {
    #[must_use]
    pub const fn of(&self, sm: u32, between_servers: bool) -> &'static [i64] {
        let of_generation = match Generation::of(sm) {
            Generation::Volta | Generation::Ampere => &self.older,
            Generation::Hopper => &self.hopper,
            Generation::Blackwell => &self.blackwell,
        };
        of_generation[between_servers as usize]
    }
}

const NONE: PerProtocol = [0.0; 3];

const fn simple(latency: f64) -> PerProtocol {
    [0.0, 0.0, latency]
}

const V2_30: Constants = Constants {
    // Order: Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT.
    base_latency: [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4], NONE, NONE, NONE, NONE, [8.0, 8.0, 8.0]],
    hardware_latency: [
        [
            [0.6, 1.25, 4.0],
            [0.6, 1.9, 3.4],
            simple(3.7),
            simple(2.8),
            simple(25.0),
            simple(25.0),
            simple(4.0),
        ],
        [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7], simple(3.7), simple(2.8), NONE, NONE, simple(4.0)],
        [
            [5.0, 8.5, 14.0],
            [2.7, 4.0, 14.0],
            simple(31.0),
            simple(30.0),
            simple(18.0),
            simple(20.9),
            simple(14.0),
        ],
    ],
    ll_max_bandwidth: [
        [39.0, 39.0, 20.4],
        [87.7, 22.5, 19.0],
        [141.0, 45.0, 35.0],
        [282.0, 90.0, 70.0],
    ],
    ring_ll128_max: [[20.0; 3], [20.0; 3], [36.7; 3], [40.0; 3]],
    tree_ll128_max: [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]],
    tree_max: [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]],
    nvls_tree_max: [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [0.0, 57.7, 45.5], [0.0, 96.0, 80.0]],
    nvls_efficiency: [0.0, 0.0, 0.85, 0.74],
    least_traffic: 32 << 10,
    colls_per_batch: 8,
    speeds: Speeds {
        older: [OLDER_INSIDE, OLDER_BETWEEN],
        hopper: [HOPPER_INSIDE, HOPPER_BETWEEN],
        blackwell: [
            &[
                90_000, 80_000, 70_000, 60_000, 50_000, 45_000, 40_000, 30_000, 24_000, 20_000,
                19_000, 18_000,
            ],
            &[
                96_000, 86_000, 80_000, 48_000, 45_100, 42_000, 40_000, 30_000, 24_000, 22_000,
                20_000, 17_500, 15_000, 12_000, 6_000, 3_000, 2_400, 1_200, 240, 120,
            ],
        ],
    },
};

const V2_28: Constants = Constants {
    ring_ll128_max: [[20.0; 3], [20.0; 3], [36.7; 3], [73.4, 34.6, 73.4]],
    nvls_tree_max: [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [0.0, 57.7, 45.5], [0.0, 96.0, 43.8]],
    least_traffic: 16 << 10,
    colls_per_batch: 10,
    speeds: Speeds {
        older: [OLDER_INSIDE, OLDER_BETWEEN],
        hopper: [HOPPER_INSIDE, HOPPER_BETWEEN],
        blackwell: [
            &[
                90_000, 80_000, 70_000, 60_000, 50_000, 40_000, 30_000, 24_000, 20_000, 19_000,
                18_000,
            ],
            &[
                96_000, 48_000, 45_100, 42_000, 40_000, 30_000, 24_000, 22_000, 20_000, 17_500,
                15_000, 12_000, 6_000, 3_000, 2_400, 1_200, 240, 120,
            ],
        ],
    },
    ..V2_30
};

/// Speeds inside and between servers, before Hopper.
const OLDER_INSIDE: &[i64] = &[
    40_000, 30_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000, 5_000, 4_000,
    3_000,
];
const OLDER_BETWEEN: &[i64] = &[
    48_000, 30_000, 28_000, 24_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000,
    5_000, 4_000, 3_000, 2_400, 1_200, 240, 120,
];
const HOPPER_INSIDE: &[i64] =
    &[60_000, 50_000, 40_000, 30_000, 24_000, 20_000, 15_000, 12_000, 11_000, 6_000, 3_000];
const HOPPER_BETWEEN: &[i64] = &[
    48_000, 45_000, 42_000, 40_000, 30_000, 24_000, 22_000, 20_000, 17_500, 15_000, 12_000, 6_000,
    3_000, 2_400, 1_200, 240, 120,
];

/// Trees do not keep to the model at medium sizes; their bandwidth is corrected by these factors
/// for sizes from 64 bytes by powers of two.
pub const TREE_CORRECTION: [[f64; 24]; Protocol::COUNT] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ],
];

/// One NVLink of a GPU of compute capability `sm`, in MB/s. Only 8.6 has the slower ones.
#[must_use]
pub const fn nvlink_mbps(sm: u32) -> i64 {
    match sm {
        100.. => 40_100,
        90..=99 => 20_600,
        86 => 12_000,
        60..=69 => 18_000,
        _ => 20_000,
    }
}

/// The bandwidth that NCCL gives the path from a device to itself.
pub const LOCAL_MBPS: i64 = 5_000_000;
/// 16 lanes of PCIe 3: what NCCL assumes where it does not know.
pub const PCI_MBPS: i64 = 12_000;
/// A network interface whose speed nobody knows: NCCL's sockets then say 10 Gbit/s.
pub const UNKNOWN_NET_MBPS: i64 = 1_250;
/// The most channels of a communicator; the search finds at most half of it.
pub const MAX_CHANNELS: usize = 64;
/// The most GPUs of one server that may head NVLS channels, and that CollNet takes.
pub const NVLS_ARITY: usize = 32;
pub const COLLNET_ARITY: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_only_on_blackwell() {
        let (old, new) = (NcclVersion::V2_28.constants(), NcclVersion::V2_30.constants());
        assert_eq!(old.ring_ll128_max[..3], new.ring_ll128_max[..3]);
        assert_ne!(old.ring_ll128_max[3], new.ring_ll128_max[3]);
        assert_eq!(old.nvls_tree_max[..3], new.nvls_tree_max[..3]);
        assert_eq!(old.speeds.hopper, new.speeds.hopper);
        assert_ne!(old.speeds.blackwell, new.speeds.blackwell);
        assert_eq!(old.base_latency, new.base_latency);
        assert_eq!(old.hardware_latency, new.hardware_latency);
    }

    #[test]
    fn speeds_fall() {
        for version in [NcclVersion::V2_28, NcclVersion::V2_30] {
            for (sm, between) in
                [70, 80, 90, 100].into_iter().flat_map(|it| [(it, false), (it, true)])
            {
                let speeds = version.constants().speeds.of(sm, between);
                assert!(speeds.windows(2).all(|it| it[0] > it[1]), "{sm}");
            }
        }
    }

    #[test]
    fn generations() {
        assert_eq!(
            [70, 89, 90, 120].map(Generation::of),
            [Generation::Volta, Generation::Ampere, Generation::Hopper, Generation::Blackwell]
        );
    }
}
