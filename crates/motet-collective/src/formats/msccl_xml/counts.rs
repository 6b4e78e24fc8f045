//! What no lowering could fit into the runtime's limits, told from counts alone.
//!
//! Lowering and proving a program of a hundred thousand transfers takes long, and mostly to find
//! that it has too many. So the least that a rank must have is counted first: [`check_counts`].

use std::collections::BTreeSet;

use motet_units::Rank;

use super::Options;
use super::limits::{COUNT_LIMIT, MAX_BLOCKS, MAX_CHILDREN, MAX_ELEMENTS, MAX_OFFSET};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Action, Program, Transfer};

/// What one rank does at least.
#[derive(Clone, Debug, Default)]
struct Least {
    sends: u64,
    receives: u64,
    copies: u64,
    reductions: u64,
    sends_to: BTreeSet<Rank>,
    receives_from: BTreeSet<Rank>,
}

impl Least {
    /// A step receives at most one transfer, sends one and does one copy before it; a local reduction
    /// is a step of its own.
    fn steps(&self) -> u64 {
        self.sends.max(self.receives).max(self.copies) + self.reductions
    }

    /// A threadblock has one peer to send to and one to receive from.
    fn blocks(&self, most_steps: u64) -> u64 {
        let peers = self.sends_to.len().max(self.receives_from.len()) as u64;
        peers.max(self.steps().div_ceil(most_steps.max(1))).max(1)
    }
}

/// Refuses a program that cannot become a file which the runtime loads, from counts alone and so
/// at once, whatever its size. What passes may still be refused by [`write`](super::write()).
///
/// # Errors
/// Which count is beyond which limit.
pub fn check_counts(program: &Program, options: &Options) -> Result<(), Report> {
    let mut report = Report::default();
    let mut refuse = |message: String| {
        report.push(Diagnostic::error(Finding::Limit, message));
    };
    if program.uses_switches() {
        // `lower` says it: nothing else about such a program matters here.
        return Ok(());
    }
    let ranks = program.collective().ranks();
    if ranks as usize > MAX_CHILDREN {
        refuse(format!("there are {ranks} ranks; the parser holds {MAX_CHILDREN}"));
    }
    let offset = |it: &Transfer| it.src.offset.max(it.dst.offset);
    if let Some(largest) =
        program.transfers().iter().map(offset).max().filter(|it| *it > MAX_OFFSET)
    {
        refuse(format!("a transfer has offset {largest}; the largest is {MAX_OFFSET}"));
    }
    let (instances, most) = (u64::from(options.instances.max(1)), options.runtime.max_steps());
    let all: Vec<(u64, u64)> = least(program)
        .iter()
        .map(|it| (it.steps() * instances, it.blocks(u64::from(most)) * instances))
        .collect();
    let worst = all.iter().enumerate().max_by_key(|(rank, it)| (it.0 + it.1, usize::MAX - rank));
    if let Some((rank, (steps, blocks))) = worst {
        let elements = 1 + u64::from(ranks) + steps + blocks;
        if elements > MAX_ELEMENTS as u64 {
            refuse(format!(
                "gpu {rank} has at least {steps} steps, which make {elements} elements; the parser \
                 holds {MAX_ELEMENTS}"
            ));
        }
    }
    let worst = all.iter().enumerate().max_by_key(|(rank, it)| (it.1, usize::MAX - rank));
    if let Some((rank, (_, blocks))) = worst.filter(|it| it.1.1 > u64::from(MAX_BLOCKS)) {
        refuse(format!(
            "gpu {rank} needs at least {blocks} threadblocks; no more than {MAX_BLOCKS} \
             threadblocks can be told apart"
        ));
    }
    if report.is_right() { Ok(()) } else { Err(report) }
}

fn least(program: &Program) -> Vec<Least> {
    let mut least = vec![Least::default(); program.collective().ranks() as usize];
    // An unproved program may name ranks that do not exist; that is the verifier's to report.
    let exists =
        |it: &&Transfer| it.src.rank.index() < least.len() && it.dst.rank.index() < least.len();
    let known: Vec<&Transfer> = program.transfers().iter().filter(exists).collect();
    for it in known {
        let steps = u64::from(it.count.div_ceil(COUNT_LIMIT - 1)).max(1);
        let (src, dst) = (it.src.rank, it.dst.rank);
        if it.is_local() {
            let rank = &mut least[src.index()];
            match it.action {
                Action::Copy => rank.copies += steps,
                Action::Reduce => rank.reductions += steps,
            }
            continue;
        }
        least[src.index()].sends += steps;
        least[src.index()].sends_to.insert(dst);
        least[dst.index()].receives += steps;
        least[dst.index()].receives_from.insert(src);
    }
    least
}
