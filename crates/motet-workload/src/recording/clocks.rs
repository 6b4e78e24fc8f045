//! Synchronizes the clocks of ranks by the collectives that they have in common.
//!
//! A collective whose result needs every rank's data ends on all its ranks within a few microseconds of
//! each other, whereas starts differ by as much as ranks wait. So the difference between two ranks' clocks is the
//! median difference of the ends of the AllReduces, AllGathers, ReduceScatters and AllToAlls they share. Ranks
//! that share none are connected through others; the error grows with the number of them.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind::{AllGather, AllReduce, AllToAll, AllToAllV, ReduceScatter};

use super::Nanoseconds;
use super::join::Matched;

/// For each rank, what must be added to its times so that its clock agrees with that of the first rank of its
/// connected set; and the number of such sets.
pub(super) fn offsets(ranks: usize, calls: &[Matched]) -> (Vec<Nanoseconds>, usize) {
    // For each pair of a call's first rank and another one, the differences of their ends.
    let mut pairs: BTreeMap<(usize, usize), Vec<i128>> = BTreeMap::new();
    for call in calls {
        let all_depend =
            matches!(call.kind, AllReduce | AllGather | ReduceScatter | AllToAll | AllToAllV);
        let Some((first, others)) = call.seen.split_first().filter(|_| all_depend) else {
            continue;
        };
        for other in others {
            let difference = i128::from(first.span.end) - i128::from(other.span.end);
            pairs.entry((first.place, other.place)).or_default().push(difference);
        }
    }
    let mut neighbours: Vec<Vec<(usize, i128)>> = vec![Vec::new(); ranks];
    for ((first, other), mut differences) in pairs {
        differences.sort_unstable();
        let median = differences[differences.len() / 2];
        neighbours[first].push((other, median));
        neighbours[other].push((first, -median));
    }
    let mut offsets: Vec<Option<i128>> = vec![None; ranks];
    let mut sets = 0;
    for start in 0..ranks {
        if offsets[start].is_some() {
            continue;
        }
        sets += 1;
        offsets[start] = Some(0);
        let mut queue = std::collections::VecDeque::from([(start, 0)]);
        while let Some((here, offset)) = queue.pop_front() {
            for (next, difference) in &neighbours[here] {
                if offsets[*next].is_none() {
                    let there = offset + difference;
                    offsets[*next] = Some(there);
                    queue.push_back((*next, there));
                }
            }
        }
    }
    let bounded = |it: Option<i128>| {
        let limits = (i128::from(Nanoseconds::MIN), i128::from(Nanoseconds::MAX));
        it.unwrap_or(0).clamp(limits.0, limits.1) as Nanoseconds
    };
    (offsets.into_iter().map(bounded).collect(), sets)
}
