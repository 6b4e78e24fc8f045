//! [`make`]: from a network to a plan.

use std::sync::Arc;

use motet_collective::{CollectiveKind, bound::bound};
use motet_nccl::kernel::Kernels;
use motet_nccl::{NcclModel, NcclOptions, Priced, nvls};
use motet_net::{Network, Signature};
use motet_synth::{Goal, SynthError};
use motet_units::{Bytes, Duration, Rank, Seed};
use rayon::prelude::*;

use super::candidates::{CandidateProgram, Candidates, Ground, candidates};
use super::communicator::{self, Effort, Setup};
use super::tune::Tuning;
use super::{MscclppUse, Plan, Runtime, TunedTask};
use crate::sketch::{self, distinct, sketches};

/// What a plan is to be made for, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tasks: each collective once, with the sizes to tune it for.
    pub tasks: Vec<(CollectiveKind, Vec<Bytes>)>,
    pub seed: u64,
    /// How hard to look for the communicator's settings.
    pub effort: Effort,
    /// The user's own sketch, in place of those found.
    pub sketch: Option<sketch::Candidate>,
    /// The most thread blocks of a program on a GPU; `None`: as many as NCCL would have.
    pub most_blocks: Option<u32>,
    /// What a program must gain over NCCL's best to be picked, in percent.
    pub margin_percent: u32,
    pub mscclpp: MscclppUse,
    /// The only runtime that programs are made for; `None`: all.
    pub runtime: Option<Runtime>,
}

impl Request {
    /// The sketches that programs are made under: the user's, or those found that differ.
    #[must_use]
    pub fn sketches(&self, network: &Network) -> Vec<sketch::Candidate> {
        match &self.sketch {
            Some(given) => vec![given.clone()],
            None => distinct(sketches(network)),
        }
    }
}

/// Progress of the making of a plan.
#[derive(Clone, Copy, Debug)]
pub enum PlanEvent<'a> {
    /// The synthesizer begins to make the program of this name.
    Making(CollectiveKind, &'a str),
    /// All programs of a collective have been made; these can be used.
    Made(CollectiveKind, &'a [CandidateProgram]),
    /// The search for the best program of a task begins.
    Tuning(CollectiveKind, Bytes),
    /// A task is finished.
    Tuned(&'a TunedTask),
}

/// Remembers what was tuned, so that a plan that was stopped goes on where it was.
pub trait Journal: Sync {
    /// The result for a task from an earlier, stopped run; `None` if there is none.
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<TunedTask>;
    /// Something begins or is finished: for progress, and to write down what is finished.
    fn done(&self, event: PlanEvent<'_>);
}

/// Remembers nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn known(&self, _: CollectiveKind, _: Bytes) -> Option<TunedTask> {
        None
    }
    fn done(&self, _: PlanEvent<'_>) {}
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    #[error("{kind} cannot be done on this network: {error}")]
    Synth { kind: CollectiveKind, error: SynthError },
    #[error(
        "no way of doing {0} was found: NCCL has no algorithm for it, and no program fits a runtime; \
         allow more thread blocks (`--max-blocks`)"
    )]
    NoWay(CollectiveKind),
    #[error(
        "{kind} of {size}: {what} ({way}) would take {time}, and nothing can take less than {bound} on \
         this network; this is a fault in Motet"
    )]
    Impossible {
        kind: CollectiveKind,
        size: Bytes,
        what: &'static str,
        way: String,
        time: Duration,
        bound: Duration,
    },
}

/// NCCL on a network under some settings of the communicator: its choices, and the costs of its kernels.
#[derive(Debug)]
pub struct Nccl {
    pub model: Option<NcclModel>,
    pub kernels: Arc<Kernels>,
}

impl Nccl {
    /// On a network that NCCL cannot be modelled on there is no model, so no choice of NCCL's to compare with; kernels
    /// are priced all the same.
    #[must_use]
    pub fn new(network: &Network, setup: Setup) -> Self {
        let mut options = NcclOptions { threads: setup.threads, ..NcclOptions::default() };
        if let Some(buffer) = setup.buffer {
            options.buffers.simple = buffer;
        }
        let model = NcclModel::new(network, options.clone()).ok();
        let kernels = match &model {
            Some(model) => Kernels::new(network, model.communicator(), &options),
            None => Kernels::plain(network, &options),
        };
        Self { model, kernels: Arc::new(kernels) }
    }

    /// NCCL's choices with their times, if NCCL can be modelled.
    #[must_use]
    pub fn priced<'a>(&'a self, network: &'a Network) -> Option<Priced<'a>> {
        Some(Priced::new(network, self.model.as_ref()?, Arc::clone(&self.kernels)))
    }

    /// The most thread blocks that NCCL itself would have on a GPU.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        let channels = self.model.as_ref().map_or(16, |it| it.communicator().channels);
        u32::try_from(channels).unwrap_or(u32::MAX)
    }

    /// The network as NCCL may use it: with sums and copies in its switches where it has NVLS.
    fn usable(&self, network: &Network) -> Option<Network> {
        let nvls = self.model.as_ref().is_some_and(|it| it.communicator().nvls);
        if nvls { nvls::capable(network) } else { None }
    }
}

/// The least time of a collective at every size, whatever does it.
pub(crate) fn bounds(
    network: &Network,
    nccl: &Nccl,
    kind: CollectiveKind,
    sizes: &[Bytes],
) -> Result<Vec<Duration>, PlanError> {
    let wrong = |error: SynthError| PlanError::Synth { kind, error };
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let goal = Goal::rooted(kind, ranks, Rank(0)).map_err(|it| wrong(it.into()))?;
    let collective = goal.collective(1).map_err(|it| wrong(it.into()))?;
    let usable = nccl.usable(network);
    let found = bound(usable.as_ref().unwrap_or(network), &collective);
    let found = found.map_err(|it| wrong(it.into()))?;
    Ok(sizes.iter().map(|it| found.program_time(*it)).collect())
}

/// One collective of a plan in the making: its sizes, candidates, bounds and results.
struct Part<'a> {
    kind: CollectiveKind,
    sizes: &'a [Bytes],
    found: Candidates,
    bounds: Vec<Duration>,
    tuned: Vec<TunedTask>,
}

/// Makes a plan.
pub fn make(
    network: &Network,
    request: &Request,
    journal: &dyn Journal,
) -> Result<Plan, PlanError> {
    let nccl = Nccl::new(network, Setup::default());
    let most_blocks = request.most_blocks.unwrap_or_else(|| nccl.blocks());
    let sketches = request.sketches(network);
    let seed = Seed::new(request.seed);
    let parts: Result<Vec<Part<'_>>, PlanError> = request
        .tasks
        .par_iter()
        .map(|(kind, sizes)| {
            let seed = seed.named(kind.name());
            let ground = Ground {
                network,
                kernels: Arc::clone(&nccl.kernels),
                most_blocks,
                mscclpp: request.mscclpp,
                runtime: request.runtime,
                seed,
            };
            let making = |name: &str| journal.done(PlanEvent::Making(*kind, name));
            let found = candidates(&ground, *kind, &sketches, &making)
                .map_err(|error| PlanError::Synth { kind: *kind, error })?;
            journal.done(PlanEvent::Made(*kind, &found.candidates));
            let bounds = bounds(network, &nccl, *kind, sizes)?;
            Ok(Part { kind: *kind, sizes, found, bounds, tuned: Vec::new() })
        })
        .collect();
    let mut parts = parts?;
    let maker = Maker { network, request, journal };
    maker.tune(&nccl, Setup::default(), &mut parts)?;
    let setup = maker.setup(&nccl, &parts);
    if setup != Setup::default() {
        maker.tune(&Nccl::new(network, setup), setup, &mut parts)?;
    }
    Ok(maker.assemble(&nccl, most_blocks, setup, parts))
}

struct Maker<'a> {
    network: &'a Network,
    request: &'a Request,
    journal: &'a dyn Journal,
}

impl Maker<'_> {
    fn tuning<'b>(
        &self,
        nccl: &Nccl,
        priced: Option<&'b Priced<'b>>,
        setup: Setup,
        part: &'b Part<'_>,
    ) -> Tuning<'b> {
        Tuning {
            kind: part.kind,
            candidates: &part.found.candidates,
            priced,
            setup,
            margin_percent: self.request.margin_percent,
            ll128: nccl.kernels.trusts_ll128(),
        }
    }

    /// NCCL's choices; none where ranks share a GPU, which NCCL's model knows nothing of.
    fn priced<'b>(&'b self, nccl: &'b Nccl) -> Option<Priced<'b>> {
        if self.request.mscclpp.ranks_per_gpu > 1 { None } else { nccl.priced(self.network) }
    }

    /// Tunes every task under some settings of the communicator.
    fn tune(&self, nccl: &Nccl, setup: Setup, parts: &mut [Part<'_>]) -> Result<(), PlanError> {
        let priced = self.priced(nccl);
        for part in parts {
            let tuning = self.tuning(nccl, priced.as_ref(), setup, part);
            let tasks: Vec<(Bytes, Duration)> =
                part.sizes.iter().copied().zip(part.bounds.iter().copied()).collect();
            let tuned: Result<Vec<TunedTask>, PlanError> = tasks
                .par_iter()
                .map(|(size, bound)| {
                    self.journal.done(PlanEvent::Tuning(part.kind, *size));
                    let known = self.journal.known(part.kind, *size);
                    let known = known.filter(|_| setup == Setup::default());
                    let tuned = known.map_or_else(|| tuning.tune(*size, *bound), Ok)?;
                    if setup == Setup::default() {
                        self.journal.done(PlanEvent::Tuned(&tuned));
                    }
                    Ok(tuned)
                })
                .collect();
            part.tuned = tuned?;
        }
        Ok(())
    }

    /// The settings of the communicator that suit all tasks.
    fn setup(&self, nccl: &Nccl, parts: &[Part<'_>]) -> Setup {
        let priced = self.priced(nccl);
        let tunings: Vec<Tuning<'_>> = parts
            .iter()
            .map(|part| self.tuning(nccl, priced.as_ref(), Setup::default(), part))
            .collect();
        let tasks: Vec<(&Tuning<'_>, &[TunedTask])> =
            tunings.iter().zip(parts).map(|(tuning, part)| (tuning, &part.tuned[..])).collect();
        let Request { effort, seed, margin_percent, .. } = self.request;
        communicator::choose(&tasks, *effort, *seed, *margin_percent)
    }

    fn assemble(&self, nccl: &Nccl, most_blocks: u32, setup: Setup, parts: Vec<Part<'_>>) -> Plan {
        let nodes = nccl.model.as_ref().map_or(1, |it| it.communicator().nodes);
        let mut plan = Plan {
            network: self.network.name().to_owned(),
            signature: Signature::of(self.network),
            ranks: u32::try_from(self.network.ranks().len()).unwrap_or(u32::MAX),
            nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
            seed: self.request.seed,
            margin_percent: self.request.margin_percent,
            most_blocks,
            mscclpp: self.request.mscclpp,
            setup,
            tasks: Vec::new(),
            candidates: Vec::new(),
            left_out: Vec::new(),
        };
        for Part { found, tuned, .. } in parts {
            let uses = |way: &CandidateProgram| {
                let picks = tuned.iter().flat_map(TunedTask::picks);
                picks.into_iter().any(|it| it.1.way == way.name)
            };
            plan.candidates.extend(found.candidates.iter().filter(|it| uses(it)).cloned());
            plan.left_out.extend(found.left_out);
            plan.tasks.extend(tuned);
        }
        plan
    }
}
