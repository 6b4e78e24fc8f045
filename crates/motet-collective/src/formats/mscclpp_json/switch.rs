//! Operations in the switch, read from a plan: `glres` (`MULTI_LOAD_REDUCE_STORE`), `gstore`
//! (`MULTI_STORE`) and `gstorepkt` (`MULTI_STORE_PKT`).
//!
//! A switch channel stands for one buffer of all GPUs of a group, at once. A load from it gives the sum of
//! what all of them hold at the same place; a store to it goes to the same place in all of them. As
//! transfers (see [`crate::in_switch`]):
//!
//! - `glres`: from every GPU of the one group into a switch slot, copied first and then added; down
//!   to the GPU that asked and up again into a second slot; from there to every GPU of the other group.
//! - `gstore`, `gstorepkt`: from the GPU's own memory into a switch slot, and from there to every GPU.
//!
//! Each thread takes an element through all of these, so they are one chain. Every operation has
//! slots of its own. `glre`, a sum that stays with the GPU that asked, is in the language but not in the executor.

use motet_units::Rank;

use super::model::{PlanChunk, PlanGpu, PlanOp};
use super::resolve::{PlanReader, Range};
use super::steps::{Move, Moves, PlanStepKind};
use crate::diagnostic::Finding;
use crate::program::{Action, Buffer, Slot, Transfer};

/// The GPUs that a switch channel joins, and which of their buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SwitchGroup {
    pub(super) ranks: Vec<Rank>,
    pub(super) buffer: Buffer,
}

/// The switch channels of a GPU, by position; `None` for one that is wrong, and what is wrong with each
/// of those.
pub(super) fn groups(
    gpu: &PlanGpu,
    rank: u32,
    ranks: u64,
) -> (Vec<Option<SwitchGroup>>, Vec<String>) {
    let (mut groups, mut wrong) = (Vec::new(), Vec::new());
    for channel in &gpu.channels {
        for group in &channel.rank_groups {
            let known = group.ranks.iter().all(|it| u64::from(*it) < ranks);
            let mut each = group.ranks.clone();
            each.sort_unstable();
            each.dedup();
            let problem = if !known || each.len() != group.ranks.len() || each.is_empty() {
                Some("a switch channel joins gpus that do not exist, or one of them twice")
            } else if !each.contains(&rank) {
                Some("a switch channel joins other gpus only")
            } else if channel.buffer_type.is_none() {
                Some("a switch channel has no `buffer_type`")
            } else {
                None
            };
            wrong.extend(problem.map(str::to_owned));
            let sound = channel.buffer_type.filter(|_| problem.is_none());
            groups.push(sound.map(|buffer| SwitchGroup {
                ranks: each.into_iter().map(Rank).collect(),
                buffer: buffer.into(),
            }));
        }
    }
    (groups, wrong)
}

/// Adds the steps of a switch operation.
pub(super) fn read(reader: &mut PlanReader<'_>, op: &PlanOp) {
    if op.reduce_op.as_deref().is_some_and(|it| it != "sum") {
        return reader.not_judged(format!("`{}` with a `reduce_op` other than sum", op.name));
    }
    let (Some(src), Some(dst)) = (op.src_buff.first(), op.dst_buff.first()) else {
        return reader
            .wrong(Finding::OutOfRange, format!("`{}` needs a source and a destination", op.name));
    };
    let Some(targets) = everywhere(reader, dst) else { return };
    match op.name.as_str() {
        "glres" => {
            if let Some(sources) = everywhere(reader, src) {
                load_reduce_store(reader, &sources, &targets);
            }
        }
        name => {
            let Some(source) = reader.local(src) else { return };
            store(reader, source, &targets, name == "gstorepkt");
        }
    }
}

/// The range that a switch channel stands for, at every GPU of its group.
fn everywhere(reader: &mut PlanReader<'_>, chunk: &PlanChunk) -> Option<Vec<Range>> {
    let Some(id) = chunk.switch_channel_id else {
        reader.wrong(Finding::OutOfRange, "a range in the switch has no `switch_channel_id`");
        return None;
    };
    let Some(group) = reader.table.switch(id) else {
        reader.wrong(Finding::OutOfRange, format!("the threadblock has no switch channel {id}"));
        return None;
    };
    // Wrong in the list it stands in, and reported there.
    let group = group?;
    group.ranks.iter().map(|rank| reader.range(*rank, group.buffer, chunk)).collect()
}

const fn plain(transfer: Transfer) -> Move {
    Move { transfer, reads_packets: false, writes_packets: false }
}

fn load_reduce_store(reader: &mut PlanReader<'_>, sources: &[Range], targets: &[Range]) {
    let (Some(count), Some(out)) = (sources.first().map(|it| it.count), targets.first()) else {
        return;
    };
    if count != out.count {
        return reader.wrong(Finding::Mismatch, "a range of one size into one of another");
    }
    let Some(down) = reader.switch_slot(count) else { return };
    let Some(up) = reader.switch_slot(count) else { return };
    let mut moves = Vec::with_capacity(sources.len() + targets.len() + 1);
    for (index, source) in sources.iter().enumerate() {
        let action = if index == 0 { Action::Copy } else { Action::Reduce };
        moves.push(plain(Transfer { action, ..Transfer::copy(source.slot, down, count) }));
    }
    moves.push(plain(Transfer::copy(down, up, count)));
    moves.extend(targets.iter().map(|it| plain(Transfer::copy(up, it.slot, count))));
    reader.push(PlanStepKind::Moves(Moves { moves, chained: true, packets: false }));
}

fn store(reader: &mut PlanReader<'_>, source: Range, targets: &[Range], packets: bool) {
    let Some(out) = targets.first() else { return };
    if source.count != out.count {
        return reader.wrong(Finding::Mismatch, "a range of one size into one of another");
    }
    if packets && [source.slot, out.slot].iter().any(|it| it.buffer != Buffer::Scratch) {
        return reader.not_judged("packets outside scratch");
    }
    let Some(up) = reader.switch_slot(source.count) else { return };
    let into = Transfer::copy(source.slot, up, source.count);
    let mut moves = vec![Move { transfer: into, reads_packets: packets, writes_packets: false }];
    moves.extend(targets.iter().map(|it| {
        let transfer = Transfer::copy(up, it.slot, source.count);
        Move { transfer, reads_packets: false, writes_packets: packets }
    }));
    reader.push(PlanStepKind::Moves(Moves { moves, chained: true, packets }));
}

impl PlanReader<'_> {
    /// A switch slot of this GPU that nothing else uses.
    fn switch_slot(&mut self, count: u32) -> Option<Slot> {
        let slot = Slot::switch(self.rank, self.switch_slots);
        match self.switch_slots.checked_add(count) {
            Some(next) => {
                self.switch_slots = next;
                Some(slot)
            }
            None => {
                self.wrong(Finding::TooLarge, "more than 2^32 chunks in the switch");
                None
            }
        }
    }
}
