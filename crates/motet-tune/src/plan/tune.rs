//! [`Tuning::tune`]: the best way and knobs for one task.
//!
//! First every way is timed under a few usual settings; the few best go into one joint space of way ×
//! protocol × channels × threads × buffer, where a [`Search`] looks for the best point. What NCCL would
//! choose is among what is compared, so a plan is never worse than that.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_nccl::Knobbed;
use motet_nccl::{KnobModel, Knobs, NcclModel, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::baseline::{self, uniform};
use super::ways::{Origin, Way};
use super::{Pick, Tuned};
use crate::profile::{Measured, Simulated};
use crate::search::{Budget, Method, Search, Settings};
use crate::space::{KnobLimits, KnobSpace};

/// How many ways go into the joint search.
const FINALISTS: usize = 3;

/// How many picks an entry of a plan has at most.
const MOST_PICKS: usize = 4;

/// How hard to search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub method: Method,
    /// Settings that the joint search may time.
    pub trials: u32,
}

/// What is tuned, for all sizes.
#[derive(Debug)]
pub struct Tuning<'a> {
    pub kind: CollectiveKind,
    pub ways: &'a [Way],
    pub nccl: Option<&'a NcclModel>,
    pub model: &'a KnobModel,
    pub effort: Effort,
    pub seed: Seed,
}

/// The best so far of every way, and how the best of all came about.
#[derive(Default)]
struct Found {
    best: BTreeMap<usize, (Duration, Knobs)>,
    trials: u32,
    progress: Vec<(u32, u64)>,
}

impl Found {
    fn enter(&mut self, way: usize, knobs: Knobs, time: Duration) {
        self.trials += 1;
        let ps = time.as_ps();
        if self.progress.last().is_none_or(|it| ps < it.1) {
            self.progress.push((self.trials, ps));
        }
        let better = self.best.get(&way).is_none_or(|it| time < it.0);
        if better {
            self.best.insert(way, (time, knobs));
        }
    }

    /// Ways by their best time.
    fn ranked(&self) -> Vec<(usize, Duration, Knobs)> {
        let mut all: Vec<_> = self.best.iter().map(|(way, it)| (*way, it.0, it.1)).collect();
        all.sort_by_key(|it| (it.1, it.0));
        all
    }
}

impl Tuning<'_> {
    /// The best for `size`.
    #[must_use]
    pub fn tune(&self, size: Bytes, bound: Duration) -> Tuned {
        let all: Vec<usize> = (0..self.ways.len()).collect();
        let mut found = self.screen(&all, size);
        let finalists: Vec<usize> = found.ranked().iter().take(FINALISTS).map(|it| it.0).collect();
        self.search(&finalists, size, self.effort.trials, &mut found);
        let mut picks: Vec<Pick> = found
            .ranked()
            .iter()
            .map(|(way, time, knobs)| Pick::new(&self.ways[*way], knobs, *time))
            .collect();
        let nccl = self.nccl.and_then(|it| baseline::nccl(it, self.ways, self.kind, size));
        picks.extend(nccl.clone());
        picks.sort_by(|a, b| (a.time_ps, &a.way).cmp(&(b.time_ps, &b.way)));
        picks.dedup_by(|a, b| a.way == b.way);
        keep(&mut picks);
        Tuned {
            collective: self.kind.to_string(),
            size_bytes: size.get(),
            bound_ps: bound.as_ps(),
            msccl: baseline::msccl(self.ways, size),
            sketch_only: self.sketch_only(size),
            knobs_only: self.knobs_only(size),
            picks,
            nccl,
            trials: found.trials,
            progress: found.progress,
        }
    }

    /// Times some ways under the usual settings.
    fn screen(&self, ways: &[usize], size: Bytes) -> Found {
        let mut found = Found::default();
        for way in ways {
            for knobs in usual() {
                if let Ok(time) = self.ways[*way].knobbed.time(size, &knobs) {
                    found.enter(*way, knobs, time);
                }
            }
        }
        found
    }

    /// Looks for better points of the joint space of some ways.
    fn search(&self, ways: &[usize], size: Bytes, trials: u32, found: &mut Found) {
        let programs: Vec<Knobbed> = ways.iter().map(|it| self.ways[*it].knobbed.clone()).collect();
        let own: Vec<u32> = programs.iter().map(Knobbed::channels).collect();
        let Ok(knobs) = KnobSpace::new(self.model, &own, KnobLimits::default()) else { return };
        let mut profiler = Measured::exactly(Simulated::new(&knobs, &programs, size));
        let settings = Settings {
            method: self.effort.method,
            seed: self.seed.numbered(size.get()).get(),
            budget: Some(Budget { trials, iterations: u64::from(trials) }),
            ..Settings::exact()
        };
        let mut search = Search::new(knobs.space(), settings);
        // The simulator does not fail; what cannot run it says of a point.
        while search.step(&mut profiler).unwrap_or(false) {}
        for trial in search.ledger().batches().iter().flatten() {
            if let Some(total) = trial.total_ps {
                let (way, knobs) = knobs.read(trial.request.point);
                found.enter(ways[way], knobs, Duration::from_ps(total));
            }
        }
    }

    /// The best program under the uniform setting.
    fn sketch_only(&self, size: Bytes) -> Option<Pick> {
        let made = self.ways.iter().filter(|it| !matches!(it.origin, Origin::Nccl(_)));
        let timed = made.filter_map(|it| Some((it, it.knobbed.time(size, &uniform()).ok()?)));
        let (way, time) = timed.min_by_key(|it| it.1)?;
        Some(Pick::new(way, &uniform(), time))
    }

    /// The program that sends straight to everyone under its best knobs.
    fn knobs_only(&self, size: Bytes) -> Option<Pick> {
        let straight = |it: &usize| self.ways[*it].origin == Origin::FullMesh;
        let straight: Vec<usize> = (0..self.ways.len()).filter(straight).collect();
        let mut found = self.screen(&straight, size);
        self.search(&straight, size, self.effort.trials / 2, &mut found);
        let (way, time, knobs) = found.ranked().into_iter().next()?;
        Some(Pick::new(&self.ways[way], &knobs, time))
    }

    /// Times what is best for a neighbouring size, and takes it where it is better.
    pub fn try_picks(&self, tuned: &mut Tuned, others: &[Pick]) {
        for pick in others.iter().filter(|it| !it.by_model) {
            let way = self.ways.iter().find(|it| it.name == pick.way);
            let (Some(way), Some(knobs)) = (way, pick.knobs()) else { continue };
            let Ok(time) = way.knobbed.time(tuned.size(), &knobs) else { continue };
            tuned.trials += 1;
            let ps = time.as_ps();
            if tuned.picks.first().is_none_or(|it| ps < it.time_ps) {
                tuned.progress.push((tuned.trials, ps));
            }
            let known = tuned.picks.iter().position(|it| it.way == pick.way);
            match known {
                Some(at) if ps < tuned.picks[at].time_ps => {
                    tuned.picks[at] = Pick::new(way, &knobs, time);
                }
                None => tuned.picks.push(Pick::new(way, &knobs, time)),
                Some(_) => {}
            }
        }
        tuned.picks.sort_by(|a, b| (a.time_ps, &a.way).cmp(&(b.time_ps, &b.way)));
        keep(&mut tuned.picks);
    }
}

/// The best picks, and the best of NCCL's own among them: what a run can fall back to.
fn keep(picks: &mut Vec<Pick>) {
    if picks.len() <= MOST_PICKS {
        return;
    }
    let own = picks.iter().position(|it| it.algorithm.is_some());
    let own = own.filter(|it| *it >= MOST_PICKS).map(|it| picks[it].clone());
    picks.truncate(MOST_PICKS);
    if let Some(own) = own {
        picks[MOST_PICKS - 1] = own;
    }
}

/// Every protocol as the library has it, and with four instances.
fn usual() -> impl Iterator<Item = Knobs> {
    Protocol::ALL.into_iter().flat_map(|protocol| {
        let plain = Knobs::new(protocol);
        [plain, Knobs { channels: Some(4), ..plain }]
    })
}
