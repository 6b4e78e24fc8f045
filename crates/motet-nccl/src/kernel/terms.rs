//! [`Terms`]: the constants that one call is priced with: kernel launch, a step of a thread block, a hop
//! between GPUs, the bandwidth of a block and of a link. All of them are NCCL's own figures.
//!
//! NCCL has two sets of constants: one for rings, one for trees. The [`Shape`] of any other program decides
//! which of them it is priced by. Where NCCL counts more than a step's latency (the floor of a ring's step
//! between servers, its plateau, a tree's loss at medium sizes, every step of a Broadcast as one over the
//! network) the same is counted for every program of that shape. So no program is priced below what NCCL
//! counts for its own. [`Kernels`] holds what does not depend on the call; docs/nccl-model.md has the table
//! of all terms.

use motet_collective::CollectiveKind;
use motet_net::{LinkClass, Network};
use motet_units::{Bandwidth, Bytes, Duration};

use super::layout::Shape;
use crate::choice::{Choice, STEPS};
use crate::constants::{Constants, Hardware, PerScale, TREE_CORRECTION};
use crate::drawing::{counted_mbps, sm};
use crate::kinds::{Algorithm, PathKind, Pattern, Protocol};
use crate::knobs::most_threads;
use crate::model::plain_communicator;
use crate::options::{Buffers, NcclOptions};
use crate::partition::inside;
use crate::topology::Wire;
use crate::tuning::Communicator;

impl Hardware {
    /// What NCCL counts a link of this class as.
    #[must_use]
    pub const fn of_class(class: LinkClass) -> Self {
        match class {
            LinkClass::NvLink | LinkClass::Xgmi | LinkClass::Die => Self::NvLink,
            LinkClass::C2c | LinkClass::Pcie | LinkClass::Smp | LinkClass::Other => Self::Pci,
            LinkClass::InfiniBand
            | LinkClass::Roce
            | LinkClass::Ethernet
            | LinkClass::Optical
            | LinkClass::Wan => Self::Net,
        }
    }
}

/// How the FIFO of a connection between two thread blocks is divided into slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoShape {
    /// Payload of one slot, which a block fills or empties as a whole.
    pub slot: Bytes,
    /// How many slots there are: how far a sender may be ahead of its receiver.
    pub slots: u32,
}

impl FifoShape {
    /// As MSCCL's executor divides a buffer of NCCL's eight steps: two slots of four steps under
    /// Simple, eight of one step, less the flags, under LL and LL128.
    #[must_use]
    pub const fn msccl(protocol: Protocol, buffer: Bytes) -> Self {
        let step = buffer.get() / STEPS;
        match protocol {
            Protocol::Simple => Self { slot: Bytes::new(step * 4), slots: 2 },
            Protocol::Ll => Self { slot: Bytes::new(step / 2), slots: 8 },
            Protocol::Ll128 => Self { slot: Bytes::new(step / 16 * 15), slots: 8 },
        }
    }

    /// As NCCL's own kernels divide it under a choice: two slots where chunks are sent in slices, else eight.
    #[must_use]
    pub fn nccl(choice: &Choice) -> Self {
        Self { slot: choice.chunk, slots: if choice.slice < choice.chunk { 2 } else { 8 } }
    }
}

/// The call that terms are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub collective: CollectiveKind,
    pub bytes: Bytes,
    pub protocol: Protocol,
    pub shape: Shape,
    /// Thread blocks of the GPU that has most.
    pub blocks: u32,
    /// Threads of each block; `None`: as set for the communicator.
    pub threads: Option<u32>,
}

/// The constants that one call is priced with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Once: launching the kernel and starting its first step.
    pub launch: Duration,
    /// The least time between the beginnings of two steps of one thread block.
    pub step: Duration,
    /// From the end of a step until another thread block of the same GPU, which waits for it, sees
    /// the flag.
    pub flag: Duration,
    /// From the step that sends to the step that receives, in NCCL's order of hardware: over NVLink,
    /// PCIe, the network.
    pub hop: [Duration; 3],
    /// Whether NCCL counts one hop however long the chain (Broadcast and Reduce over channels that
    /// are all alike).
    pub once: bool,
    /// A factor on launch and latency. NCCL has one for the plateau it sees in large AllReduces of
    /// rings between servers; 1 otherwise.
    pub stretch: f64,
    /// The share of a link's bandwidth that is left for payload: LL's flags take half.
    pub wire: f64,
    /// The most payload that one thread block moves, between GPUs or within one.
    pub block: Bandwidth,
    /// The most that all thread blocks of a GPU send together; `None`: no more than each can.
    pub gpu: Option<Bandwidth>,
}

/// What NCCL's kernels cost on one network, whichever program they run: everything that
/// [`Terms`] are made of before the call is known.
#[derive(Clone, Debug)]
pub struct Kernels {
    pub(super) constants: &'static Constants,
    comm: Communicator,
    /// In µs.
    net_overhead: f64,
    pub(super) buffers: Buffers,
    /// Threads of a block, where they are set.
    threads: [Option<u32>; Protocol::COUNT],
    /// By link, in bits per second: the bandwidth that NCCL assumes for it, and never more than the
    /// link has.
    rates: Vec<u64>,
}

impl Kernels {
    /// For a network on which NCCL is modelled, with the communicator of that model.
    #[must_use]
    pub fn new(network: &Network, comm: &Communicator, options: &NcclOptions) -> Self {
        Self {
            constants: options.version.constants(),
            net_overhead: comm.net_overhead(options),
            comm: comm.clone(),
            buffers: options.buffers,
            threads: [options.threads, options.ll128_threads, options.threads],
            rates: rates(network, options),
        }
    }

    /// For a network on which NCCL's search finds no rings, so that there is no model of NCCL's choices: its
    /// constants apply all the same, with the ranks, nodes and GPUs of the network.
    #[must_use]
    pub fn plain(network: &Network, options: &NcclOptions) -> Self {
        Self::new(network, &plain_communicator(network, options), options)
    }

    /// Blocks that can be resident at a time: one per multiprocessor of the generation's largest
    /// data-centre GPU.
    #[must_use]
    pub fn resident_blocks(&self) -> u32 {
        [80, 108, 132, 148][self.comm.generation()]
    }

    /// Whether NCCL trusts LL128 here.
    #[must_use]
    pub fn trusts_ll128(&self) -> bool {
        self.comm.trusts_ll128(Algorithm::Ring)
    }

    #[must_use]
    pub const fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// By link, in bits per second.
    pub(super) fn rates(&self) -> &[u64] {
        &self.rates
    }

    /// The constants that a call is priced with.
    #[must_use]
    pub fn terms(&self, call: &Call) -> Terms {
        let rooted = matches!(call.collective, CollectiveKind::Broadcast | CollectiveKind::Reduce);
        let hops = [Hardware::NvLink, Hardware::Pci, Hardware::Net]
            .map(|it| micros(self.hop(call, rooted, it)));
        let like = algorithm(call.shape);
        let nvlink = &self.constants.hardware_latency[Hardware::NvLink as usize];
        let base = self.constants.base_latency[like.index()][call.protocol.index()];
        let correction = self.correction(call);
        let rate = |gbps: f64| Bandwidth::from_bits_per_s((gbps * correction * 8e9) as u64);
        Terms {
            launch: micros(base),
            step: hops[Hardware::NvLink as usize].min(hops[Hardware::Pci as usize]),
            flag: micros(nvlink[Algorithm::Ring.index()][Protocol::Ll.index()]),
            hop: hops,
            once: rooted && self.comm.ring.same_channels,
            stretch: self.stretch(call),
            wire: self.wire(call) * correction,
            block: rate(self.block(call) * self.busy_threads(call)),
            gpu: self.gpu(call).map(rate),
        }
    }

    /// A block's threads as a share of the protocol's most; the bandwidth of a block is in proportion to it.
    fn busy_threads(&self, call: &Call) -> f64 {
        let most = most_threads(call.protocol);
        let threads = call.threads.or(self.threads[call.protocol.index()]);
        f64::from(threads.unwrap_or(most).clamp(32, most)) / f64::from(most)
    }

    /// The latency of a hop, in µs. `rooted` says that the call is a Broadcast or a Reduce.
    fn hop(&self, call: &Call, rooted: bool, over: Hardware) -> f64 {
        let protocol = call.protocol;
        let several = self.comm.nodes > 1;
        let table = |over: Hardware, like: Algorithm| {
            self.constants.hardware_latency[over as usize][like.index()][protocol.index()]
        };
        let simple = protocol == Protocol::Simple;
        if rooted {
            // NCCL counts every step as one over the network, and a tree's where slices wait.
            let over = if several { Hardware::Net } else { over };
            let ring = call.shape != Shape::Tree && (!simple || self.comm.ring.same_channels);
            return table(over, if ring { Algorithm::Ring } else { Algorithm::Tree });
        }
        let own = table(over, algorithm(call.shape));
        if over == Hardware::Net {
            // With one GPU per node, or outside of a ring, nothing hides the network.
            let hidden = call.shape == Shape::Ring && self.comm.ranks > self.comm.nodes;
            let net = if hidden { own } else { table(over, Algorithm::Tree) };
            let posts = if simple { 2.0 } else { 1.0 };
            let net = net + posts * self.comm.ring.latency_inter;
            return if hidden { self.of_round(call, net) } else { net };
        }
        match call.shape {
            Shape::Ring | Shape::Chains if several => {
                own.max(self.net_overhead * if simple { 3.0 } else { 1.0 })
            }
            _ => own,
        }
    }

    /// The mean latency of a ring's hops between nodes. A ring over n nodes has n of them, of which NCCL counts
    /// only n − 1; the last one it counts as a hop inside a node.
    fn of_round(&self, call: &Call, net: f64) -> f64 {
        let nvlink = self.comm.ring.type_intra == PathKind::NvLink;
        let inside = if nvlink { Hardware::NvLink } else { Hardware::Pci };
        let inside = self.hop(call, false, inside);
        let nodes = self.comm.nodes.max(1) as f64;
        inside + (net - inside) * (nodes - 1.0) / nodes
    }

    /// NCCL's factor for large AllReduces of Simple rings between servers, which stay on a plateau before they
    /// gain speed.
    fn stretch(&self, call: &Call) -> f64 {
        let parts = (self.comm.channels.max(1) * self.comm.ranks.max(1)) as u64;
        let share = call.bytes.get() / parts;
        let plateau = call.shape != Shape::Tree
            && call.protocol == Protocol::Simple
            && call.collective == CollectiveKind::AllReduce
            && self.comm.nodes > 1
            && share >= 64;
        match (plateau, self.comm.min_sm < 80) {
            (false, _) => 1.0,
            (true, true) => 1.9,
            (true, false) => 1.4,
        }
    }

    /// NCCL's correction of the bandwidth of AllReduce trees, which do not keep to the model at medium sizes.
    fn correction(&self, call: &Call) -> f64 {
        if call.shape != Shape::Tree || call.collective != CollectiveKind::AllReduce {
            return 1.0;
        }
        let size = (call.bytes.get() >> 6).checked_ilog2().map_or(usize::MAX, |it| it as usize);
        if size < 23 { TREE_CORRECTION[call.protocol.index()][size] } else { 1.0 }
    }

    /// The share of a wire that is payload, as NCCL counts it.
    fn wire(&self, call: &Call) -> f64 {
        match (call.shape, call.protocol) {
            (Shape::Ring | Shape::Chains, Protocol::Simple) => 1.0,
            (Shape::Ring | Shape::Chains, Protocol::Ll) => 0.5,
            (Shape::Ring | Shape::Chains, Protocol::Ll128) => 0.92,
            (Shape::Tree, protocol) => {
                let talks_to_all = self.comm.tree.pattern == Pattern::Tree;
                let tree = if talks_to_all { 0.92 * 0.85 } else { 0.92 };
                tree * self.tree_payload(protocol)
            }
        }
    }

    /// NCCL's limit per channel, in GB/s of payload; it has one for trees and for LL128 only.
    fn per_channel(&self, call: &Call) -> Option<f64> {
        let of = |table: &PerScale| table[self.comm.generation()][self.comm.scale()];
        match (call.shape, call.protocol) {
            (Shape::Tree, protocol) => {
                let tree = of(&self.constants.tree_max) * self.tree_payload(protocol);
                let ll128 = protocol == Protocol::Ll128;
                Some(if ll128 { tree.min(of(&self.constants.tree_ll128_max)) } else { tree })
            }
            (_, Protocol::Ll128) => Some(of(&self.constants.ring_ll128_max)),
            _ => None,
        }
    }

    /// The share of what a tree carries that is payload.
    fn tree_payload(&self, protocol: Protocol) -> f64 {
        match protocol {
            Protocol::Simple => 1.0,
            Protocol::Ll => 1.0 / 3.8,
            Protocol::Ll128 if self.comm.nodes == 1 => 7.0 / 9.0,
            Protocol::Ll128 => 120.0 / 128.0,
        }
    }

    /// The most that one block moves, in GB/s: NCCL's limit per channel. NCCL has none for Simple
    /// rings and for LL; these get that of a tree.
    fn block(&self, call: &Call) -> f64 {
        let tree = self.constants.tree_max[self.comm.generation()][self.comm.scale()];
        match call.protocol {
            Protocol::Ll128 => self.per_channel(call).unwrap_or(tree),
            Protocol::Ll | Protocol::Simple => tree,
        }
    }

    /// The most that all blocks of a GPU send together, in GB/s: LL's limit, and those per channel
    /// times the channels of NCCL's graphs (each of which it runs on two blocks or more), in
    /// proportion where a program has more blocks than NCCL would have.
    fn gpu(&self, call: &Call) -> Option<f64> {
        let found = self.comm.graph(algorithm(call.shape)).channels.max(1) as f64;
        let more = f64::from(call.blocks) / self.comm.channels.max(1) as f64;
        let channels = self.per_channel(call).map(|it| it * found * more.max(1.0));
        let ll = (call.protocol == Protocol::Ll).then(|| self.comm.ll_max(self.constants));
        match (channels, ll) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// The algorithm whose constants a shape is priced with.
const fn algorithm(shape: Shape) -> Algorithm {
    match shape {
        Shape::Ring | Shape::Chains => Algorithm::Ring,
        Shape::Tree => Algorithm::Tree,
    }
}

pub(super) fn micros(us: f64) -> Duration {
    Duration::from_ps((us * 1e6).round() as u64)
}

/// The bandwidth that NCCL assumes for every link, and never more than the link has, in bit/s.
fn rates(network: &Network, options: &NcclOptions) -> Vec<u64> {
    let oldest = network.ranks().iter().map(|it| sm(network, *it, options)).min().unwrap_or(0);
    let rate = |link: &motet_net::Link| {
        let carried = link.spec.bandwidth.bits_per_s();
        if inside(network, link) != Some(Wire::NvLink) {
            return carried;
        }
        let counted = u64::try_from(counted_mbps(Wire::NvLink, link, oldest)).unwrap_or(0);
        // Counted in MB/s, so that a wire slower than that counts as nothing: it has its own rate.
        Some(counted.saturating_mul(8_000_000))
            .filter(|it| *it > 0)
            .map_or(carried, |it| it.min(carried))
    };
    network.links().iter().map(rate).collect()
}
