//! `greedy`: whenever a link is free, it takes a chunk that its far end still needs; on any network.
//!
//! The idea is that of *TACOS* (Won et al.): walk through time and match free links with chunks. It is fast,
//! needs no structure, and comes close to the bound on networks whose ranks can all receive about as much.
//! A link may send the next chunk while the previous one is still in flight (latency and transmission time
//! are kept apart), and small parts are not cut at all.
//!
//! - [`overlay`]: the paths from rank to rank, through switches too.
//! - [`groups`]: sets of ranks that a chunk should enter only once, because links into them are scarce.
//! - [`matching`]: every chunk to every rank: AllGather and Broadcast; on the fabric turned round,
//!   ReduceScatter and Reduce; AllReduce is one after the other. [`emit`] makes the program.
//! - [`directed`]: every chunk to one rank: AllToAll, AllToAllV, Gather, Scatter, SendRecv.

mod directed;
mod emit;
mod groups;
mod matching;
mod overlay;

use motet_collective::CollectiveKind;
use motet_graph::{Dijkstra, Hop};
use motet_units::{Bytes, Duration, LinkId, Rank, Seed};
use rayon::prelude::*;

use crate::fabric::Fabric;
use crate::limits::MAX_CELLS;
use crate::lower::Lowered;
use crate::order;
use crate::task::{SynthError, Task};
use crate::watch::Watch;
use groups::Groups;
use matching::{MatchingPlan, Spread};
use overlay::Overlay;

const METHOD: &str = "greedy";

/// The numbers of chunks per part to begin with; the number chosen is then doubled as long as that helps.
const CHUNKS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// A matching is tried again, with other settings and random choices, as long as all tries together make at
/// most this many sends.
const SENDS_PER_SEARCH: u64 = 1 << 18;
/// Most tries of a matching.
const MOST_TRIES: u64 = 8;
/// What one send of a matching costs, in units of work.
const WORK_PER_SEND: u64 = 6;
/// With at most this many groups the first try is [`Spread::faithful`]: chunks that go from each group to the
/// next one only are soon everywhere. With more groups the first try is not.
const FEW_GROUPS: usize = 16;

/// A program of at most about `most_transfers` transfers between ranks, for any collective.
pub fn synthesize(
    task: &Task<'_>,
    fabric: &Fabric,
    seed: Seed,
    most_transfers: u64,
) -> Result<Lowered, SynthError> {
    use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let (collects, spreads) = match task.goal.kind() {
        AllGather | Broadcast => (false, true),
        ReduceScatter | Reduce => (true, false),
        AllReduce => (true, true),
        _ => return directed::synthesize(task, fabric, seed, most_transfers),
    };
    let seed = seed.named(METHOD);
    let ranks = fabric.rank_count() as u64;
    let parts = if task.goal.root().is_some() { 1 } else { ranks };
    if ranks * parts > MAX_CELLS {
        return Err(SynthError::not_for(METHOD, format!("{ranks} ranks are too many")));
    }
    let part = task.size.div_ceil(parts);
    let both = collects && spreads;
    let limit = most_transfers >> u32::from(both);
    let turned = fabric.turned_round();
    let search = |over| Search::new(task, over, part, seed, limit);
    let first = search(if spreads { fabric } else { &turned });
    let (chunks, plan) = first.best()?;
    let other = match both {
        false => None,
        true => {
            let search = search(&turned);
            Some((search.with(chunks)?, search))
        }
    };
    let makespan = plan.makespan.saturating_add(other.as_ref().map_or(0, |it| it.0.makespan));
    let parts = if both { fabric.rank_count() as u32 } else { 1 };
    let collective = task.goal.collective(chunks.saturating_mul(parts))?;
    let mut emitter = emit::Emitter::new(collective, fabric.rank_count(), chunks);
    if let Some((plan, search)) = &other {
        emitter.collect(&search.overlay, plan, &search.origins(chunks));
    }
    if spreads {
        emitter.spread(&first.overlay, &plan, &first.origins(chunks));
    } else {
        emitter.collect(&first.overlay, &plan, &first.origins(chunks));
    }
    let (program, mut makespan) = (emitter.build(), Duration::from_ps(makespan));
    if collects && first.overlay.passes_switches() {
        // On a path over links of different speed a transfer run backwards does not take the same times, so the
        // makespan is taken from the finished program.
        makespan = order::makespan(&program, fabric, task.size);
    }
    Ok(Lowered { program, makespan, slices: chunks })
}

/// The search for the best matching over one fabric.
struct Search<'a> {
    fabric: &'a Fabric,
    overlay: Overlay,
    groups: Groups,
    /// The rank that all data comes from, if there is one.
    root: Option<Rank>,
    /// The size of the data that each origin has for all ranks.
    part: Bytes,
    seed: Seed,
    most_transfers: u64,
    /// The latency to the farthest rank.
    farthest: u64,
    watch: Watch<'a>,
}

impl<'a> Search<'a> {
    fn new(
        task: &Task<'a>,
        fabric: &'a Fabric,
        part: Bytes,
        seed: Seed,
        most_transfers: u64,
    ) -> Self {
        let overlay = Overlay::new(fabric);
        let groups = Groups::new(fabric, &overlay);
        let root = task.goal.root();
        let (farthest, watch) = (0, task.watch);
        let it =
            Self { fabric, overlay, groups, root, part, seed, most_transfers, farthest, watch };
        Self { farthest: it.eccentricity(), ..it }
    }

    /// The best number of chunks per part, and its matching. More chunks must be worth it.
    fn best(&self) -> Result<(u32, MatchingPlan), SynthError> {
        let first = self.first_chunks();
        let mut best = (first, self.with(first)?);
        let mut chunks = first;
        loop {
            chunks = chunks.saturating_mul(2);
            // Twice the transfers for less than a hundredth is no bargain.
            let worth_it = best.1.makespan - best.1.makespan / 100;
            if !self.fits(chunks) || self.least(chunks).max(self.farthest) >= worth_it {
                return Ok(best);
            }
            if !self.watch.affords(self.work(chunks)) {
                return Ok(best);
            }
            let plan = match self.with(chunks) {
                Err(SynthError::OutOfTime { .. }) => return Ok(best),
                other => other?,
            };
            if plan.makespan >= worth_it {
                return Ok(best);
            }
            best = (chunks, plan);
        }
    }

    /// The fewest chunks per part with which cutting into whole chunks adds next to nothing to the least time.
    fn first_chunks(&self) -> u32 {
        let all = CHUNKS.into_iter().filter(|it| self.fits(*it));
        let time = |it: u32| self.least(it).saturating_add(self.farthest);
        let least: Vec<(u32, u64)> = all.map(|it| (it, time(it))).collect();
        let best = least.iter().map(|it| it.1).min().unwrap_or(0);
        let good = least.iter().find(|it| it.1 <= best.saturating_add(best / 250));
        good.map_or(1, |it| it.0)
    }

    /// Whether so many chunks per part are within the limits.
    fn fits(&self, chunks: u32) -> bool {
        let ranks = self.fabric.rank_count() as u64;
        let parts = if self.root.is_some() { 1 } else { ranks };
        let cells = u64::from(chunks) * parts * ranks;
        chunks == 1 || (cells <= self.most_transfers && cells <= MAX_CELLS)
    }

    /// The work of one matching with so many chunks per part: a choice for every chunk that comes to a rank.
    fn work(&self, chunks: u32) -> u64 {
        let ranks = self.fabric.rank_count() as u64;
        let parts = if self.root.is_some() { 1 } else { ranks };
        WORK_PER_SEND * u64::from(chunks) * parts * ranks
    }

    /// The latency from the first rank, or the root, to the farthest.
    fn eccentricity(&self) -> u64 {
        let mut search = Dijkstra::new(self.fabric.rank_count());
        let start = self.root.unwrap_or(Rank(0));
        search.search([(start.0, 0)], |rank| {
            let links = self.fabric.outgoing(self.fabric.node(Rank(rank)));
            let ways = links.iter().flat_map(|it| self.overlay.of_link(it.index()));
            ways.map(|it| Hop {
                arc: *it,
                to: self.overlay.ways[*it as usize].to,
                length: self.overlay.latency(*it as usize),
            })
        });
        search.order().last().map_or(0, |it| search.distance(*it))
    }

    /// How long it takes at least until every rank has received its chunks over the links into it.
    fn least(&self, chunks: u32) -> u64 {
        let chunk = self.part.div_ceil(u64::from(chunks));
        let parts = if self.root.is_some() { 1 } else { self.fabric.rank_count() as u64 - 1 };
        let needed = u64::from(chunks) * parts;
        let busy_of = |links: &[LinkId]| -> Vec<u64> {
            links.iter().map(|it| self.fabric.busy(*it, chunk).as_ps().max(1)).collect()
        };
        let mut worst = 0;
        for rank in self.fabric.ranks().filter(|it| Some(*it) != self.root) {
            let busy = busy_of(self.fabric.incoming(self.fabric.node(rank)));
            if received(&busy, worst) < needed {
                worst = until(&busy, needed);
            }
        }
        worst
    }

    /// The best matching with this many chunks per part.
    fn with(&self, chunks: u32) -> Result<MatchingPlan, SynthError> {
        let origins = self.origins(chunks);
        let spread = |groups, faithful, repeats, detours| Spread {
            fabric: self.fabric,
            overlay: &self.overlay,
            groups,
            faithful,
            repeats,
            detours,
            origins: &origins,
            chunk: self.part.div_ceil(u64::from(chunks)),
            watch: self.watch,
        };
        let (no_groups, largest) = (Groups::default(), self.groups.largest());
        // Which settings are best differs from network to network, so every try has others: which groups count,
        // if any, and the switches of `Spread`.
        let few = self.groups.count() <= FEW_GROUPS;
        let plan = |number: u64| {
            let groups = match number % 2 {
                0 if self.groups.are_nested() && number % 8 >= 4 => &self.groups,
                0 => &largest,
                _ => &no_groups,
            };
            let faithful = few == number.is_multiple_of(4);
            spread(groups, faithful, number % 8 == 6, number % 4 == 2)
                .plan(&mut self.seed.numbered(number).stream("matching"))
        };
        let unreachable = || match self.watch.out_of_time() {
            true => SynthError::OutOfTime { method: METHOD },
            false => SynthError::not_for(METHOD, "some rank cannot be reached"),
        };
        self.watch.spend(self.work(chunks));
        // A chunk that has entered a group may not reach all of it over links inside; then groups do not count.
        let first = plan(0).or_else(|| plan(1)).ok_or_else(unreachable)?;
        let least = self.least(chunks).max(self.farthest);
        let tries = (SENDS_PER_SEARCH / (first.sends.len() as u64).max(1)).min(MOST_TRIES);
        let more_work = self.work(chunks) * tries.saturating_sub(1);
        let good = first.makespan <= least.saturating_add(least / 250);
        if good || tries < 2 || !self.watch.affords(more_work) {
            return Ok(first);
        }
        self.watch.spend(more_work);
        // Collected in order, so that the same one wins every time.
        let others: Vec<MatchingPlan> = (1..tries).into_par_iter().filter_map(plan).collect();
        let best = others.into_iter().chain([first]).min_by_key(|it| it.makespan);
        best.ok_or_else(unreachable)
    }

    /// The rank that each chunk comes from.
    fn origins(&self, chunks: u32) -> Vec<u32> {
        match self.root {
            Some(root) => vec![root.0; chunks as usize],
            None => {
                let ranks = 0..self.fabric.rank_count() as u32;
                ranks.flat_map(|it| std::iter::repeat_n(it, chunks as usize)).collect()
            }
        }
    }
}

/// How many chunks links carry in `time`, if each takes its entry of `busy` for a chunk.
fn received(busy: &[u64], time: u64) -> u64 {
    busy.iter().map(|it| time / it).fold(0, u64::saturating_add)
}

/// How long such links need for so many chunks together.
fn until(busy: &[u64], chunks: u64) -> u64 {
    let (Some(fastest), Some(slowest)) = (busy.iter().min(), busy.iter().max()) else { return 0 };
    // The time lies between what it would be if all were as fast as the fastest, and as slow as the slowest.
    let links = busy.len() as u64;
    let mut low = fastest.saturating_mul(chunks / links);
    let mut high =
        fastest.saturating_mul(chunks).min(slowest.saturating_mul(chunks.div_ceil(links)));
    if fastest == slowest {
        return high;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if received(busy, middle) >= chunks {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests;
