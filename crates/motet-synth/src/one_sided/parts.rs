//! What a collective is made of: for each part of each output, the parts of inputs that it is the sum of.

use motet_collective::CollectiveKind;
use motet_units::Rank;

/// One part of one rank's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) to: Rank,
    /// Its number in the output.
    pub(super) at: u32,
    /// The ranks it comes from, each with the number of the part of its input; more than one are summed.
    pub(super) from: Vec<(Rank, u32)>,
}

/// The parts of every output, by destination. Empty for collectives that no pattern does.
pub(super) fn parts(kind: CollectiveKind, ranks: u32) -> Vec<Part> {
    let all = || (0..ranks).map(Rank);
    // Starting with the next rank, so that not all ranks begin with the same one.
    let others_first = |to: Rank| (1..=ranks).map(move |it| Rank((to.0 + it) % ranks));
    let one = |to, at, from| Part { to, at, from: vec![from] };
    match kind {
        CollectiveKind::AllGather => {
            all().flat_map(|to| others_first(to).map(move |it| one(to, it.0, (it, 0)))).collect()
        }
        CollectiveKind::AllToAll => {
            all().flat_map(|to| others_first(to).map(move |it| one(to, it.0, (it, to.0)))).collect()
        }
        CollectiveKind::ReduceScatter => all()
            .map(|to| Part { to, at: 0, from: others_first(to).map(|it| (it, to.0)).collect() })
            .collect(),
        CollectiveKind::AllReduce => all()
            .map(|to| Part { to, at: 0, from: others_first(to).map(|it| (it, 0)).collect() })
            .collect(),
        _ => Vec::new(),
    }
}
