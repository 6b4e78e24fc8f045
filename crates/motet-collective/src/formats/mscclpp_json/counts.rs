//! What no plan could hold, told from counts alone: lowering and proving a large program takes long,
//! and mostly to find that it has too many transfers.

use super::Options;
use crate::collective::CollectiveKind;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Action, Program};

/// Operations of one rank: what fits 128 threadblocks, about as many as a GPU runs at once.
pub(super) const MAX_PIECES: u64 = 128 * 64;

/// Refuses a program that cannot become a plan, from its kind and counts alone and so at once,
/// whatever its size. What passes may still be refused by [`write`](super::write()).
///
/// # Errors
/// What the format has no place for, or which count is beyond which limit.
pub fn check_counts(program: &Program, options: &Options) -> Result<(), Report> {
    let kind = program.collective().kind();
    if kind.has_root() || kind == CollectiveKind::AllToAllV {
        return Err(refusal(format!(
            "a plan has no place for what a {kind} needs (its root or counts)"
        )));
    }
    // Lanes may be those of a plan already, whose operations do several transfers each; and so do
    // operations in switches, which are put together.
    if !program.lanes().is_empty() || program.uses_switches() {
        return Ok(());
    }
    let mut pieces = vec![0u64; program.collective().ranks() as usize];
    let mut add = |rank: motet_units::Rank| {
        if let Some(count) = pieces.get_mut(rank.index()) {
            *count += u64::from(options.instances.max(1));
        }
    };
    for it in program.transfers() {
        let (src, dst) = (it.src.rank, it.dst.rank);
        let by_port = !it.is_local() && options.channel.by_port(src, dst);
        match (it.action, by_port) {
            (Action::Copy, _) => add(src),
            // Pulled by the one that adds.
            (Action::Reduce, false) => add(dst),
            (Action::Reduce, true) => {
                add(src);
                add(dst);
            }
        }
    }
    let worst = pieces.iter().enumerate().max_by_key(|(rank, it)| (**it, usize::MAX - rank));
    match worst.filter(|it| *it.1 > MAX_PIECES) {
        None => Ok(()),
        Some((rank, count)) => Err(refusal(format!(
            "rank {rank} has {count} transfers to do; a plan has place for {MAX_PIECES}"
        ))),
    }
}

fn refusal(message: String) -> Report {
    let mut report = Report::default();
    report.push(Diagnostic::error(Finding::Limit, message));
    report
}
