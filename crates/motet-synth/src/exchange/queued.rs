//! Schedules legs that may queue at links on their path, with the list scheduler that trees use
//! ([`crate::schedule`]).
//!
//! [`timing`](super::timing) books all links of a leg's path when the leg starts, and links carry legs in
//! that order. That is right where all paths have about the same latency. Between datacenters they do not: a
//! leg from afar books links long before it reaches them, and a leg that starts nearby in the meantime has to
//! wait behind it although the links are idle. Here a leg joins the queue of each link only when it gets
//! there, and every link carries legs in an order of its own.
//!
//! Jobs are due in waves, each of which has an even share of every link's work. If every link takes first what
//! is due first, a job of wave w on its h-th leg is done within the time that w + h waves take on the busiest
//! link. So with many waves the program takes hardly longer than that link transmits, however many legs a route
//! has.

use motet_units::{Bytes, Duration};

use super::plan::{ExchangePlan, NONE};
use super::timing::{Cutting, Timing};
use super::{FEW, GOOD, WORTH_IT};
use crate::fabric::Fabric;
use crate::schedule::Jobs;
use crate::task::Task;

/// The number of waves over which the jobs of every leg are spread, so that legs progress side by side rather
/// than one after the other.
const WAVES: u64 = 64;

/// The inverse of the golden ratio, as a share of 2³².
const GOLDEN: u32 = 0x9E37_79B9;

/// The work of scheduling both with and without queues, for every link that a job crosses.
const WORK: u64 = 3;

/// Once the jobs that were scheduled have crossed this many links, all tries added up, finer cuts are no longer
/// tried: other methods make better use of the work.
const MOST_CROSSINGS: u64 = 1 << 21;

/// Finer cuts are tried as long as each is faster than the one before and within this factor of the best time
/// known.
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
    /// The fastest order found, with legs cut as finely as helps and at most so many transfers; `None` if none
    /// is faster than `known`, as where `known` is already close to what the busiest link needs.
    pub(super) fn best(&self, known: Duration, most_transfers: u64) -> Option<(Cutting, Timing)> {
        let mut best: Option<(Cutting, Timing)> = None;
        let mut fastest = known.as_ps() as f64;
        // That all routes begin at once is better where some are long and should begin early; that they begin
        // one after the other is better where many have little to carry.
        for shifted in [false, true] {
            let found = self.finer_and_finer(fastest, most_transfers, shifted);
            if let Some((cutting, timing)) = found {
                fastest = timing.makespan.as_ps() as f64;
                best = Some((cutting, timing));
            }
        }
        best
    }

    /// The same with one kind of [`waves`]; `None` if no order is faster than `fastest`.
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

    /// How many links all jobs cross, added up.
    fn crossings(&self, cutting: &Cutting) -> u64 {
        let legs = (0..).zip(&self.plan.legs);
        let links = |path: u32| self.plan.paths[path as usize].len() as u64;
        legs.map(|(leg, it)| u64::from(cutting.cuts(leg)) * links(it.path)).sum()
    }

    /// The jobs of all legs; and for each job its leg and which of the leg's jobs it is.
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

/// The wave of each job. The jobs of a leg are spread evenly over all waves. If `shifted`, each route's jobs
/// come later by a different fraction of the distance between two of them: otherwise the first jobs of all
/// routes would be due at once, and where routes have only a job or two that is most of the work. Multiples
/// of the golden ratio make those fractions about even for any number of routes in a row.
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

/// The order of the jobs; `None` if time was up before all were scheduled.
fn timing(jobs: &Jobs<'_>, waves: &[u32], parts: &[(u32, u32)]) -> Option<Timing> {
    let found = jobs.schedule_in_waves(waves, 1);
    if found.order.len() < parts.len() {
        return None;
    }
    let order = found.order.iter().map(|it| parts[*it as usize]).collect();
    Some(Timing { order, turns: found.turns, makespan: found.makespan })
}
