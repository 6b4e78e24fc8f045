//! [`PlanCost`]: how long a plan takes on a network.

use motet_collective::formats::mscclpp_json::{self, Outline, OutlineStep, Work};
use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::Network;
use motet_net::formats::ReadError;
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bytes, Duration, Rank};

use super::chain::Chain;
use super::rounds::{Conditions, legs};
use super::terms::{CACHE, PlanTerms};

/// How ranks share GPUs: each GPU runs `ranks_per_gpu` consecutive ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub ranks_per_gpu: u32,
}

impl Sharing {
    /// Every rank has a GPU of its own.
    pub const NONE: Self = Self { ranks_per_gpu: 1 };

    const fn gpu(self, rank: Rank) -> usize {
        rank.index() / if self.ranks_per_gpu == 0 { 1 } else { self.ranks_per_gpu as usize }
    }
}

/// What the time of a call is made of, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanParts {
    /// Launching the kernels.
    pub launch: f64,
    /// The longest chain of operations, signals and waits, if no two blocks slowed each other down.
    pub chain: f64,
    /// What is added because all blocks share memory and links.
    pub shared: f64,
}

impl PlanParts {
    /// All together, in whole picoseconds.
    #[must_use]
    pub fn time(&self) -> Duration {
        let us = self.launch + self.chain + self.shared;
        // Far below what a Duration holds.
        Duration::from_ps((us * 1e6).round() as u64)
    }
}

/// A plan made ready to be priced at any size.
#[derive(Clone, Debug)]
pub struct PlanCost {
    pub outline: Outline,
    sharing: Sharing,
    /// Which operation waits for which; `None` if blocks wait for one another for ever.
    chain: Option<Chain>,
    /// Reads and writes of a GPU's memory, in chunks: those of the GPU that has most.
    accesses: f64,
    /// How long the busiest link takes per byte of a chunk, in µs.
    link: f64,
    /// Thread blocks of the GPU that has most.
    blocks: u32,
}

impl PlanCost {
    /// The cost of a plan whose ranks all run on one GPU and share nothing but its memory.
    ///
    /// # Errors
    /// If the text is no plan; `Ok(None)` if it has operations that are not known.
    pub fn on_one_gpu(text: &str) -> Result<Option<Self>, ReadError> {
        let Some(outline) = mscclpp_json::outline(text)? else { return Ok(None) };
        let ranks = outline.collective.ranks();
        let latency = vec![0.0; (ranks * ranks) as usize];
        Ok(Some(Self::new(outline, Sharing { ranks_per_gpu: ranks }, &latency, 0.0)))
    }

    /// The cost of a plan on a network; `program` is the program read from the same text.
    ///
    /// # Errors
    /// Why there is no price: the text is no plan, or the network has no path between two ranks.
    pub fn on_network(
        text: &str,
        program: &Verified<Program>,
        network: &Network,
        sharing: Sharing,
    ) -> Result<Self, String> {
        let outline = mscclpp_json::outline(text).map_err(|it| it.to_string())?;
        let outline = outline.ok_or("the plan has operations that are not priced")?;
        let routed = Routed::new(program, network, SwitchForwarding::CutThrough)
            .map_err(|it| it.to_string())?;
        let ranks = program.collective().ranks() as usize;
        let mut latency = vec![0.0f64; ranks * ranks];
        let mut loads = vec![0.0f64; network.links().len()];
        for (index, transfer) in program.transfers().iter().enumerate() {
            let (src, dst) = (transfer.src.rank, transfer.dst.rank);
            if src == dst {
                continue;
            }
            let scratch = motet_collective::program::Buffer::Scratch;
            let packets = program.hints().protocol == motet_collective::program::Protocol::Ll
                && (transfer.src.buffer == scratch || transfer.dst.buffer == scratch);
            let mut way = 0.0;
            for hop in routed.hops(index) {
                loads[hop.link.index()] +=
                    f64::from(transfer.count) * if packets { 2.0 } else { 1.0 };
                way += network.link(hop.link).spec.latency.as_us_f64();
            }
            for (a, b) in [(src, dst), (dst, src)] {
                let known = &mut latency[a.index() * ranks + b.index()];
                *known = if *known == 0.0 { way } else { known.min(way) };
            }
        }
        let per_byte = |(link, load): (usize, &f64)| {
            let rate = network.links()[link].spec.bandwidth.bits_per_s() as f64 / 8e6;
            if *load > 0.0 { load / rate.max(f64::MIN_POSITIVE) } else { 0.0 }
        };
        let link = loads.iter().enumerate().map(per_byte).fold(0.0, f64::max);
        Ok(Self::new(outline, sharing, &latency, link))
    }

    /// `latency` is what the network adds between two ranks, in µs: a matrix row by row.
    fn new(outline: Outline, sharing: Sharing, latency: &[f64], link: f64) -> Self {
        let gpus = outline.collective.ranks() as usize;
        let (mut accesses, mut blocks) = (vec![0.0; gpus], vec![0u32; gpus]);
        for block in &outline.blocks {
            blocks[sharing.gpu(block.rank)] += 1;
            for step in &block.steps {
                match step {
                    OutlineStep::Move(work) => count(work, block.rank, sharing, &mut accesses),
                    OutlineStep::Post { to, chunks, .. } => {
                        for end in [block.rank, *to] {
                            accesses[sharing.gpu(end)] += f64::from(*chunks);
                        }
                    }
                    _ => {}
                }
            }
        }
        let most = accesses.into_iter().fold(0.0, f64::max);
        let blocks = blocks.into_iter().max().unwrap_or(0);
        let ranks = outline.collective.ranks() as usize;
        let chain = Chain::of(&outline, &|a, b| latency[a.index() * ranks + b.index()]);
        Self { outline, sharing, chain, accesses: most, link, blocks }
    }

    /// How long a call of `size` takes; `None` if the plan waits for itself.
    #[must_use]
    pub fn price(&self, size: Bytes, terms: &PlanTerms) -> Option<Duration> {
        Some(self.parts(size, terms)?.time())
    }

    /// The same in µs.
    #[must_use]
    pub fn micros(&self, size: Bytes, terms: &PlanTerms) -> Option<f64> {
        let PlanParts { launch, chain, shared } = self.parts(size, terms)?;
        Some(launch + chain + shared)
    }

    /// What the time of a call is made of.
    #[must_use]
    pub fn parts(&self, size: Bytes, terms: &PlanTerms) -> Option<PlanParts> {
        let chunk = size.get() as f64 / f64::from(self.outline.collective.size_chunks().max(1));
        let cold = cold(self.footprint(size));
        // A multiprocessor runs a block of 1024 threads or two of 512.
        let multiprocessors = mscclpp_json::Gpu::default().multiprocessors;
        let crowd = f64::from(self.blocks.div_ceil(multiprocessors).max(1));
        let ranks = f64::from(self.sharing.ranks_per_gpu.max(1));
        let under = Conditions { threads: self.outline.threads, cold, crowd, ranks };
        let chain = self.chain.as_ref()?;
        let whole = chain.micros(chunk, &under, terms);
        // Signals and operations as such leave memory and links alone.
        let data = whole - chain.micros(0.0, &under, terms);
        let launch = terms.launch
            + terms.sharer * (ranks - 1.0)
            + terms.threads * f64::from(self.outline.threads) / 1024.0
            + terms.block * f64::from(self.blocks);
        let bytes = self.accesses * chunk;
        let memory = bytes * ((1.0 - cold) / terms.cached + cold / terms.memory);
        let shared = legs(data, memory.max(self.link * chunk)) - data;
        Some(PlanParts { launch, chain: whole, shared })
    }

    /// The memory that the buffers of a call take on one GPU, in bytes.
    fn footprint(&self, size: Bytes) -> f64 {
        let collective = &self.outline.collective;
        let (size, ranks) = (size.get() as f64, f64::from(collective.ranks()));
        let apart = match collective.kind() {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => size + size / ranks,
            _ => 2.0 * size,
        };
        let own = if self.outline.in_place { size } else { apart };
        let chunk = size / f64::from(collective.size_chunks().max(1));
        let scratch = chunk * self.outline.scratch_chunks as f64;
        (own + scratch) * f64::from(self.sharing.ranks_per_gpu.max(1))
    }
}

/// The share of a call's data that comes from memory rather than from the cache, for buffers of `footprint` bytes.
/// A cache keeps what was used last, so the share rises steeply where buffers no longer fit.
fn cold(footprint: f64) -> f64 {
    let times = footprint / CACHE;
    let steep = times * times * times * times;
    steep / (1.0 + steep)
}

/// Adds what one operation reads and writes to the GPUs whose memory that is, in chunks. The flags of packets are
/// not counted: counting them explained measured calls no better and made choices between plans worse.
fn count(work: &Work, rank: Rank, sharing: Sharing, accesses: &mut [f64]) {
    let chunks = f64::from(work.chunks);
    for peer in work.read_from.iter().chain(&work.write_to) {
        accesses[sharing.gpu(*peer)] += chunks;
    }
    let all = f64::from(work.reads + work.writes) * f64::from(work.passes);
    let far = (work.read_from.len() + work.write_to.len()) as f64;
    accesses[sharing.gpu(rank)] += chunks * (all - far).max(0.0);
}
