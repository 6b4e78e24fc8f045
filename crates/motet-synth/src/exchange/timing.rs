//! Schedules the legs of a plan: their order on the links, and how long that takes.
//!
//! List scheduling, as in [`crate::schedule`], but with other rules for who goes first: where many
//! pairs exchange data every link has plenty to do, and what counts is that the links with most
//! to do never wait. There are several rules ([`Rule`]), none of which is always best. Ties go to
//! the receiver that is next in turn after the sender: s to s + 1, then to s + 2, and so on.
//!
//! In the model a switch holds what comes while the next link is taken, so that sending into a
//! queue costs the sender nothing; but queues that grow at one receiver starve others.
//!
//! Legs are cut into jobs of at most `grain` chunks that follow each other.

use std::cmp::Reverse;
use std::collections::VecDeque;

use motet_graph::{LeastFirst, Rows, gcd};
use motet_sim::link_rule::{Arrival, Passage};
use motet_units::{Bytes, Duration};

use super::plan::{ExchangePlan, NONE};
use crate::fabric::Fabric;
use crate::schedule::JobTurns;
use crate::watch::Watch;

/// How many of the legs that wait for a link are compared for one choice: nearly all, which equal amounts need
/// to fall into rounds; or some, which is enough where a few links have most to do. Of each leg only the job
/// that has waited longest is looked at, so that a leg of many jobs does not crowd out the others.
pub(super) const MANY: usize = 128;
pub(super) const SOME: usize = 24;

/// From this time on sums of times may exceed 64 bits, so jobs are no longer ordered by time.
const FAR: u64 = 1 << 62;

/// The legs of a plan cut into jobs. Job numbers run leg by leg.
#[derive(Clone, Debug)]
pub(super) struct Cutting {
    /// The jobs of leg l: `first[l]..first[l + 1]`.
    pub(super) first: Vec<u32>,
}

impl Cutting {
    pub(super) fn new(plan: &ExchangePlan, grain: u32) -> Self {
        let mut first = Vec::with_capacity(plan.legs.len() + 1);
        let mut jobs = 0u32;
        first.push(0);
        for leg in &plan.legs {
            jobs = jobs.saturating_add(leg.chunks.div_ceil(grain.max(1)));
            first.push(jobs);
        }
        Self { first }
    }

    /// How many jobs such a cutting would have.
    pub(super) fn count(plan: &ExchangePlan, grain: u32) -> u64 {
        plan.legs.iter().map(|it| u64::from(it.chunks.div_ceil(grain.max(1)))).sum()
    }

    pub(super) fn jobs(&self) -> usize {
        self.first.last().map_or(0, |it| *it as usize)
    }

    /// How many jobs a leg is cut into.
    pub(super) fn cuts(&self, leg: u32) -> u32 {
        self.first[leg as usize + 1] - self.first[leg as usize]
    }

    /// The chunks of the `nth` job of a leg, from the leg's first one: start and end.
    pub(super) fn range(&self, plan: &ExchangePlan, leg: u32, nth: u32) -> (u32, u32) {
        let (chunks, cuts) = (u64::from(plan.legs[leg as usize].chunks), self.cuts(leg));
        let at = |nth: u32| (chunks * u64::from(nth) / u64::from(cuts)) as u32;
        (at(nth), at(nth + 1))
    }

    /// The first and the last job of `leg` that carry any of its chunks from `start` up to, not including,
    /// `end`.
    fn overlapping(&self, plan: &ExchangePlan, leg: u32, start: u32, end: u32) -> (u32, u32) {
        let (chunks, cuts) = (u64::from(plan.legs[leg as usize].chunks), u64::from(self.cuts(leg)));
        // The job with chunk c is the last whose start, rounded down, is not behind c.
        let of = |chunk: u32| (((u64::from(chunk) + 1) * cuts - 1) / chunks) as u32;
        (of(start), of(end - 1))
    }

    /// The greatest number that divides `chunks` and the offset and length of every job: that many chunks can
    /// be merged into one without changing the plan.
    pub(super) fn common(&self, plan: &ExchangePlan, chunks: u32) -> u32 {
        let mut common = chunks;
        for (leg, it) in (0..).zip(&plan.legs) {
            common = gcd(common, it.input);
            for nth in 0..self.cuts(leg) {
                common = gcd(common, self.range(plan, leg, nth).1);
            }
            if common == 1 {
                break;
            }
        }
        common
    }

    /// The first and the last job of the leg before that the `nth` job of a leg waits for.
    pub(super) fn awaited(&self, plan: &ExchangePlan, leg: u32, nth: u32) -> Option<(u32, u32)> {
        let it = &plan.legs[leg as usize];
        if it.after == NONE {
            return None;
        }
        let (start, end) = self.range(plan, leg, nth);
        let shift = it.input - plan.legs[it.after as usize].input;
        Some(self.overlapping(plan, it.after, start + shift, end + shift))
    }
}

/// The order found.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// All jobs by when they start, as (leg, which of its jobs).
    pub(super) order: Vec<(u32, u32)>,
    /// The links that carry jobs in another order, as job numbers.
    pub(super) turns: Vec<JobTurns>,
    pub(super) makespan: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    link: u32,
    /// The latency from the start of a job until its first byte gets here.
    head: u64,
    latency: u64,
}

/// What happens at an instant. Arrivals come before links look for work, so that a link that becomes free
/// sees all that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Arrived { leg: u32, nth: u32 },
    Free(u32),
}

impl Happening {
    /// Set in the numbers of [`Self::Free`] and in no other: there are never as many as 2³¹ legs.
    const FREE: u64 = 1 << 63;

    /// Its number in the queue, by which those of one instant are ordered.
    fn number(self) -> u64 {
        match self {
            Self::Arrived { leg, nth } => u64::from(leg) << 32 | u64::from(nth),
            Self::Free(link) => Self::FREE | u64::from(link),
        }
    }

    const fn of(number: u64) -> Self {
        if number & Self::FREE != 0 {
            Self::Free(number as u32)
        } else {
            Self::Arrived { leg: (number >> 32) as u32, nth: number as u32 }
        }
    }
}

/// A job that waits for its first link.
#[derive(Clone, Copy, Debug)]
struct Ready {
    leg: u32,
    nth: u32,
}

/// The priority of a waiting job; the greatest goes first. In this order: by how much the queue that it would
/// find is too long, its urgency by the [`Rule`], and whose turn it is.
type Rank = (Reverse<u64>, u64, Reverse<u64>);

struct Run<'a> {
    rule: Rule,
    looked_at: usize,
    plan: &'a ExchangePlan,
    cutting: &'a Cutting,
    fabric: &'a Fabric,
    chunk: Bytes,
    hops: Vec<Hop>,
    /// The hops of each path, as a range of `hops`.
    of_path: Vec<(u32, u32)>,
    /// The legs that wait for each leg.
    followers: Rows,
    /// Per leg: of the links that its data crosses in later legs, the one with most work in all; [`NONE`] if
    /// there are no later legs.
    crux: Vec<u32>,
    /// Per leg: how long its data still takes in later legs if no link is busy.
    tail: Vec<u64>,
    /// Per job: how many jobs it still waits for.
    awaited: Vec<u32>,
    free_at: Vec<u64>,
    /// Per link: how much it still has to carry, in picoseconds.
    left: Vec<u64>,
    /// Per link: the legs with jobs that wait for it.
    ready: Vec<Vec<u32>>,
    /// Per leg: its jobs that wait, as they came.
    waiting: Vec<VecDeque<u32>>,
    /// Per link: for when its next look for work is planned; [`u64::MAX`] if it is not.
    asked: Vec<u64>,
    happenings: LeastFirst,
    order: Vec<(u32, u32)>,
    makespan: u64,
    /// Per leg: the transmission time of one of its jobs on the slowest link of its path. A queue up to that
    /// long does not make other jobs go first.
    patience: Vec<u64>,
}

/// By which priority a link chooses its next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// First jobs that would find no queue, then those whose path has the link with most work left. Where amounts are equal this
    /// results in the rounds of the classic exchange.
    Rounds,
    /// First jobs that would not find a long queue, then those whose path has the link with most work left.
    Urgent,
    /// First jobs that would not find a long queue, then those that are behind an even pace of all legs.
    Even,
    /// Jobs whose path has the link with most work left, regardless of queues. Where ranks that are busy with data of their own forward
    /// to slow links, avoiding queues would feed one slow link after the other and leave the rest idle.
    Crux,
}

impl Rule {
    pub(super) const ALL: [Self; 4] = [Self::Rounds, Self::Urgent, Self::Even, Self::Crux];
}

/// The order that one rule makes for chunks of `chunk` bytes; `None` if time is up.
pub(super) fn timing(
    plan: &ExchangePlan,
    cutting: &Cutting,
    fabric: &Fabric,
    chunk: Bytes,
    rule: Rule,
    looked_at: usize,
    watch: Watch<'_>,
) -> Option<Timing> {
    let mut run = Run::new(plan, cutting, fabric, chunk, rule);
    run.looked_at = looked_at;
    run.run(watch)
}

impl<'a> Run<'a> {
    fn new(
        plan: &'a ExchangePlan,
        cutting: &'a Cutting,
        fabric: &'a Fabric,
        chunk: Bytes,
        rule: Rule,
    ) -> Self {
        let links = fabric.link_count();
        let mut hops = Vec::new();
        let mut of_path = Vec::with_capacity(plan.paths.len());
        for path in &plan.paths {
            let start = hops.len() as u32;
            let mut head = 0;
            for link in path {
                let latency = fabric.latency(*link).as_ps();
                hops.push(Hop { link: link.0, head, latency });
                head += latency;
            }
            of_path.push((start, hops.len() as u32));
        }
        let mut run = Self {
            rule,
            looked_at: MANY,
            plan,
            cutting,
            fabric,
            chunk,
            hops,
            of_path,
            followers: plan.followers(),
            crux: vec![NONE; plan.legs.len()],
            tail: vec![0; plan.legs.len()],
            awaited: vec![0; cutting.jobs()],
            free_at: vec![0; links],
            left: vec![0; links],
            ready: vec![Vec::new(); links],
            waiting: vec![VecDeque::new(); plan.legs.len()],
            asked: vec![u64::MAX; links],
            happenings: LeastFirst::new(),
            order: Vec::with_capacity(cutting.jobs()),
            makespan: 0,
            patience: vec![0; plan.legs.len()],
        };
        run.count_work();
        run.look_ahead();
        run
    }

    fn bytes(&self, chunks: u32) -> Bytes {
        self.chunk.checked_mul(u64::from(chunks)).unwrap_or(Bytes::new(u64::MAX))
    }

    fn path_hops(&self, leg: u32) -> (usize, usize) {
        let (start, end) = self.of_path[self.plan.legs[leg as usize].path as usize];
        (start as usize, end as usize)
    }

    /// Adds up the work of each link, and sets the patience of each leg.
    fn count_work(&mut self) {
        for leg in 0..self.plan.legs.len() as u32 {
            let bytes = self.bytes(self.plan.legs[leg as usize].chunks);
            let (start, end) = self.path_hops(leg);
            let mut slowest = 0;
            for at in start..end {
                let link = self.hops[at].link;
                let busy = self.fabric.busy(motet_units::LinkId(link), bytes).as_ps();
                slowest = busy.max(slowest);
                let left = &mut self.left[link as usize];
                *left = left.saturating_add(busy);
            }
            self.patience[leg as usize] = slowest / u64::from(self.cutting.cuts(leg));
        }
    }

    /// Sets the crux and the tail of each leg, from the last leg back.
    fn look_ahead(&mut self) {
        for leg in (0..self.plan.legs.len() as u32).rev() {
            let (mut crux, mut most, mut longest) = (NONE, 0, 0);
            for follower in self.followers.row(leg as usize) {
                let (start, end) = self.path_hops(*follower);
                let bytes = self.bytes(self.cutting.range(self.plan, *follower, 0).1);
                let (mut alone, mut slowest) = (0, 0);
                for hop in &self.hops[start..end] {
                    let busy = self.fabric.busy(motet_units::LinkId(hop.link), bytes).as_ps();
                    slowest = busy.max(slowest);
                    alone = hop.head + hop.latency;
                    if self.left[hop.link as usize] > most {
                        (crux, most) = (hop.link, self.left[hop.link as usize]);
                    }
                }
                let behind = self.crux[*follower as usize];
                if behind != NONE && self.left[behind as usize] > most {
                    (crux, most) = (behind, self.left[behind as usize]);
                }
                let tail =
                    alone.saturating_add(slowest).saturating_add(self.tail[*follower as usize]);
                longest = longest.max(tail);
            }
            self.crux[leg as usize] = crux;
            self.tail[leg as usize] = longest;
        }
    }

    fn run(mut self, watch: Watch<'_>) -> Option<Timing> {
        for leg in 0..self.plan.legs.len() as u32 {
            for nth in 0..self.cutting.cuts(leg) {
                match self.cutting.awaited(self.plan, leg, nth) {
                    None => self.make_ready(leg, nth, 0),
                    Some((first, last)) => {
                        let job = self.cutting.first[leg as usize] + nth;
                        self.awaited[job as usize] = last - first + 1;
                    }
                }
            }
        }
        let mut turn = 0usize;
        while let Some((now, happening)) = self.happenings.pop() {
            if now >= FAR {
                return Some(self.without_end());
            }
            turn += 1;
            if watch.out_of_time_at(turn) {
                return None;
            }
            match Happening::of(happening) {
                Happening::Arrived { leg, nth } => self.arrived(leg, nth, now),
                Happening::Free(link) => self.serve(link as usize, now),
            }
        }
        let makespan = Duration::from_ps(self.makespan);
        Some(Timing { order: self.order, turns: Vec::new(), makespan })
    }

    /// Times have exceeded what 64 bits hold: the remaining jobs are put in the order of their legs, each of which comes after the one it
    /// waits for.
    fn without_end(self) -> Timing {
        let mut started = vec![false; self.cutting.jobs()];
        for (leg, nth) in &self.order {
            started[(self.cutting.first[*leg as usize] + nth) as usize] = true;
        }
        let mut order = self.order;
        for leg in 0..self.plan.legs.len() as u32 {
            let first = self.cutting.first[leg as usize];
            let open = (0..self.cutting.cuts(leg)).filter(|it| !started[(first + it) as usize]);
            order.extend(open.map(|nth| (leg, nth)));
        }
        Timing { order, turns: Vec::new(), makespan: Duration::from_ps(u64::MAX) }
    }

    fn arrived(&mut self, leg: u32, nth: u32, now: u64) {
        self.makespan = self.makespan.max(now);
        for at in self.followers.range(leg as usize) {
            let follower = self.followers.items()[at];
            let (start, end) = self.cutting.range(self.plan, leg, nth);
            let it = &self.plan.legs[follower as usize];
            let shift = it.input - self.plan.legs[leg as usize].input;
            let (start, end) = (start.max(shift), end.min(shift + it.chunks));
            if start >= end {
                continue;
            }
            let (first, last) =
                self.cutting.overlapping(self.plan, follower, start - shift, end - shift);
            for nth in first..=last {
                let job = (self.cutting.first[follower as usize] + nth) as usize;
                self.awaited[job] -= 1;
                if self.awaited[job] == 0 {
                    self.make_ready(follower, nth, now);
                }
            }
        }
    }

    fn make_ready(&mut self, leg: u32, nth: u32, now: u64) {
        let link = self.hops[self.path_hops(leg).0].link as usize;
        let waiting = &mut self.waiting[leg as usize];
        if waiting.is_empty() {
            self.ready[link].push(leg);
        }
        waiting.push_back(nth);
        self.ask(link, now.max(self.free_at[link]));
    }

    /// Breaks ties: the job with the least turn goes first.
    fn turn(&self, ready: Ready) -> u64 {
        let it = &self.plan.legs[ready.leg as usize];
        let ranks = self.fabric.rank_count() as u32;
        u64::from(ready.nth) << 32 | u64::from((it.to + ranks - it.from) % ranks)
    }

    /// Plans that a link looks for work at a time, unless that is planned already.
    fn ask(&mut self, link: usize, at: u64) {
        // The greatest number means that nothing is planned.
        let at = at.min(u64::MAX - 1);
        if self.asked[link] != at {
            self.asked[link] = at;
            self.happenings.push(at, Happening::Free(link as u32).number());
        }
    }

    /// Gives a free link its next job.
    fn serve(&mut self, link: usize, now: u64) {
        if self.asked[link] == now {
            self.asked[link] = u64::MAX;
        }
        if self.free_at[link] > now {
            return;
        }
        let mut best: Option<(Rank, usize, Ready)> = None;
        let mut soonest = u64::MAX;
        for at in 0..self.ready[link].len().min(self.looked_at) {
            let leg = self.ready[link][at];
            let Some(nth) = self.waiting[leg as usize].front().copied() else { continue };
            let ready = Ready { leg, nth };
            let (queue, most) = self.ahead(leg, now);
            if queue > 0 && self.rule == Rule::Rounds {
                soonest = soonest.min(now + queue);
                continue;
            }
            let excess = match self.rule {
                Rule::Crux => 0,
                _ => queue.saturating_sub(self.patience[leg as usize]),
            };
            let urgency = match self.rule {
                Rule::Even => u64::MAX - self.due(ready),
                _ => most.saturating_add(self.tail[ready.leg as usize]),
            };
            let rank = (Reverse(excess), urgency, Reverse(self.turn(ready)));
            if best.is_none_or(|(it, ..)| rank > it) {
                best = Some((rank, at, ready));
            }
        }
        match best {
            Some((_, at, ready)) => {
                // Move it behind the others, so that legs that were not looked at get their chance.
                self.ready[link].swap_remove(at);
                let waiting = &mut self.waiting[ready.leg as usize];
                waiting.pop_front();
                if !waiting.is_empty() {
                    self.ready[link].push(ready.leg);
                }
                self.start(ready, now);
            }
            None if soonest < u64::MAX => self.ask(link, soonest),
            None => {}
        }
    }

    /// The longest queue that a job of the leg would find if it started now, and the work left of the busiest
    /// link on its path or ahead of it ([`Run::crux`]).
    fn ahead(&self, leg: u32, now: u64) -> (u64, u64) {
        let (start, end) = self.path_hops(leg);
        let (mut queue, mut most) = (0, 0);
        for hop in &self.hops[start..end] {
            queue = queue.max(self.free_at[hop.link as usize].saturating_sub(hop.head + now));
            most = most.max(self.left[hop.link as usize]);
        }
        let crux = self.crux[leg as usize];
        if crux != NONE {
            most = most.max(self.left[crux as usize]);
        }
        (queue, most)
    }

    /// When a job is due if every leg is sent at an even pace from start to end, as a share of 2³².
    fn due(&self, ready: Ready) -> u64 {
        let (ranks, cuts) = (self.fabric.rank_count() as u64, self.cutting.cuts(ready.leg));
        let phase = self.turn(ready) & u64::from(u32::MAX);
        ((u64::from(ready.nth) << 32) + (phase << 32) / ranks) / u64::from(cuts)
    }

    fn start(&mut self, ready: Ready, now: u64) {
        let Ready { leg, nth } = ready;
        self.order.push((leg, nth));
        let (from, to) = self.cutting.range(self.plan, leg, nth);
        let bytes = self.bytes(to - from);
        let (start, end) = self.path_hops(leg);
        let mut at_node = Arrival::whole(now);
        for at in start..end {
            let hop = self.hops[at];
            let link = hop.link as usize;
            let busy = self.fabric.busy(motet_units::LinkId(hop.link), bytes).as_ps();
            let passage = Passage::of(at_node.forwarded(false), self.free_at[link], busy);
            self.free_at[link] = passage.streamed;
            self.left[link] = self.left[link].saturating_sub(busy);
            at_node = passage.arrival(hop.latency);
        }
        let link = self.hops[start].link as usize;
        self.ask(link, self.free_at[link]);
        self.happenings.push(at_node.tail, Happening::Arrived { leg, nth }.number());
    }
}
