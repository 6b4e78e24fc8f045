//! [`Encoding`]: the question whether a program fits into given rounds, for [`super::sat`].
//!
//! Variables are *sends* (this chunk crosses this hop in this step) and *arrivals* (this rank has
//! this chunk by the end of this step). Every rank gets every chunk exactly once, which loses
//! nothing: a second copy could be left out. Beside the rules of programs, the encoding has redundant
//! constraints that counting proves: a rank that must get nearly all that its cables can bring cannot
//! leave any of them idle. Clause learning alone would find that out only slowly.
//!
//! Symmetry breaking: chunks of one root are interchangeable, and so may ranks be. Of programs that
//! differ only by such an exchange, only the first in a fixed order is allowed (all these constraints
//! follow the same order, so that they do not contradict each other). With a [`Group`], only programs
//! are sought that all its symmetries leave unchanged, and a variable stands for all its images.

use motet_synth::Watch;

use super::board::Board;
use super::bounds::{Cut, Intake};
use super::sat::{Lit, Solver, Verdict};
use super::symmetry::{Group, Symmetry};

/// The most sends, possible or not, of an encoding.
pub(super) const MOST_SENDS: usize = 1 << 18;

/// How many symmetries of the board are broken, and how many pairs of variables are compared for each.
const BROKEN: usize = 32;
const DEPTH: usize = 48;

/// One chunk crosses one hop in one step, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) step: u32,
    pub(super) root: u32,
    pub(super) chunk: u32,
    pub(super) hop: u32,
}

/// The question as clauses and cardinality constraints in a solver (see the module).
#[derive(Debug)]
pub(super) struct Encoding<'a> {
    board: &'a Board,
    group: &'a Group,
    chunks: u32,
    rounds: &'a [u32],
    /// Per rank: the rank whose variables stand for it, and the element of the group that takes it there.
    lowest: Vec<(u32, usize)>,
    sends: Vec<Option<Lit>>,
    arrivals: Vec<Option<Lit>>,
    solver: Solver,
}

impl<'a> Encoding<'a> {
    pub(super) fn new(board: &'a Board, group: &'a Group, chunks: u32, rounds: &'a [u32]) -> Self {
        let mut encoding = Self::plain(board, group, chunks, rounds);
        for cut in &board.cuts {
            if encoding.is_first(cut) {
                encoding.add_intake(cut);
            }
        }
        encoding.order_chunks();
        if group.elements.len() == 1 {
            for symmetry in board.symmetries.iter().take(BROKEN) {
                encoding.break_symmetry(symmetry);
            }
        }
        encoding
    }

    /// Only the rules of programs, without redundant constraints and without symmetry breaking.
    pub(super) fn plain(
        board: &'a Board,
        group: &'a Group,
        chunks: u32,
        rounds: &'a [u32],
    ) -> Self {
        let slots = board.ranks * chunks as usize * rounds.len();
        let mut encoding = Self {
            board,
            group,
            chunks,
            rounds,
            lowest: group.lowest(board.ranks),
            sends: vec![None; slots * board.hops.len()],
            arrivals: vec![None; slots * board.ranks],
            solver: Solver::default(),
        };
        for root in encoding.planned() {
            for chunk in 0..chunks {
                encoding.add_variables(root, chunk);
                encoding.add_chunk(root, chunk);
            }
        }
        encoding.add_capacities();
        encoding
    }

    /// The roots that have variables of their own.
    fn planned(&self) -> Vec<u32> {
        let own = |it: &u32| self.lowest[*it as usize].0 == *it;
        self.board.roots.iter().copied().filter(own).collect()
    }

    pub(super) fn solve(&mut self, most_conflicts: u64, watch: Watch<'_>) -> Verdict {
        self.solver.solve(most_conflicts, watch)
    }

    /// How many sends the encoding has, possible or not.
    pub(super) fn size(&self) -> u64 {
        self.sends.len() as u64
    }

    pub(super) fn conflicts(&self) -> u64 {
        self.solver.conflicts()
    }

    /// The sends of the assignment found, in order of steps.
    pub(super) fn sent(&self) -> Vec<Sent> {
        let mut sent = Vec::new();
        for step in 0..self.rounds.len() as u32 {
            for root in self.board.roots.iter().copied() {
                for chunk in 0..self.chunks {
                    for hop in 0..self.board.hops.len() as u32 {
                        let lit = self.send(root, chunk, hop, step as usize);
                        if lit.is_some_and(|it| self.solver.holds(it)) {
                            sent.push(Sent { step, root, chunk, hop });
                        }
                    }
                }
            }
        }
        sent
    }

    fn slot(&self, root: u32, chunk: u32, width: usize, at: u32, step: usize) -> usize {
        let row = root as usize * self.chunks as usize + chunk as usize;
        (row * width + at as usize) * self.rounds.len() + step
    }

    /// The variable of a send; `None` if it cannot be. Steps are counted from 0.
    fn send(&self, root: u32, chunk: u32, hop: u32, step: usize) -> Option<Lit> {
        let (lowest, element) = self.lowest[root as usize];
        let hop = self.group.elements[element].hops[hop as usize];
        self.sends[self.slot(lowest, chunk, self.board.hops.len(), hop, step)]
    }

    fn add_variables(&mut self, root: u32, chunk: u32) {
        let steps = self.rounds.len();
        for step in 0..steps {
            for hop in 0..self.board.hops.len() as u32 {
                if self.board.can_cross(root, hop, step as u32 + 1) {
                    let slot = self.slot(root, chunk, self.board.hops.len(), hop, step);
                    self.sends[slot] = Some(self.solver.variable());
                }
            }
            for rank in 0..self.board.ranks as u32 {
                let distance = self.board.distance(root, rank);
                // The root has the chunk from the start and all others must have it at the end, so these facts need no variable.
                if rank != root && distance as usize <= step + 1 && step + 1 < steps {
                    let slot = self.slot(root, chunk, self.board.ranks, rank, step);
                    self.arrivals[slot] = Some(self.solver.variable());
                }
            }
        }
    }

    /// Adds the rules for the sends of one chunk: a rank sends only what it has, and gets the chunk once.
    fn add_chunk(&mut self, root: u32, chunk: u32) {
        let steps = self.rounds.len();
        let mut into: Vec<Lit> = Vec::new();
        for rank in (0..self.board.ranks as u32).filter(|it| *it != root) {
            into.clear();
            let mut before: Option<Lit> = None;
            for step in 0..steps {
                let now = into.len();
                for hop in &self.board.into[rank as usize] {
                    let send = self.send(root, chunk, *hop, step);
                    let Some(send) = send else { continue };
                    into.push(send);
                    let from = self.board.hops[*hop as usize].from;
                    if from != root {
                        let had = step.checked_sub(1).and_then(|before| {
                            self.arrivals[self.slot(root, chunk, self.board.ranks, from, before)]
                        });
                        let needs: Vec<Lit> = std::iter::once(!send).chain(had).collect();
                        self.solver.clause(&needs);
                    }
                }
                let has = self.arrivals[self.slot(root, chunk, self.board.ranks, rank, step)];
                if let Some(has) = has {
                    for send in &into[now..] {
                        self.solver.clause(&[!*send, has]);
                        before.into_iter().for_each(|it| self.solver.clause(&[!*send, !it]));
                    }
                    before.into_iter().for_each(|it| self.solver.clause(&[!it, has]));
                    let mut ways = into[now..].to_vec();
                    ways.extend(before);
                    ways.push(!has);
                    self.solver.clause(&ways);
                } else {
                    // The last step: what has not come comes now.
                    for send in &into[now..] {
                        before.into_iter().for_each(|it| self.solver.clause(&[!*send, !it]));
                    }
                    if step + 1 == steps {
                        let mut ways = into[now..].to_vec();
                        ways.extend(before);
                        self.solver.clause(&ways);
                    }
                }
                before = has.or(before);
            }
            self.solver.clause(&into);
            self.solver.at_most(&into, 1);
        }
    }

    /// Adds the rule that no cable carries more in a step than its capacity.
    fn add_capacities(&mut self) {
        for (number, cable) in (0u32..).zip(&self.board.cables) {
            let images = self.group.elements.iter().map(|it| it.cables[number as usize]);
            if images.min().is_some_and(|it| it < number) {
                continue;
            }
            for (step, rounds) in self.rounds.iter().enumerate() {
                let sends = self.sends_over(number, &self.board.roots, step);
                let most = cable.capacity.saturating_mul(*rounds);
                self.solver.at_most(&sends, most as usize);
            }
        }
    }

    /// Every send of a chunk of these roots over a cable in a step. One that stands for several
    /// of them is listed as often.
    fn sends_over(&self, cable: u32, roots: &[u32], step: usize) -> Vec<Lit> {
        let hops = &self.board.over[cable as usize];
        let mut sends = Vec::new();
        for root in roots {
            for chunk in 0..self.chunks {
                sends.extend(hops.iter().filter_map(|it| self.send(*root, chunk, *it, step)));
            }
        }
        sends
    }

    /// Adds how many chunks must enter a cut over each cable, and in each step, because the others cannot bring
    /// all of them.
    fn add_intake(&mut self, cut: &Cut) {
        let intake = Intake::new(self.board, cut, self.chunks, self.rounds);
        // The caller has ruled out that not enough can come.
        let Some(slack) = intake.slack else { return };
        let mut in_step: Vec<Vec<Lit>> = vec![Vec::new(); self.rounds.len()];
        for (number, cable) in cut.cables.iter().enumerate() {
            let mut over: Vec<Lit> = Vec::new();
            let usable = intake.over(number);
            for ((step, in_step), usable) in in_step.iter_mut().enumerate().zip(usable) {
                let sends = self.sends_over(*cable, &cut.roots, step);
                self.solver.at_least(&sends, usable.saturating_sub(slack) as usize);
                over.extend_from_slice(&sends);
                in_step.extend(sends);
            }
            let most = usable.iter().copied().fold(0, u32::saturating_add);
            self.solver.at_least(&over, most.saturating_sub(slack) as usize);
        }
        for (step, sends) in in_step.iter().enumerate() {
            let least = intake.at(step).saturating_sub(slack);
            self.solver.at_least(sends, least as usize);
        }
    }

    /// Whether no image of the cut under the group comes before it: one cut of each orbit is enough.
    fn is_first(&self, cut: &Cut) -> bool {
        self.group.elements.iter().all(|element| {
            let mut image: Vec<u32> =
                cut.cables.iter().map(|it| element.cables[*it as usize]).collect();
            image.sort_unstable();
            image >= cut.cables
        })
    }

    /// The sends of a chunk that are compared for symmetry breaking: those out of its root.
    fn key(&self, root: u32, chunk: u32) -> Vec<(u32, usize)> {
        let mut key = Vec::new();
        for step in 0..self.rounds.len() {
            for hop in &self.board.out_of[root as usize] {
                if self.send(root, chunk, *hop, step).is_some() {
                    key.push((*hop, step));
                }
            }
        }
        key
    }

    /// Breaks the symmetry between chunks of a root: they are in the order of their sends out of the root.
    fn order_chunks(&mut self) {
        for root in self.planned() {
            for chunk in 1..self.chunks {
                let mut pairs = Vec::new();
                for (hop, step) in self.key(root, chunk) {
                    let before = self.send(root, chunk - 1, hop, step);
                    pairs.extend(before.zip(self.send(root, chunk, hop, step)));
                }
                self.in_order(&pairs);
            }
        }
    }

    /// Breaks a symmetry of the board: the program comes no later in the order than its image.
    fn break_symmetry(&mut self, symmetry: &Symmetry) {
        let mut pairs = Vec::new();
        'all: for root in self.board.roots.clone() {
            let image = symmetry.ranks[root as usize];
            for chunk in 0..self.chunks {
                for (hop, step) in self.key(root, chunk) {
                    let here = self.send(root, chunk, hop, step);
                    let there = self.send(image, chunk, symmetry.hops[hop as usize], step);
                    pairs.extend(here.zip(there).filter(|(here, there)| here != there));
                    if pairs.len() >= DEPTH {
                        break 'all;
                    }
                }
            }
        }
        self.in_order(&pairs);
    }

    /// Adds a lexicographic order: the first literals of the pairs, read as a binary number, are at least the
    /// second ones.
    fn in_order(&mut self, pairs: &[(Lit, Lit)]) {
        let mut equal: Option<Lit> = None;
        for (number, (one, other)) in pairs.iter().enumerate() {
            let so_far: Vec<Lit> = equal.into_iter().map(|it| !it).collect();
            let mut clause = so_far.clone();
            clause.extend([*one, !*other]);
            self.solver.clause(&clause);
            if number + 1 == pairs.len() {
                break;
            }
            let next = self.solver.variable();
            // If they are equal the next pair decides. As the second holds only if the first does,
            // they are equal if the first does not hold, or the second does.
            for unless in [*one, !*other] {
                let mut clause = so_far.clone();
                clause.extend([next, unless]);
                self.solver.clause(&clause);
            }
            equal = Some(next);
        }
    }
}
