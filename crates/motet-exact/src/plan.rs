//! [`ExactPlan`]: a program that the search has found, as sends step by step and as trees.

use motet_units::{LinkId, Rank};

use super::Point;
use super::board::Board;
use super::encode::Sent;
use motet_synth::{Edge, Forest, PathTable, Tree};

/// A program with given chunks, steps and rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactPlan {
    pub point: Point,
    /// The rounds of each step.
    pub rounds: Vec<u32>,
    /// In order of steps. For ReduceScatter and Reduce steps count from the end, and data flows
    /// against the paths' direction.
    pub sends: Vec<Send>,
    /// The same as trees, on the fabric they were found on.
    pub forest: Forest,
}

/// One chunk crosses one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The step, counted from 0.
    pub step: u32,
    /// The rank whose data it is.
    pub root: Rank,
    pub chunk: u32,
    /// The hop, with its path in the plan's forest.
    pub edge: Edge,
}

impl ExactPlan {
    pub(super) fn new(board: &Board, point: Point, rounds: Vec<u32>, sent: &[Sent]) -> Self {
        let mut paths = PathTable::default();
        // Per cable and step: what it carries already.
        let mut carried = vec![0u32; board.cables.len() * rounds.len()];
        let mut sends = Vec::with_capacity(sent.len());
        for it in sent {
            let hop = &board.hops[it.hop as usize];
            let mut path = Vec::with_capacity(hop.cables.len());
            for cable in &hop.cables {
                let step = it.step as usize;
                let carried = &mut carried[*cable as usize * rounds.len() + step];
                path.extend(link_of(board, *cable, *carried, rounds[step]));
                *carried += 1;
            }
            let (from, to) = (Rank(hop.from), Rank(hop.to));
            let edge = Edge { from, to, path: paths.number(&path) };
            sends.push(Send { step: it.step, root: Rank(it.root), chunk: it.chunk, edge });
        }
        let trees = trees(board, point.chunks, &sends);
        Self { point, rounds, sends, forest: Forest { paths: paths.into_paths(), trees } }
    }
}

/// The link of a cable that takes the next chunk: the first that is not full in this step.
fn link_of(board: &Board, cable: u32, carried: u32, rounds: u32) -> Option<LinkId> {
    let mut before = 0u32;
    let links = &board.cables[cable as usize].links;
    let next = links.iter().find(|(_, capacity)| {
        before = before.saturating_add(capacity.saturating_mul(rounds));
        carried < before
    });
    next.map(|(link, _)| LinkId(*link))
}

/// The tree of each chunk; equal trees are merged into one of more weight.
fn trees(board: &Board, chunks: u32, sends: &[Send]) -> Vec<Tree> {
    let mut trees: Vec<Tree> = Vec::new();
    for root in &board.roots {
        let first = trees.len();
        for chunk in 0..chunks {
            let own = sends.iter().filter(|it| it.root.0 == *root && it.chunk == chunk);
            let edges: Vec<Edge> = own.map(|it| it.edge).collect();
            match trees[first..].iter_mut().find(|it| it.edges == edges) {
                Some(same) => same.weight += 1,
                None => trees.push(Tree { root: Rank(*root), weight: 1, edges }),
            }
        }
    }
    trees
}
