//! [`NcclTerms`]: what the parts of an NCCL call cost on a machine.

use super::counts::Counts;
use crate::constants::Hardware;
use crate::descent;
use crate::kinds::{Algorithm, PathKind, Protocol};
use crate::model::NcclModel;

/// The terms of the model. Times are in microseconds, rates in GB/s (10⁹ bytes) on the wire: LL's flags
/// double what it sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NcclTerms {
    /// The fixed cost of a call, by protocol: enqueueing, launching the kernel, its first and last step.
    pub call: [f64; Protocol::COUNT],
    /// A hop between two GPUs of one node, by protocol.
    pub hop_inside: [f64; Protocol::COUNT],
    /// A hop between two nodes, by protocol: from GPU to GPU through both proxies.
    pub hop_between: [f64; Protocol::COUNT],
    /// The share of a hop between nodes that is work of the proxies: CPU threads that serve all channels of a rank
    /// one after the other. Messages beyond those of the chain's hops cost only this share.
    pub proxy: f64,
    /// The rate at which one channel's thread block moves data, by protocol.
    pub block: [f64; Protocol::COUNT],
    /// The rate at which a GPU sends to others of its node.
    pub inside: f64,
    /// The rate at which a node sends to other nodes.
    pub between: f64,
}

/// How many terms there are.
pub const TERMS: usize = 15;

/// Names and units, in a fixed order.
const NAMES: [(&str, &str); TERMS] = [
    ("call_ll", "µs"),
    ("call_ll128", "µs"),
    ("call_simple", "µs"),
    ("hop_inside_ll", "µs"),
    ("hop_inside_ll128", "µs"),
    ("hop_inside_simple", "µs"),
    ("hop_between_ll", "µs"),
    ("hop_between_ll128", "µs"),
    ("hop_between_simple", "µs"),
    ("proxy", "share"),
    ("block_ll", "GB/s"),
    ("block_ll128", "GB/s"),
    ("block_simple", "GB/s"),
    ("inside", "GB/s"),
    ("between", "GB/s"),
];

impl NcclTerms {
    /// NCCL's own constants for a communicator, in these terms. Here a fit begins, and terms that no measured call
    /// depends on stay here.
    #[must_use]
    pub fn believed(model: &NcclModel) -> Self {
        let (constants, comm) = (model.options().version.constants(), model.communicator());
        let ring = |table: &crate::constants::PerAlgorithm| table[Algorithm::Ring.index()];
        let near =
            if comm.ring.type_intra == PathKind::NvLink { Hardware::NvLink } else { Hardware::Pci };
        let (generation, scale) = (comm.generation(), comm.scale());
        let plain = constants.tree_max[generation][scale];
        let channels = comm.ring.channels.max(1) as f64;
        Self {
            call: ring(&constants.base_latency),
            hop_inside: ring(&constants.hardware_latency[near as usize]),
            hop_between: constants.hardware_latency[Hardware::Net as usize]
                [Algorithm::Tree.index()],
            proxy: 0.1,
            block: [plain, constants.ring_ll128_max[generation][scale], plain],
            // One GPU in a node sends nothing inside it, and its speed says nothing.
            inside: (channels * comm.ring.intra).max(20.0),
            between: (channels * comm.ring.inter).max(0.1),
        }
    }

    /// Names, units and values, in a fixed order.
    #[must_use]
    pub fn list(&self) -> [(&'static str, &'static str, f64); TERMS] {
        let values = self.values();
        std::array::from_fn(|it| (NAMES[it].0, NAMES[it].1, values[it]))
    }

    /// The names, in the order of [`list`](Self::list).
    #[must_use]
    pub fn names() -> [&'static str; TERMS] {
        NAMES.map(|it| it.0)
    }

    /// The values, in the order of [`list`](Self::list).
    #[must_use]
    pub const fn values(&self) -> [f64; TERMS] {
        let Self { call: c, hop_inside: i, hop_between: n, block: b, .. } = *self;
        let (proxy, inside, between) = (self.proxy, self.inside, self.between);
        [
            c[0], c[1], c[2], i[0], i[1], i[2], n[0], n[1], n[2], proxy, b[0], b[1], b[2], inside,
            between,
        ]
    }

    /// Terms from values in the order of [`list`](Self::list).
    #[must_use]
    pub const fn from_values(values: &[f64; TERMS]) -> Self {
        let [c0, c1, c2, i0, i1, i2, n0, n1, n2, proxy, b0, b1, b2, inside, between] = *values;
        Self {
            call: [c0, c1, c2],
            hop_inside: [i0, i1, i2],
            hop_between: [n0, n1, n2],
            proxy,
            block: [b0, b1, b2],
            inside,
            between,
        }
    }

    /// The same terms, rounded to `digits` significant digits.
    #[must_use]
    pub fn rounded(&self, digits: usize) -> Self {
        Self::from_values(&self.values().map(|it| descent::rounded(it, digits)))
    }

    /// How long a call takes, in µs.
    #[must_use]
    pub fn micros(&self, call: &Counts) -> f64 {
        let at = call.protocol.index();
        let hop = self.hop_between[at];
        let further = (call.messages - 2.0 * call.hops_between).max(0.0);
        let latency = call.hops_inside * self.hop_inside[at]
            + call.hops_between * hop
            // A hop has two messages: one that is sent and one that is received.
            + further * self.proxy * hop / 2.0;
        // 1 GB/s is 1000 bytes in a microsecond.
        let data = (call.bytes_inside / self.inside)
            .max(call.bytes_between / self.between)
            .max(call.bytes_rank / (call.channels * self.block[at]));
        self.call[at] + latency + data / 1e3
    }
}
