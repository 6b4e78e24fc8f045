//! [`Tuning`]: the latency and bandwidth that NCCL expects of every collective, algorithm and
//! protocol that it [offers](super::offer).
//!
//! Source: `ncclTopoTuneModel` of `src/graph/tuning.cc` at v2.30.7-1; v2.28.9-1 is the same but
//! for constants. For 2.32 it is `src/tuning/` of the development branch;
//! `NcclVersion::is_rewritten` marks where that differs. A combination that cannot be chosen has bandwidth 0.
//! docs/nccl-model.md explains each term; [`model`](super::model) computes the time of a size from these tables.

use super::constants::{Constants, Generation, Hardware};
use super::graph::Graph;
use super::kinds::{
    Algorithm, Cpu, CpuArch, CpuVendor, PathKind, Pattern, Protocol, TunedCollective,
};
use super::offer::Offer;
use super::options::NcclOptions;

/// A graph as all ranks agree on it: the fewest channels, the lowest speeds and the farthest paths of any node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphInfo {
    pub channels: usize,
    /// Bandwidth per channel in GB/s: inside a node, and between nodes.
    pub intra: f64,
    pub inter: f64,
    pub type_intra: PathKind,
    pub type_inter: PathKind,
    pub same_channels: bool,
    /// The latency of the network interface, in µs.
    pub latency_inter: f64,
    pub pattern: Pattern,
}

impl GraphInfo {
    /// Stands for a graph that was not found.
    pub(super) const NONE: Self = Self {
        channels: 0,
        intra: 0.0,
        inter: 0.0,
        type_intra: PathKind::Loc,
        type_inter: PathKind::Loc,
        same_channels: false,
        latency_inter: 0.0,
        pattern: Pattern::Tree,
    };

    pub(super) fn of(graph: &Graph) -> Self {
        Self {
            channels: graph.channels.len(),
            intra: graph.intra_gbps(),
            inter: graph.inter_gbps(),
            type_intra: graph.type_intra,
            type_inter: graph.type_inter,
            same_channels: graph.same_channels,
            latency_inter: graph.latency_inter,
            pattern: graph.pattern,
        }
    }

    pub(super) fn worse(self, other: Self) -> Self {
        Self {
            channels: self.channels.min(other.channels),
            intra: self.intra.min(other.intra),
            inter: self.inter.min(other.inter),
            type_intra: self.type_intra.max(other.type_intra),
            type_inter: self.type_inter.max(other.type_inter),
            same_channels: self.same_channels && other.same_channels,
            latency_inter: self.latency_inter,
            pattern: self.pattern.max(other.pattern),
        }
    }
}

/// What NCCL knows of a communicator when it fills its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Communicator {
    pub ranks: usize,
    /// Servers or NVLink domains: NCCL's nNodes.
    pub nodes: usize,
    /// The most ranks of one node.
    pub max_local_ranks: usize,
    pub min_sm: u32,
    pub max_sm: u32,
    pub cpu: Cpu,
    /// Whether GPUs are joined by NVSwitches.
    pub nvswitch: bool,
    pub nvls: bool,
    /// How many GPUs of a node head a channel of CollNet.
    pub collnet_heads: usize,
    pub ring: GraphInfo,
    pub tree: GraphInfo,
    pub nvls_graph: GraphInfo,
    pub collnet_chain: GraphInfo,
    pub collnet_direct: GraphInfo,
    /// How many channels the communicator has, and how many NVLS uses.
    pub channels: usize,
    pub nvls_channels: usize,
}

impl Communicator {
    #[must_use]
    pub const fn graph(&self, algorithm: Algorithm) -> &GraphInfo {
        match algorithm {
            Algorithm::Tree | Algorithm::Pat => &self.tree,
            Algorithm::Ring => &self.ring,
            Algorithm::CollNetDirect => &self.collnet_direct,
            Algorithm::CollNetChain => &self.collnet_chain,
            Algorithm::Nvls | Algorithm::NvlsTree => &self.nvls_graph,
        }
    }

    /// GPUs per node, on average.
    #[must_use]
    pub fn per_node(&self) -> f64 {
        self.ranks as f64 / self.nodes as f64
    }

    /// The column of NCCL's tables: one node, two, or more.
    pub(super) fn scale(&self) -> usize {
        self.nodes.clamp(1, 3) - 1
    }

    /// The row of NCCL's tables.
    pub(super) fn generation(&self) -> usize {
        Generation::of(self.min_sm) as usize
    }

    /// Whether NCCL trusts LL128, which needs 128-byte stores that arrive whole: near paths between
    /// like GPUs.
    #[must_use]
    pub fn trusts_ll128(&self, algorithm: Algorithm) -> bool {
        let graph = self.graph(algorithm);
        let outward = if self.min_sm >= 90 { PathKind::Pxn } else { PathKind::Pxb };
        graph.type_inter <= outward
            && graph.type_intra <= PathKind::NvLinkBridged
            && (self.min_sm == self.max_sm || self.min_sm >= 90)
            && self.min_sm >= 70
    }

    /// The most that LL carries over all channels of a GPU, in GB/s.
    pub(super) fn ll_max(&self, constants: &Constants) -> f64 {
        let row = if self.nodes == 1 {
            self.generation()
        } else {
            usize::from(matches!(self.cpu.vendor, CpuVendor::Amd | CpuVendor::Mixed))
        };
        constants.ll_max_bandwidth[row][self.scale()]
    }

    /// What posting a message to the network costs the CPU, in µs.
    pub(super) fn net_overhead(&self, options: &NcclOptions) -> f64 {
        match options.net_overhead {
            Some(overhead) => overhead.as_us_f64(),
            None if self.cpu.is_amd() => 2.0,
            None => 1.0,
        }
    }
}

/// Microseconds and GB/s per collective, algorithm and protocol.
type Table = [[[f64; Protocol::COUNT]; Algorithm::COUNT]; TunedCollective::COUNT];

/// NCCL's tuning tables for a communicator: latency and bandwidth of every combination of collective, algorithm and protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    latency: Table,
    bandwidth: Table,
    max_threads: [[u32; Protocol::COUNT]; Algorithm::COUNT],
}

impl Tuning {
    pub(super) fn new(comm: &Communicator, options: &NcclOptions) -> Self {
        let mut tuning = Self {
            latency: [[[0.0; 3]; 7]; 5],
            bandwidth: [[[0.0; 3]; 7]; 5],
            max_threads: max_threads(comm, options),
        };
        if comm.ranks <= 1 {
            return tuning;
        }
        let filler = Filler { comm, options, constants: options.version.constants() };
        let offer = Offer { comm, options };
        for collective in TunedCollective::ALL {
            for algorithm in Algorithm::ALL {
                for protocol in Protocol::ALL {
                    if offer.is_tabled(collective, algorithm, protocol).is_err() {
                        continue;
                    }
                    let at = (collective.index(), algorithm.index(), protocol.index());
                    tuning.latency[at.0][at.1][at.2] =
                        filler.latency(collective, algorithm, protocol);
                    if offer.is_enabled(collective, algorithm, protocol).is_ok() {
                        tuning.bandwidth[at.0][at.1][at.2] =
                            filler.bandwidth(collective, algorithm, protocol);
                    }
                }
            }
        }
        tuning
    }

    /// The latency that NCCL expects, in µs.
    #[must_use]
    pub fn latency(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f64 {
        self.latency[collective.index()][algorithm.index()][protocol.index()]
    }

    /// The bandwidth that NCCL expects, in GB/s; 0 where it does not allow the combination.
    #[must_use]
    pub fn bandwidth(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f64 {
        self.bandwidth[collective.index()][algorithm.index()][protocol.index()]
    }

    /// The most threads of a thread block.
    #[must_use]
    pub fn max_threads(&self, algorithm: Algorithm, protocol: Protocol) -> u32 {
        self.max_threads[algorithm.index()][protocol.index()]
    }
}

fn max_threads(
    comm: &Communicator,
    options: &NcclOptions,
) -> [[u32; Protocol::COUNT]; Algorithm::COUNT] {
    let forced = |given: Option<u32>, least: u32, most: u32, usual: u32| match given {
        None => usual,
        Some(threads) if threads % 32 != 0 => most,
        Some(threads) => threads.clamp(least, most),
    };
    // Until 2.30, rings no faster than a PCIe 3 slot had half of the threads.
    let slow =
        comm.ring.intra * comm.ring.channels as f64 <= 12.0 && !options.version.is_rewritten();
    let simple = |usual: u32| forced(options.threads, 64, 512, usual);
    let ll128 = forced(options.ll128_threads, 160, 640, 640);
    let ring = [simple(512), ll128, simple(if slow { 256 } else { 512 })];
    let tree = [simple(512), ll128, simple(512)];
    let other = [0, 0, 640];
    [tree, ring, other, other, other, other, [0, 0, 0]]
}

struct Filler<'a> {
    comm: &'a Communicator,
    options: &'a NcclOptions,
    constants: &'a Constants,
}

impl Filler<'_> {
    const fn rewritten(&self) -> bool {
        self.options.version.is_rewritten()
    }

    fn bandwidth(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f64 {
        let (comm, graph) = (self.comm, self.comm.graph(algorithm));
        let inside = comm.nodes <= 2 || algorithm.is_collnet();
        let per_channel = if algorithm.is_nvls() {
            self.nvls_per_channel(collective, algorithm)
        } else if self.rewritten() && algorithm == Algorithm::Ring {
            if comm.nodes > 1 { graph.inter } else { graph.intra }
        } else if self.rewritten() && !algorithm.is_collnet() {
            graph.inter.min(graph.intra)
        } else if inside {
            graph.intra
        } else {
            graph.inter
        };
        let bus = graph.channels as f64 * per_channel;
        let bus = match algorithm {
            Algorithm::Ring => self.ring_bus(bus, protocol),
            Algorithm::Tree => self.tree_bus(bus, protocol),
            Algorithm::Pat => bus * 0.75,
            Algorithm::CollNetDirect | Algorithm::CollNetChain if protocol != Protocol::Simple => {
                0.0
            }
            Algorithm::CollNetDirect => self.collnet_direct_bus(bus, collective),
            _ => bus,
        };
        // From bytes on the wires to bytes of the collective.
        let by_steps = algorithm == Algorithm::Ring || (self.rewritten() && algorithm.is_nvls());
        if collective.is_half() && !by_steps {
            return bus;
        }
        let steps = collective.ring_steps(comm.ranks as u64) as f64;
        match algorithm {
            Algorithm::Ring | Algorithm::Nvls | Algorithm::NvlsTree => {
                bus * comm.ranks as f64 / steps
            }
            _ => bus * 0.5,
        }
    }

    fn nvls_per_channel(&self, collective: TunedCollective, algorithm: Algorithm) -> f64 {
        let (comm, graph) = (self.comm, &self.comm.nvls_graph);
        let generation = comm.generation();
        let channels = graph.channels as f64;
        let efficiency = self.constants.nvls_efficiency[generation];
        let intra = graph.intra * efficiency * (channels - 1.0) / channels;
        let intra = if collective == TunedCollective::AllReduce {
            2.0 * intra
        } else {
            intra * (comm.per_node() - 1.0) / comm.per_node()
        };
        let tree = algorithm == Algorithm::NvlsTree;
        let inter = if comm.nodes <= 2 && tree { 2.0 * graph.inter } else { graph.inter };
        let most = self.constants.nvls_tree_max[generation][comm.scale()];
        let most = if tree { most } else { f64::INFINITY };
        intra.min(inter).min(most)
    }

    fn most(&self, table: &super::constants::PerScale, channels: usize) -> f64 {
        channels as f64 * table[self.comm.generation()][self.comm.scale()]
    }

    fn ring_bus(&self, bus: f64, protocol: Protocol) -> f64 {
        let channels = self.comm.ring.channels;
        match protocol {
            Protocol::Ll => self.comm.ll_max(self.constants).min(bus * 0.5),
            Protocol::Ll128 => {
                (bus * 0.92).min(self.most(&self.constants.ring_ll128_max, channels))
            }
            Protocol::Simple => bus,
        }
    }

    fn tree_bus(&self, bus: f64, protocol: Protocol) -> f64 {
        let channels = self.comm.tree.channels;
        let bus = (bus * 0.92).min(self.most(&self.constants.tree_max, channels));
        let bus = match protocol {
            Protocol::Ll => (bus / 3.8).min(self.comm.ll_max(self.constants)),
            Protocol::Ll128 => {
                let payload = if self.comm.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                (bus * payload).min(self.most(&self.constants.tree_ll128_max, channels))
            }
            Protocol::Simple => bus,
        };
        if self.comm.tree.pattern == Pattern::Tree { bus * 0.85 } else { bus }
    }

    fn collnet_direct_bus(&self, bus: f64, collective: TunedCollective) -> f64 {
        let graph = &self.comm.collnet_direct;
        if collective.is_half() {
            return self.comm.per_node() * graph.intra.min(0.9 * graph.inter);
        }
        // Full speed needs a NIC for each GPU.
        let ratio = self.comm.per_node() / graph.channels.max(1) as f64;
        let bus = bus / (ratio - (ratio - 1.0) / 2.0);
        if self.comm.min_sm >= 90 { bus * 0.85 } else { bus }
    }

    fn hardware(&self, hardware: Hardware, algorithm: Algorithm, protocol: Protocol) -> f64 {
        // On POWER, trees over PCIe are not held to be faster per step than rings.
        let power = self.comm.cpu.arch == CpuArch::Power;
        let algorithm = match (power, hardware, algorithm, protocol) {
            (true, Hardware::Pci, Algorithm::Tree, Protocol::Simple) => Algorithm::Ring,
            _ => algorithm,
        };
        let table = &self.constants.hardware_latency[hardware as usize];
        table[algorithm.index()][protocol.index()]
    }

    fn latency(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f64 {
        let (comm, graph) = (self.comm, self.comm.graph(algorithm));
        let nvlink = graph.type_intra == PathKind::NvLink;
        let inside = if nvlink { Hardware::NvLink } else { Hardware::Pci };
        let intra = self.hardware(inside, algorithm, protocol);
        // Until 2.30: with one GPU per node nothing hides the network.
        let exposed = comm.ranks == comm.nodes && !self.rewritten();
        let net = if exposed { Algorithm::Tree } else { algorithm };
        let posts = if protocol == Protocol::Simple { 2.0 } else { 1.0 };
        let inter = self.hardware(Hardware::Net, net, protocol) + posts * graph.latency_inter;
        let base = self.constants.base_latency[algorithm.index()][protocol.index()];
        let others = (comm.ranks / comm.nodes) as f64 - 1.0;
        let levels = f64::from(comm.nodes.max(1).ilog2());
        match algorithm {
            Algorithm::Ring => base + self.ring_latency(collective, protocol, inside, intra, inter),
            Algorithm::Tree => base + 2.0 * (others * intra + levels * inter),
            Algorithm::CollNetDirect => {
                base + 2.0 * (others.min(1.0) * intra + others * 0.4) + inter
            }
            Algorithm::CollNetChain => base + 2.0 * others * intra + inter,
            Algorithm::Nvls if comm.nodes > 1 => intra + inter,
            Algorithm::Nvls => intra,
            Algorithm::NvlsTree => base + intra + 2.0 * levels * inter,
            Algorithm::Pat => base + levels * inter / 3.5 + comm.ranks as f64 * 2.8,
        }
    }

    fn ring_latency(
        &self,
        collective: TunedCollective,
        protocol: Protocol,
        inside: Hardware,
        intra: f64,
        inter: f64,
    ) -> f64 {
        let comm = self.comm;
        let steps = collective.ring_steps(comm.ranks as u64) as f64;
        let several = comm.nodes > 1;
        if matches!(collective, TunedCollective::Broadcast | TunedCollective::Reduce) {
            // Since the rewrite a hop of a chain counts as one inside a node, wherever it goes.
            let over = if several && !self.rewritten() { Hardware::Net } else { inside };
            if comm.ring.same_channels {
                return self.hardware(over, Algorithm::Ring, protocol);
            }
            let simple = protocol == Protocol::Simple;
            let like = if simple { Algorithm::Tree } else { Algorithm::Ring };
            return steps * self.hardware(over, like, protocol);
        }
        let posts = if protocol == Protocol::Simple { 3.0 } else { 1.0 };
        let overhead = if several { posts * self.comm.net_overhead(self.options) } else { 0.0 };
        let between = match (several, collective) {
            (false, _) => 0.0,
            (true, TunedCollective::AllReduce) => 2.0 * (comm.nodes as f64 - 1.0),
            (true, _) => comm.nodes as f64 - 1.0,
        };
        (steps - between) * intra.max(overhead) + between * inter
    }
}
