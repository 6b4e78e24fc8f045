//! [`NcclModel`]: what NCCL would do on a network: its graphs, its tables, and for a collective
//! of a given size its choice and the time it expects.
//!
//! Servers that look alike to NCCL are searched once. [`choice`](super::choice) holds what
//! follows the algorithm (channels, threads, chunks), [`table`](super::table) the printed form.

use motet_net::Network;
use motet_net::formats::nccl_xml::GraphDump;
use motet_units::Bytes;

use super::choice::{Choice, Demand};
use super::compute;
use super::connect::{Channels, Member, connect};
use super::constants::{MAX_CHANNELS, NcclVersion, TREE_CORRECTION};
use super::drawing::sm;
use super::fitted::NcclTerms;
use super::graph::{Graph, Graphs};
use super::kinds::{Algorithm, Cpu, CpuArch, CpuVendor, Protocol, TunedCollective};
use super::offer::Offer;
use super::options::NcclOptions;
use super::partition::{Part, parts};
use super::topology::System;
use super::tuning::{Communicator, GraphInfo, Tuning};

/// Why there is no model of NCCL on a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    #[error("the network has no GPU")]
    NoGpu,
    #[error(
        "{gpus} GPUs or interfaces are joined without a network between them, more than the {most} \
         that NCCL is modelled for; say which server each GPU is in"
    )]
    TooManyGpus { gpus: usize, most: usize },
    #[error(
        "the server of `{gpu}` has no way to the others; give it a NIC or a link to the fabric"
    )]
    NoInterface { gpu: String },
    #[error("the {graph} graph of the dump cannot be used: {problem}")]
    Dump { graph: String, problem: String },
}

/// The cost of every combination in µs, as NCCL hands it to a tuner plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostTable(pub [[f64; Protocol::COUNT]; Algorithm::COUNT]);

impl CostTable {
    /// The entry of a combination that cannot be chosen.
    pub const IGNORE: f64 = -1.0;

    /// The time in µs, if the combination can be chosen.
    #[must_use]
    pub fn get(&self, algorithm: Algorithm, protocol: Protocol) -> Option<f64> {
        Some(self.0[algorithm.index()][protocol.index()]).filter(|it| *it >= 0.0)
    }

    /// The cheapest, the first of equals by algorithm and then protocol.
    #[must_use]
    pub fn cheapest(&self) -> Option<(Algorithm, Protocol, f64)> {
        let mut best: Option<(Algorithm, Protocol, f64)> = None;
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                if let Some(time) = self.get(algorithm, protocol)
                    && best.is_none_or(|it| time < it.2)
                {
                    best = Some((algorithm, protocol, time));
                }
            }
        }
        best
    }
}

/// One node of the communicator.
#[derive(Clone, Debug)]
struct NodeOf {
    ranks: Vec<u32>,
    /// The index of its graphs among the distinct ones: alike nodes share them.
    graphs: usize,
}

/// NCCL on a network.
#[derive(Clone, Debug)]
pub struct NcclModel {
    options: NcclOptions,
    comm: Communicator,
    tuning: Tuning,
    nodes: Vec<NodeOf>,
    graphs: Vec<Graphs>,
    /// Terms fitted to measured calls, if there are any.
    terms: Option<NcclTerms>,
}

impl NcclModel {
    /// The model of all ranks of the network in one communicator.
    pub fn new(network: &Network, options: NcclOptions) -> Result<Self, NcclError> {
        let search = |system: &System| Ok(compute::graphs(system, &options));
        let found = survey(network, &options, search)?;
        Ok(Self::of(found, options))
    }

    /// With graphs that NCCL itself found (`NCCL_GRAPH_DUMP_FILE`), the same on every server.
    pub fn with_graphs(
        network: &Network,
        dump: &GraphDump,
        options: NcclOptions,
    ) -> Result<Self, NcclError> {
        let read = |system: &System| {
            let graphs = Graphs::of_dump(dump, system.gpus.len())?;
            Ok(Graphs { nvls: graphs.nvls.filter(|_| options.nvls != Some(false)), ..graphs })
        };
        let found = survey(network, &options, read)?;
        Ok(Self::of(found, options))
    }

    fn of(found: Survey, options: NcclOptions) -> Self {
        let comm = found.communicator(&options);
        let tuning = Tuning::new(&comm, &options);
        Self { tuning, comm, nodes: found.nodes, graphs: found.graphs, options, terms: None }
    }

    /// With terms that were fitted to measured calls ([`fitted`](crate::fitted)). What NCCL chooses and believes stays as
    /// it is; [`Priced`](crate::Priced) then says what its rings, trees and PAT take by these terms.
    #[must_use]
    pub const fn with_terms(mut self, terms: NcclTerms) -> Self {
        self.terms = Some(terms);
        self
    }

    /// The fitted terms, if it has any.
    #[must_use]
    pub const fn terms(&self) -> Option<&NcclTerms> {
        self.terms.as_ref()
    }

    #[must_use]
    pub const fn communicator(&self) -> &Communicator {
        &self.comm
    }

    #[must_use]
    pub const fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    #[must_use]
    pub const fn options(&self) -> &NcclOptions {
        &self.options
    }

    /// What NCCL offers on this communicator.
    #[must_use]
    pub const fn offer(&self) -> Offer<'_> {
        Offer { comm: &self.comm, options: &self.options }
    }

    /// The graphs of the node that holds `rank`.
    #[must_use]
    pub fn graphs(&self, rank: motet_units::Rank) -> Option<&Graphs> {
        let node = self.nodes.iter().find(|it| it.ranks.contains(&rank.0))?;
        self.graphs.get(node.graphs)
    }

    /// The graphs of each distinct kind of node.
    #[must_use]
    pub fn distinct_graphs(&self) -> &[Graphs] {
        &self.graphs
    }

    /// The rings and trees of every channel.
    #[must_use]
    pub fn channels(&self) -> Channels {
        let members: Vec<Member<'_>> = self
            .nodes
            .iter()
            .map(|it| Member { ranks: &it.ranks, graphs: &self.graphs[it.graphs] })
            .collect();
        let found = self.comm.ring.channels;
        connect(&members, found, (2 * found).min(self.comm.channels), self.comm.channels)
    }

    /// What every combination costs for `bytes` of data in nccl-tests' sense: all ranks' data for
    /// AllGather and ReduceScatter, one rank's otherwise. `calls` is how many like calls of a group
    /// share each channel; 1 outside groups.
    #[must_use]
    pub fn costs(&self, collective: TunedCollective, bytes: Bytes, calls: u32) -> CostTable {
        let mut table = [[CostTable::IGNORE; Protocol::COUNT]; Algorithm::COUNT];
        if self.comm.ranks == 1 {
            table[Algorithm::Ring.index()][Protocol::Simple.index()] = 0.0;
            return CostTable(table);
        }
        let offer = self.offer();
        let supported = |it: &Algorithm| offer.is_supported(collective, *it).is_ok();
        for algorithm in Algorithm::ALL.into_iter().filter(supported) {
            for protocol in Protocol::ALL {
                if let Some(time) = self.predict(collective, bytes, calls, algorithm, protocol) {
                    table[algorithm.index()][protocol.index()] = time;
                }
            }
        }
        CostTable(table)
    }

    /// The time in µs under a forced algorithm and protocol; `None` if NCCL would refuse them.
    #[must_use]
    pub fn time(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<f64> {
        self.costs(collective, bytes, 1).get(algorithm, protocol)
    }

    /// What NCCL would do; `None` if everything was forbidden.
    #[must_use]
    pub fn choose(&self, collective: TunedCollective, bytes: Bytes) -> Option<Choice> {
        let (algorithm, protocol, time) = self.costs(collective, bytes, 1).cheapest()?;
        Some(self.plan(collective, bytes, algorithm, protocol, time))
    }

    /// As [`choose`](Self::choose) with algorithm and protocol forced.
    #[must_use]
    pub fn force(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<Choice> {
        let time = self.time(collective, bytes, algorithm, protocol)?;
        Some(self.plan(collective, bytes, algorithm, protocol, time))
    }

    /// How NCCL runs a call under a forced algorithm and protocol, even where it would refuse them. `channels` of
    /// `None` is NCCL's own count. The time is 0 where NCCL's model has none.
    #[must_use]
    pub fn made_to(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        algorithm: Algorithm,
        protocol: Protocol,
        channels: Option<usize>,
    ) -> Choice {
        let time = self.time(collective, bytes, algorithm, protocol).unwrap_or(0.0);
        self.plan_on(collective, bytes, (algorithm, protocol), time, channels)
    }

    /// Everything that a tuner plugin can make of an algorithm and a protocol: with NCCL's own
    /// channels first, then with every power of two below.
    #[must_use]
    pub fn choices(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Vec<Choice> {
        let Some(own) = self.force(collective, bytes, algorithm, protocol) else {
            return Vec::new();
        };
        let mut all = vec![own];
        let mut channels = self.comm.channels.next_power_of_two();
        while channels > 0 {
            let asked =
                self.plan_on(collective, bytes, (algorithm, protocol), own.time, Some(channels));
            if channels <= self.comm.channels
                && all.iter().all(|it| it.used_channels != asked.used_channels)
            {
                all.push(asked);
            }
            channels /= 2;
        }
        all
    }

    fn plan(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        algorithm: Algorithm,
        protocol: Protocol,
        time: f64,
    ) -> Choice {
        self.plan_on(collective, bytes, (algorithm, protocol), time, None)
    }

    /// The choice with as many channels as a tuner asks for; `None`: NCCL's own count.
    fn plan_on(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        (algorithm, protocol): (Algorithm, Protocol),
        time: f64,
        channels: Option<usize>,
    ) -> Choice {
        let demand = Demand { collective, bytes: bytes.get(), algorithm, protocol, channels };
        Choice::new(&self.comm, &self.tuning, &self.options, demand, time)
    }

    /// The ranks of each node.
    #[must_use]
    pub fn nodes(&self) -> Vec<Vec<u32>> {
        self.nodes.iter().map(|it| it.ranks.clone()).collect()
    }

    fn predict(
        &self,
        collective: TunedCollective,
        bytes: Bytes,
        calls: u32,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<f64> {
        let comm = &self.comm;
        let bandwidth = self.tuning.bandwidth(collective, algorithm, protocol);
        if bandwidth <= 0.0 {
            return None;
        }
        let mut latency = self.tuning.latency(collective, algorithm, protocol);
        let reduces = collective == TunedCollective::AllReduce;
        let corrected = match algorithm {
            Algorithm::Tree if reduces => 23,
            Algorithm::NvlsTree
                if reduces
                    && self.options.version >= NcclVersion::V2_30
                    && comm.min_sm >= 100
                    && comm.cpu.arch == CpuArch::X86 =>
            {
                24
            }
            _ => 0,
        };
        let size = (bytes.get() >> 6).checked_ilog2().map_or(usize::MAX, |it| it as usize);
        let factor = if size < corrected { TREE_CORRECTION[protocol.index()][size] } else { 1.0 };
        let share = bytes.get() / (comm.channels * comm.ranks) as u64;
        if (algorithm, protocol) == (Algorithm::Ring, Protocol::Simple)
            && reduces
            && comm.nodes > 1
            && share >= 64
        {
            // Rings stay on a plateau before they gain speed.
            latency *= if comm.min_sm < 80 { 1.9 } else { 1.4 };
        }
        let per_batch = self.options.version.constants().colls_per_batch;
        let times = if algorithm == Algorithm::Ring { calls } else { calls.div_ceil(per_batch) };
        Some(latency * f64::from(times) + bytes.get() as f64 / (1000.0 * bandwidth * factor))
    }
}

/// What was found on a network: its nodes, and the system and graphs of each distinct kind of node.
struct Survey {
    nodes: Vec<NodeOf>,
    systems: Vec<System>,
    graphs: Vec<Graphs>,
}

/// A communicator where NCCL's search finds no graphs: only its ranks, nodes and GPUs are known.
pub(crate) fn plain_communicator(network: &Network, options: &NcclOptions) -> Communicator {
    let parts = parts(network);
    let sms = || network.ranks().iter().map(|it| sm(network, *it, options));
    Communicator {
        ranks: network.ranks().len(),
        nodes: parts.len().max(1),
        max_local_ranks: parts.iter().map(|it| it.ranks.len()).max().unwrap_or(0),
        min_sm: sms().min().unwrap_or(0),
        max_sm: sms().max().unwrap_or(0),
        cpu: options.cpu.unwrap_or(Cpu::INTEL),
        nvswitch: false,
        nvls: false,
        collnet_heads: 0,
        ring: GraphInfo::NONE,
        tree: GraphInfo::NONE,
        nvls_graph: GraphInfo::NONE,
        collnet_chain: GraphInfo::NONE,
        collnet_direct: GraphInfo::NONE,
        channels: 1,
        nvls_channels: 0,
    }
}

fn survey(
    network: &Network,
    options: &NcclOptions,
    find: impl Fn(&System) -> Result<Graphs, NcclError>,
) -> Result<Survey, NcclError> {
    let parts = parts(network);
    if parts.is_empty() {
        return Err(NcclError::NoGpu);
    }
    let inter = parts.len() > 1;
    let mut survey = Survey { nodes: Vec::new(), systems: Vec::new(), graphs: Vec::new() };
    for part in parts {
        let system = System::of(network, &part, inter, options)?;
        let Part { ranks, .. } = part;
        // Servers of one kind come in runs: look at the last kinds first.
        let known = survey.systems.iter().rposition(|it| *it == system);
        let graphs = match known {
            Some(known) => known,
            None => {
                survey.graphs.push(find(&system)?);
                survey.systems.push(system);
                survey.graphs.len() - 1
            }
        };
        survey.nodes.push(NodeOf { ranks, graphs });
    }
    Ok(survey)
}

impl Survey {
    fn communicator(&self, options: &NcclOptions) -> Communicator {
        let worst = |pick: fn(&Graphs) -> Option<&Graph>| {
            let infos =
                self.graphs.iter().map(|it| pick(it).map_or(GraphInfo::NONE, GraphInfo::of));
            infos.reduce(GraphInfo::worse).unwrap_or(GraphInfo::NONE)
        };
        let (mut ring, mut tree) = (worst(|it| Some(&it.ring)), worst(|it| Some(&it.tree)));
        let channels = ring.channels.min(tree.channels);
        (ring.channels, tree.channels) = (channels, channels);
        let nvls_graph = worst(|it| it.nvls.as_ref());
        let sms = || self.systems.iter().flat_map(|it| [it.min_sm(), it.max_sm()]);
        let (min_sm, max_sm) = (sms().min().unwrap_or(0), sms().max().unwrap_or(0));
        let nodes = self.nodes.len();
        let collnet_direct = worst(|it| it.collnet_direct.as_ref());
        let mut comm = Communicator {
            ranks: self.nodes.iter().map(|it| it.ranks.len()).sum(),
            nodes,
            max_local_ranks: self.nodes.iter().map(|it| it.ranks.len()).max().unwrap_or(0),
            min_sm,
            max_sm,
            cpu: self.cpu(),
            nvswitch: self.systems.iter().all(|it| it.nvs.is_some()),
            nvls: nvls_graph.channels > 0,
            collnet_heads: collnet_direct.channels,
            ring,
            tree,
            nvls_graph,
            collnet_chain: worst(|it| it.collnet_chain.as_ref()),
            collnet_direct,
            channels,
            nvls_channels: 0,
        };
        comm.channels = comm_channels(&comm, options);
        comm.nvls_channels = nvls_channels(&comm, options);
        comm
    }

    fn cpu(&self) -> Cpu {
        let mut cpus = self.systems.iter().map(|it| it.cpu);
        let first = cpus.next().unwrap_or(Cpu::INTEL);
        if cpus.all(|it| it == first) { first } else { Cpu { vendor: CpuVendor::Mixed, ..first } }
    }
}

/// The channels of a communicator: two for each channel of the ring graph; on several nodes four from Hopper on,
/// if the graph has few fast ones; half as many again for a CollNet that is faster inside nodes. The user's limits
/// come last.
fn comm_channels(comm: &Communicator, options: &NcclOptions) -> usize {
    let mut channels = (2 * comm.ring.channels).min(MAX_CHANNELS);
    let collnet = options.collnet && comm.collnet_chain.channels > 0;
    if collnet && comm.collnet_chain.intra > comm.collnet_chain.inter && comm.ranks > comm.nodes {
        channels = (channels + channels / 2).min(MAX_CHANNELS);
    }
    if comm.min_sm >= 90 && comm.nodes > 1 && comm.ring.intra > 45.0 && channels < 16 {
        channels *= 2;
    }
    let limit = |it: Option<u32>| it.map(|it| (it as usize).clamp(1, MAX_CHANNELS));
    let channels = channels.min(limit(options.max_channels).unwrap_or(MAX_CHANNELS));
    channels.max(limit(options.min_channels).unwrap_or(1))
}

pub(super) fn nvls_channels(comm: &Communicator, options: &NcclOptions) -> usize {
    if !comm.nvls {
        return 0;
    }
    let usual = match (comm.max_sm, comm.nodes) {
        (100.., 1) => 24,
        (100.., _) => 32,
        _ => 16,
    };
    options.nvls_channels.map_or(usual, |it| (it as usize).clamp(1, MAX_CHANNELS))
}
