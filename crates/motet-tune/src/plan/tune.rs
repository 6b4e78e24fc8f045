//! [`Tuning::tune`]: the best program, layout and protocol for one task, beside what it is compared with.
//!
//! What can be chosen per call is little enough to look at all of it: some programs, each in a few
//! instances, under three protocols. A lower limit of a layout's time is known without simulating it
//! ([`Laid::least`](motet_nccl::kernel::Laid::least)), so that most of them are never run.

use motet_collective::CollectiveKind;
use motet_nccl::{Basis, Knobs, Priced, Protocol};
use motet_units::{Bytes, Duration};

use super::baseline;
use super::candidates::{CandidateProgram, Origin};
use super::communicator::Setup;
use super::{Pick, PlanError, Runtime, TunedTask};
use crate::layouts::Layout;

/// By how much a plan of MSCCL++ that is not one-sided must be faster than the best one-sided plan, in percent. The
/// model was fitted to one-sided plans only, and has been off by a tenth on others.
pub(crate) const UNFITTED_PERCENT: u32 = 10;

/// One collective to be tuned: its candidates, NCCL beside them, and the rules of the comparison.
#[derive(Debug)]
pub struct Tuning<'a> {
    pub kind: CollectiveKind,
    pub candidates: &'a [CandidateProgram],
    /// NCCL, where it can be modelled.
    pub priced: Option<&'a Priced<'a>>,
    pub setup: Setup,
    /// What a program must gain over NCCL's best, in percent.
    pub margin_percent: u32,
    /// Whether LL128 can be used.
    pub ll128: bool,
}

/// A layout under a protocol that may be the best.
struct Attempt<'a> {
    way: &'a CandidateProgram,
    layout: &'a Layout,
    knobs: Knobs,
    least: Duration,
}

impl<'a> Tuning<'a> {
    /// The best for `size`, nothing of which is below `bound`.
    pub fn tune(&self, size: Bytes, bound: Duration) -> Result<TunedTask, PlanError> {
        let mut trials = 0;
        let program = self.fastest(size, &|_| true, &mut trials);
        let straight = |it: &CandidateProgram| it.origin == Origin::FullMesh;
        let knobs_only = self.fastest(size, &straight, &mut trials);
        let sketch_only = self
            .candidates
            .iter()
            .filter_map(|it| baseline::uniform(it, size))
            .min_by_key(|it| it.time_ps);
        let plus = self.fastest_plan(size, &mut trials);
        let nccl = self.priced.and_then(|it| baseline::nccl(it, self.kind, size));
        let nccl_best = self.priced.and_then(|it| baseline::nccl_best(it, self.kind, size));
        let kept = kept(nccl.as_ref(), nccl_best.as_ref(), self.margin_percent);
        let pick = match (&program, kept) {
            (Some(program), _) if self.beats(program, nccl_best.as_ref()) => program.clone(),
            (_, Some(nccl)) => nccl.clone(),
            (Some(program), None) => program.clone(),
            (None, None) => plus.clone().ok_or(PlanError::NoWay(self.kind))?,
        };
        let tuned = TunedTask {
            collective: self.kind,
            size_bytes: size.get(),
            bound_ps: bound.as_ps(),
            mscclpp: plus.filter(|it| self.beats(it, nccl_best.as_ref())),
            msccl: baseline::msccl(self.candidates, size),
            sketch_only,
            knobs_only,
            pick,
            nccl,
            nccl_best,
            program,
            trials,
        };
        tuned.possible()?;
        Ok(tuned)
    }

    fn beats(&self, pick: &Pick, other: Option<&Pick>) -> bool {
        other.is_none_or(|it| beats(pick, it, self.margin_percent))
    }

    /// The fastest of some candidates in MSCCL's executor, among those that it takes at this size.
    fn fastest(
        &self,
        size: Bytes,
        of: &dyn Fn(&CandidateProgram) -> bool,
        trials: &mut u32,
    ) -> Option<Pick> {
        let mut attempts: Vec<Attempt<'a>> = Vec::new();
        for way in self.candidates.iter().filter(|it| of(it)) {
            for layout in way.family.layouts.iter().filter(|it| it.divides(size)) {
                for protocol in Protocol::ALL {
                    if protocol == Protocol::Ll128 && !self.ll128 {
                        continue;
                    }
                    let knobs = self.setup.knobs(protocol);
                    if let Ok(least) = layout.laid.least(size, &knobs) {
                        attempts.push(Attempt { way, layout, knobs, least });
                    }
                }
            }
        }
        attempts.sort_by_key(|it| it.least);
        let mut best: Option<(Duration, Attempt<'a>)> = None;
        for attempt in attempts {
            if best.as_ref().is_some_and(|it| attempt.least >= it.0) {
                break;
            }
            *trials += 1;
            let Ok(price) = attempt.layout.laid.price_under(size, &attempt.knobs) else {
                continue;
            };
            // Of equals the one with fewer blocks, then the first.
            let blocks = attempt.layout.blocks();
            let better = best
                .as_ref()
                .is_none_or(|(time, it)| (price.time, blocks) < (*time, it.layout.blocks()));
            if better {
                best = Some((price.time, attempt));
            }
        }
        best.map(|(time, it)| it.pick(time))
    }

    /// The fastest plan of MSCCL++, of equals the one with fewer thread blocks, then the first. One that is
    /// not one-sided must be faster by a [margin](UNFITTED_PERCENT).
    fn fastest_plan(&self, size: Bytes, trials: &mut u32) -> Option<Pick> {
        let one_sided = |it: &CandidateProgram| it.origin == Origin::OneSided;
        let fitted = self.fastest_plan_of(size, &one_sided, trials);
        let other = self.fastest_plan_of(size, &|it| !one_sided(it), trials);
        match (fitted, other) {
            (Some(fitted), Some(other)) if !beats(&other, &fitted, UNFITTED_PERCENT) => {
                Some(fitted)
            }
            (fitted, other) => other.or(fitted),
        }
    }

    fn fastest_plan_of(
        &self,
        size: Bytes,
        of: &dyn Fn(&CandidateProgram) -> bool,
        trials: &mut u32,
    ) -> Option<Pick> {
        let mut best: Option<Pick> = None;
        for way in self.candidates.iter().filter(|it| of(it)) {
            for plan in way.plans.iter().filter(|it| it.takes(size)) {
                *trials += 1;
                let Some(pick) = plan.time(size).map(|it| plan.pick(way, it)) else { continue };
                let key = |it: &Pick| (it.time_ps, it.blocks);
                if best.as_ref().is_none_or(|it| key(&pick) < key(it)) {
                    best = Some(pick);
                }
            }
        }
        best
    }
}

/// Whether a pick is faster than another by more than a margin.
pub(super) fn beats(pick: &Pick, other: &Pick, margin_percent: u32) -> bool {
    faster_by(pick.time_ps, other.time_ps, margin_percent)
}

/// Whether one time is shorter than another by more than a margin.
pub(crate) fn faster_by(mine_ps: u64, other_ps: u64, margin_percent: u32) -> bool {
    u128::from(mine_ps) * u128::from(100 + margin_percent) < u128::from(other_ps) * 100
}

/// What NCCL does in a task that is left to it: its own choice, unless its best setting gains the margin.
pub(crate) fn kept<'a>(
    own: Option<&'a Pick>,
    best: Option<&'a Pick>,
    margin_percent: u32,
) -> Option<&'a Pick> {
    match (own, best) {
        (Some(own), Some(best)) if beats(best, own, margin_percent) => Some(best),
        (own, best) => own.or(best),
    }
}

impl Attempt<'_> {
    fn pick(&self, time: Duration) -> Pick {
        Pick {
            runtime: Runtime::Msccl,
            way: self.way.name.clone(),
            algorithm: None,
            protocol: self.knobs.protocol,
            channels: self.layout.laid.channels(),
            asked: false,
            instances: self.layout.instances,
            packed: self.layout.packed,
            blocks: self.layout.blocks(),
            time_ps: time.as_ps(),
            basis: Basis::Kernels,
        }
    }
}

impl TunedTask {
    /// Every pick of the task, with what it is.
    pub fn picks(&self) -> impl Iterator<Item = (&'static str, &Pick)> {
        let optional = [
            ("the plan of MSCCL++", &self.mscclpp),
            ("NCCL", &self.nccl),
            ("NCCL at its best", &self.nccl_best),
            ("the best program", &self.program),
            ("MSCCL's default", &self.msccl),
            ("the best program by default", &self.sketch_only),
            ("sending straight", &self.knobs_only),
        ];
        let optional = optional.into_iter().filter_map(|(what, it)| Some((what, it.as_ref()?)));
        [("the pick", &self.pick)].into_iter().chain(optional)
    }

    /// Checks that no modelled time is below the bound. A measured time may be: then the cluster file gives the
    /// network less than it has.
    pub(crate) fn possible(&self) -> Result<(), PlanError> {
        let modelled = |it: &(&str, &Pick)| it.1.basis != Basis::Measured;
        match self.picks().filter(modelled).find(|it| it.1.time_ps < self.bound_ps) {
            None => Ok(()),
            Some((what, pick)) => Err(PlanError::Impossible {
                kind: self.collective,
                size: self.size(),
                what,
                way: pick.way.clone(),
                time: pick.time(),
                bound: Duration::from_ps(self.bound_ps),
            }),
        }
    }
}
