//! Steps that receive and send on (`rcs`, `rrcs`): what they send is not read back from memory.
//!
//! MSCCL's kernel does such a step element by element (`recvCopySend`, `recvReduceCopySend`): a
//! thread takes what came in, adds its source to it, stores the sum at the destination and puts
//! the same register on the connection. If another thread block overwrites the destination
//! meanwhile, what is sent does not change.
//!
//! Read as a receive followed by a send from the destination, such a step is a simpler program
//! that means the same, unless there is just such a race. So files are read that way first. Where
//! the verifier then finds a race at a sending of such a step, the step is read as the kernel does
//! it: the sum is made in scratch of its own, sent from there, and copied to the destination.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::parse::{Algo, XmlGpu, XmlStep, XmlStepKind};
use crate::diagnostic::Finding;
use crate::formats::imported::{Imported, Place};
use crate::program::Buffer;
use crate::verify;

/// A step of the file: the rank, the threadblock's id and the step's index.
pub(super) type StepKey = (Rank, u32, u32);

pub(super) const fn key(place: Place) -> StepKey {
    (place.rank, place.block, place.step)
}

pub(super) const fn forwards(kind: XmlStepKind) -> bool {
    matches!(kind, XmlStepKind::ReceiveCopySend | XmlStepKind::ReceiveReduceCopySend)
}

/// The steps that send on and whose sending, as the file was read, may see what another
/// threadblock writes.
pub(super) fn raced(algo: &Algo, read: &Imported) -> BTreeSet<StepKey> {
    // Verifying takes time, so that it is only done where there can be such a race at all.
    if !algo.gpus.iter().any(may_race) {
        return BTreeSet::new();
    }
    let report = verify::check(&read.program, None);
    let forwarding = forwarding_steps(algo);
    let sending = |transfer| read.origins.get(transfer).map(|it| key(it.sent));
    let races = report.diagnostics().iter().filter(|it| it.finding == Finding::Race);
    races
        .filter_map(|it| it.transfer.and_then(sending))
        .filter(|it| forwarding.contains(it))
        .collect()
}

fn forwarding_steps(algo: &Algo) -> BTreeSet<StepKey> {
    let mut found = BTreeSet::new();
    for gpu in &algo.gpus {
        for block in &gpu.blocks {
            for (step, _) in (0u32..).zip(&block.steps).filter(|(_, it)| forwards(it.kind)) {
                if let (Ok(rank), Ok(block)) = (u32::try_from(gpu.id), u32::try_from(block.id)) {
                    found.insert((Rank(rank), block, step));
                }
            }
        }
    }
    found
}

/// Whether a GPU has steps that send on, and threadblocks that write the same chunks. Input and
/// output may be one buffer, in which case their offsets say nothing.
fn may_race(gpu: &XmlGpu) -> bool {
    let steps = || gpu.blocks.iter().flat_map(|it| &it.steps);
    if !steps().any(|it| forwards(it.kind)) {
        return false;
    }
    let mut writes: BTreeMap<u8, Vec<(i64, i64, i64)>> = BTreeMap::new();
    for block in &gpu.blocks {
        for step in block.steps.iter().filter(|it| writes_memory(it)) {
            let (buffer, offset) = step.dst;
            let end = offset.saturating_add(step.count);
            writes.entry(buffer as u8).or_default().push((offset, end, block.id));
        }
    }
    let both = [Buffer::Input, Buffer::Output].map(|it| writes.contains_key(&(it as u8)));
    both == [true, true] || writes.into_values().any(overlap)
}

fn writes_memory(step: &XmlStep) -> bool {
    !matches!(step.kind, XmlStepKind::Send | XmlStepKind::ReceiveReduceSend | XmlStepKind::Nop)
}

/// Whether two of these (start, end, threadblock) of different threadblocks overlap.
fn overlap(mut writes: Vec<(i64, i64, i64)>) -> bool {
    writes.sort_unstable();
    // The farthest end so far, and the farthest of any other threadblock than that one.
    let (mut far, mut other) = ((i64::MIN, i64::MIN), i64::MIN);
    for (start, end, block) in writes {
        let against = if far.1 == block { other } else { far.0 };
        if against > start {
            return true;
        }
        if block == far.1 {
            far.0 = far.0.max(end);
        } else if end > far.0 {
            (far, other) = ((end, block), far.0);
        } else {
            other = other.max(end);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_between_threadblocks_only() {
        assert!(!overlap(vec![(0, 4, 0), (2, 5, 0), (5, 6, 1)]));
        assert!(overlap(vec![(0, 4, 0), (2, 3, 1)]));
        assert!(overlap(vec![(0, 9, 1), (0, 2, 1), (3, 4, 1), (8, 9, 2)]));
        assert!(overlap(vec![(0, 5, 1), (5, 9, 2), (6, 7, 2), (8, 12, 1)]));
    }
}
