//! [`Uses`]: what a program does with a rank's memory, found once when it is registered. It decides which of the caller's
//! buffers a call can work in ([`lending`](crate::lending)).

use motet_collective::collective::InPlace;
use motet_collective::{Action, Buffer, Collective, Program, Transfer};

use crate::layout::{Layout, REGIONS, Region};
use crate::plan::Plan;

/// What a program does at this rank that decides which buffers can be lent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses {
    /// By [`Region`]: whether ranks of this host read it.
    pub(crate) shown: [bool; REGIONS],
    /// Whether the program writes where the input is.
    pub(crate) writes_input: bool,
    /// The one offset of the input from the output's start, in bytes, at which both may be lent although they overlap, if there is one.
    pub(crate) overlap: Option<isize>,
}

impl Uses {
    /// What `program` does at this rank. `shared` says which ranks may read this one's memory; a part has `part` bytes.
    pub(crate) fn new(
        program: &Program,
        plan: &Plan,
        layout: &Layout,
        shared: &[bool],
        part: usize,
    ) -> Self {
        let region = |buffer| layout.whole(buffer).region;
        let mut shown = [false; REGIONS];
        let read = |it: &&Transfer| {
            it.src.rank == plan.rank
                && it.dst.rank != plan.rank
                && shared.get(it.dst.rank.index()).copied().unwrap_or(false)
        };
        for transfer in plan.transfers.iter().filter(read) {
            shown[region(transfer.src.buffer) as usize] = true;
            // Tails are there, and whether the call has failed.
            shown[Region::Work as usize] = true;
        }
        let writes = |it: &Transfer| {
            it.dst.rank == plan.rank
                && region(it.dst.buffer) == region(Buffer::Input)
                && !(it.action == Action::Copy && layout.is_same_place(it.src, it.dst))
        };
        let writes_input = plan.transfers.iter().any(writes);
        let overlap = overlap(program.collective(), plan).filter(|_| !writes_input);
        let parts = |chunks: i64| chunks / i64::from(program.collective().chunks().max(1));
        let overlap = overlap.map(|it| parts(it) as isize * part as isize);
        Self { shown, writes_input, overlap }
    }
}

/// By how many chunks the input begins behind the output's start in place, if the program writes nothing where the two overlap but
/// the input onto itself. Then every read there gives the same bytes whether the buffers overlap or not, so that also a program that
/// was proved right for buffers that are apart stays right.
fn overlap(collective: &Collective, plan: &Plan) -> Option<i64> {
    let behind = match collective.in_place(plan.rank)? {
        InPlace::InputInOutput { offset } => i64::from(offset),
        InPlace::OutputInInput { offset } => -i64::from(offset),
        InPlace::Apart => return None,
    };
    let input = behind..behind + i64::from(collective.input_chunks(plan.rank));
    let harmless = |it: &Transfer| {
        let (src, dst) = (i64::from(it.src.offset), i64::from(it.dst.offset));
        let beside = dst + i64::from(it.count) <= input.start || dst >= input.end;
        let from_input = it.src.rank == plan.rank && it.src.buffer == Buffer::Input;
        let itself = from_input && it.action == Action::Copy && src + behind == dst;
        // Nothing is copied from one of two overlapping regions to the other.
        it.dst.buffer != Buffer::Output || itself || (beside && !from_input)
    };
    let mut here = plan.transfers.iter().filter(|it| it.dst.rank == plan.rank);
    here.all(harmless).then_some(behind)
}
