//! [`Demands`]: which chunks each rank has to send to which other rank, and their offsets at both ends.

use motet_collective::{Collective, CollectiveKind};
use motet_units::Rank;

use crate::task::{SynthError, Task};

/// Chunks that one rank has and one other wants: consecutive in the input of the one and in the
/// output of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) chunks: u32,
    /// First chunk in the sender's input.
    pub(super) input: u32,
    /// First chunk in the receiver's output.
    pub(super) output: u32,
}

/// Everything that has to move.
#[derive(Clone, Debug)]
pub(super) struct Demands {
    pub(super) collective: Collective,
    /// Between different ranks, senders ascending, then by place in the input; none is empty.
    pub(super) pairs: Vec<Pair>,
    /// The pairs of sender s: `starts[s]..starts[s + 1]`.
    starts: Vec<u32>,
    /// Chunks that a rank has for itself.
    pub(super) own: Vec<Pair>,
}

impl Demands {
    /// The demands of the task with this many chunks per part (per unit of an AllToAllV).
    pub(super) fn new(task: &Task<'_>, chunks: u32) -> Result<Self, SynthError> {
        let collective = task.goal.collective(chunks)?;
        let all = all_pairs(&collective)?;
        let (own, pairs): (Vec<Pair>, Vec<Pair>) = all.into_iter().partition(|it| it.src == it.dst);
        let ranks = collective.ranks() as usize;
        let mut starts = vec![0u32; ranks + 1];
        for pair in &pairs {
            starts[pair.src as usize + 1] += 1;
        }
        for rank in 0..ranks {
            starts[rank + 1] += starts[rank];
        }
        Ok(Self { collective, pairs, starts, own })
    }

    pub(super) fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The pairs whose sender is `src`.
    pub(super) fn from(&self, src: usize) -> &[Pair] {
        &self.pairs[self.starts[src] as usize..self.starts[src + 1] as usize]
    }

    /// Ranks that send anything, ascending.
    pub(super) fn senders(&self) -> Vec<u32> {
        (0..self.ranks() as u32).filter(|it| !self.from(*it as usize).is_empty()).collect()
    }
}

fn all_pairs(collective: &Collective) -> Result<Vec<Pair>, SynthError> {
    let (ranks, chunks) = (collective.ranks(), collective.chunks());
    let root = collective.root().map_or(0, |it| it.0);
    let pair = |src, dst, input, output| Pair { src, dst, chunks, input, output };
    Ok(match (collective.kind(), collective.counts(), collective.peers()) {
        (CollectiveKind::AllToAll, ..) => (0..ranks)
            .flat_map(|s| (0..ranks).map(move |d| pair(s, d, d * chunks, s * chunks)))
            .collect(),
        (CollectiveKind::Gather, ..) => (0..ranks).map(|s| pair(s, root, 0, s * chunks)).collect(),
        (CollectiveKind::Scatter, ..) => (0..ranks).map(|d| pair(root, d, d * chunks, 0)).collect(),
        (CollectiveKind::AllToAllV, Some(counts), _) => of_counts(ranks, counts),
        (CollectiveKind::SendRecv, _, Some(peers)) => (0..ranks)
            .zip(peers)
            .filter_map(|(s, d)| Some(pair(s, d.map(|it: Rank| it.0)?, 0, 0)))
            .collect(),
        (kind, ..) => {
            let why =
                format!("{kind} copies or adds up; only what goes between pairs is exchanged");
            return Err(SynthError::not_for("exchange", why));
        }
    })
}

fn of_counts(ranks: u32, counts: &[u32]) -> Vec<Pair> {
    let mut output = vec![0u32; ranks as usize];
    let mut pairs = Vec::with_capacity(counts.iter().filter(|it| **it > 0).count());
    for (src, row) in (0..).zip(counts.chunks(ranks as usize)) {
        let mut input = 0;
        for ((dst, chunks), output) in (0..).zip(row).zip(&mut output) {
            if *chunks > 0 {
                pairs.push(Pair { src, dst, chunks: *chunks, input, output: *output });
            }
            input += chunks;
            *output += chunks;
        }
    }
    pairs
}
