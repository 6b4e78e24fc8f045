//! [`Demands`]: who needs what from whom, for every collective.
//!
//! AllToAll, AllToAllV and SendRecv move distinct data between pairs, in chunks: their bound is a
//! multi-commodity flow. For the other collectives the pairs still say whom data must reach, which
//! is what reachability and latency ask.

use motet_units::Rank;

use crate::collective::{Collective, CollectiveKind};

/// Chunks from each rank to each other. Nothing is due from a rank to itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Demands<'c> {
    /// As many chunks between every two ranks.
    Uniform {
        ranks: usize,
        chunks: u32,
    },
    FromRoot {
        ranks: usize,
        root: usize,
    },
    ToRoot {
        ranks: usize,
        root: usize,
    },
    /// Row by sender.
    Matrix {
        ranks: usize,
        counts: &'c [u32],
    },
    Pairs {
        chunks: u32,
        peers: &'c [Option<Rank>],
    },
}

impl<'c> Demands<'c> {
    pub(super) fn of(collective: &'c Collective) -> Self {
        let ranks = collective.ranks() as usize;
        let root = collective.root().map_or(0, Rank::index);
        match (collective.kind(), collective.counts(), collective.peers()) {
            (_, Some(counts), _) => Self::Matrix { ranks, counts },
            (_, _, Some(peers)) => Self::Pairs { chunks: collective.chunks(), peers },
            (CollectiveKind::Broadcast | CollectiveKind::Scatter, ..) => {
                Self::FromRoot { ranks, root }
            }
            (CollectiveKind::Reduce | CollectiveKind::Gather, ..) => Self::ToRoot { ranks, root },
            _ => Self::Uniform { ranks, chunks: collective.chunks() },
        }
    }

    pub(super) fn ranks(&self) -> usize {
        match self {
            Self::Uniform { ranks, .. }
            | Self::FromRoot { ranks, .. }
            | Self::ToRoot { ranks, .. }
            | Self::Matrix { ranks, .. } => *ranks,
            Self::Pairs { peers, .. } => peers.len(),
        }
    }

    /// To whom rank `from` sends how many chunks, in rank order; nothing to itself and no zeros.
    pub(super) fn from(&self, from: usize) -> Box<dyn Iterator<Item = (usize, u64)> + '_> {
        let others = (0..self.ranks()).filter(move |to| *to != from);
        let one = |to: usize, chunks: u64| Some((to, chunks)).filter(|_| to != from).into_iter();
        match *self {
            Self::Uniform { chunks, .. } => Box::new(others.map(move |to| (to, u64::from(chunks)))),
            Self::FromRoot { root, .. } if from == root => Box::new(others.map(|to| (to, 1))),
            Self::FromRoot { .. } => Box::new(std::iter::empty()),
            Self::ToRoot { root, .. } => Box::new(one(root, 1)),
            Self::Matrix { ranks, counts } => Box::new(
                others
                    .map(move |to| (to, u64::from(counts[from * ranks + to])))
                    .filter(|(_, chunks)| *chunks > 0),
            ),
            Self::Pairs { chunks, peers } => match peers[from] {
                Some(to) => Box::new(one(to.index(), u64::from(chunks))),
                None => Box::new(std::iter::empty()),
            },
        }
    }

    /// Whether anything has to move.
    pub(super) fn any(&self) -> bool {
        (0..self.ranks()).any(|it| self.from(it).next().is_some())
    }
}
