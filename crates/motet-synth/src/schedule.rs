//! List scheduling: in which order links should carry a set of transfers, and how long that takes.
//!
//! A *job* is one transfer of data over a path of links. A free link takes the most urgent of the jobs that
//! are ready for it: the one whose latest possible start comes first. A job's latest start is the time at
//! which its slice is due, less its *tail*: how long the longest chain of jobs takes that begins with it.
//! Slices (here *waves*) are due one after the other, as far apart as the busiest link needs to carry one.
//! By tails alone a link would carry all slices of the tallest tree before the first slice of any other
//! tree, and ranks that wait for other trees would be idle.
//!
//! Time follows the simulator's model of links (`motet_sim::model`), so that a program whose transfers are
//! numbered in this order takes the time found here, or less.
//!
//! A job over several links starts only when each later link will be free as the first byte reaches it;
//! until then its first link serves other jobs. This keeps two senders from queueing for one receiver while
//! another receiver is idle. But rather than leave a link idle, a job is taken that will queue inside the
//! network for a short while ([`PATIENCE`]).
//!
//! Jobs on paths of long latency are also tried with their starts spread evenly over time
//! ([`Jobs::schedule_near_and_far`]).
//!
//! On a fabric turned round, time runs backwards: the schedule, read from its end, is one for the network
//! as it is.
//!
//! - [`run`]: the scheduling itself.
//! - [`number`]: how jobs are numbered where they overtake each other and links have no turns.

mod number;
mod run;

use motet_graph::Followers;
use motet_units::{Bytes, Duration, LinkId};
use rustc_hash::FxHashMap;

use self::run::Run;
use crate::fabric::Fabric;
use crate::watch::Watch;

/// How long a job may queue inside the network, as a multiple of its transmission time on the link it waits
/// for, unless the caller says otherwise.
const PATIENCE: u64 = 1;

/// A schedule counts as full if its makespan exceeds the time for which its busiest link transmits by at most
/// one part in this many: no other order can be much shorter.
const FULL: u64 = 125;

/// A path counts as far if its latency is more than one part in this many of the time for which the busiest
/// link transmits.
const FAR: u64 = 20;

/// With more jobs than this, queueing inside the network is not tried: it takes twice as long to schedule.
const MOST_QUEUEING: usize = 1 << 19;

/// The work of scheduling with queues, as a multiple of scheduling by booking ([`run`]).
const QUEUEING: u64 = 2;

/// The way of a job within a rank, which has no path.
const LOCAL: u32 = u32::MAX;

/// What it costs a job to cross one link of its path, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct HopCost {
    link: LinkId,
    /// Time from the start of the job until this link starts to carry it, if no link is busy.
    head: u64,
    latency: u64,
    /// Transmission time.
    busy: u64,
}

/// Transfers to be scheduled, and what each waits for. Add them with [`Jobs::send`] and [`Jobs::stay`], then
/// their waits with [`Jobs::wait`].
#[derive(Debug)]
pub struct Jobs<'a> {
    fabric: &'a Fabric,
    /// Every distinct *way*, which is a path with a number of bytes: a range of `hops`.
    ways: Vec<(u32, u32)>,
    /// Per way: how long a job takes if no link is busy.
    alone: Vec<u64>,
    /// The hops of all ways, way by way.
    hops: Vec<HopCost>,
    /// The way of each path, by the caller's number for it, and number of bytes.
    known: FxHashMap<(u32, u64), u32>,
    /// Per job: its way, or [`LOCAL`].
    way: Vec<u32>,
    /// (job, awaited job)
    waits: Vec<(u32, u32)>,
    /// Whether every job waits only for jobs with lower numbers, so that numbers are a topological order.
    in_order: bool,
    patience: u64,
    urgent_first: bool,
    may_overtake: bool,
    always_queueing: bool,
    watch: Watch<'a>,
}

/// In which order one link carries jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTurns {
    pub link: LinkId,
    pub jobs: Vec<u32>,
}

/// The order in which links carry jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// All jobs, each after those it waits for. Every link that has no turns of its own carries its jobs in
    /// this order. As far as that leaves a choice, jobs stand in the order in which they start.
    pub order: Vec<u32>,
    /// The links that carry jobs in another order, where that was allowed.
    pub turns: Vec<JobTurns>,
    /// When the last job has arrived.
    pub makespan: Duration,
    /// How many slices may be in flight at once; [`u32::MAX`] if that is not limited.
    pub window: u32,
    /// For how long the busiest link transmits: no order takes less.
    pub busiest: Duration,
}

impl Schedule {
    /// The schedule reversed in time.
    pub(crate) fn turned_round(mut self) -> Self {
        self.order.reverse();
        for turns in &mut self.turns {
            turns.jobs.reverse();
        }
        self
    }

    /// Whether the makespan is so close to the busiest link's transmission time that neither another order nor
    /// another number of slices could shorten it much.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.makespan.as_ps() <= self.busiest.as_ps().saturating_add(self.busiest.as_ps() / FULL)
    }
}

impl<'a> Jobs<'a> {
    #[must_use]
    pub fn new(fabric: &'a Fabric) -> Self {
        Self {
            fabric,
            ways: Vec::new(),
            alone: Vec::new(),
            hops: Vec::new(),
            known: FxHashMap::default(),
            way: Vec::new(),
            waits: Vec::new(),
            in_order: true,
            patience: PATIENCE,
            urgent_first: false,
            may_overtake: false,
            always_queueing: false,
            watch: Watch::default(),
        }
    }

    /// Says whether links may carry jobs in orders of their own ([`Schedule::turns`]).
    #[must_use]
    pub const fn overtaking(mut self, may_overtake: bool) -> Self {
        self.may_overtake = may_overtake;
        self
    }

    /// Schedules once, with jobs that queue at each link ([`run`]), without trying first whether booking links
    /// in advance does better.
    #[must_use]
    pub const fn always_queueing(mut self) -> Self {
        self.always_queueing = true;
        self
    }

    /// Scheduling stops when the watch says so; what it returns then lacks jobs.
    #[must_use]
    pub const fn watched(mut self, watch: Watch<'a>) -> Self {
        self.watch = watch;
        self
    }

    /// A job may queue inside the network for up to `patience` times its transmission time on the link that
    /// it queues for.
    #[must_use]
    pub const fn with_patience(mut self, patience: u64) -> Self {
        self.patience = patience;
        self
    }

    /// A link takes the most urgent job however long it will have to wait within the network; of
    /// equally urgent ones, the one that waits least.
    #[must_use]
    pub const fn urgent_first(mut self) -> Self {
        self.urgent_first = true;
        self.patience = u64::MAX;
        self
    }

    /// A job that sends `bytes` over `path`, which the caller numbers `number`; returns the job.
    pub fn send(&mut self, number: u32, path: &[LinkId], bytes: Bytes) -> u32 {
        let way = match self.known.get(&(number, bytes.get())) {
            Some(known) => *known,
            None => self.new_way(number, path, bytes),
        };
        self.way.push(way);
        self.way.len() as u32 - 1
    }

    /// A job that sends as many bytes as `other` over the same path.
    pub fn send_like(&mut self, other: u32) -> u32 {
        self.way.push(self.way[other as usize]);
        self.way.len() as u32 - 1
    }

    /// A job within a rank, which takes no time.
    pub fn stay(&mut self) -> u32 {
        self.way.push(LOCAL);
        self.way.len() as u32 - 1
    }

    /// `job` starts only after `awaited` has arrived.
    pub fn wait(&mut self, job: u32, awaited: u32) {
        self.in_order &= awaited < job;
        self.waits.push((job, awaited));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.way.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.way.is_empty()
    }

    fn new_way(&mut self, number: u32, path: &[LinkId], bytes: Bytes) -> u32 {
        let start = self.hops.len() as u32;
        let turned = self.fabric.is_turned_round();
        let (mut before, mut longest) = (0u64, 0);
        for link in path {
            let latency = self.fabric.latency(*link).as_ps();
            let busy = self.fabric.busy(*link, bytes).as_ps();
            let after = before.saturating_add(latency);
            let head = if turned { after } else { before };
            self.hops.push(HopCost { link: *link, head, latency, busy });
            before = after;
            longest = busy.max(longest);
        }
        self.alone.push(before.saturating_add(longest));
        self.ways.push((start, self.hops.len() as u32));
        let way = self.ways.len() as u32 - 1;
        self.known.insert((number, bytes.get()), way);
        way
    }

    fn hops(&self, job: u32) -> &[HopCost] {
        match self.way[job as usize] {
            LOCAL => &[],
            way => {
                let (start, end) = self.ways[way as usize];
                &self.hops[start as usize..end as usize]
            }
        }
    }

    /// The schedule by longest remaining path first (critical-path list scheduling).
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule_in_waves(&[], 1)
    }

    /// The schedule by latest start, where `wave_of` gives the wave (slice) of each job; a job that is not
    /// listed belongs to the first. Waves are due one after the other, `pace` times as fast as the busiest link
    /// can carry them: the greater the pace, the farther jobs with long tails run ahead of their wave.
    #[must_use]
    pub fn schedule_in_waves(&self, wave_of: &[u32], pace: u64) -> Schedule {
        self.in_waves(wave_of, pace, &[])
    }

    /// [`schedule_in_waves`](Self::schedule_in_waves) at pace 1, for jobs of which none waits for an earlier
    /// wave. If that leaves links idle, far jobs are also tried with their starts spread evenly, from 0 until
    /// one latency before the busiest link would be done; the shorter schedule is returned.
    ///
    /// Why an even spread: urgency alone sends far data first, because of its long tails. Until that data
    /// arrives, senders transmit and receivers get nothing, whereas nearby data would have kept both ends busy;
    /// and at the end senders have nothing left to send.
    #[must_use]
    pub fn schedule_near_and_far(&self, wave_of: &[u32]) -> Schedule {
        let best = self.schedule_in_waves(wave_of, 1);
        let (busiest, last) = (self.busiest(), wave_of.iter().copied().max().unwrap_or(0));
        let release = |(way, wave): (&u32, &u32)| {
            let latency = if *way == LOCAL { 0 } else { self.latency(*way) };
            let is_far = latency > busiest / FAR;
            let sending = u128::from(if is_far { busiest.saturating_sub(latency) } else { 0 });
            // Not above `sending`, which has 64 bits.
            (sending * u128::from(*wave) / (u128::from(last) + 1)) as u64
        };
        let releases: Vec<u64> = self.way.iter().zip(wave_of).map(release).collect();
        let none_far = releases.iter().all(|it| *it == 0);
        if best.is_full() || none_far || !self.watch.affords((1 + QUEUEING) * self.crossings()) {
            return best;
        }
        let even = self.in_waves(wave_of, 1, &releases);
        let is_better = even.makespan < best.makespan && even.order.len() == best.order.len();
        if is_better { even } else { best }
    }

    /// [`schedule_in_waves`](Self::schedule_in_waves), where job i does not start before `releases[i]`; an
    /// empty list holds no job back.
    fn in_waves(&self, wave_of: &[u32], pace: u64, releases: &[u64]) -> Schedule {
        let last = wave_of.iter().copied().max().unwrap_or(0);
        let busiest = self.busiest();
        let period = busiest / (u64::from(last) + 1) / pace.max(1);
        self.best(busiest, releases, |tails| {
            let waves = wave_of.iter().copied().chain(std::iter::repeat(0));
            for (urgency, wave) in tails.iter_mut().zip(waves) {
                *urgency = urgency.saturating_add(period.saturating_mul(u64::from(last - wave)));
            }
        })
    }

    /// The schedule by wave, and within a wave by longest tail: for jobs that wait for earlier waves, so that
    /// none can run far ahead.
    #[must_use]
    pub fn schedule_wave_by_wave(&self, wave_of: &[u32]) -> Schedule {
        let last = wave_of.iter().copied().max().unwrap_or(0);
        self.best(self.busiest(), &[], |tails| {
            let longest = tails.iter().copied().max().unwrap_or(0).saturating_add(1);
            for (urgency, wave) in tails.iter_mut().zip(wave_of) {
                *urgency = urgency.saturating_add(longest.saturating_mul(u64::from(last - wave)));
            }
        })
    }

    /// The best schedule by urgency, which `rank` computes in place from the jobs' tails: the greater, the
    /// sooner. If booking links in advance leaves them idle, queueing is tried too ([`run`]).
    fn best(&self, busiest: u64, releases: &[u64], rank: impl Fn(&mut [u64])) -> Schedule {
        let followers = Followers::of(self.way.len(), self.waits.iter().copied());
        let mut urgency = self.tails(&followers);
        rank(&mut urgency);
        let run = || Run::new(self, &followers, &urgency, busiest).released(releases);
        let crossings = self.crossings();
        self.watch.spend(crossings);
        if self.always_queueing {
            return run().queueing().run();
        }
        let best = run().run();
        let may_queue =
            self.way.len() <= MOST_QUEUEING && self.ways.iter().any(|it| it.1 - it.0 > 1);
        if best.is_full() || !may_queue || !self.watch.affords(QUEUEING * crossings) {
            return best;
        }
        self.watch.spend(QUEUEING * crossings);
        let queued = run().queueing().run();
        if queued.makespan < best.makespan && queued.order.len() == best.order.len() {
            queued
        } else {
            best
        }
    }

    /// The makespan if every link carries jobs in the order of their numbers. Jobs must wait for lower numbers only.
    pub(crate) fn makespan_as_numbered(&self) -> Duration {
        let followers = Followers::of(self.way.len(), self.waits.iter().copied());
        Duration::from_ps(Run::new(self, &followers, &[], 0).time_by_number())
    }

    /// How long all jobs take if no link is ever busy: each starts as soon as what it waits for has arrived.
    pub(crate) fn longest(&self) -> u64 {
        let tails = self.tails(&Followers::of(self.way.len(), self.waits.iter().copied()));
        tails.into_iter().max().unwrap_or(0)
    }

    /// The latency of a way.
    fn latency(&self, way: u32) -> u64 {
        let (start, end) = self.ways[way as usize];
        let hops = &self.hops[start as usize..end as usize];
        hops.iter().map(|it| it.latency).fold(0, u64::saturating_add)
    }

    /// How many links all jobs cross, added up: the work of scheduling them by booking.
    fn crossings(&self) -> u64 {
        let sent = self.way.iter().filter(|it| **it != LOCAL).map(|it| self.ways[*it as usize]);
        sent.map(|(start, end)| u64::from(end - start)).sum()
    }

    /// For how long the busiest link transmits.
    pub(crate) fn busiest(&self) -> u64 {
        let mut count = vec![0u64; self.ways.len()];
        for way in self.way.iter().filter(|it| **it != LOCAL) {
            count[*way as usize] += 1;
        }
        let mut busy = vec![0u64; self.fabric.link_count()];
        for ((start, end), count) in self.ways.iter().zip(count) {
            for hop in &self.hops[*start as usize..*end as usize] {
                let busy = &mut busy[hop.link.index()];
                *busy = busy.saturating_add(hop.busy.saturating_mul(count));
            }
        }
        busy.into_iter().max().unwrap_or(0)
    }

    /// For each job, the length of the longest chain of jobs that starts with it, if no link is busy.
    fn tails(&self, followers: &Followers) -> Vec<u64> {
        let mut tails = vec![0u64; self.way.len()];
        let mut set = |job: u32| {
            let after = followers.behind(job).iter().map(|it| tails[*it as usize]).max();
            let way = self.way[job as usize];
            let own = if way == LOCAL { 0 } else { self.alone[way as usize] };
            tails[job as usize] = own.saturating_add(after.unwrap_or(0));
        };
        if self.in_order {
            (0..self.way.len() as u32).rev().for_each(&mut set);
        } else {
            followers.topological().into_iter().rev().for_each(&mut set);
        }
        tails
    }
}
