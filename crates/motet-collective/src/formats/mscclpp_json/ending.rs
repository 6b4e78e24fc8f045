//! Whether a GPU can end its call before others, or its own proxy, are through with its memory.
//!
//! A program does not say when a call ends, so that this is no fault of the program; but what a
//! plan leaves to arrive after the end, the next kernel on the stream may miss or overwrite.
//!
//! What others write there must be seen, for which a relaxed signal is not enough. What a block of theirs reads
//! there must only be over, and it is when the threads of the block have met since: each has stored what it read.
//!
//! Packets that are posted from scratch need no word that they have been fetched, if scratch is doubled and
//! their reader waits for all of them: the next call uses the other half, and nobody ends it before
//! everybody has ended this one, because everybody's data is in everybody's result.

use motet_units::Rank;

use super::graph::{StepGraph, StepNode, event};
use super::lanes::Numbered;
use super::steps::PlanSteps;
use super::waits::Sorted;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::TransferId;

/// Steps that the search may take in all; beyond any real plan.
const MAX_WORK: u64 = 1 << 28;

/// Warns of each GPU that may end too early, naming the first transfer it may miss.
pub(super) fn check(
    graph: &StepGraph,
    sorted: &Sorted,
    numbered: &Numbered,
    steps: &PlanSteps,
    doubled: bool,
    report: &mut Report,
) {
    let mut runs_at = vec![Rank(0); numbered.transfers.len()];
    let posted = numbered.posted();
    for lane in &numbered.lanes {
        for it in &lane.events {
            runs_at[it.transfer().index()] = lane.rank;
        }
    }
    let mut touched: Vec<(Rank, TransferId)> = Vec::new();
    for (index, transfer) in numbered.transfers.iter().enumerate() {
        let ends = [transfer.src.rank, transfer.dst.rank];
        let by_flag = doubled && numbered.moves[index].writes_packets;
        let fetched = posted[index] && !by_flag;
        let foreign = ends.into_iter().filter(|it| *it != runs_at[index] || fetched);
        touched.extend(foreign.map(|it| (it, TransferId::from_index(index))));
    }
    touched.sort_unstable();
    let mut work = 0;
    for of_rank in touched.chunk_by(|a, b| a.0 == b.0) {
        let rank = of_rank[0].0;
        work += 2 * u64::from(graph.nodes);
        if work > MAX_WORK {
            return;
        }
        let own = (0..steps.blocks.len()).filter(|it| steps.blocks[*it].rank == rank);
        let ends: Vec<StepNode> = own.filter_map(|it| graph.ends[it].last().copied()).collect();
        let (seen, over) = (sorted.seen_by(ends.clone()), sorted.over_before(ends));
        let missed: Vec<TransferId> = of_rank
            .iter()
            .map(|it| it.1)
            .filter(|it| {
                // What a proxy fetches is known to be fetched when it has arrived.
                let writes = numbered.transfers[it.index()].dst.rank == rank;
                if writes || posted[it.index()] {
                    !seen[event(it.arrived()) as usize]
                } else {
                    !over[event(it.sent()) as usize]
                }
            })
            .collect();
        if let Some(first) = missed.first() {
            let message = format!(
                "gpu {rank} may end its call before {} of {} transfers of others or by proxy from and to it are \
                 done: it waits for no signal behind them",
                missed.len(),
                of_rank.len()
            );
            report.push(Diagnostic::warning(Finding::Race, message).of(*first));
        }
    }
}
