//! [`Choice`]: how NCCL would run one call: the algorithm and protocol it chose, and what follows from
//! them: channels, threads, and the sizes of chunks and slices.
//!
//! Source: `topoGetAlgoInfo`, `calcCollChunking` and the scheduling of `src/enqueue.cc` at
//! v2.30.7-1.

use motet_units::{Bytes, Duration};

use super::kinds::{Algorithm, Protocol, TunedCollective};
use super::options::{Buffers, NcclOptions};
use super::tuning::{Communicator, Tuning};

/// How many steps NCCL divides the FIFO between two ranks into (`NCCL_STEPS`).
pub const STEPS: u64 = 8;
const WARP: u32 = 32;
const MAX_THREADS: u32 = 640;

/// How NCCL would run a collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// The most channels it may use; a tuner plugin's `nChannels` replaces NCCL's own number.
    pub channels: usize,
    /// Whether `channels` is what a tuner plugin asked for rather than NCCL's own count.
    pub asked: bool,
    /// The channels that data goes over in the end.
    pub used_channels: usize,
    /// Threads of each block.
    pub threads: u32,
    /// The payload that one channel writes into its FIFO at a time.
    pub chunk: Bytes,
    /// How much of a chunk is sent before the receiver is told: the unit of pipelining.
    pub slice: Bytes,
    /// The time that NCCL's own model expects, in µs.
    pub time: f64,
}

impl Choice {
    /// The time that NCCL's own model expects, rounded to the picosecond.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_ps((self.time * 1e6).round() as u64)
    }
}

/// The call, and the algorithm and protocol that run it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) collective: TunedCollective,
    pub(super) bytes: u64,
    pub(super) algorithm: Algorithm,
    pub(super) protocol: Protocol,
    /// What a tuner plugin asks for; `None`: NCCL's own count.
    pub(super) channels: Option<usize>,
}

impl Choice {
    pub(super) fn new(
        comm: &Communicator,
        tuning: &Tuning,
        options: &NcclOptions,
        demand: Demand,
        time: f64,
    ) -> Self {
        let Demand { algorithm, protocol, .. } = demand;
        let (own, threads) = workers(comm, tuning, demand);
        let most = if algorithm.is_nvls() { comm.nvls_channels } else { comm.channels };
        let channels = demand.channels.map_or(own, |it| it.min(most.max(1)));
        let least = options.version.constants().least_traffic;
        let used_channels = used(comm, demand, channels, least);
        let chunk = chunk(comm, options, demand, used_channels);
        // Chunks of four steps go in slices of two.
        let slice = if chunk_steps(demand.collective, algorithm, protocol) == 4 {
            chunk / 2
        } else {
            chunk
        };
        let (chunk, slice) = (Bytes::new(chunk), Bytes::new(slice));
        let asked = demand.channels.is_some();
        Self { algorithm, protocol, channels, asked, used_channels, threads, chunk, slice, time }
    }
}

/// The largest chunk that one channel can send at a time. NCCL cuts larger chunks that a tuner asks for down to
/// this.
#[must_use]
pub const fn most_chunk(
    buffers: &Buffers,
    collective: TunedCollective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> Bytes {
    let step = buffers.of(protocol).get() / STEPS;
    Bytes::new(match protocol {
        Protocol::Ll => step / 2,
        Protocol::Ll128 => step / 16 * 15,
        Protocol::Simple => step.saturating_mul(chunk_steps(collective, algorithm, protocol)),
    })
}

/// How many steps of the FIFO a chunk takes.
const fn chunk_steps(collective: TunedCollective, algorithm: Algorithm, protocol: Protocol) -> u64 {
    match (algorithm, protocol, collective) {
        (
            Algorithm::Ring,
            Protocol::Simple,
            TunedCollective::AllReduce
            | TunedCollective::AllGather
            | TunedCollective::ReduceScatter,
        ) => 4,
        _ => 1,
    }
}

/// The least bytes per thread. With less, NCCL takes fewer channels first and then fewer threads.
fn threshold(comm: &Communicator, algorithm: Algorithm, protocol: Protocol) -> u64 {
    match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Ll) => 8 * comm.ranks as u64,
        (_, Protocol::Ll | Protocol::Ll128) => 8,
        (Algorithm::CollNetDirect | Algorithm::CollNetChain, Protocol::Simple) => 512,
        (_, Protocol::Simple) => 64,
    }
}

/// How many channels, and how many threads per block, NCCL takes for a call.
fn workers(comm: &Communicator, tuning: &Tuning, demand: Demand) -> (usize, u32) {
    let Demand { algorithm, protocol, bytes, .. } = demand;
    let mut threads = tuning.max_threads(algorithm, protocol);
    let mut channels = comm.channels;
    let each = threshold(comm, algorithm, protocol);
    let too_many = |channels: usize, threads: u32| {
        bytes < (channels as u64).saturating_mul(u64::from(threads)).saturating_mul(each)
    };
    match algorithm {
        Algorithm::Nvls if comm.nodes > 1 => channels = channels.min(comm.nvls_channels),
        Algorithm::Nvls | Algorithm::NvlsTree => channels = comm.nvls_channels,
        Algorithm::CollNetDirect => channels = collnet_channels(comm, bytes, threads, each),
        _ => {
            while channels >= 2 && too_many(channels, threads) {
                channels -= 1;
            }
            while threads > 0 && threads.is_multiple_of(128) && too_many(channels, threads) {
                threads /= 2;
            }
        }
    }
    let extra = match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Simple) => WARP,
        (Algorithm::Tree, Protocol::Simple) => 4 * WARP,
        _ => 0,
    };
    let threads = match algorithm {
        Algorithm::Tree | Algorithm::Pat => MAX_THREADS,
        _ => (threads + extra).max(3 * WARP),
    };
    (channels, threads)
}

/// The channels of CollNetDirect: fewer for little data, like [`workers`], but the least bytes per thread are
/// halved on the way from one power of two of channels to the next.
fn collnet_channels(comm: &Communicator, bytes: u64, threads: u32, each: u64) -> usize {
    let heads = comm.collnet_heads.max(1) as u64;
    let (mut channels, mut each) = (comm.channels, each);
    for least in [16, 8, 4, 2, 1] {
        let per_thread = |each: u64| u64::from(threads) * heads * each;
        while bytes < channels as u64 * per_thread(each) && channels > least {
            if channels == least + least / 2 {
                each /= 2;
            }
            channels -= 1;
        }
        if bytes >= channels as u64 * per_thread(each) {
            break;
        }
    }
    channels
}

/// How many channels get data, if each that does gets at least `least` bytes of traffic.
fn used(comm: &Communicator, demand: Demand, channels: usize, least: u64) -> usize {
    let Demand { collective, bytes, algorithm, protocol, .. } = demand;
    if algorithm.is_collnet() || bytes == 0 || channels <= 1 {
        return channels;
    }
    let ranks = comm.ranks.max(1) as u64;
    let (count, times) = match collective {
        TunedCollective::AllReduce => (bytes, 2),
        TunedCollective::AllGather | TunedCollective::ReduceScatter => {
            (bytes.div_ceil(ranks), ranks)
        }
        TunedCollective::Broadcast | TunedCollective::Reduce => (bytes, 1),
    };
    let times = if protocol == Protocol::Ll { 4 * times } else { times };
    let cell = least.div_ceil(times).div_ceil(16) * 16;
    let cells = count.div_ceil(cell);
    let traffic = count.saturating_mul(times).max(least);
    let per_channel = (traffic / channels as u64).div_ceil(16) * 16;
    let cells_each = per_channel.div_ceil(cell * times).clamp(1, cells);
    usize::try_from(cells.div_ceil(cells_each)).unwrap_or(channels).min(channels)
}

/// The chunk of a call: what one channel sends at a time, less where there is little data.
fn chunk(comm: &Communicator, options: &NcclOptions, demand: Demand, channels: usize) -> u64 {
    let Demand { collective, bytes, algorithm, protocol, .. } = demand;
    let most = most_chunk(&options.buffers, collective, algorithm, protocol).get();
    let lanes = channels.max(1) as u64;
    let per = |chunk: u64, times: u64| lanes.saturating_mul(chunk).saturating_mul(times);
    let heads = comm.nvls_graph.channels.max(1) as u64;
    let nvls_chunk = options.nvls_chunk.map_or(128 << 10, Bytes::get);
    let chunk = match (algorithm, protocol) {
        (Algorithm::Nvls, _) => {
            let bounds = [(64, 65_536), (8, 32_768), (2, 16_384)];
            shrink(most.min(nvls_chunk), &bounds, |chunk, times| bytes < per(chunk, heads * times))
        }
        (Algorithm::NvlsTree, _) => {
            let most = if comm.nodes >= 4 { nvls_chunk.min(65_536) } else { nvls_chunk };
            let bounds = [(32, 262_144), (16, 131_072), (4, 65_536), (1, 32_768)];
            shrink(most, &bounds, |chunk, times| bytes < per(chunk, heads * times))
        }
        (Algorithm::Tree, Protocol::Ll128) => {
            let per_node = comm.per_node();
            let levels = 1.0 + f64::from(comm.nodes.max(1).ilog2()) + 0.1 * per_node;
            let few = |chunk: u64, times: f64| {
                ((bytes / per(chunk, 1).max(1)) as f64) < levels * times / per_node
            };
            let chunk = halve(most, 131_072, |it| few(it, 64.0));
            halve(chunk, 32_768, |it| few(it, 16.0))
        }
        (Algorithm::Pat, _) => {
            let times = if collective == TunedCollective::AllGather { 32 } else { 16 };
            halve(most, 65_536, |it| per(it, times) > bytes)
        }
        (Algorithm::CollNetChain, _) => {
            let depth = (comm.ranks / comm.nodes) as u64;
            let few = |chunk: u64, times: u64| bytes / per(chunk, 1).max(1) < depth * times;
            let chunk = halve(most.min(256 << 10), 131_072, |it| few(it, 64));
            let chunk = halve(chunk, 65_536, |it| few(it, 8));
            halve(chunk, 32_768, |it| few(it, 1))
        }
        _ => most,
    };
    let grain = match protocol {
        Protocol::Ll => 16,
        Protocol::Ll128 => 1920,
        Protocol::Simple => 512,
    };
    chunk / grain * grain
}

/// Goes through `bounds` (a factor and a smaller chunk each) and takes every smaller chunk for which there is too
/// little data for the chunk so far.
fn shrink(mut chunk: u64, bounds: &[(u64, u64)], too_little: impl Fn(u64, u64) -> bool) -> u64 {
    for (times, smaller) in bounds {
        if chunk > *smaller && too_little(chunk, *times) {
            chunk = *smaller;
        }
    }
    chunk
}

fn halve(mut chunk: u64, least: u64, too_large: impl Fn(u64) -> bool) -> u64 {
    while chunk > least && too_large(chunk) {
        chunk /= 2;
    }
    chunk
}
