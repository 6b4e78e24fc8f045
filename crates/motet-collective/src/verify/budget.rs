//! [`WorkBudget`]: how much work the verifier does for a program before it gives up.
//!
//! A few bytes can ask for any amount of work: one transfer of a program with 2²⁴ chunks, or many
//! thousand writes of one chunk that nothing orders. Work is therefore bounded by the size of the
//! program itself: so much for every program, and so much more for each of its transfers. Real
//! programs stay far below; a program above is refused with [`Finding::TooLarge`], because what
//! was not proved right is not right.

use motet_units::Rank;

use crate::diagnostic::{Diagnostic, Finding};
use crate::program::Program;

/// Chunks, in buffers and in transfers, that any program may have, and further ones for each
/// transfer. A chunk costs up to half a microsecond and 30 bytes, so that the smallest file that
/// is not refused takes about two seconds and 200 MB.
const CHUNKS: u64 = 1 << 22;

/// Steps of a few nanoseconds each, in searches through the graph of events and through sums.
const STEPS: u64 = 1 << 26;

/// Further chunks or steps for each transfer. Recursive doubling over 4096 ranks, which moves more
/// chunks per transfer than anything else in use, needs 340.
const PER_TRANSFER: u64 = 1 << 10;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct WorkBudget {
    all: u64,
    left: u64,
}

impl WorkBudget {
    pub(super) fn new(program: &Program) -> Self {
        let all = STEPS + PER_TRANSFER * program.transfers().len() as u64;
        Self { all, left: all }
    }

    pub(super) fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps as u64);
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// That the work ended before everything was judged.
    pub(super) fn refusal(&self, what: &str, remedy: &str) -> Diagnostic {
        let message = format!(
            "{what} takes more than {} steps, the most that a program of this size is given; \
             {remedy}",
            self.all
        );
        Diagnostic::error(Finding::TooLarge, message)
    }
}

/// Refuses a program whose buffers and transfers have more chunks than its size allows.
pub(super) fn check_chunks(program: &Program) -> Result<(), Diagnostic> {
    let collective = program.collective();
    let of_rank = |rank: Rank| {
        let buffers = [
            collective.input_chunks(rank),
            collective.output_chunks(rank),
            program.scratch_chunks(rank),
            program.switch_chunks(rank),
        ];
        buffers.map(u64::from).iter().sum::<u64>()
    };
    let held: u64 = (0..collective.ranks()).map(|it| of_rank(Rank(it))).sum();
    let moved: u64 = program.transfers().iter().map(|it| u64::from(it.count)).sum();
    let transfers = program.transfers().len() as u64;
    let most = CHUNKS + PER_TRANSFER * transfers;
    for (what, chunks) in [("buffers hold", held), ("transfers move", moved)] {
        if chunks > most {
            let message = format!(
                "the program's {what} {chunks} chunks in all, and at most {most} are verified \
                 with {transfers} transfers ({CHUNKS}, and {PER_TRANSFER} for each transfer); cut \
                 the data into fewer chunks"
            );
            return Err(Diagnostic::error(Finding::TooLarge, message));
        }
    }
    Ok(())
}
