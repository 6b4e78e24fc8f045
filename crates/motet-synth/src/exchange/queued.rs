//! Legs that queue on their way: the scheduler of trees ([`crate::schedule`]), for legs.
//!
//! [`timing`](super::timing) books all links of a leg's path when it starts, and links carry legs in that
//! order. That is right where paths take about as long as each other. Between datacenters they do not: what
//! comes from afar has booked links long before what is sent later from nearby gets there, and either waits
//! for the other. Here a leg joins the queue of each link when it gets there, and links carry legs in turns
//! of their own.

use motet_units::{Bytes, Duration};

use super::plan::ExchangePlan;
use super::timing::{Cutting, Timing};
use super::{GOOD, WORTH_IT};
use crate::fabric::Fabric;
use crate::schedule::Jobs;
use crate::task::Task;

/// The jobs of a leg are due in so many waves: legs go on side by side rather than one after the other.
const WAVES: u64 = 64;

/// How much scheduling with and without queues costs, in links that jobs cross.
const WORK: u64 = 3;

/// Jobs of more crossings than this in all are not tried: what that takes is better spent elsewhere.
const MOST_CROSSINGS: u64 = 1 << 21;

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
        let mut grain = self.plan.legs.iter().map(|it| it.chunks).max().unwrap_or(0);
        let (mut in_vain, mut crossed) = (0, 0);
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
            let timing = timing(&jobs, &cutting, &parts)?;
            let made = timing.makespan.as_ps() as f64;
            in_vain = if made * WORTH_IT > fastest { in_vain + 1 } else { 0 };
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

/// The order of the jobs; `None` if time was up before all were in it.
fn timing(jobs: &Jobs<'_>, cutting: &Cutting, parts: &[(u32, u32)]) -> Option<Timing> {
    let wave = |(leg, nth): &(u32, u32)| {
        (u64::from(*nth) * WAVES / u64::from(cutting.cuts(*leg).max(1))) as u32
    };
    let waves: Vec<u32> = parts.iter().map(wave).collect();
    let found = jobs.schedule_in_waves(&waves, 1);
    if found.order.len() < parts.len() {
        return None;
    }
    let order = found.order.iter().map(|it| parts[*it as usize]).collect();
    Some(Timing { order, turns: found.turns, makespan: found.makespan })
}
