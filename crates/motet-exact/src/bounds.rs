//! Proofs that need no search: cuts, distances, and what can cross a cut in each step.
//!
//! A set of nodes with a rank in it must be entered at least once by every chunk of every root
//! outside. So the cables into it must have enough capacity over all rounds. In addition, not every
//! cable can be filled in every step: in the first steps chunks are still near their roots, and they
//! must enter some steps before the end to reach everyone inside.

use super::board::Board;

/// On networks of up to so many nodes all cuts are considered; on larger ones only those around one rank.
const MOST_NODES: usize = 18;

/// How many of the tightest cuts are kept, beside those around one rank.
const KEPT: usize = 32;

/// A set of nodes that chunks must enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The roots outside of the set.
    pub(super) roots: Vec<u32>,
    /// The cables that lead into the set, ascending.
    pub(super) cables: Vec<u32>,
    /// The capacity of these cables together, per round.
    pub(super) capacity: u64,
    /// The least number of steps from where chunks enter to the farthest rank inside: a chunk that
    /// enters for the first time in the last `depth` steps comes too late.
    depth: u32,
}

impl Cut {
    /// The least rounds in which this many chunks of each root can enter; `None` if they never can.
    pub(super) fn least_rounds(&self, chunks: u32) -> Option<u64> {
        let all = self.roots.len() as u64 * u64::from(chunks);
        if all == 0 { Some(0) } else { (self.capacity > 0).then(|| all.div_ceil(self.capacity)) }
    }

    fn around(board: &Board, inside: &dyn Fn(u32) -> bool) -> Self {
        let roots = board.roots.iter().copied().filter(|it| !inside(*it)).collect();
        let numbered = (0u32..).zip(&board.cables);
        let entering = numbered.filter(|(_, it)| !inside(it.from) && inside(it.to));
        let cables: Vec<u32> = entering.map(|(number, _)| number).collect();
        let capacity = cables.iter().map(|it| u64::from(board.cables[*it as usize].capacity)).sum();
        let depth = depth(board, &cables, inside);
        Self { roots, cables, capacity, depth }
    }
}

/// How far the farthest rank inside is from the nearest one at which chunks can enter.
fn depth(board: &Board, cables: &[u32], inside: &dyn Fn(u32) -> bool) -> u32 {
    let mut doors: Vec<u32> = cables
        .iter()
        .flat_map(|it| &board.over[*it as usize])
        .map(|it| board.hops[*it as usize].to)
        .filter(|it| inside(*it))
        .collect();
    doors.sort_unstable();
    doors.dedup();
    let from_door = |rank: u32| doors.iter().map(|it| board.distance(*it, rank)).min();
    (0..board.ranks as u32).filter(|it| inside(*it)).filter_map(from_door).max().unwrap_or(0)
}

/// Cuts that matter, the one that takes the most rounds per chunk first.
pub(super) fn cuts(board: &Board) -> Vec<Cut> {
    let mut cuts: Vec<Cut> =
        (0..board.ranks as u32).map(|rank| Cut::around(board, &|it| it == rank)).collect();
    let many = if board.nodes <= MOST_NODES { 1u32 << board.nodes } else { 0 };
    let mut wide: Vec<(u64, u64, u32)> = Vec::new();
    for set in 1..many {
        let ranks = set & ((1 << board.ranks) - 1);
        // The sets of one rank have been added already.
        if ranks == 0 || set.count_ones() == 1 {
            continue;
        }
        let inside = |node: u32| set >> node & 1 == 1;
        let roots = board.roots.iter().filter(|it| !inside(**it)).count() as u64;
        let entering = board.cables.iter().filter(|it| !inside(it.from) && inside(it.to));
        wide.push((roots, entering.map(|it| u64::from(it.capacity)).sum(), set));
    }
    // Stable, so that of equal ones the set that is the lower number comes first.
    wide.sort_by(|one, other| (other.0 * one.1).cmp(&(one.0 * other.1)));
    wide.truncate(KEPT);
    cuts.extend(wide.iter().map(|(.., set)| Cut::around(board, &|it| set >> it & 1 == 1)));
    let roots = |it: &Cut| it.roots.len() as u64;
    cuts.sort_by(|one, other| (roots(other) * one.capacity).cmp(&(roots(one) * other.capacity)));
    cuts
}

/// What can enter a cut for the first time over each of its cables in each step.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    steps: usize,
    /// How many chunks can enter: for each cable of the cut, step by step.
    usable: Vec<u32>,
    /// How many more chunks can enter than must; `None` if fewer can.
    pub(super) slack: Option<u32>,
}

impl Intake {
    pub(super) fn new(board: &Board, cut: &Cut, chunks: u32, rounds: &[u32]) -> Self {
        let steps = rounds.len();
        let mut usable = Vec::with_capacity(cut.cables.len() * steps);
        for cable in &cut.cables {
            let capacity = board.cables[*cable as usize].capacity;
            for (step, rounds) in rounds.iter().enumerate() {
                if step + cut.depth as usize >= steps {
                    usable.push(0);
                    continue;
                }
                let able = board.over[*cable as usize].iter().map(|hop| {
                    let crosses = |it: &&u32| board.can_cross(**it, *hop, step as u32 + 1);
                    cut.roots.iter().filter(crosses).count() as u32
                });
                let most = able.fold(0, u32::saturating_add).saturating_mul(chunks);
                usable.push(most.min(capacity.saturating_mul(*rounds)));
            }
        }
        let all = usable.iter().copied().fold(0, u32::saturating_add);
        let slack = all.checked_sub((cut.roots.len() as u32).saturating_mul(chunks));
        Self { steps, usable, slack }
    }

    /// What can enter over the cut's cable of this number, step by step.
    pub(super) fn over(&self, cable: usize) -> &[u32] {
        &self.usable[cable * self.steps..(cable + 1) * self.steps]
    }

    /// What can enter over all cables of the cut in one step.
    pub(super) fn at(&self, step: usize) -> u32 {
        self.usable.iter().skip(step).step_by(self.steps).copied().fold(0, u32::saturating_add)
    }
}

/// The least slack of any cut; `None` if not enough chunks can enter through one of them.
pub(super) fn slack(board: &Board, chunks: u32, rounds: &[u32]) -> Option<u32> {
    let slacks = board.cuts.iter().map(|it| Intake::new(board, it, chunks, rounds).slack);
    slacks.into_iter().try_fold(u32::MAX, |least, it| Some(least.min(it?)))
}

/// The least rounds for so many chunks that the cuts allow; `None` if some rank is cut off.
pub(super) fn least_rounds(board: &Board, chunks: u32) -> Option<u64> {
    board.cuts.first().map_or(Some(0), |it| it.least_rounds(chunks))
}
