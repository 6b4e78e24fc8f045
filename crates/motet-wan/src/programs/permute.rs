//! The same program with other ranks in its roles.

use motet_collective::{Buffer, CollectiveKind, Program, Slot, TransferId};
use motet_units::Rank;

/// `program` with rank `order[r]` in the role of rank r, its transfers without paths of their own;
/// `None` if the collective or the program does not allow it.
pub(super) fn permuted(program: &Program, order: &[Rank]) -> Option<Program> {
    let collective = program.collective();
    if collective.root().is_some_and(|it| order[it.index()] != it) || !program.lanes().is_empty() {
        return None;
    }
    let chunks = collective.chunks();
    let mut builder = program.to_builder();
    builder.set_network(None);
    for rank in (0..collective.ranks()).map(Rank) {
        builder.set_scratch(order[rank.index()], program.scratch_chunks(rank));
        builder.set_switch(order[rank.index()], program.switch_chunks(rank));
    }
    for index in 0..program.transfers().len() {
        let transfer = builder.transfer_mut(TransferId::from_index(index));
        let count = transfer.count;
        transfer.src = moved(transfer.src, count, collective.kind(), chunks, order)?;
        transfer.dst = moved(transfer.dst, count, collective.kind(), chunks, order)?;
        transfer.path = None;
    }
    Some(builder.build())
}

/// The slot that takes the role of `slot`. In buffers with one part per rank the parts are permuted as well,
/// so a transfer must not span two of them.
fn moved(
    slot: Slot,
    count: u32,
    kind: CollectiveKind,
    chunks: u32,
    order: &[Rank],
) -> Option<Slot> {
    let rank = order[slot.rank.index()];
    let by_parts = match (kind, slot.buffer) {
        (_, Buffer::Scratch | Buffer::Switch) => false,
        (CollectiveKind::AllGather, buffer) => buffer == Buffer::Output,
        (CollectiveKind::ReduceScatter, buffer) => buffer == Buffer::Input,
        (CollectiveKind::AllToAll, _) => true,
        (CollectiveKind::AllReduce | CollectiveKind::Broadcast | CollectiveKind::Reduce, _) => {
            false
        }
        _ => return None,
    };
    if !by_parts {
        return Some(Slot { rank, ..slot });
    }
    let (part, within) = (slot.offset / chunks, slot.offset % chunks);
    if within + count > chunks {
        return None;
    }
    let part = order.get(part as usize)?;
    Some(Slot { rank, offset: part.0 * chunks + within, ..slot })
}
