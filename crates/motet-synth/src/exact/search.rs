//! The search for a program of given chunks, steps and rounds.
//!
//! Every way to share out the rounds over the steps is a question of its own for [`Encoding`], and
//! each is asked of programs with more symmetry and with less. They take turns, with twice the
//! conflicts each time: an easy yes to one is not kept waiting by a hard no to another.

use super::board::Board;
use super::bounds::{least_rounds, slack};
use super::encode::{Encoding, MOST_SENDS, Sent};
use super::sat::Verdict;
use super::{Point, Proof};

/// Ways to share out rounds that are looked at.
const MOST_SHARES: usize = 2048;

/// Sends of all searches together above which a search is not kept from turn to turn but begun
/// anew: it would take too much memory.
const MOST_KEPT: usize = 1 << 20;

/// Conflicts of the first turn.
const FIRST_TURN: u64 = 100;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The rounds of each step, and what is sent.
    Found(Vec<u32>, Vec<Sent>),
    Impossible(Proof),
    Unknown,
}

/// Searches until it is settled or so many conflicts have been met; says how many were.
pub(super) fn search(board: &Board, point: Point, most_conflicts: u64) -> (Outcome, u64) {
    let Point { chunks, steps, rounds } = point;
    let few = least_rounds(board, chunks).is_none_or(|it| u64::from(rounds) < it);
    if few || rounds < steps || steps < board.least_steps() {
        return (Outcome::Impossible(Proof::Bound), 0);
    }
    let sends = [board.ranks, board.hops.len(), chunks as usize, steps as usize];
    let sends = sends.iter().fold(1usize, |all, it| all.saturating_mul(*it));
    if sends > MOST_SENDS {
        return (Outcome::Unknown, 0);
    }
    let Some(shares) = shares(steps as usize, rounds) else {
        return (Outcome::Unknown, 0);
    };
    // Where more can come in than must, a program is easier to find.
    let mut shares: Vec<(u32, &Vec<u32>)> =
        shares.iter().filter_map(|it| slack(board, chunks, it).map(|slack| (slack, it))).collect();
    shares.sort_by_key(|(slack, _)| std::cmp::Reverse(*slack));
    if shares.is_empty() {
        return (Outcome::Impossible(Proof::Bound), 0);
    }
    let all = sends.saturating_mul(shares.len() * board.groups.len());
    let keep = all <= MOST_KEPT;
    let mut questions: Vec<Question<'_>> =
        shares.iter().map(|(_, it)| Question::new(board, chunks, it, keep)).collect();
    let mut met = 0;
    let mut turn = FIRST_TURN;
    while met < most_conflicts {
        for question in &mut questions {
            let turn = turn.min(most_conflicts.saturating_sub(met));
            if let Some(sent) = question.ask(turn, &mut met) {
                return (Outcome::Found(question.rounds.to_vec(), sent), met);
            }
        }
        questions.retain(|it| !it.settled);
        if questions.is_empty() {
            return (Outcome::Impossible(Proof::Search), met);
        }
        turn = turn.saturating_mul(2);
    }
    (Outcome::Unknown, met)
}

/// Whether a program fits into these rounds.
struct Question<'a> {
    board: &'a Board,
    chunks: u32,
    rounds: &'a [u32],
    /// Per group of the board: the search among programs that it leaves as they are.
    searches: Vec<Option<Encoding<'a>>>,
    /// Per group: there is no such program.
    refuted: Vec<bool>,
    /// Whether searches are kept from turn to turn.
    keep: bool,
    /// There is no program.
    settled: bool,
}

impl<'a> Question<'a> {
    fn new(board: &'a Board, chunks: u32, rounds: &'a [u32], keep: bool) -> Self {
        let searches = board.groups.iter().map(|_| None).collect();
        let refuted = vec![false; board.groups.len()];
        Self { board, chunks, rounds, searches, refuted, keep, settled: false }
    }

    /// Goes on searching for so many conflicts with each group; what is sent, if it was found.
    fn ask(&mut self, conflicts: u64, met: &mut u64) -> Option<Vec<Sent>> {
        for (number, group) in self.board.groups.iter().enumerate() {
            if self.refuted[number] {
                continue;
            }
            let search = self.searches[number]
                .get_or_insert_with(|| Encoding::new(self.board, group, self.chunks, self.rounds));
            let before = search.conflicts();
            let verdict = search.solve(conflicts);
            *met += search.conflicts() - before;
            match verdict {
                Verdict::Yes => return Some(search.sent()),
                Verdict::Stopped if self.keep => {}
                Verdict::Stopped => self.searches[number] = None,
                Verdict::No => {
                    self.refuted[number] = true;
                    self.searches[number] = None;
                    self.settled |= group.elements.len() == 1;
                }
            }
        }
        None
    }
}

/// Every way to write `rounds` as `steps` numbers of at least 1, of which there must be no fewer
/// rounds than steps; `None` if there are too many.
fn shares(steps: usize, rounds: u32) -> Option<Vec<Vec<u32>>> {
    if steps > 1 && rounds as usize - steps > MOST_SHARES {
        return None;
    }
    let mut all: Vec<Vec<u32>> = vec![Vec::new()];
    for step in 0..steps {
        let after = (steps - step - 1) as u32;
        let mut longer = Vec::new();
        for share in &all {
            let left = rounds - share.iter().sum::<u32>();
            let range = if after == 0 { left..=left } else { 1..=left - after };
            longer.extend(range.map(|it| [share.as_slice(), &[it]].concat()));
            if longer.len() > MOST_SHARES {
                return None;
            }
        }
        all = longer;
    }
    Some(all)
}
