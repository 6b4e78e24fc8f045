//! The longest chain of a plan, run operation by operation with times: what
//! [`Chain`](motet_nccl::mscclpp::chain::Chain) must agree with.

use std::collections::BTreeMap;

use motet_collective::formats::mscclpp_json::{Outline, OutlineStep, Work};
use motet_nccl::mscclpp::PlanTerms;
use motet_nccl::mscclpp::rounds::{Conditions, Task};
use motet_units::Rank;

/// How long, in µs, from the first block's start to the last one's end, if no two blocks slowed each
/// other down. `latency` is what the network adds on the way between two ranks. `None` if blocks wait
/// for one another for ever, which no verified plan does.
pub(crate) fn longest(
    outline: &Outline,
    chunk_bytes: f64,
    under: &Conditions,
    terms: &PlanTerms,
    latency: &dyn Fn(Rank, Rank) -> f64,
) -> Option<f64> {
    let mut run = Run {
        outline,
        chunk_bytes,
        under,
        terms,
        latency,
        at: vec![(0, 0.0); outline.blocks.len()],
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
        let done = |(at, block): (&(usize, f64), &_)| -> bool {
            let block: &motet_collective::formats::mscclpp_json::OutlineBlock = block;
            at.0 == block.steps.len()
        };
        if run.at.iter().zip(&outline.blocks).all(done) {
            return Some(run.at.iter().map(|it| it.1).fold(0.0, f64::max));
        }
        if !moved {
            return None;
        }
    }
}

struct Run<'a> {
    outline: &'a Outline,
    chunk_bytes: f64,
    under: &'a Conditions,
    terms: &'a PlanTerms,
    latency: &'a dyn Fn(Rank, Rank) -> f64,
    /// Of each block: its next step, and when that can begin.
    at: Vec<(usize, f64)>,
    /// Of each counter: who raised it when, in order.
    raised: Vec<Vec<(Rank, f64)>>,
    /// How often each was waited for.
    taken: Vec<usize>,
    /// Of each chunk of packets: who wrote it when.
    packets: BTreeMap<(Rank, u32), (Rank, f64)>,
    /// Of each barrier of a rank: when blocks came to it.
    barriers: BTreeMap<(Rank, u32), Vec<(usize, f64)>>,
    /// When each rank's proxy is through with what was posted so far.
    proxies: BTreeMap<Rank, f64>,
}

impl Run<'_> {
    /// Does a block's next step; `false` if it must wait for others, or is through.
    fn step(&mut self, block: usize) -> bool {
        let (next, now) = self.at[block];
        let rank = self.outline.blocks[block].rank;
        let Some(step) = self.outline.blocks[block].steps.get(next) else { return false };
        let end = match step {
            OutlineStep::Meet => now,
            OutlineStep::Barrier { id, blocks } => {
                let met = self.barriers.entry((rank, *id)).or_default();
                if !met.iter().any(|it| it.0 == block) {
                    met.push((block, now));
                }
                if met.len() < *blocks as usize {
                    return false;
                }
                met.iter().map(|it| it.1).fold(now, f64::max) + self.terms.semaphore
            }
            OutlineStep::Move(work) => {
                let Some(ready) = self.packets_of(work, rank, now) else { return false };
                let end = ready + Task::from(work).micros(self.chunk_bytes, self.under, self.terms);
                for (place, first) in &work.provides {
                    for chunk in 0..work.chunks {
                        self.packets.insert((*place, first + chunk), (rank, end));
                    }
                }
                end
            }
            OutlineStep::Post { to, chunks, raises, flush, packets } => {
                let bytes =
                    self.chunk_bytes * f64::from(*chunks * (1 + u32::from(packets.is_some())));
                let posted = self.post(rank, now, bytes, 1 + u32::from(raises.is_some()));
                if let Some(counter) = raises {
                    self.raised[*counter as usize].push((rank, posted));
                }
                for chunk in packets.iter().flat_map(|first| *first..first + chunks) {
                    self.packets.insert((*to, chunk), (rank, posted));
                }
                if *flush { posted + (self.latency)(rank, *to) } else { now + self.terms.operation }
            }
            OutlineStep::Raise { counters, by_port: true, .. } => {
                for counter in counters {
                    let posted = self.post(rank, now, 0.0, 1);
                    self.raised[*counter as usize].push((rank, posted));
                }
                now + self.terms.counter * counters.len() as f64
            }
            OutlineStep::Raise { counters, near, relaxed, by_port: false } => {
                let fence = if *near || *relaxed { 0.0 } else { self.under.fence(self.terms) };
                let told = now + fence + self.terms.counter * counters.len() as f64;
                for counter in counters {
                    self.raised[*counter as usize].push((rank, told));
                }
                told
            }
            OutlineStep::Take { counters, near } => {
                let Some(end) = self.signals(counters, *near, rank, now) else { return false };
                end
            }
        };
        self.at[block] = (next + 1, end);
        true
    }

    /// The next thing that a rank's proxy does.
    fn post(&mut self, rank: Rank, now: f64, bytes: f64, tasks: u32) -> f64 {
        let free = self.proxies.get(&rank).copied().unwrap_or(0.0);
        let takes = self.under.proxy(self.terms) * f64::from(tasks) + bytes / self.terms.post_rate;
        let posted = free.max(now + self.terms.post) + takes;
        self.proxies.insert(rank, posted);
        posted
    }

    /// When an operation can move data: all packets that it reads have come; `None` if some are not written yet.
    fn packets_of(&self, work: &Work, rank: Rank, now: f64) -> Option<f64> {
        let mut ready = now + self.terms.operation;
        for (place, first) in &work.awaits {
            for chunk in 0..work.chunks {
                let (writer, written) = *self.packets.get(&(*place, first + chunk))?;
                ready = ready.max(written + (self.latency)(writer, rank));
            }
        }
        Some(ready)
    }

    /// When all counters have been raised once more than they were waited for.
    fn signals(&mut self, counters: &[u32], near: bool, rank: Rank, now: f64) -> Option<f64> {
        let raised = |it: &u32| self.raised[*it as usize].get(self.taken[*it as usize]);
        if counters.iter().any(|it| raised(it).is_none()) {
            return None;
        }
        let mut end = now + self.terms.counter * counters.len() as f64;
        let on_the_way = if near { self.terms.semaphore } else { self.terms.signal };
        for counter in counters {
            let place = &mut self.taken[*counter as usize];
            let (from, told) = self.raised[*counter as usize][*place];
            *place += 1;
            end = end.max(told + on_the_way + (self.latency)(from, rank));
        }
        Some(end)
    }
}
