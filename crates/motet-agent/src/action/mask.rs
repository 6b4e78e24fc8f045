//! [`Masked`]: why an action is invalid, and [`Rules`]: the check that finds out.

use motet_nccl::choice::most_chunk;
use motet_nccl::{Algorithm, Knobs, NcclVersion, NotOffered, Offer, Protocol, TunedCollective};
use motet_units::Bytes;

use super::space::{Grain, Scope, SpaceSpec};
use super::{Action, Extensions, Head, Path};

/// Why an action is invalid on a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Masked {
    #[error("{0}")]
    NotOffered(#[from] NotOffered),
    #[error("NCCL chooses no algorithm for this collective: it makes it of sends and receives")]
    NotTuned,
    #[error("no in-network aggregation is active")]
    NoPassthrough,
    #[error("the plan has no program for this task")]
    NoProgram,
    #[error("knobs are NCCL's, and the call takes another path")]
    OtherPath,
    #[error(
        "algorithm and protocol are set together or not at all, and other knobs only with them"
    )]
    Unpaired,
    #[error("{asked} channels, and the communicator has {most}")]
    Channels { asked: u32, most: u32 },
    #[error("{0} channels are not on the grid of powers of two")]
    Grain(u32),
    #[error("where switches copy or add up, NCCL sets channels and chunks itself")]
    InNetwork,
    #[error("threads are the communicator's (NCCL_NTHREADS) and cannot be set for a call")]
    ThreadsPerCall,
    #[error("only kernels of Ring take the number of threads that is asked for")]
    ThreadsFixed,
    #[error("{protocol} cannot run with {threads} threads")]
    Threads { threads: u32, protocol: Protocol },
    #[error("chunks can be set since tuner v6, which came with NCCL 2.30")]
    NoChunks,
    #[error("a chunk of {asked}, and a slot of the buffer holds {most}")]
    Chunk { asked: Bytes, most: Bytes },
    #[error("the chunk is not among the space's")]
    OffGrid,
    #[error("{0} is a slot for later: NCCL has nothing of the kind")]
    Extension(Head),
}

/// Decides which actions are valid for a collective on a communicator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) spec: SpaceSpec,
    tuned: Option<TunedCollective>,
    version: NcclVersion,
    offers: [[Result<(), NotOffered>; Protocol::COUNT]; Algorithm::COUNT],
    most_chunk: [[Bytes; Protocol::COUNT]; Algorithm::COUNT],
    most_channels: u32,
}

impl Rules {
    pub(super) fn new(offer: Offer<'_>, tuned: Option<TunedCollective>, spec: SpaceSpec) -> Self {
        let each = |at: fn(Offer<'_>, TunedCollective, Algorithm, Protocol) -> Bytes| {
            Algorithm::ALL.map(|algorithm| {
                Protocol::ALL.map(|protocol| match tuned {
                    Some(it) => at(offer, it, algorithm, protocol),
                    None => Bytes::ZERO,
                })
            })
        };
        Self {
            spec,
            tuned,
            version: offer.options.version,
            offers: Algorithm::ALL.map(|algorithm| {
                Protocol::ALL.map(|protocol| match tuned {
                    Some(it) => offer.check(it, algorithm, protocol),
                    None => Err(NotOffered::Collective),
                })
            }),
            most_chunk: each(|offer, it, algorithm, protocol| {
                most_chunk(&offer.options.buffers, it, algorithm, protocol)
            }),
            most_channels: u32::try_from(offer.comm.channels).unwrap_or(u32::MAX),
        }
    }

    /// Checks whether an action is valid; if not, returns the first reason.
    pub(super) fn check(&self, action: &Action) -> Result<(), Masked> {
        extensions(&action.extensions)?;
        match action.path {
            Path::Nccl => self.knobs(action),
            Path::Passthrough if !self.spec.passthrough => Err(Masked::NoPassthrough),
            Path::Program if !self.spec.program => Err(Masked::NoProgram),
            Path::Passthrough | Path::Program => {
                let plain = Action { path: Path::Nccl, ..*action } == Action::DEFAULT;
                plain.then_some(()).ok_or(Masked::OtherPath)
            }
        }
    }

    fn knobs(&self, action: &Action) -> Result<(), Masked> {
        if *action == Action::DEFAULT {
            return Ok(());
        }
        if self.tuned.is_none() {
            return Err(Masked::NotTuned);
        }
        let (Some(algorithm), Some(protocol)) = (action.algorithm, action.protocol) else {
            return Err(Masked::Unpaired);
        };
        self.offers[algorithm.index()][protocol.index()]?;
        let in_network = algorithm.is_collnet() || algorithm.is_nvls();
        if in_network && (action.channels.is_some() || action.chunk.is_some()) {
            return Err(Masked::InNetwork);
        }
        action.channels.map_or(Ok(()), |it| self.channels(it))?;
        action.threads.map_or(Ok(()), |it| self.threads(algorithm, protocol, it))?;
        action.chunk.map_or(Ok(()), |it| self.chunk(algorithm, protocol, it))
    }

    fn channels(&self, asked: u32) -> Result<(), Masked> {
        let most = self.most_channels.min(super::heads::MOST_CHANNELS);
        if !(1..=most).contains(&asked) {
            return Err(Masked::Channels { asked, most });
        }
        let on_grid = self.spec.grain == Grain::Every || asked.is_power_of_two();
        on_grid.then_some(()).ok_or(Masked::Grain(asked))
    }

    fn threads(
        &self,
        algorithm: Algorithm,
        protocol: Protocol,
        threads: u32,
    ) -> Result<(), Masked> {
        if self.spec.scope == Scope::Call {
            return Err(Masked::ThreadsPerCall);
        }
        // Trees and PAT always run 640, the algorithms of switches too.
        if algorithm != Algorithm::Ring {
            return Err(Masked::ThreadsFixed);
        }
        let knobs = Knobs { threads: Some(threads), ..Knobs::new(protocol) };
        let most = motet_nccl::knobs::most_threads(protocol);
        let runs = threads <= most && knobs.fifo(&motet_nccl::options::Buffers::default()).is_ok();
        runs.then_some(()).ok_or(Masked::Threads { threads, protocol })
    }

    fn chunk(&self, algorithm: Algorithm, protocol: Protocol, asked: Bytes) -> Result<(), Masked> {
        if self.version < NcclVersion::V2_30 {
            return Err(Masked::NoChunks);
        }
        if !self.spec.chunks || !super::heads::CHUNKS.contains(&asked) {
            return Err(Masked::OffGrid);
        }
        let most = self.most_chunk[algorithm.index()][protocol.index()];
        (asked <= most).then_some(()).ok_or(Masked::Chunk { asked, most })
    }
}

fn extensions(it: &Extensions) -> Result<(), Masked> {
    let none = Extensions::NONE;
    let all = [
        (it.nic_stripe == none.nic_stripe, Head::NicStripe),
        (it.pipeline_depth == none.pipeline_depth, Head::PipelineDepth),
        (it.order == none.order, Head::Order),
        (it.levels == none.levels, Head::Levels),
    ];
    match all.into_iter().find(|it| !it.0) {
        Some((_, head)) => Err(Masked::Extension(head)),
        None => Ok(()),
    }
}
