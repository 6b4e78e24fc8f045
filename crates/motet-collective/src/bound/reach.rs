//! Whether a collective is possible at all: whether there is a path from every rank to all ranks that
//! need its data. Where there is none, the nodes that the sender does reach are the proof, which the
//! error shows as a cut without links.

use motet_units::Rank;
use rayon::prelude::*;

use super::demand::Demands;
use super::graph::{BothWays, BoundGraph};

/// A rank that cannot send to another, and the nodes it does reach.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) reached: Vec<bool>,
}

/// The first pair that is due data and has no path, if there is one.
pub(super) fn gap(both: BothWays<'_>, demands: &Demands<'_>) -> Option<Gap> {
    let graph = both.0;
    match *demands {
        // If the first rank reaches all, and all reach it, every rank reaches every other.
        Demands::Uniform { ranks, .. } => {
            from_one(graph, demands, 0).or_else(|| into_one(both, ranks, 0))
        }
        Demands::FromRoot { root, .. } => from_one(graph, demands, root),
        Demands::ToRoot { ranks, root } => into_one(both, ranks, root),
        Demands::Matrix { .. } | Demands::Pairs { .. } => (0..demands.ranks())
            .into_par_iter()
            .find_map_first(|from| from_one(graph, demands, from)),
    }
}

fn from_one(graph: &BoundGraph, demands: &Demands<'_>, from: usize) -> Option<Gap> {
    demands.from(from).next()?;
    let reached = graph.reached(graph.ranks[from] as usize);
    let (to, _) = demands.from(from).find(|(to, _)| !reached[graph.ranks[*to] as usize])?;
    Some(Gap { from: Rank::from_index(from), to: Rank::from_index(to), reached })
}

fn into_one((graph, turned): BothWays<'_>, ranks: usize, to: usize) -> Option<Gap> {
    let reaching = turned.reached(graph.ranks[to] as usize);
    let from = (0..ranks).find(|from| !reaching[graph.ranks[*from] as usize])?;
    let reached = graph.reached(graph.ranks[from] as usize);
    Some(Gap { from: Rank::from_index(from), to: Rank::from_index(to), reached })
}
