//! The longest chain of a plan, run operation by operation with times: what
//! [`Chain`](motet_nccl::mscclpp::chain::Chain) must agree with.

use std::collections::BTreeMap;

use motet_collective::formats::mscclpp_json::{Outline, OutlineStep, Work};
use motet_nccl::mscclpp::PlanTerms;
use motet_units::Rank;

/// How long, in µs, from the first block's start to the last one's end, if no two blocks slowed each
/// other down. `latency` is what the network adds on the way between two ranks. `None` if blocks wait
/// for one another for ever, which no verified plan does.
pub(crate) fn longest(
    outline: &Outline,
    chunk_bytes: f64,
    terms: &PlanTerms,
    latency: &dyn Fn(Rank, Rank) -> f64,
) -> Option<f64> {
    let mut run = Run {
        outline,
        chunk_bytes,
        terms,
        latency,
        at: vec![(0, 0.0); outline.blocks.len()],
        raised: vec![Vec::new(); outline.counters as usize],
        taken: vec![0; outline.counters as usize],
        packets: BTreeMap::new(),
        barriers: BTreeMap::new(),
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
    terms: &'a PlanTerms,
    latency: &'a dyn Fn(Rank, Rank) -> f64,
    /// Of each block: its next step, and when that can begin.
    at: Vec<(usize, f64)>,
    /// Of each counter: who raised it when, in order.
    raised: Vec<Vec<(Rank, f64)>>,
    /// How often each was waited for.
    taken: Vec<usize>,
    /// When each chunk of packets was written.
    packets: BTreeMap<(Rank, u32), f64>,
    /// Of each barrier of a rank: when blocks came to it.
    barriers: BTreeMap<(Rank, u32), Vec<(usize, f64)>>,
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
                let Some(ready) = self.packets_of(work, now) else { return false };
                let end = ready + self.work(work);
                for (rank, first) in &work.provides {
                    for chunk in 0..work.chunks {
                        self.packets.insert((*rank, first + chunk), end);
                    }
                }
                end
            }
            OutlineStep::Post { to, chunks: _, raises, flush } => {
                let there = now + self.terms.post + (self.latency)(rank, *to);
                if let Some(counter) = raises {
                    self.raised[*counter as usize].push((rank, there));
                }
                if *flush { there } else { now + self.terms.operation }
            }
            OutlineStep::Raise { counters, .. } => {
                let told = now + self.terms.counter * counters.len() as f64;
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

    /// When all packets that an operation reads have been seen; `None` if some are not written yet.
    fn packets_of(&self, work: &Work, now: f64) -> Option<f64> {
        let mut ready = now;
        for (rank, first) in &work.awaits {
            for chunk in 0..work.chunks {
                let written = self.packets.get(&(*rank, first + chunk))?;
                ready = ready.max(written + self.terms.packet);
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

    /// How long the threads of a block are busy with an operation.
    fn work(&self, work: &Work) -> f64 {
        let terms = self.terms;
        let bytes = self.chunk_bytes * f64::from(work.chunks);
        let packets = work.reads_packets || work.writes_packets;
        let grain = if packets { 8.0 } else { 16.0 };
        let rounds = (bytes / grain / f64::from(self.outline.threads.max(1))).ceil();
        let round = match (work.reads_packets, work.writes_packets, work.reads) {
            (false, true, _) => terms.packet_write,
            (true, false, 1) if work.writes == 1 => terms.packet_read,
            (true, _, reads) => {
                // A sum: packets are read one after the other, and sent on.
                terms.packet_read
                    + terms.packet_more * f64::from(reads.saturating_sub(1))
                    + terms.packet_write * f64::from(work.writes.saturating_sub(1))
            }
            (false, false, 1) if work.writes == 1 => terms.copy_round,
            (false, false, reads) => {
                terms.sum_round
                    + terms.sum_read * f64::from(reads.saturating_sub(1))
                    + terms.sum_write * f64::from(work.writes.saturating_sub(1))
            }
        };
        f64::from(work.passes) * (terms.operation + rounds * round)
    }
}
