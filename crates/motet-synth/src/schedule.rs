//! List scheduling: in which order links should carry a set of jobs, and how long that takes.
//!
//! A job is one sending of data over a path. Whenever a link is free it takes, of the jobs that
//! are ready for it, the one with the longest tail: the most that must still happen after it.
//! Time is that of the simulator's model, so that a program whose transfers are numbered in this
//! order takes the time found here, or less.
//!
//! A job over several links starts when all of them will be free as its head comes by; until then
//! its first link serves others. That keeps two senders from queueing up for one receiver while
//! another receiver is idle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_units::{Bytes, Duration, LinkId};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;

/// How many of the jobs that wait for a link are looked at for one that can go at once.
const LOOKED_AT: usize = 16;

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
}

/// The order found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// All jobs, by when they start.
    pub order: Vec<u32>,
    /// When the last one has arrived.
    pub makespan: Duration,
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
        }
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
        let followers = Followers::of(self.way.len(), &self.waits);
        let tails = self.tails(&followers);
        Run::new(self, &followers, &tails).run()
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
    tails: &'a [u64],
    awaited: Vec<u32>,
    free_at: Vec<u64>,
    /// Per link: the jobs ready for it, longest tail first, then by number.
    ready: Vec<BinaryHeap<(u64, Reverse<u32>)>>,
    happenings: BinaryHeap<Reverse<(u64, Happening)>>,
    order: Vec<u32>,
    makespan: u64,
    put_back: Vec<(u64, Reverse<u32>)>,
}

impl<'a> Run<'a> {
    fn new(jobs: &'a Jobs<'a>, followers: &'a Followers, tails: &'a [u64]) -> Self {
        let links = jobs.fabric.link_count();
        Self {
            jobs,
            followers,
            tails,
            awaited: followers.awaited.clone(),
            free_at: vec![0; links],
            ready: vec![BinaryHeap::new(); links],
            happenings: BinaryHeap::new(),
            order: Vec::with_capacity(jobs.way.len()),
            makespan: 0,
            put_back: Vec::new(),
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
                Happening::Arrived(job) => {
                    self.makespan = self.makespan.max(now);
                    for at in
                        self.followers.start[job as usize]..self.followers.start[job as usize + 1]
                    {
                        let follower = self.followers.jobs[at as usize];
                        self.awaited[follower as usize] -= 1;
                        if self.awaited[follower as usize] == 0 {
                            self.make_ready(follower, now);
                        }
                    }
                }
                Happening::Free(link) => self.serve(link as usize, now),
            }
        }
        Schedule { order: self.order, makespan: Duration::from_ps(self.makespan) }
    }

    fn make_ready(&mut self, job: u32, now: u64) {
        match self.jobs.hops(job).first() {
            None => {
                self.order.push(job);
                self.happenings.push(Reverse((now, Happening::Arrived(job))));
            }
            Some(hop) => {
                let link = hop.link.index();
                self.ready[link].push((self.tails[job as usize], Reverse(job)));
                let at = now.max(self.free_at[link]);
                self.happenings.push(Reverse((at, Happening::Free(link as u32))));
            }
        }
    }

    /// Gives a free link its next job, or asks again when one can go.
    fn serve(&mut self, link: usize, now: u64) {
        if self.free_at[link] > now {
            return;
        }
        let mut soonest = u64::MAX;
        let mut chosen = None;
        for _ in 0..LOOKED_AT {
            let Some(entry) = self.ready[link].pop() else { break };
            let job = entry.1.0;
            let start = self.earliest_start(job, now);
            if start <= now {
                chosen = Some(job);
                break;
            }
            soonest = soonest.min(start);
            self.put_back.push(entry);
        }
        self.ready[link].extend(self.put_back.drain(..));
        match chosen {
            Some(job) => self.start(job, now),
            None if soonest < u64::MAX => {
                self.happenings.push(Reverse((soonest, Happening::Free(link as u32))));
            }
            None => {}
        }
    }

    /// When all links of the job's way will be free as its head comes by.
    fn earliest_start(&self, job: u32, now: u64) -> u64 {
        let hops = self.jobs.hops(job);
        let wanted = hops.iter().map(|it| self.free_at[it.link.index()].saturating_sub(it.head));
        wanted.max().unwrap_or(0).max(now)
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
