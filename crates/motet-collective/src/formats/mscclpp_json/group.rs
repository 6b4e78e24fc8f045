//! Thread blocks that share one chunk, written as a *thread block group*.
//!
//! A program in slices has more chunks than the collective needs, and the executor refuses sizes that
//! do not divide by 16 bytes times the chunks. But where block `b` of `s` does nothing but slice `b` of
//! every range, the plan can name the whole range and say that block `b` of a group of `s` takes its
//! share (`tbg_info`). Then only the ranges themselves must divide; the executor cuts them into
//! slices of whole 16 bytes, some one larger than others.

use motet_graph::gcd;

use super::model::{ExecutionPlan, GroupInfo, PlanChunk, PlanOp};

/// The same plan with its chunks put together in groups as large as can be; `None` if it has none.
pub(super) fn grouped(plan: &ExecutionPlan) -> Option<ExecutionPlan> {
    let counts = plan
        .gpus
        .iter()
        .flat_map(|it| [it.input_chunks, it.output_chunks, it.scratch_chunks])
        .filter(|it| *it > 0);
    let most = counts.fold(0, |all, it| gcd(u64::from(all), u64::from(it)) as u32);
    let sizes = (2..=most).rev().filter(|it| most.is_multiple_of(*it));
    sizes.into_iter().find_map(|size| in_groups(plan, size))
}

/// The plan in groups of `size`, if every operation keeps to one slice.
fn in_groups(plan: &ExecutionPlan, size: u32) -> Option<ExecutionPlan> {
    let mut plan = plan.clone();
    for gpu in &mut plan.gpus {
        gpu.input_chunks /= size;
        gpu.output_chunks /= size;
        gpu.scratch_chunks /= size;
        for op in gpu.threadblocks.iter_mut().flat_map(|it| &mut it.ops) {
            share(op, size)?;
        }
    }
    Some(plan)
}

/// Writes one operation as the share of a block in a group.
fn share(op: &mut PlanOp, size: u32) -> Option<()> {
    let Some(first) = op.src_buff.first().or_else(|| op.dst_buff.first()) else {
        return op.ops.is_empty().then_some(());
    };
    let slice = first.index % size;
    let fits = |it: &PlanChunk| it.size == 1 && it.index % size == slice;
    let alike = op.src_buff.iter().chain(&op.dst_buff).all(fits);
    if !alike || op.tbg_info.is_some() || !op.ops.is_empty() {
        return None;
    }
    for chunk in op.src_buff.iter_mut().chain(&mut op.dst_buff) {
        chunk.index /= size;
    }
    op.tbg_info = Some(GroupInfo { tb_id: slice, tbg_size: size });
    Some(())
}
