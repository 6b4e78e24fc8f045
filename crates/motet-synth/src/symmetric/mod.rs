//! `symmetric`: programs for networks that look the same from every rank.
//!
//! On a ring, a torus, a hypercube or a complete graph every rank can be moved onto every other
//! by a translation that leaves the network as it is. So one pattern is enough: how the data of
//! one rank spreads, and when. Moved to every other rank it is the whole program, and since all
//! ranks do the same at the same time, no two copies want a link at once if the pattern itself
//! uses each direction only once at a time. The search is therefore over one rank's trees instead
//! of all ranks', which makes it fast, and its schedule is exact.
//!
//! - [`translations`]: the directions of such a network, from its [`mod@crate::grid`].
//! - [`pattern`]: a few trees out of one rank, with times, that keep every direction busy.
//! - [`emit`]: the pattern moved to every rank, as a program.
//!
//! ReduceScatter is AllGather on the fabric turned round, with time running backwards; AllReduce is one after
//! the other, which on such networks is as fast as trees can be.

mod emit;
mod pattern;
mod translations;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Seed};

use crate::fabric::Fabric;
use crate::grid::LazyGrid;
use crate::limits::MAX_CELLS;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::watch::Watch;
use pattern::{Cost, Pattern};
use translations::Translations;

const METHOD: &str = "symmetric";
const UNLIKE: &str = "the network is no grid that wraps around with equal links";

/// The most trees per rank that are tried.
const MOST_TREES: u32 = 24;

/// A program of at most about `most_transfers` transfers between ranks for AllGather,
/// ReduceScatter or AllReduce on a network with translations.
pub fn synthesize(
    task: &Task<'_>,
    fabric: &Fabric,
    grid: &LazyGrid<'_>,
    seed: Seed,
    most_transfers: u64,
) -> Result<Lowered, SynthError> {
    let kind = task.goal.kind();
    let (collects, spreads) = match kind {
        CollectiveKind::AllGather => (false, true),
        CollectiveKind::ReduceScatter => (true, false),
        CollectiveKind::AllReduce => (true, true),
        _ => return Err(SynthError::not_for(METHOD, format!("{kind} is not the same everywhere"))),
    };
    let ranks = fabric.rank_count() as u64;
    if ranks * ranks > MAX_CELLS {
        return Err(SynthError::not_for(METHOD, format!("{ranks} ranks are too many")));
    }
    let found =
        Translations::new(fabric, grid).ok_or_else(|| SynthError::not_for(METHOD, UNLIKE))?;
    let halves = u64::from(collects) + u64::from(spreads);
    let most_trees = (most_transfers / (ranks * ranks * halves).max(1))
        .min(MAX_CELLS / (ranks * ranks).max(1))
        .max(1);
    let most_trees = u32::try_from(most_trees).unwrap_or(u32::MAX);
    let turned = found.turned_round();
    let search =
        Search { forth: &found, back: &turned, collects, spreads, seed, watch: task.watch };
    let best = search.best(task.size.div_ceil(ranks), most_trees);
    let parts = if kind == CollectiveKind::AllReduce { found.ranks() as u32 } else { 1 };
    let collective = task.goal.collective(best.trees * parts)?;
    let program = emit::program(collective, &found, &turned, &best);
    Ok(Lowered { program, makespan: Duration::from_ps(best.makespan()), slices: best.trees })
}

/// The patterns found, for the halves that the collective has.
struct Found {
    trees: u32,
    collect: Option<Pattern>,
    spread: Option<Pattern>,
}

impl Found {
    fn makespan(&self) -> u64 {
        let time = |it: &Option<Pattern>| it.as_ref().map_or(0, |it| it.makespan);
        time(&self.collect).saturating_add(time(&self.spread))
    }
}

/// The search for the best number of trees.
struct Search<'a> {
    forth: &'a Translations,
    /// `forth` turned round.
    back: &'a Translations,
    collects: bool,
    spreads: bool,
    seed: Seed,
    watch: Watch<'a>,
}

impl Search<'_> {
    /// The best number of trees, and their patterns. More trees must be worth it.
    fn best(&self, part: Bytes, most_trees: u32) -> Found {
        let halves = u64::from(self.collects) + u64::from(self.spreads);
        let mut best = self.with(1, part);
        let mut worse = 0;
        for trees in 2..=most_trees.min(MOST_TREES) {
            let worth_it = best.makespan() - best.makespan() / 200;
            let least = Cost::of(self.forth, part.div_ceil(u64::from(trees)))
                .least_time(u64::from(trees) * (self.forth.ranks() as u64 - 1));
            if least.saturating_mul(halves) >= worth_it {
                continue;
            }
            if !self.watch.affords(self.work(trees)) {
                break;
            }
            let found = self.with(trees, part);
            if found.makespan() < worth_it {
                best = found;
                worse = 0;
            } else {
                worse += 1;
            }
            if worse == 3 {
                break;
            }
        }
        best
    }

    /// The work of searching the patterns of so many trees.
    fn work(&self, trees: u32) -> u64 {
        pattern::work(self.forth, trees) * (u64::from(self.collects) + u64::from(self.spreads))
    }

    fn with(&self, trees: u32, part: Bytes) -> Found {
        self.watch.spend(self.work(trees));
        let cost = Cost::of(self.forth, part.div_ceil(u64::from(trees)));
        let search = |over, back| pattern::search(over, back, &cost, trees, self.seed, self.watch);
        Found {
            trees,
            collect: self.collects.then(|| search(self.back, self.forth)),
            spread: self.spreads.then(|| search(self.forth, self.back)),
        }
    }
}

#[cfg(test)]
mod tests;
