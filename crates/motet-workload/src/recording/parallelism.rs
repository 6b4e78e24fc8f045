//! Determines the parallelism that a group serves: from its description, or by a guess from its members and calls.
//!
//! Frameworks describe their groups: TorchTitan's and PyTorch's device meshes as `mesh_tp` or `dp_shard`,
//! Megatron-LM's as `TENSOR_MODEL_PARALLEL_GROUP`. Where nothing is said, messages alone are a pipeline and
//! AllToAlls are experts; of the rest, groups of neighbours are tensor parallel if there are others that lie
//! further apart, and data parallel if they are the only sort, which is what DDP and FSDP by themselves are.

use std::collections::BTreeSet;

use motet_collective::CollectiveKind;
use motet_units::Rank;

use super::RecordedGroup;
use crate::layout::Parallelism;

/// The parallelism by the words of a description. Words of data parallelism are looked for first, because a
/// group over data and context parallelism (`dp_cp`) sums gradients.
pub(super) fn described(text: &str) -> Option<Parallelism> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|it: char| !it.is_ascii_alphanumeric())
        .map(|it| it.trim_end_matches(|it: char| it.is_ascii_digit()))
        .collect();
    let has = |any: &[&str]| words.iter().any(|it| any.contains(it));
    if has(&["data", "dp", "ddp", "fsdp", "hsdp", "replicate", "shard", "zero"]) {
        Some(Parallelism::Dp)
    } else if has(&["ep", "expert", "experts", "moe"]) {
        Some(Parallelism::Ep)
    } else if has(&["pp", "pipeline", "embedding"]) {
        Some(Parallelism::Pp)
    } else if has(&["tp", "tensor"]) {
        Some(Parallelism::Tp)
    } else if has(&["cp", "context", "ulysses"]) {
        Some(Parallelism::Cp)
    } else {
        None
    }
}

/// Guesses the parallelism of groups without a description; `kinds` has the collectives that each group
/// calls. A group of all ranks beside other groups (for the loss, for barriers) is left open, because it
/// serves no single parallelism. Only if it calls ReduceScatter and no other group is data parallel, it is
/// guessed like the others.
pub(super) fn guess(groups: &mut [RecordedGroup], kinds: &[BTreeSet<CollectiveKind>], all: usize) {
    let used = kinds.iter().filter(|it| !it.is_empty()).count();
    let data = groups.iter().any(|it| it.parallelism == Some(Parallelism::Dp));
    let is_open = |group: &RecordedGroup, of: &BTreeSet<_>| {
        let scatters = of.contains(&CollectiveKind::ReduceScatter);
        let everyone = group.members.len() == all && used > 1 && (data || !scatters);
        group.parallelism.is_none() && !of.is_empty() && !everyone
    };
    let mut strides = BTreeSet::new();
    for (group, of) in groups.iter_mut().zip(kinds) {
        if !is_open(group, of) {
            continue;
        }
        let has = |any: &[CollectiveKind]| any.iter().any(|it| of.contains(it));
        if of.iter().all(|it| *it == CollectiveKind::SendRecv) {
            group.parallelism = Some(Parallelism::Pp);
        } else if has(&[CollectiveKind::AllToAll, CollectiveKind::AllToAllV]) {
            group.parallelism = Some(Parallelism::Ep);
        } else {
            strides.insert(stride(&group.members));
            continue;
        }
        group.is_guessed = true;
    }
    let near = strides.first().copied();
    for (group, of) in groups.iter_mut().zip(kinds) {
        if !is_open(group, of) {
            continue;
        }
        let is_near = Some(stride(&group.members)) == near;
        let tensor = is_near && (strides.len() > 1 || data);
        group.parallelism = Some(if tensor { Parallelism::Tp } else { Parallelism::Dp });
        group.is_guessed = true;
    }
}

/// The distance between the first two members, and the number of members: groups of one parallelism are alike
/// in both.
fn stride(members: &[Rank]) -> (u32, usize) {
    match members {
        [first, second, ..] => (second.0.abs_diff(first.0), members.len()),
        _ => (0, members.len()),
    }
}
