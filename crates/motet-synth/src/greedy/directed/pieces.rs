//! The pieces into which the data of each pair of ranks is cut.

use motet_collective::{Collective, CollectiveKind};
use motet_units::Rank;

/// Consecutive chunks from one rank's input to another's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: Rank,
    pub(super) to: Rank,
    /// First chunk in the sender's input.
    pub(super) input: u32,
    /// First chunk in the receiver's output.
    pub(super) output: u32,
    pub(super) count: u32,
}

/// All pieces, with those that a rank has for itself. Every chunk is a piece; but in an AllToAllV, whose units
/// have `unit` chunks, all that one rank has for another is cut into `unit` pieces, whatever the amount.
pub(super) fn pieces(collective: &Collective, unit: Option<u32>) -> Vec<Piece> {
    let (ranks, chunks) = (collective.ranks(), collective.chunks());
    let all = || (0..ranks).map(Rank);
    let mut pieces = Vec::new();
    let mut add = |from: Rank, to: Rank, input: u32, output: u32| {
        let each = (0..chunks).map(|it| (input + it, output + it));
        pieces.extend(each.map(|(input, output)| Piece { from, to, input, output, count: 1 }));
    };
    match (collective.kind(), collective.root()) {
        (CollectiveKind::Gather, Some(root)) => {
            all().for_each(|it| add(it, root, 0, it.0 * chunks));
        }
        (CollectiveKind::Scatter, Some(root)) => {
            all().for_each(|it| add(root, it, it.0 * chunks, 0));
        }
        (CollectiveKind::AllToAll, _) => all().for_each(|from| {
            all().for_each(|to| add(from, to, to.0 * chunks, from.0 * chunks));
        }),
        _ => {}
    }
    if let Some(peers) = collective.peers() {
        for (from, to) in all().zip(peers) {
            to.iter().for_each(|to| add(from, *to, 0, 0));
        }
    }
    if let Some(counts) = collective.counts() {
        unequal(ranks, counts, unit.unwrap_or(1), &mut pieces);
    }
    pieces
}

fn unequal(ranks: u32, counts: &[u32], parts: u32, pieces: &mut Vec<Piece>) {
    let mut output = vec![0u32; ranks as usize];
    for from in (0..ranks).map(Rank) {
        let mut input = 0;
        for to in (0..ranks).map(Rank) {
            let mut left = counts[from.index() * ranks as usize + to.index()];
            for part in 0..parts {
                let count = left / (parts - part);
                left -= count;
                if count > 0 {
                    let output = &mut output[to.index()];
                    pieces.push(Piece { from, to, input, output: *output, count });
                    input += count;
                    *output += count;
                }
            }
        }
    }
}
