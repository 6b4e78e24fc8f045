//! List scheduling: in which order links should carry a set of jobs, and how long that takes.
//!
//! A job is one sending of data over a path. Whenever a link is free it takes, of the jobs that
//! are ready for it, the most urgent: the one that must start first for its slice to be done in
//! time. Waves (slices) are due one after the other, as far apart as the busiest link needs for one; what
//! must still happen after a job, its tail, comes off that. Without the due times a link would
//! carry all slices of the tallest tree before the first of any other, and those who wait for the
//! others would be idle.
//!
//! Time is that of the simulator's model, so that a program whose transfers are numbered in this
//! order takes the time found here, or less.
//!
//! A job over several links starts when those behind the first will be free as its head comes by;
//! until then its first link serves others, which keeps two senders from queueing up for one
//! receiver while another receiver is idle. But rather than idle, a link takes a job that will
//! have to wait a little within the network ([`PATIENCE`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_units::{Bytes, Duration, LinkId};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;

/// How long a job may have to wait within the network, in units of the time it keeps its first
/// link busy, unless the caller says otherwise.
const PATIENCE: u64 = 1;

/// How many times the longest way's latency a job may have to wait besides, where the most urgent
/// goes first: what queues behind data from afar is not idle.
const FAR_PATIENCE: u64 = 4;

/// A schedule that takes at most one part in so many longer than its busiest link is full.
const FULL: u64 = 200;

/// What a job that stays at its rank has instead of a way.
const LOCAL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct HopCost {
    link: LinkId,
    /// From the start on the first link until the head is here, if nothing holds it up.
    head: u64,
    latency: u64,
    busy: u64,
}

/// Jobs with what they wait for. Made with [`Jobs::new`], filled in any order of waiting.
#[derive(Debug)]
pub struct Jobs<'a> {
    fabric: &'a Fabric,
    /// Costs of each way that occurs: a path with a number of bytes.
    ways: Vec<(u32, u32)>,
    hops: Vec<HopCost>,
    known: FxHashMap<(u32, u64), u32>,
    way: Vec<u32>,
    /// (job, awaited job)
    waits: Vec<(u32, u32)>,
    patience: u64,
    urgent_first: bool,
}

/// The order found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// All jobs, by when they start.
    pub order: Vec<u32>,
    /// When the last one has arrived.
    pub makespan: Duration,
    /// How many slices may be under way at once, where that was limited.
    pub window: u32,
    /// How long the busiest link is busy: no order takes less.
    pub busiest: Duration,
}

impl Schedule {
    /// Whether neither another order nor other slices would take much less time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.makespan.as_ps() <= self.busiest.as_ps() + self.busiest.as_ps() / FULL
    }
}

impl<'a> Jobs<'a> {
    #[must_use]
    pub fn new(fabric: &'a Fabric) -> Self {
        Self {
            fabric,
            ways: Vec::new(),
            hops: Vec::new(),
            known: FxHashMap::default(),
            way: Vec::new(),
            waits: Vec::new(),
            patience: PATIENCE,
            urgent_first: false,
        }
    }

    /// Jobs may wait within the network for so many times as long as they keep their first link
    /// busy.
    #[must_use]
    pub const fn with_patience(mut self, patience: u64) -> Self {
        self.patience = patience;
        self
    }

    /// A link takes the most urgent job even if it will have to wait within the network; of equally
    /// urgent ones, the one that waits least.
    #[must_use]
    pub const fn urgent_first(mut self) -> Self {
        self.urgent_first = true;
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

    /// A job within a rank, which takes no time.
    pub fn stay(&mut self) -> u32 {
        self.way.push(LOCAL);
        self.way.len() as u32 - 1
    }

    /// `job` starts only after `awaited` has arrived.
    pub fn wait(&mut self, job: u32, awaited: u32) {
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
        let mut head = 0;
        for link in path {
            let latency = self.fabric.latency(*link).as_ps();
            let busy = self.fabric.busy(*link, bytes).as_ps();
            self.hops.push(HopCost { link: *link, head, latency, busy });
            head += latency;
        }
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

    /// How long a job takes if nothing holds it up.
    fn alone(&self, job: u32) -> u64 {
        let hops = self.hops(job);
        let busy = hops.iter().map(|it| it.busy).max().unwrap_or(0);
        hops.last().map_or(0, |it| it.head + it.latency + busy)
    }

    /// The order by longest tail first.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule_in_waves(&[])
    }

    /// The order by urgency, where jobs belong to waves (slices) that are due one after the other;
    /// a job that is not listed belongs to the first.
    #[must_use]
    pub fn schedule_in_waves(&self, wave_of: &[u32]) -> Schedule {
        let followers = Followers::of(self.way.len(), &self.waits);
        let mut urgency = self.tails(&followers);
        let last = wave_of.iter().copied().max().unwrap_or(0);
        let period = self.busiest() / (u64::from(last) + 1);
        let waves = wave_of.iter().copied().chain(std::iter::repeat(0));
        for (urgency, wave) in urgency.iter_mut().zip(waves) {
            *urgency = urgency.saturating_add(period.saturating_mul(u64::from(last - wave)));
        }
        Run::new(self, &followers, &urgency).run()
    }

    /// The order by wave, and within a wave by longest tail: for jobs that are held back by earlier
    /// waves, so that none can run far ahead.
    #[must_use]
    pub fn schedule_wave_by_wave(&self, wave_of: &[u32]) -> Schedule {
        let followers = Followers::of(self.way.len(), &self.waits);
        let mut urgency = self.tails(&followers);
        let longest = urgency.iter().copied().max().unwrap_or(0).saturating_add(1);
        let last = wave_of.iter().copied().max().unwrap_or(0);
        for (urgency, wave) in urgency.iter_mut().zip(wave_of) {
            *urgency = urgency.saturating_add(longest.saturating_mul(u64::from(last - wave)));
        }
        Run::new(self, &followers, &urgency).run()
    }

    /// How long the jobs take if each starts as soon as what it waits for has arrived.
    pub(crate) fn longest(&self) -> u64 {
        let tails = self.tails(&Followers::of(self.way.len(), &self.waits));
        tails.into_iter().max().unwrap_or(0)
    }

    /// How long the busiest link is busy.
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

    /// For each job, how long it and what follows it takes if nothing holds that up.
    fn tails(&self, followers: &Followers) -> Vec<u64> {
        let mut tails = vec![0u64; self.way.len()];
        let order = followers.topological();
        for job in order.iter().rev() {
            let after = followers.of_job(*job).iter().map(|it| tails[*it as usize]).max();
            tails[*job as usize] = self.alone(*job).saturating_add(after.unwrap_or(0));
        }
        tails
    }
}

/// Who waits for each job, in compressed rows.
#[derive(Debug)]
struct Followers {
    start: Vec<u32>,
    jobs: Vec<u32>,
    awaited: Vec<u32>,
}

impl Followers {
    fn of(count: usize, waits: &[(u32, u32)]) -> Self {
        let mut start = vec![0u32; count + 1];
        let mut awaited = vec![0u32; count];
        for (job, before) in waits {
            start[*before as usize + 1] += 1;
            awaited[*job as usize] += 1;
        }
        for job in 0..count {
            start[job + 1] += start[job];
        }
        let mut next = start.clone();
        let mut jobs = vec![0u32; waits.len()];
        for (job, before) in waits {
            jobs[next[*before as usize] as usize] = *job;
            next[*before as usize] += 1;
        }
        Self { start, jobs, awaited }
    }

    fn of_job(&self, job: u32) -> &[u32] {
        let job = job as usize;
        &self.jobs[self.start[job] as usize..self.start[job + 1] as usize]
    }

    /// Jobs after all they wait for. Jobs that wait for each other are left out.
    fn topological(&self) -> Vec<u32> {
        let mut left = self.awaited.clone();
        let ready = |it: &u32| self.awaited[*it as usize] == 0;
        let mut order: Vec<u32> = (0..left.len() as u32).filter(ready).collect();
        let mut next = 0;
        while let Some(job) = order.get(next).copied() {
            next += 1;
            for follower in self.of_job(job) {
                left[*follower as usize] -= 1;
                if left[*follower as usize] == 0 {
                    order.push(*follower);
                }
            }
        }
        order
    }
}

/// What happens at an instant; arrivals come before links look for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrived(u32),
    /// A link may take another job.
    Free(u32),
}

struct Run<'a> {
    jobs: &'a Jobs<'a>,
    followers: &'a Followers,
    urgency: &'a [u64],
    awaited: Vec<u32>,
    free_at: Vec<u64>,
    /// Per link: the ways that begin with it.
    ways: Vec<Vec<u32>>,
    /// Per way: the jobs ready for it, the most urgent first, then by number.
    ready: Vec<BinaryHeap<(u64, Reverse<u32>)>>,
    happenings: BinaryHeap<Reverse<(u64, Happening)>>,
    order: Vec<u32>,
    makespan: u64,
    far_patience: u64,
}

impl<'a> Run<'a> {
    fn new(jobs: &'a Jobs<'a>, followers: &'a Followers, urgency: &'a [u64]) -> Self {
        let links = jobs.fabric.link_count();
        let mut ways = vec![Vec::new(); links];
        for (way, (start, _)) in (0..).zip(&jobs.ways) {
            ways[jobs.hops[*start as usize].link.index()].push(way);
        }
        Self {
            jobs,
            followers,
            urgency,
            awaited: followers.awaited.clone(),
            free_at: vec![0; links],
            ways,
            ready: vec![BinaryHeap::new(); jobs.ways.len()],
            happenings: BinaryHeap::new(),
            order: Vec::with_capacity(jobs.way.len()),
            makespan: 0,
            far_patience: if jobs.urgent_first {
                let farthest = jobs.hops.iter().map(|it| it.head.saturating_add(it.latency)).max();
                farthest.unwrap_or(0).saturating_mul(FAR_PATIENCE)
            } else {
                0
            },
        }
    }

    fn run(mut self) -> Schedule {
        for job in 0..self.awaited.len() as u32 {
            if self.awaited[job as usize] == 0 {
                self.make_ready(job, 0);
            }
        }
        while let Some(Reverse((now, happening))) = self.happenings.pop() {
            match happening {
                Happening::Arrived(job) => self.arrive(job, now),
                Happening::Free(link) => self.serve(link as usize, now),
            }
        }
        Schedule {
            order: self.order,
            makespan: Duration::from_ps(self.makespan),
            window: u32::MAX,
            busiest: Duration::from_ps(self.jobs.busiest()),
        }
    }

    fn arrive(&mut self, job: u32, now: u64) {
        self.makespan = self.makespan.max(now);
        let followers = self.followers;
        for follower in followers.of_job(job) {
            self.awaited[*follower as usize] -= 1;
            if self.awaited[*follower as usize] == 0 {
                self.make_ready(*follower, now);
            }
        }
    }

    fn make_ready(&mut self, job: u32, now: u64) {
        match self.jobs.hops(job).first() {
            None => {
                self.order.push(job);
                self.happenings.push(Reverse((now, Happening::Arrived(job))));
            }
            Some(hop) => {
                let link = hop.link.index();
                let way = self.jobs.way[job as usize];
                self.ready[way as usize].push((self.urgency[job as usize], Reverse(job)));
                // A busy link asks for work by itself when it is free.
                if self.free_at[link] <= now {
                    self.happenings.push(Reverse((now, Happening::Free(link as u32))));
                }
            }
        }
    }

    /// Gives a free link its most urgent job that can go, or asks again when one can.
    fn serve(&mut self, link: usize, now: u64) {
        if self.free_at[link] > now {
            return;
        }
        let mut soonest = u64::MAX;
        let mut chosen: Option<(bool, u64, Reverse<u64>, Reverse<u32>)> = None;
        for way in &self.ways[link] {
            let Some((urgency, job)) = self.ready[*way as usize].peek() else { continue };
            let (free, nearly) = self.earliest_start(*way);
            if nearly > now {
                soonest = soonest.min(nearly);
                continue;
            }
            let at_once = self.jobs.urgent_first || free <= now;
            chosen = chosen.max(Some((at_once, *urgency, Reverse(free.max(now)), *job)));
        }
        match chosen {
            Some((.., Reverse(job))) => {
                self.ready[self.jobs.way[job as usize] as usize].pop();
                self.start(job, now);
            }
            None if soonest < u64::MAX => {
                self.happenings.push(Reverse((soonest, Happening::Free(link as u32))));
            }
            None => {}
        }
    }

    /// When the links behind the first will be free, and when they will nearly be, as the head of
    /// a job comes by.
    fn earliest_start(&self, way: u32) -> (u64, u64) {
        let (start, end) = self.jobs.ways[way as usize];
        let hops = &self.jobs.hops[start as usize..end as usize];
        let free = |it: &HopCost| self.free_at[it.link.index()].saturating_sub(it.head);
        let free = hops.iter().skip(1).map(free).max().unwrap_or(0);
        let patience = hops.first().map_or(0, |it| it.busy).saturating_mul(self.jobs.patience);
        (free, free.saturating_sub(patience.saturating_add(self.far_patience)))
    }

    fn start(&mut self, job: u32, now: u64) {
        self.order.push(job);
        let (mut head, mut tail) = (now, 0u64);
        let hops = self.jobs.hops(job);
        for hop in hops {
            let start = head.max(self.free_at[hop.link.index()]);
            let end = (start + hop.busy).max(tail);
            self.free_at[hop.link.index()] = end;
            head = start + hop.latency;
            tail = end + hop.latency;
        }
        if let Some(first) = hops.first() {
            let link = first.link.index();
            let at = self.free_at[link];
            self.happenings.push(Reverse((at, Happening::Free(link as u32))));
        }
        self.happenings.push(Reverse((tail, Happening::Arrived(job))));
    }
}
