//! The longest chain of a plan: every block's operations one after the other, where a wait lasts until the
//! signal has come and packets are read when they have been written.
//!
//! Which operation waits for which depends on the plan alone, so that is found once: [`Chain::of`] runs the
//! operations without times and records for each end of an operation (a *moment*) which moments it follows, and
//! by what kind of operation. Blocks that do the same, as most slices and ranks do, share moments, so that a plan
//! of thousands of operations has a few dozen of them. [`Chain::micros`] then computes the time of every moment.

use std::collections::BTreeMap;

use motet_collective::formats::mscclpp_json::{Outline, OutlineStep, Work};
use motet_units::Rank;

use super::rounds::{Conditions, Task};
use super::terms::PlanTerms;

/// A moment of a plan's run, as its place in [`Chain::moments`].
type Id = u32;

/// The moments of a plan's run: the start, and ends of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Each after those that it follows; the first is the start.
    moments: Vec<Moment>,
    /// The moments at which blocks have done their last operation.
    ends: Vec<Id>,
}

/// A moment: the kind of operation that ends there, and the moments that it follows. Latencies of the network are
/// the bits of an `f64` in µs, because moments are keys of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Start,
    /// Blocks have met at a barrier, which the last of them reached at the latest of these moments.
    Barrier(Vec<Id>),
    /// A block has moved data, after the packets that it reads had come: `written` when, plus the latency.
    Moved {
        from: Id,
        written: Vec<(Id, u64)>,
        task: Task,
    },
    /// The proxy of a rank has done a post, not counting the latency to the other side. It does one post after the
    /// other; `behind` is the one before.
    Posted {
        from: Id,
        behind: Option<Id>,
        chunks: u32,
        /// Copies and signals.
        tasks: u32,
    },
    /// A block that waits for a post (it flushes) knows that the post has arrived at the other side.
    Flushed {
        posted: Id,
        latency: u64,
    },
    /// A block has handed a post to the proxy and goes on without waiting for it.
    Handed {
        from: Id,
    },
    /// A block has raised counters. `after_all`: it first waited until all GPUs see what it has written.
    Raised {
        from: Id,
        counters: u32,
        after_all: bool,
    },
    /// A block has waited for counters, which were raised at `told` (with the latency from there). `near`: by
    /// blocks of the same GPU.
    Taken {
        from: Id,
        counters: u32,
        near: bool,
        told: Vec<(Id, u64)>,
    },
}

impl Chain {
    /// The moments of a plan. `latency` is what the network adds on the way between two ranks, in µs.
    /// `None` if blocks wait for one another for ever, which no verified plan does.
    #[must_use]
    pub fn of(outline: &Outline, latency: &dyn Fn(Rank, Rank) -> f64) -> Option<Self> {
        let mut run = Run {
            outline,
            latency,
            moments: vec![Moment::Start],
            known: BTreeMap::new(),
            at: vec![(0, 0); outline.blocks.len()],
            raised: vec![Vec::new(); outline.counters as usize],
            taken: vec![0; outline.counters as usize],
            packets: BTreeMap::new(),
            barriers: BTreeMap::new(),
            proxies: BTreeMap::new(),
        };
        loop {
            let mut moved = false;
            for block in 0..outline.blocks.len() {
                while run.step(block) {
                    moved = true;
                }
            }
            let all = run.at.iter().zip(&outline.blocks);
            if all.into_iter().all(|(at, block)| at.0 == block.steps.len()) {
                let mut ends: Vec<Id> = run.at.iter().map(|it| it.1).collect();
                ends.sort_unstable();
                ends.dedup();
                return Some(Self { moments: run.moments, ends });
            }
            if !moved {
                return None;
            }
        }
    }

    /// How long, in µs, from the first block's start to the last one's end, if no two blocks slowed each
    /// other down.
    #[must_use]
    pub fn micros(&self, chunk_bytes: f64, under: &Conditions, terms: &PlanTerms) -> f64 {
        let mut times: Vec<f64> = Vec::with_capacity(self.moments.len());
        for moment in &self.moments {
            let at = |id: &Id| times[*id as usize];
            let latest = |ids: &[Id], start: f64| ids.iter().map(at).fold(start, f64::max);
            let time = match moment {
                Moment::Start => 0.0,
                Moment::Barrier(met) => latest(met, 0.0) + terms.semaphore,
                Moment::Moved { from, written, task } => {
                    // What an operation takes by itself goes by while packets are awaited.
                    let come = written.iter().map(|it| at(&it.0) + f64::from_bits(it.1));
                    let ready = come.fold(at(from) + terms.operation, f64::max);
                    ready + task.micros(chunk_bytes, under, terms)
                }
                Moment::Posted { from, behind, chunks, tasks } => {
                    let free = behind.as_ref().map_or(0.0, at);
                    let bytes = chunk_bytes * f64::from(*chunks);
                    let takes = under.proxy(terms) * f64::from(*tasks) + bytes / terms.post_rate;
                    free.max(at(from) + terms.post) + takes
                }
                Moment::Flushed { posted, latency } => at(posted) + f64::from_bits(*latency),
                Moment::Handed { from } => at(from) + terms.operation,
                Moment::Raised { from, counters, after_all } => {
                    let fence = if *after_all { under.fence(terms) } else { 0.0 };
                    at(from) + fence + terms.counter * f64::from(*counters)
                }
                Moment::Taken { from, counters, near, told } => {
                    let looked = at(from) + terms.counter * f64::from(*counters);
                    let on_the_way = if *near { terms.semaphore } else { terms.signal };
                    let come = told.iter().map(|it| at(&it.0) + on_the_way + f64::from_bits(it.1));
                    come.fold(looked, f64::max)
                }
            };
            times.push(time);
        }
        self.ends.iter().map(|it| times[*it as usize]).fold(0.0, f64::max)
    }
}

struct Run<'a> {
    outline: &'a Outline,
    latency: &'a dyn Fn(Rank, Rank) -> f64,
    moments: Vec<Moment>,
    known: BTreeMap<Moment, Id>,
    /// By block: its next step, and the moment at which that can begin.
    at: Vec<(usize, Id)>,
    /// By counter: which ranks raised it and when, in order.
    raised: Vec<Vec<(Rank, Id)>>,
    /// By counter: how often it was waited for.
    taken: Vec<usize>,
    /// By chunk of packets in a rank's memory: which rank wrote it and when.
    packets: BTreeMap<(Rank, u32), (Rank, Id)>,
    /// By barrier of a rank: which blocks came to it and when.
    barriers: BTreeMap<(Rank, u32), Vec<(usize, Id)>>,
    /// By rank: when its proxy has done all that was posted so far.
    proxies: BTreeMap<Rank, Id>,
}

impl Run<'_> {
    /// Does a block's next step; `false` if it must wait for others, or is through.
    fn step(&mut self, block: usize) -> bool {
        let (next, now) = self.at[block];
        let rank = self.outline.blocks[block].rank;
        let outline = self.outline;
        let Some(step) = outline.blocks[block].steps.get(next) else { return false };
        let end = match step {
            OutlineStep::Meet => Some(now),
            OutlineStep::Barrier { id, blocks } => self.meet(block, (rank, *id), *blocks, now),
            OutlineStep::Move(work) => self.move_data(work, rank, now),
            OutlineStep::Post { to, chunks, raises, flush, packets } => {
                // A packet is twice its data.
                let bytes = chunks * if packets.is_some() { 2 } else { 1 };
                let posted = self.post(rank, now, bytes, 1 + u32::from(raises.is_some()));
                if let Some(counter) = raises {
                    self.raised[*counter as usize].push((rank, posted));
                }
                for chunk in packets.iter().flat_map(|first| *first..first + chunks) {
                    self.packets.insert((*to, chunk), (rank, posted));
                }
                Some(self.moment(if *flush {
                    let latency = (self.latency)(rank, *to).to_bits();
                    Moment::Flushed { posted, latency }
                } else {
                    Moment::Handed { from: now }
                }))
            }
            OutlineStep::Raise { counters, by_port: true, .. } => {
                for counter in counters {
                    let posted = self.post(rank, now, 0, 1);
                    self.raised[*counter as usize].push((rank, posted));
                }
                let count = counters.len() as u32;
                let handed = Moment::Raised { from: now, counters: count, after_all: false };
                Some(self.moment(handed))
            }
            OutlineStep::Raise { counters, near, relaxed, by_port: false } => {
                let (count, after_all) = (counters.len() as u32, !near && !relaxed);
                let told = Moment::Raised { from: now, counters: count, after_all };
                let told = self.moment(told);
                for counter in counters {
                    self.raised[*counter as usize].push((rank, told));
                }
                Some(told)
            }
            OutlineStep::Take { counters, near } => self.take(counters, *near, rank, now),
        };
        let Some(end) = end else { return false };
        self.at[block] = (next + 1, end);
        true
    }

    /// The id of a moment; equal moments have one id.
    fn moment(&mut self, moment: Moment) -> Id {
        let next = self.moments.len() as Id;
        let id = *self.known.entry(moment.clone()).or_insert(next);
        if id == next {
            self.moments.push(moment);
        }
        id
    }

    /// Adds a post behind all that the rank's proxy has to do so far.
    fn post(&mut self, rank: Rank, from: Id, chunks: u32, tasks: u32) -> Id {
        let behind = self.proxies.get(&rank).copied();
        let posted = self.moment(Moment::Posted { from, behind, chunks, tasks });
        self.proxies.insert(rank, posted);
        posted
    }

    fn meet(&mut self, block: usize, place: (Rank, u32), blocks: u32, now: Id) -> Option<Id> {
        let met = self.barriers.entry(place).or_default();
        if !met.iter().any(|it| it.0 == block) {
            met.push((block, now));
        }
        if met.len() < blocks as usize {
            return None;
        }
        let mut met: Vec<Id> = met.iter().map(|it| it.1).chain([now]).collect();
        met.sort_unstable();
        met.dedup();
        Some(self.moment(Moment::Barrier(met)))
    }

    /// Data is moved when all packets that it is made of have come; `None` if some are not written yet.
    fn move_data(&mut self, work: &Work, rank: Rank, now: Id) -> Option<Id> {
        let mut written = Vec::new();
        for (place, first) in &work.awaits {
            for chunk in 0..work.chunks {
                let (writer, at) = *self.packets.get(&(*place, first + chunk))?;
                written.push((at, (self.latency)(writer, rank).to_bits()));
            }
        }
        written.sort_unstable();
        written.dedup();
        let end = self.moment(Moment::Moved { from: now, written, task: Task::from(work) });
        for (place, first) in &work.provides {
            for chunk in 0..work.chunks {
                self.packets.insert((*place, first + chunk), (rank, end));
            }
        }
        Some(end)
    }

    /// Waits until all counters have been raised once more than they were waited for; `None` if they have not yet.
    fn take(&mut self, counters: &[u32], near: bool, rank: Rank, now: Id) -> Option<Id> {
        let mut told = Vec::with_capacity(counters.len());
        for (index, counter) in counters.iter().enumerate() {
            // A counter that stands in the list twice must have been raised twice.
            let before = counters[..index].iter().filter(|it| *it == counter).count();
            let place = self.taken[*counter as usize] + before;
            let (from, at) = *self.raised[*counter as usize].get(place)?;
            told.push((at, (self.latency)(from, rank).to_bits()));
        }
        for counter in counters {
            self.taken[*counter as usize] += 1;
        }
        told.sort_unstable();
        told.dedup();
        let counters = counters.len() as u32;
        Some(self.moment(Moment::Taken { from: now, counters, near, told }))
    }
}
