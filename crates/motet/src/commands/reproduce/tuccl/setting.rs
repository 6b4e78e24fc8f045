//! [`Planned`]: a cluster of TuCCL §IV-A with its plan, made as `motet plan` makes it.

use motet_collective::CollectiveKind;
use motet_nccl::{NcclModel, NcclOptions, TunedCollective};
use motet_net::Network;
use motet_tune::clusters::Cluster;
use motet_tune::plan::candidates::{CandidateProgram, Ground, candidates};
use motet_tune::plan::communicator::Effort;
use motet_tune::plan::make::Nccl;
use motet_tune::plan::{MscclppUse, NoJournal, Pick, Plan, Request, Setup, TunedTask, make};
use motet_tune::search::Method;
use motet_tune::sketch::{distinct, sketches};
use motet_units::{Bytes, Duration, Seed};

use crate::args::reproduce::ReproduceArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// The collectives that the paper measures.
pub(super) const KINDS: [CollectiveKind; 2] =
    [CollectiveKind::AllGather, CollectiveKind::AllReduce];

/// From 1 KiB to 1 GiB, as in the paper, in five steps.
pub(super) const SIZES: [Bytes; 5] =
    [Bytes::kib(1), Bytes::kib(32), Bytes::mib(1), Bytes::mib(32), Bytes::gib(1)];

/// What every experiment here assumes.
pub(super) const ASSUMED: [&str; 3] = [
    "all times are of the model of kernels (`motet sim --kernels`) on the cluster files of examples/, \
     which say what the paper leaves open of the hardware",
    "MSCCL is the paper's uniform default (Table III: Simple, one channel, 512 threads, 4 MiB) on a \
     program that sends straight to everyone, at each size the faster of two: as made for 1 KiB (an \
     AllReduce sends everything to everyone at once), or as made for 4 MiB (an AllReduce in two \
     rounds); that is kinder to MSCCL than one program for all sizes; the paper also says that \
     MSCCL's tuner is on, and not what it chose",
    "NCCL is NCCL's own choice of algorithm and protocol, priced by the same model on the rings and \
     trees that it would build; ours is the best program for MSCCL's executor, with no more thread \
     blocks than NCCL would have",
];

/// As many settings of the communicator as `motet plan` tries by default.
const TRIALS: u32 = 8;

/// A cluster and its plan.
pub(super) struct Planned {
    pub(super) name: &'static str,
    pub(super) network: Network,
    pub(super) plan: Plan,
    seed: Seed,
}

impl Planned {
    pub(super) fn new(
        cluster: &Cluster,
        kinds: &[CollectiveKind],
        sizes: &[Bytes],
        args: &ReproduceArgs,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        printer.note(&format!("planning for {}", cluster.name));
        let network = cluster.network()?;
        let request = Request {
            tasks: kinds.iter().map(|it| (*it, sizes.to_vec())).collect(),
            seed: args.seed,
            effort: Effort { method: Method::Surrogate, trials: TRIALS },
            sketch: None,
            most_blocks: None,
            mscclpp: MscclppUse::default(),
            runtime: None,
            margin_percent: 0,
        };
        let plan = make(&network, &request, &NoJournal)
            .map_err(|it| Failure::wrong(it.to_string()).in_file(cluster.name))?;
        Ok(Self { name: cluster.name, network, plan, seed: Seed::new(args.seed) })
    }

    /// Plans for the two collectives of the paper on several clusters.
    pub(super) fn all(
        clusters: &[Cluster],
        args: &ReproduceArgs,
        printer: &Printer,
    ) -> Result<Vec<Self>, Failure> {
        clusters.iter().map(|it| Self::new(it, &KINDS, &SIZES, args, printer)).collect()
    }

    pub(super) const fn seed(&self) -> Seed {
        self.seed
    }

    /// Everything that the plan chose from for a collective, of which a plan keeps only what it
    /// uses.
    pub(super) fn candidates(
        &self,
        kind: CollectiveKind,
    ) -> Result<Vec<CandidateProgram>, Failure> {
        let found = distinct(sketches(&self.network));
        let seed = self.seed.named(kind.name());
        let (network, most_blocks) = (&self.network, self.plan.most_blocks);
        let kernels = Nccl::new(network, Setup::default()).kernels;
        let ground = Ground {
            network,
            kernels,
            most_blocks,
            mscclpp: MscclppUse::default(),
            runtime: None,
            seed,
        };
        let made = candidates(&ground, kind, &found, &|_| {});
        Ok(made.map_err(|it| Failure::wrong(it.to_string()).in_file(self.name))?.candidates)
    }

    pub(super) fn tasks(&self, kind: CollectiveKind) -> impl Iterator<Item = &TunedTask> {
        self.plan.tasks.iter().filter(move |it| it.collective == kind)
    }

    /// What NCCL's own cost model expects of its choice, which the simulator does not see.
    pub(super) fn nccl_expects(&self, task: &TunedTask) -> Option<Duration> {
        let model = NcclModel::new(&self.network, NcclOptions::default()).ok()?;
        Some(model.choose(TunedCollective::of(task.collective)?, task.size())?.duration())
    }

    /// Of the collective and size.
    pub(super) fn task(&self, kind: CollectiveKind, size: Bytes) -> Option<&TunedTask> {
        self.tasks(kind).find(|it| it.size() == size)
    }
}

/// The tasks of several plans, with the cluster of each.
pub(super) fn tasks(
    planned: &[Planned],
    kind: CollectiveKind,
) -> impl Iterator<Item = (&Planned, &TunedTask)> {
    planned.iter().flat_map(move |it| it.tasks(kind).map(move |task| (it, task)))
}

/// How many times as long `slow` takes as `fast`.
pub(super) fn times(slow: Option<&Pick>, fast: Option<&Pick>) -> Option<f64> {
    let (slow, fast) = (slow?, fast?);
    (fast.time_ps > 0).then(|| slow.time_ps as f64 / fast.time_ps as f64)
}

/// A collective as the paper writes it.
pub(super) const fn written(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllGather => "AllGather",
        CollectiveKind::AllReduce => "AllReduce",
        CollectiveKind::ReduceScatter => "ReduceScatter",
        CollectiveKind::Broadcast => "Broadcast",
        CollectiveKind::Reduce => "Reduce",
        CollectiveKind::AllToAll => "AllToAll",
        other => other.name(),
    }
}
