//! The search for a program of given chunks, steps and rounds.
//!
//! Every distribution of the rounds over the steps is a question of its own for [`Encoding`], and each
//! is asked once for every group of symmetries that programs may have. All these searches take turns,
//! with twice the conflicts each time, so that an easy yes to one does not wait for a hard no to another.

use motet_synth::Watch;

use super::board::Board;
use super::bounds::{least_rounds, slack};
use super::encode::{Encoding, MOST_SENDS, Sent};
use super::sat::Verdict;
use super::{Point, Proof};

/// How many distributions of rounds over steps are considered, and how many of them are searched.
const MOST_SHARES: usize = 1 << 15;
const MOST_ASKED: usize = 2048;

/// The most sends of all searches together with which searches are kept from turn to turn; with more, which
/// would take too much memory, each turn begins them anew.
const MOST_KEPT: usize = 1 << 20;

/// Encoding so many sends takes about as long as a conflict, and counts as one.
const SENDS_PER_CONFLICT: u64 = 512;

/// Conflicts of the first turn.
const FIRST_TURN: u64 = 100;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The rounds of each step, and what is sent.
    Found(Vec<u32>, Vec<Sent>),
    Impossible(Proof),
    Unknown,
}

/// Searches until the question is settled, `most_conflicts` are used up or time is up. Also returns how many
/// conflicts were used, including those that encoding counts as.
pub(super) fn search(
    board: &Board,
    point: Point,
    most_conflicts: u64,
    watch: Watch<'_>,
) -> (Outcome, u64) {
    let Point { chunks, steps, rounds } = point;
    let few = least_rounds(board, chunks).is_none_or(|it| u64::from(rounds) < it);
    let idle = rounds < steps || (steps == 0 && rounds > 0);
    if few || idle || steps < board.least_steps() {
        return (Outcome::Impossible(Proof::Bound), 0);
    }
    let sends = [board.ranks, board.hops.len(), chunks as usize, steps as usize];
    let sends = sends.iter().fold(1usize, |all, it| all.saturating_mul(*it));
    if sends > MOST_SENDS {
        return (Outcome::Unknown, 0);
    }
    let Shares { shares, all_there } = Shares::new(board, point);
    if shares.is_empty() && all_there {
        return (Outcome::Impossible(Proof::Bound), 0);
    }
    let all = sends.saturating_mul(shares.len() * board.groups.len());
    let keep = all <= MOST_KEPT;
    let mut questions: Vec<Question<'_>> =
        shares.iter().map(|it| Question::new(board, chunks, it, keep)).collect();
    let mut met = 0;
    let mut turn = FIRST_TURN;
    while met < most_conflicts {
        for question in &mut questions {
            if watch.out_of_time() {
                return (Outcome::Unknown, met);
            }
            let turn = turn.min(most_conflicts.saturating_sub(met));
            if let Some(sent) = question.ask(turn, &mut met, watch) {
                return (Outcome::Found(question.rounds.to_vec(), sent), met);
            }
        }
        questions.retain(|it| !it.settled);
        if questions.is_empty() {
            let proof = Outcome::Impossible(Proof::Search);
            return (if all_there { proof } else { Outcome::Unknown }, met);
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
    /// Per group of the board: the search among programs that the group leaves unchanged.
    searches: Vec<Option<Encoding<'a>>>,
    /// Per group: whether there is no such program.
    refuted: Vec<bool>,
    /// Whether searches are kept from turn to turn.
    keep: bool,
    /// Whether it is proved that no program fits into these rounds.
    settled: bool,
}

impl<'a> Question<'a> {
    fn new(board: &'a Board, chunks: u32, rounds: &'a [u32], keep: bool) -> Self {
        let searches = board.groups.iter().map(|_| None).collect();
        let refuted = vec![false; board.groups.len()];
        Self { board, chunks, rounds, searches, refuted, keep, settled: false }
    }

    /// Goes on searching for so many conflicts with each group; the sends of a program if one was found.
    fn ask(&mut self, conflicts: u64, met: &mut u64, watch: Watch<'_>) -> Option<Vec<Sent>> {
        for (number, group) in self.board.groups.iter().enumerate() {
            if self.refuted[number] {
                continue;
            }
            let search = self.searches[number].get_or_insert_with(|| {
                let search = Encoding::new(self.board, group, self.chunks, self.rounds);
                *met += search.size() / SENDS_PER_CONFLICT;
                search
            });
            let before = search.conflicts();
            let verdict = search.solve(conflicts, watch);
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

/// The distributions of rounds over steps that no bound rules out.
struct Shares {
    /// The rounds of each step; distributions with the most slack at cuts first, where a program is easier to
    /// find.
    shares: Vec<Vec<u32>>,
    /// Whether these are all distributions that no bound rules out.
    all_there: bool,
}

impl Shares {
    /// There must be no fewer rounds than steps.
    fn new(board: &Board, point: Point) -> Self {
        let mut share = vec![1; point.steps as usize];
        if let Some(last) = share.last_mut() {
            *last = point.rounds - point.steps + 1;
        }
        let mut kept: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut tries = 1;
        let mut all_there = loop {
            if let Some(slack) = slack(board, point.chunks, &share) {
                kept.push((slack, share.clone()));
            }
            if !next(&mut share, point.rounds) {
                break true;
            }
            tries += 1;
            if tries > MOST_SHARES {
                break false;
            }
        };
        kept.sort_by_key(|(slack, _)| std::cmp::Reverse(*slack));
        all_there &= kept.len() <= MOST_ASKED;
        kept.truncate(MOST_ASKED);
        Self { shares: kept.into_iter().map(|(_, it)| it).collect(), all_there }
    }
}

/// Moves `share` to the next distribution of `rounds`, in which the last step takes what the others leave;
/// `false` if there is none.
pub(super) fn next(share: &mut [u32], rounds: u32) -> bool {
    let last = share.len().saturating_sub(1);
    for step in (0..last).rev() {
        share[step] += 1;
        share[step + 1..last].fill(1);
        let others: u32 = share[..last].iter().sum();
        if others < rounds {
            share[last] = rounds - others;
            return true;
        }
    }
    false
}
