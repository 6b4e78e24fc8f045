//! [`make`]: from a network to a plan.

use motet_collective::CollectiveKind;
use motet_nccl::{KnobModel, NcclModel, NcclOptions};
use motet_net::{Network, Signature};
use motet_synth::{Goal, SynthError, Task};
use motet_units::{Bytes, Duration, Rank, Seed};
use rayon::prelude::*;

use super::tune::{Effort, Tuning};
use super::ways::{Origin, Way, Ways, ways};
use super::{Plan, Tuned};
use crate::sketch::{self, distinct, sketches};

/// What is asked of a plan.
#[derive(Clone, Debug)]
pub struct Request {
    pub collectives: Vec<CollectiveKind>,
    pub sizes: Vec<Bytes>,
    pub seed: u64,
    pub effort: Effort,
    /// A sketch of the user's, in place of those found.
    pub sketch: Option<sketch::Candidate>,
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

/// What has just been done.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The ways of a collective are there.
    Ways(CollectiveKind, usize),
    Tuned(&'a Tuned),
}

/// Remembers what was tuned, so that a plan that was stopped goes on where it was.
pub trait Journal: Sync {
    /// What is known of a task from before.
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<Tuned>;
    /// Something was done.
    fn done(&self, step: Step<'_>);
}

/// Remembers nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn known(&self, _: CollectiveKind, _: Bytes) -> Option<Tuned> {
        None
    }
    fn done(&self, _: Step<'_>) {}
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    #[error("{kind} cannot be done on this network: {error}")]
    Synth { kind: CollectiveKind, error: SynthError },
    #[error("no way of doing {0} was found that the simulator can run")]
    NoWay(CollectiveKind),
}

/// Everything about one collective.
struct Part {
    found: Ways,
    tuned: Vec<Tuned>,
}

/// Makes a plan.
pub fn make(
    network: &Network,
    request: &Request,
    journal: &dyn Journal,
) -> Result<Plan, PlanError> {
    let options = NcclOptions::default();
    let model = KnobModel::new(network, &options);
    // A network that NCCL cannot be modelled on has no choice of NCCL's to compare with.
    let nccl = NcclModel::new(network, options).ok();
    let found = request.sketches(network);
    let seed = Seed::new(request.seed);
    let parts: Result<Vec<Part>, PlanError> = request
        .collectives
        .par_iter()
        .map(|kind| {
            let seed = seed.named(kind.name());
            let found = ways(network, *kind, model, &found, seed)
                .map_err(|error| PlanError::Synth { kind: *kind, error })?;
            if found.ways.is_empty() {
                return Err(PlanError::NoWay(*kind));
            }
            journal.done(Step::Ways(*kind, found.ways.len()));
            let effort = request.effort;
            let tuning = Tuning {
                kind: *kind,
                ways: &found.ways,
                nccl: nccl.as_ref(),
                model: &model,
                effort,
                seed,
            };
            let tuned = tune_all(network, &tuning, &request.sizes, journal)?;
            Ok(Part { found, tuned })
        })
        .collect();
    Ok(assemble(network, request, parts?))
}

/// Tunes every size, then tries on each what its neighbours found.
fn tune_all(
    network: &Network,
    tuning: &Tuning<'_>,
    sizes: &[Bytes],
    journal: &dyn Journal,
) -> Result<Vec<Tuned>, PlanError> {
    let kind = tuning.kind;
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let wrong = |error: SynthError| PlanError::Synth { kind, error };
    let goal = Goal::rooted(kind, ranks, Rank(0)).map_err(|it| wrong(it.into()))?;
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let bound = Task::new(network, goal, largest).bound().map_err(wrong)?;
    let mut tuned: Vec<Tuned> = sizes
        .par_iter()
        .map(|size| {
            let known = journal.known(kind, *size);
            let tuned = known.unwrap_or_else(|| tuning.tune(*size, bound.program_time(*size)));
            journal.done(Step::Tuned(&tuned));
            tuned
        })
        .collect();
    let found: Vec<_> = tuned.iter().map(|it| it.picks.clone()).collect();
    tuned.par_iter_mut().enumerate().for_each(|(at, tuned)| {
        for neighbour in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
            if let Some(picks) = found.get(neighbour) {
                tuning.try_picks(tuned, picks);
            }
        }
    });
    Ok(tuned)
}

fn assemble(network: &Network, request: &Request, parts: Vec<Part>) -> Plan {
    let mut plan = Plan {
        network: network.name().to_owned(),
        signature: Signature::of(network),
        ranks: u32::try_from(network.ranks().len()).unwrap_or(u32::MAX),
        seed: request.seed,
        tasks: Vec::new(),
        programs: Vec::new(),
        left_out: Vec::new(),
    };
    for Part { found, tuned, .. } in parts {
        let uses = |way: &Way| {
            !matches!(way.origin, Origin::Nccl(_))
                && tuned.iter().flat_map(|it| &it.picks).any(|it| it.way == way.name)
        };
        plan.programs.extend(found.ways.iter().filter(|it| uses(it)).cloned());
        plan.left_out.extend(found.left_out);
        plan.tasks.extend(tuned);
    }
    plan
}

impl Plan {
    /// The least and the most gain over another pick of each task.
    #[must_use]
    pub fn gains<'a>(
        &'a self,
        over: impl Fn(&'a Tuned) -> Option<&'a super::Pick>,
    ) -> Option<(f64, f64)> {
        let all = self.tasks.iter().filter_map(|it| it.gain(over(it)));
        all.fold(None, |span, it| {
            Some(span.map_or((it, it), |(low, high): (f64, f64)| (low.min(it), high.max(it))))
        })
    }

    /// How long all tasks take together, once each.
    #[must_use]
    pub fn total(&self) -> Duration {
        let times = self.tasks.iter().filter_map(Tuned::best).map(|it| it.time_ps);
        Duration::from_ps(times.fold(0, u64::saturating_add))
    }
}
