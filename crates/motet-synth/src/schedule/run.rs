//! [`Run`]: list scheduling, event by event.
//!
//! There are two ways to treat a job that crosses several links. *Booking* reserves all of them when the
//! job starts, each behind what is booked already: quick, and right as long as jobs that start first also
//! arrive first everywhere. *Queueing* ([`Run::queueing`]) lets a job join the queue of each link only when
//! its first byte gets there, so that jobs can overtake each other; it is better where latencies differ or
//! some links are overloaded. Links then carry jobs in orders of their own (turns), or, where the task
//! forbids that, [`number`] looks for one order that every link can keep.

use std::cmp::Reverse;

use motet_graph::{Followers, LeastFirst};
use motet_units::{Duration, LinkId};

use super::number::number;
use super::{HopCost, JobTurns, Jobs, Schedule};

/// A first byte that will reach a link within one part in so many of the job's transmission time counts as
/// being there already: that another job slips in before it is too unlikely to be worth an event.
const SOON: u64 = 16;

/// The latest instant: whatever would happen beyond 64 bits of picoseconds happens then. [`u64::MAX`], the
/// number after it, means never.
const END: u64 = u64::MAX - 1;

/// `by` after `time`, or the end.
fn later(time: u64, by: u64) -> u64 {
    time.saturating_add(by).min(END)
}

/// An event. Events of one instant are handled in the order listed here: arrivals come before links look for
/// work, so that a link chooses among all jobs that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Arrived(u32),
    /// A job that was held back may start.
    Released(u32),
    /// The first byte of a job reaches its next link, where it may have to queue.
    Passes(u32),
    /// A link may take another job.
    Free(u32),
}

impl Happening {
    /// Its number in the queue, by which those of one instant are ordered: first the kind, then the job or
    /// link.
    fn number(self) -> u64 {
        let (kind, id) = match self {
            Self::Arrived(job) => (0, job),
            Self::Released(job) => (1, job),
            Self::Passes(job) => (2, job),
            Self::Free(link) => (3, link),
        };
        kind << 32 | u64::from(id)
    }

    const fn of(number: u64) -> Self {
        let id = number as u32;
        match number >> 32 {
            0 => Self::Arrived(id),
            1 => Self::Released(id),
            2 => Self::Passes(id),
            _ => Self::Free(id),
        }
    }
}

/// Jobs that wait for a link, the most urgent first, and among equals the lowest number.
#[derive(Clone, Debug, Default)]
struct MostUrgent(LeastFirst);

impl MostUrgent {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, urgency: u64, job: u32) {
        self.0.push(u64::MAX - urgency, u64::from(job));
    }

    /// The urgency and the number of the first job.
    fn peek(&self) -> Option<(u64, u32)> {
        self.0.peek().map(|(rest, job)| (u64::MAX - rest, job as u32))
    }

    /// Takes the first job out.
    fn pop(&mut self) -> Option<u32> {
        self.0.pop().map(|(_, job)| job as u32)
    }
}

/// How far a job in flight has come.
///
/// In the network's direction this is the simulator's link rule (`motet_sim::link_rule`), kept here in a
/// form that can also run backwards; a property test at the end of this file holds the two together.
///
/// In the network's direction `head` and `tail` are when the job's first and last byte reach the next link. A
/// link is busy for its own transmission time from when the first byte starts, even if a slower link upstream
/// still feeds it after that.
///
/// On a fabric turned round, time runs backwards: a link's latency comes before its transmission, and of the
/// time that a job spends on a link, the link is busy at the end, not at the beginning. There `head` is the
/// earliest start on the last link crossed that latencies alone allow, and `tail` is when that link was done.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    /// How many links the job has crossed.
    hop: u32,
    head: u64,
    tail: u64,
}

impl Front {
    const fn starting(now: u64) -> Self {
        Self { hop: 0, head: now, tail: 0 }
    }

    /// When the next link can take the job, if that link is free.
    fn ready(self, hop: &HopCost, turned: bool) -> u64 {
        if turned {
            let fed = later(self.tail, hop.latency).saturating_sub(hop.busy);
            later(self.head, hop.latency).max(fed)
        } else {
            self.head
        }
    }

    /// The front behind the next link, which takes the job at `start`.
    fn behind(self, hop: &HopCost, start: u64, turned: bool) -> Self {
        let end = later(start, hop.busy);
        if turned {
            Self { hop: self.hop + 1, head: later(self.head, hop.latency), tail: end }
        } else {
            let tail = later(end.max(self.tail), hop.latency);
            Self { hop: self.hop + 1, head: later(start, hop.latency), tail }
        }
    }
}

/// A candidate for a free link; the greatest is taken. In this order: whether it can start without queueing
/// later on, its urgency, when the rest of its path is free, its number, and the position of its way in the
/// link's list ([`Run::ways`]).
type Choice = (bool, u64, Reverse<u64>, Reverse<u32>, usize);

pub(super) struct Run<'a> {
    jobs: &'a Jobs<'a>,
    followers: &'a Followers,
    urgency: &'a [u64],
    turned: bool,
    /// Per job: how many jobs it still waits for.
    awaited: Vec<u32>,
    /// Per link: when it is free for another job.
    free_at: Vec<u64>,
    /// Per link: when it next looks for work; [`u64::MAX`] if no event is planned.
    asks_at: Vec<u64>,
    /// Per link: the ways (paths with a number of bytes) that begin with it and have jobs ready.
    ways: Vec<Vec<u32>>,
    /// Per way: the jobs ready for it, the most urgent first, then by number.
    ready: Vec<MostUrgent>,
    happenings: LeastFirst,
    order: Vec<u32>,
    makespan: u64,
    busiest: u64,
    patience: u64,
    /// Per link: the greatest latency between the start of any job and its first byte's arrival at the link.
    farthest: Vec<u64>,
    queues: Option<Queues>,
    /// Per job: when it may start at the earliest; empty if none is held back.
    releases: &'a [u64],
}

/// The state that only queueing needs.
struct Queues {
    /// Per job: how far it has come.
    fronts: Vec<Front>,
    /// Per link: the jobs it took, in that order.
    taken: Vec<Vec<u32>>,
    /// Per link: the jobs that can start there and those whose heads wait there, the most urgent first.
    waiting: Vec<MostUrgent>,
}

impl Queues {
    /// For every link and every job it carried but its first: (job, the one carried just before).
    fn crossed(&self) -> Vec<(u32, u32)> {
        self.taken.iter().flat_map(|it| it.windows(2)).map(|it| (it[1], it[0])).collect()
    }

    /// The turns of the links that do not carry jobs in `order`.
    fn turns(self, order: &[u32]) -> Vec<JobTurns> {
        let mut position = vec![0u32; order.len()];
        for (at, job) in (0u32..).zip(order) {
            position[*job as usize] = at;
        }
        let links = (0..).map(LinkId).zip(self.taken);
        links
            .filter(|(_, jobs)| !jobs.is_sorted_by_key(|it| position[*it as usize]))
            .map(|(link, jobs)| JobTurns { link, jobs })
            .collect()
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        jobs: &'a Jobs<'a>,
        followers: &'a Followers,
        urgency: &'a [u64],
        busiest: u64,
    ) -> Self {
        let links = jobs.fabric.link_count();
        let mut farthest = vec![0u64; links];
        for hop in &jobs.hops {
            let farthest = &mut farthest[hop.link.index()];
            *farthest = hop.head.max(*farthest);
        }
        Self {
            jobs,
            followers,
            urgency,
            turned: jobs.fabric.is_turned_round(),
            awaited: followers.awaited().to_vec(),
            free_at: vec![0; links],
            asks_at: vec![u64::MAX; links],
            ways: vec![Vec::new(); links],
            ready: vec![MostUrgent::default(); jobs.ways.len()],
            happenings: LeastFirst::new(),
            order: Vec::with_capacity(jobs.way.len()),
            makespan: 0,
            busiest,
            patience: jobs.patience,
            farthest,
            queues: None,
            releases: &[],
        }
    }

    /// Holds every job back until its release time; an empty list holds none back.
    pub(super) const fn released(mut self, releases: &'a [u64]) -> Self {
        self.releases = releases;
        self
    }

    /// Jobs queue at every link when their first byte gets there, and a free link takes the most urgent. A job
    /// starts although later links of its path are still busy: in their queues it overtakes less urgent jobs.
    pub(super) fn queueing(mut self) -> Self {
        let jobs = self.jobs.way.len();
        self.queues = Some(Queues {
            fronts: vec![Front::default(); jobs],
            taken: vec![Vec::new(); self.free_at.len()],
            waiting: vec![MostUrgent::default(); self.free_at.len()],
        });
        self
    }

    pub(super) fn run(mut self) -> Schedule {
        for job in 0..self.awaited.len() as u32 {
            if self.awaited[job as usize] == 0 {
                self.make_ready(job, 0);
            }
        }
        let watch = self.jobs.watch;
        let mut turn = 0usize;
        while let Some((now, happening)) = self.happenings.pop() {
            turn += 1;
            if watch.out_of_time_at(turn) {
                break;
            }
            match Happening::of(happening) {
                Happening::Arrived(job) => self.arrive(job, now),
                Happening::Released(job) => self.make_ready(job, now),
                Happening::Passes(job) => self.pass(job, now),
                Happening::Free(link) => {
                    if self.asks_at[link as usize] == now {
                        self.asks_at[link as usize] = u64::MAX;
                        self.serve(link as usize, now);
                    }
                }
            }
        }
        self.finish()
    }

    /// The makespan if every link carries jobs in the order of their numbers.
    pub(super) fn time_by_number(mut self) -> u64 {
        self.order.extend(0..self.jobs.way.len() as u32);
        self.makespan_in_order()
    }

    fn finish(mut self) -> Schedule {
        // Jobs that wait for each other never start, and the caller sees that they are missing.
        let queues = self.queues.take().filter(|_| self.order.len() == self.awaited.len());
        let mut turns = Vec::new();
        if let Some(queues) = queues {
            if self.jobs.may_overtake {
                turns = queues.turns(&self.order);
            } else {
                let mut before = queues.crossed();
                before.extend_from_slice(&self.jobs.waits);
                let numbered = number(&self.order, &before);
                self.order = numbered.order;
                if !numbered.is_exact {
                    self.makespan = self.makespan_in_order();
                }
            }
        }
        Schedule {
            order: self.order,
            turns,
            makespan: Duration::from_ps(self.makespan),
            window: u32::MAX,
            busiest: Duration::from_ps(self.busiest),
        }
    }

    /// The makespan if every link carries jobs in the order of `order`.
    fn makespan_in_order(&mut self) -> u64 {
        self.free_at.fill(0);
        let (jobs, turned) = (self.jobs, self.turned);
        let mut ready_at = vec![0u64; self.order.len()];
        let mut makespan = 0;
        for job in &self.order {
            let ready = ready_at[*job as usize];
            let mut front = Front::starting(ready);
            for hop in jobs.hops(*job) {
                let free = &mut self.free_at[hop.link.index()];
                let start = front.ready(hop, turned).max(*free);
                *free = later(start, hop.busy);
                front = front.behind(hop, start, turned);
            }
            let arrived = front.tail.max(ready);
            makespan = makespan.max(arrived);
            for follower in self.followers.behind(*job) {
                let ready = &mut ready_at[*follower as usize];
                *ready = arrived.max(*ready);
            }
        }
        makespan
    }

    fn arrive(&mut self, job: u32, now: u64) {
        self.makespan = self.makespan.max(now);
        let followers = self.followers;
        for follower in followers.behind(job) {
            self.awaited[*follower as usize] -= 1;
            if self.awaited[*follower as usize] == 0 {
                self.make_ready(*follower, now);
            }
        }
    }

    fn make_ready(&mut self, job: u32, now: u64) {
        let release = self.releases.get(job as usize).map_or(0, |it| *it);
        if release > now {
            self.happenings.push(release, Happening::Released(job).number());
            return;
        }
        let Some(hop) = self.jobs.hops(job).first() else {
            self.order.push(job);
            self.happenings.push(now, Happening::Arrived(job).number());
            return;
        };
        let link = hop.link.index();
        let urgency = self.urgency[job as usize];
        if let Some(queues) = &mut self.queues {
            queues.waiting[link].push(urgency, job);
        } else {
            let way = self.jobs.way[job as usize];
            let ready = &mut self.ready[way as usize];
            if ready.is_empty() {
                self.ways[link].push(way);
            }
            ready.push(urgency, job);
        }
        self.ask(link, self.free_for_first(link).max(now));
    }

    /// Plans that the link looks for work at `time`, unless it does so earlier anyhow.
    fn ask(&mut self, link: usize, time: u64) {
        if time < self.asks_at[link] {
            self.asks_at[link] = time;
            self.happenings.push(time, Happening::Free(link as u32).number());
        }
    }

    /// Gives a free link its most urgent job that can go, or asks again when one can.
    fn serve(&mut self, link: usize, now: u64) {
        // Jobs that started elsewhere may have taken the link since this event was planned.
        let free = self.free_for_first(link);
        if free > now {
            return self.ask(link, free);
        }
        if self.queues.is_some() {
            return self.serve_queue(link, now);
        }
        let mut soonest = u64::MAX;
        let mut chosen: Option<Choice> = None;
        for (index, way) in self.ways[link].iter().enumerate() {
            let Some((urgency, job)) = self.ready[*way as usize].peek() else { continue };
            let urgent_first = self.jobs.urgent_first;
            if urgent_first && chosen.is_some_and(|it| it.1 > urgency) {
                continue;
            }
            let (free, nearly) = self.earliest_start(*way);
            if nearly > now {
                soonest = soonest.min(nearly);
                continue;
            }
            let at_once = urgent_first || free <= now;
            chosen =
                chosen.max(Some((at_once, urgency, Reverse(free.max(now)), Reverse(job), index)));
        }
        match chosen {
            Some((.., Reverse(job), index)) => {
                let way = self.ways[link][index] as usize;
                self.ready[way].pop();
                if self.ready[way].is_empty() {
                    self.ways[link].swap_remove(index);
                }
                self.order.push(job);
                self.go_on(job, Front::starting(now), now);
                if !self.ways[link].is_empty() {
                    self.ask(link, self.free_for_first(link).max(now));
                }
            }
            None if soonest < u64::MAX => self.ask(link, soonest),
            None => {}
        }
    }

    /// Gives a free link the most urgent job in its queue: jobs that start there, and jobs on their way whose
    /// first byte has got there.
    fn serve_queue(&mut self, link: usize, now: u64) {
        let jobs = self.jobs;
        let Some(queues) = &mut self.queues else { return };
        let Some(job) = queues.waiting[link].pop() else { return };
        let mut front = queues.fronts[job as usize];
        if front.hop == 0 {
            front = Front::starting(now);
            self.order.push(job);
        }
        if let Some(hop) = jobs.hops(job).get(front.hop as usize) {
            let front = self.take(job, front, hop);
            self.go_on(job, front, now);
        }
        if self.queues.as_ref().is_some_and(|it| !it.waiting[link].is_empty()) {
            self.ask(link, self.free_for_first(link).max(now));
        }
    }

    /// When a job that starts on this link may start. On a fabric turned round the job's latency on the link
    /// comes first, so it may start that much before the link is free.
    fn free_for_first(&self, link: usize) -> u64 {
        let lead = if self.turned {
            self.jobs.fabric.latency(LinkId::from_index(link)).as_ps()
        } else {
            0
        };
        self.free_at[link].saturating_sub(lead)
    }

    /// The earliest start at which a job finds all links behind the first free when its first byte gets
    /// there, and the earliest at which it queues no longer than its patience allows. The second counts the
    /// greatest latency of any job to each link, not the latency of this job: jobs from afar book a link long
    /// in advance, and a job from nearby that waited for a link without bookings would wait as long as they
    /// keep coming.
    fn earliest_start(&self, way: u32) -> (u64, u64) {
        let (start, end) = self.jobs.ways[way as usize];
        let hops = &self.jobs.hops[start as usize..end as usize];
        let (mut free, mut nearly) = (0, 0);
        for hop in hops.iter().skip(1) {
            let link = hop.link.index();
            let free_at = self.free_at[link];
            free = free_at.saturating_sub(hop.head).max(free);
            let patience = hop.busy.saturating_mul(self.patience);
            nearly =
                free_at.saturating_sub(self.farthest[link].saturating_add(patience)).max(nearly);
        }
        (free, nearly)
    }

    /// The first byte of a job reaches its next link.
    fn pass(&mut self, job: u32, now: u64) {
        let front = self.queues.as_ref().map(|it| it.fronts[job as usize]);
        if let Some(front) = front {
            self.go_on(job, front, now);
        }
    }

    /// Takes a job over its next links, up to the one where it must queue.
    fn go_on(&mut self, job: u32, mut front: Front, now: u64) {
        let jobs = self.jobs;
        for hop in &jobs.hops(job)[front.hop as usize..] {
            if front.hop > 0 && self.must_queue(job, front, hop, now) {
                return;
            }
            front = self.take(job, front, hop);
        }
        self.happenings.push(front.tail, Happening::Arrived(job).number());
    }

    /// Whether a job cannot take its next link now: its first byte is not there yet (then an event is planned
    /// for when it is), or the link is busy (then the job joins its queue).
    fn must_queue(&mut self, job: u32, front: Front, hop: &HopCost, now: u64) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let link = hop.link.index();
        let ready = front.ready(hop, self.turned);
        queues.fronts[job as usize] = front;
        if ready > now.saturating_add(hop.busy / SOON) {
            self.happenings.push(ready, Happening::Passes(job).number());
            return true;
        }
        if self.free_at[link] <= ready.max(now) && queues.waiting[link].is_empty() {
            return false;
        }
        // The way here is behind it, so the chain of jobs that it begins is shorter by that much.
        let urgency = self.urgency[job as usize].saturating_sub(hop.head);
        queues.waiting[link].push(urgency, job);
        self.ask(link, self.free_at[link].max(now));
        true
    }

    fn take(&mut self, job: u32, front: Front, hop: &HopCost) -> Front {
        let link = hop.link.index();
        if let Some(queues) = &mut self.queues {
            queues.taken[link].push(job);
        }
        let start = front.ready(hop, self.turned).max(self.free_at[link]);
        self.free_at[link] = later(start, hop.busy);
        front.behind(hop, start, self.turned)
    }
}

#[cfg(test)]
mod tests {
    use motet_sim::link_rule::{Arrival, Passage};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Jobs over the same links, one after the other: every link is free again, and every job arrives,
        /// when the simulator's link rule says so.
        #[test]
        fn fronts_move_by_the_link_rule(
            links in proptest::collection::vec((0u64..1_000_000, 0u64..1_000_000), 1..6),
            starts in proptest::collection::vec(0u64..10_000_000, 1..8),
        ) {
            let hop = |(index, (busy, latency)): (usize, &(u64, u64))| HopCost {
                link: LinkId::from_index(index),
                head: 0,
                latency: *latency,
                busy: *busy,
            };
            let hops: Vec<HopCost> = links.iter().enumerate().map(hop).collect();
            let mut free = vec![0u64; hops.len()];
            let mut ruled = vec![0u64; hops.len()];
            for now in starts {
                let mut front = Front::starting(now);
                let mut at = Arrival::whole(now);
                for hop in &hops {
                    let link = hop.link.index();
                    let start = front.ready(hop, false).max(free[link]);
                    free[link] = later(start, hop.busy);
                    front = front.behind(hop, start, false);
                    let passage = Passage::of(at.forwarded(false), ruled[link], hop.busy);
                    ruled[link] = passage.streamed;
                    at = passage.arrival(hop.latency);
                }
                prop_assert_eq!((front.head, front.tail), (at.head, at.tail));
                prop_assert_eq!(&free, &ruled);
            }
        }
    }
}
