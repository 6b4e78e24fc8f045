//! Schedules legs that may queue at links on their path, by the list scheduler that trees use ([`crate::schedule`]).
//!
//! [`timing`](super::timing) books all links of a leg's path when it starts, and links carry legs in that
//! order. That is right where paths take about as long as each other. Between datacenters they do not: what
//! comes from afar has booked links long before what is sent later from nearby gets there, and either waits
//! for the other. Here a leg joins the queue of each link when it gets there, and links carry legs in turns
//! of their own.
//!
//! Jobs are due in waves, an even share of every link's work in each. If every link serves what is due first, a
//! job of wave w on its h-th leg is done by the time that w + h waves take on the busiest link: so with many
//! waves the whole takes hardly longer than that link needs, however often data is passed on.

use motet_units::{Bytes, Duration};

use super::plan::{ExchangePlan, NONE};
use super::timing::{Cutting, Timing};
use super::{FEW, GOOD, WORTH_IT};
use crate::fabric::Fabric;
use crate::schedule::Jobs;
use crate::task::Task;

/// The jobs of a leg are due in so many waves: legs go on side by side rather than one after the other.
const WAVES: u64 = 64;

/// The golden ratio as a share of 2³².
const GOLDEN: u32 = 0x9E37_79B9;

/// How much scheduling with and without queues costs, in links that jobs cross.
const WORK: u64 = 3;

/// Jobs of more crossings than this in all are not tried: what that takes is better spent elsewhere.
const MOST_CROSSINGS: u64 = 1 << 21;

/// Finer cuts go on being tried while each is faster than the one before and the time is below this many times
/// the best that is known.
const HOPEFUL: f64 = 1.5;

/// A plan whose legs are to be put in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) fabric: &'a Fabric,
    pub(super) plan: &'a ExchangePlan,
    pub(super) chunk: Bytes,
}

impl Queued<'_> {
    /// The fastest order found, with legs cut as finely as helps and at most so many transfers; `None` if it
    /// is not faster than what is `known`, or that leaves hardly any time to save.
    pub(super) fn best(&self, known: Duration, most_transfers: u64) -> Option<(Cutting, Timing)> {
        let mut best: Option<(Cutting, Timing)> = None;
        let mut fastest = known.as_ps() as f64;
        // All routes at once is better where some are long and should begin early; one after the other where
        // many have little to carry.
        for shifted in [false, true] {
            let found = self.finer_and_finer(fastest, most_transfers, shifted);
            if let Some((cutting, timing)) = found {
                fastest = timing.makespan.as_ps() as f64;
                best = Some((cutting, timing));
            }
        }
        best
    }

    /// The same by one kind of waves; `None` if it is not faster than `fastest`.
    fn finer_and_finer(
        &self,
        mut fastest: f64,
        most_transfers: u64,
        shifted: bool,
    ) -> Option<(Cutting, Timing)> {
        let mut best: Option<(Cutting, Timing)> = None;
        let mut grain = self.plan.legs.iter().map(|it| it.chunks).max().unwrap_or(0);
        let (mut in_vain, mut crossed, mut coarser) = (0, 0, f64::INFINITY);
        while grain > 0 && in_vain < 2 && Cutting::count(self.plan, grain) <= most_transfers {
            let cutting = Cutting::new(self.plan, grain);
            let crossings = self.crossings(&cutting);
            crossed += crossings;
            if crossed > MOST_CROSSINGS || !self.task.watch.affords(WORK * crossings) {
                break;
            }
            let (jobs, parts) = self.jobs(&cutting);
            if fastest <= jobs.busiest() as f64 * GOOD {
                break;
            }
            let waves = waves(self.plan, &cutting, &parts, shifted);
            let Some(timing) = timing(&jobs, &waves, &parts) else { break };
            let made = timing.makespan.as_ps() as f64;
            let helped = made * WORTH_IT <= coarser && made < fastest * HOPEFUL;
            in_vain = if helped || cutting.jobs() < FEW { 0 } else { in_vain + 1 };
            coarser = made;
            if made < fastest {
                fastest = made;
                best = Some((cutting, timing));
            }
            grain /= 2;
        }
        best
    }

    fn crossings(&self, cutting: &Cutting) -> u64 {
        let legs = (0..).zip(&self.plan.legs);
        let links = |path: u32| self.plan.paths[path as usize].len() as u64;
        legs.map(|(leg, it)| u64::from(cutting.cuts(leg)) * links(it.path)).sum()
    }

    /// The jobs of all legs, and which leg and which part of it each is.
    fn jobs(&self, cutting: &Cutting) -> (Jobs<'_>, Vec<(u32, u32)>) {
        let plan = self.plan;
        let mut jobs =
            Jobs::new(self.fabric).overtaking(self.task.may_overtake).watched(self.task.watch);
        let mut parts = Vec::with_capacity(cutting.jobs());
        for (leg, it) in (0u32..).zip(&plan.legs) {
            for nth in 0..cutting.cuts(leg) {
                let (start, end) = cutting.range(plan, leg, nth);
                let bytes = self.chunk.checked_mul(u64::from(end - start));
                let path = &plan.paths[it.path as usize];
                let job = jobs.send(it.path, path, bytes.unwrap_or(Bytes::new(u64::MAX)));
                if let Some((first, last)) = cutting.awaited(plan, leg, nth) {
                    let before = cutting.first[it.after as usize];
                    (before + first..=before + last).for_each(|it| jobs.wait(job, it));
                }
                parts.push((leg, nth));
            }
        }
        (jobs, parts)
    }
}

/// When each job is due: those of a leg one after the other over the whole time. If `shifted`, each route's so
/// much later than another's that jobs of routes with few of them are spread over the time too. By the golden
/// ratio any number of routes in a row are spread about evenly.
fn waves(plan: &ExchangePlan, cutting: &Cutting, parts: &[(u32, u32)], shifted: bool) -> Vec<u32> {
    let mut shift = vec![0u32; plan.legs.len()];
    let mut routes = 0u32;
    for (leg, it) in plan.legs.iter().enumerate() {
        if it.after == NONE {
            routes += 1;
            shift[leg] = if shifted { routes.wrapping_mul(GOLDEN) } else { 0 };
        } else {
            shift[leg] = shift[it.after as usize];
        }
    }
    let wave = |(leg, nth): &(u32, u32)| {
        let due = (u64::from(*nth) << 32) + u64::from(shift[*leg as usize]);
        ((due / u64::from(cutting.cuts(*leg).max(1)) * WAVES) >> 32) as u32
    };
    parts.iter().map(wave).collect()
}

/// The order of the jobs; `None` if time was up before all were in it.
fn timing(jobs: &Jobs<'_>, waves: &[u32], parts: &[(u32, u32)]) -> Option<Timing> {
    let found = jobs.schedule_in_waves(waves, 1);
    if found.order.len() < parts.len() {
        return None;
    }
    let order = found.order.iter().map(|it| parts[*it as usize]).collect();
    Some(Timing { order, turns: found.turns, makespan: found.makespan })
}
