//! [`Front`]: the Pareto front of steps and rounds per chunk.
//!
//! For each number of steps, from the fewest possible, points are asked about in order of rounds
//! per chunk, fewest first, so that the first that is possible is the best; all before it are ruled
//! out. It ends where rounds per chunk reach what the tightest cut allows: more steps cannot help.

use motet_synth::Watch;

use super::bounds::least_rounds;
use super::{Answer, Exact, ExactPlan, Limits, Point, Proof};

/// The conflicts that every point may take, however few are left for the front.
const FEWEST: u64 = 500;

/// A point of the front.
#[derive(Clone, Debug)]
pub struct Best {
    pub plan: ExactPlan,
    /// The points with as many steps and fewer rounds per chunk, up to the limit of chunks.
    pub ruled_out: Vec<RuledOut>,
    /// No program with any number of steps and chunks takes fewer rounds per chunk.
    pub bandwidth_optimal: bool,
}

impl Best {
    /// Whether every point with as many steps and fewer rounds per chunk, up to the limit of
    /// chunks, is proved impossible.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.ruled_out.iter().all(|it| it.proof.is_some())
    }
}

/// A point at which no program was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuledOut {
    pub point: Point,
    /// `None` if the search reached its limits first.
    pub proof: Option<Proof>,
}

/// The points at which neither steps nor rounds per chunk can be improved without making the other
/// worse, in the order of steps.
#[derive(Clone, Debug)]
pub struct Front {
    pub points: Vec<Best>,
    /// Points that were ruled out at numbers of steps that have no point in the front.
    pub ruled_out: Vec<RuledOut>,
}

impl Front {
    /// Whether there is proof for every point, and no more steps could help.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.points.iter().all(Best::is_proved)
            && self.ruled_out.iter().all(|it| it.proof.is_some())
            && self.points.last().is_some_and(|it| it.bandwidth_optimal)
    }
}

/// A search for a front under way.
struct Seeker<'a> {
    exact: &'a Exact,
    limits: &'a Limits,
    /// Conflicts that may still be met.
    left: u64,
    watch: Watch<'a>,
    impossible: Vec<Point>,
}

impl Seeker<'_> {
    /// The first of these points that is possible, and what was ruled out before.
    fn first(&mut self, points: Vec<Point>) -> (Option<ExactPlan>, Vec<RuledOut>) {
        let mut ruled_out = Vec::new();
        for point in points {
            if self.watch.out_of_time() {
                ruled_out.push(RuledOut { point, proof: None });
                break;
            }
            match self.ask(point) {
                Answer::Possible(plan) => return (Some(plan), ruled_out),
                Answer::Impossible(proof) => {
                    self.impossible.push(point);
                    ruled_out.push(RuledOut { point, proof: Some(proof) });
                }
                Answer::Unknown => ruled_out.push(RuledOut { point, proof: None }),
            }
        }
        (None, ruled_out)
    }

    fn ask(&mut self, point: Point) -> Answer {
        if let Some(easier) = known(&self.impossible, point) {
            return Answer::Impossible(Proof::Harder(easier));
        }
        let most = self.limits.conflicts.min((self.left / 8).max(FEWEST));
        let (answer, met) = self.exact.ask(point, most, self.watch);
        self.left = self.left.saturating_sub(met);
        answer
    }
}

pub(super) fn front(exact: &Exact, limits: &Limits, watch: Watch<'_>) -> Front {
    let least = exact.board.least_steps();
    let mut front = Front { points: Vec::new(), ruled_out: Vec::new() };
    let left = limits.front_conflicts;
    let mut seeker = Seeker { exact, limits, left, watch, impossible: Vec::new() };
    for steps in least..=least.saturating_add(limits.more_steps) {
        if watch.out_of_time() {
            break;
        }
        let best = front.points.last().map(|it: &Best| it.plan.point);
        let (found, ruled_out) = seeker.first(candidates(exact, steps, best, limits.chunks));
        let Some(plan) = found else {
            front.ruled_out.extend(ruled_out);
            continue;
        };
        let bandwidth_optimal = exact.is_bandwidth_optimal(plan.point);
        front.points.push(Best { plan, ruled_out, bandwidth_optimal });
        if bandwidth_optimal {
            break;
        }
    }
    front
}

/// Points of so many steps that no bound rules out and that have fewer rounds per chunk than
/// `best`; fewest first, and of equal ones the one with fewest chunks.
fn candidates(exact: &Exact, steps: u32, best: Option<Point>, most_chunks: u32) -> Vec<Point> {
    let board = &exact.board;
    // With so many rounds in every step, any cable could carry everything to everyone.
    let enough = (board.roots.len() * board.ranks) as u32 * steps;
    let mut points = Vec::new();
    for chunks in 1..=most_chunks {
        let least = least_rounds(board, chunks).and_then(|it| u32::try_from(it).ok());
        let Some(least) = least else { continue };
        for rounds in least.max(steps)..=enough.saturating_mul(chunks).max(steps) {
            let point = Point { chunks, steps, rounds };
            if best.is_none_or(|best| is_faster(point, best)) {
                points.push(point);
            }
        }
    }
    points.sort_by(|one, other| {
        let rate = |it: &Point, by: &Point| u64::from(it.rounds) * u64::from(by.chunks);
        rate(one, other).cmp(&rate(other, one)).then(one.chunks.cmp(&other.chunks))
    });
    points
}

/// Whether a point takes fewer rounds per chunk than another.
fn is_faster(point: Point, than: Point) -> bool {
    let rate = |it: Point, by: Point| u64::from(it.rounds) * u64::from(by.chunks);
    rate(point, than) < rate(than, point)
}

/// A point known to be impossible although it is no harder: no more chunks, no fewer steps and rounds.
fn known(impossible: &[Point], point: Point) -> Option<Point> {
    let easier = |it: &&Point| {
        it.chunks <= point.chunks && it.steps >= point.steps && it.rounds >= point.rounds
    };
    impossible.iter().find(easier).copied()
}
