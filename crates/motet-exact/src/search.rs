//! The search for a program of given chunks, steps and rounds.
//!
//! Every way to share out the rounds over the steps is a question of its own for [`Encoding`], and
//! each is asked of programs with more symmetry and with less. They take turns, with twice the
//! conflicts each time: an easy yes to one is not kept waiting by a hard no to another.

use motet_synth::Watch;

use super::board::Board;
use super::bounds::{least_rounds, slack};
use super::encode::{Encoding, MOST_SENDS, Sent};
use super::sat::Verdict;
use super::{Point, Proof};

/// Ways to share out rounds that are looked at, and that are searched.
const MOST_SHARES: usize = 1 << 15;
const MOST_ASKED: usize = 2048;

/// Sends of all searches together above which a search is not kept from turn to turn but begun
/// anew: it would take too much memory.
const MOST_KEPT: usize = 1 << 20;

/// Writing down so many sends takes about as long as a conflict, and counts as one.
const SENDS_PER_CONFLICT: u64 = 512;

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

/// Searches until it is settled, so many conflicts have been met or time is up; says how many
/// conflicts were met, with what counts as such.
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

/// Ways to share out the rounds over the steps that no bound rules out.
struct Shares {
    /// Where more can come in than must, a program is easier to find: the most slack first.
    shares: Vec<Vec<u32>>,
    /// Whether these are all.
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

/// The next way to share out `rounds`, the last step taking what the others leave; whether there
/// is one.
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
