//! Exact synthesis: the best programs that a small network allows, with proof that there are none
//! better.
//!
//! This is the method `exact` of `motet synth`. It stands beside the other methods rather than among
//! them: it settles questions ("can every GPU of a DGX-1 have everything after two steps?") and takes
//! seconds to minutes for that, on up to 32 ranks, while `auto` wants a good program soon. Nothing else
//! in Motet uses it. Start reading at [`Exact`], which answers questions, or at [`synthesize`], which
//! makes a program.
//!
//! A program is cut into *steps*: what a rank receives in one step it can forward from the next on. A
//! step lasts one or more *rounds*; in one round the slowest link carries one chunk, and a link c times
//! as fast carries c. A [`Point`] (chunks, steps, rounds) asks whether a program exists that moves so
//! many chunks of every root's data in so many steps that last so many rounds together. Steps cost
//! latency, rounds per chunk cost bandwidth. The [`Front`] (a Pareto front) lists the points at which
//! neither can be improved without making the other worse, each with a program, and with every better
//! point ruled out by a bound or by a search to the end. These are the programs and the front of SCCL
//! (*Synthesizing Optimal Collective Algorithms*, PPoPP 2021).
//!
//! ReduceScatter and Reduce are AllGather and Broadcast on the network with every link reversed;
//! AllReduce is one after the other.
//!
//! Proofs assume that the bandwidth of every link is a whole multiple of the slowest one's: others
//! are rounded down (see [`board`]). They also assume that switches neither copy nor store.
//!
//! We have a SAT solver of our own ([`sat`]) because it handles cardinality constraints ("at most k of
//! these") directly: on a DGX-1 it settles (6,3,7) in 0.02 s, where BatSat takes 0.9 s and CaDiCaL 5.7 s
//! with counts spelled out as clauses. On irregular networks those two refute a few more points.
//!
//! - [`board`], [`symmetry`]: the network, and which renamings of its ranks leave it the same;
//! - [`bounds`]: proofs without search;
//! - [`encode`], [`sat`], [`search`]: the search;
//! - [`plan`]: the programs found, as trees;
//! - [`front`]: the points of the Pareto front.

mod board;
mod bounds;
mod encode;
mod front;
mod plan;
mod sat;
mod search;
mod symmetry;
#[cfg(test)]
mod tests;

use std::fmt;

pub use front::{Best, Front, RuledOut};
use motet_collective::CollectiveKind;
pub use plan::{ExactPlan, Send};

use motet_synth::method::Recipe;
use motet_synth::{
    Fabric, Forest, Lowered, Lowering, PairForest, SynthError, Task, Tree, Trees, Watch,
};

use board::{Board, FAR, Wire};
use search::Outcome;

/// Most ranks that a board may have.
const MOST_RANKS: usize = 32;

/// Most transfers of a program.
const MOST_TRANSFERS: u64 = 1 << 18;

/// A question: is there a program that moves so many chunks of every root in so many steps and rounds?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub chunks: u32,
    pub steps: u32,
    /// The rounds of all steps together.
    pub rounds: u32,
}

impl Point {
    #[must_use]
    pub const fn new(chunks: u32, steps: u32, rounds: u32) -> Self {
        Self { chunks, steps, rounds }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.chunks, self.steps, self.rounds)
    }
}

/// How it is known that no program exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By counting, without search: a cut, a distance, or what can come in at a rank.
    Bound,
    /// By an exhaustive search.
    Search,
    /// Because this easier point is impossible.
    Harder(Point),
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Conflicts in the search for one point; encoding the question counts as some too.
    pub conflicts: u64,
    /// Conflicts of a front: each point gets at most an eighth of what is left, so that easy ones
    /// are found to the end.
    pub front_conflicts: u64,
    /// Most chunks per root of a front.
    pub chunks: u32,
    /// Most steps of a front beyond the fewest possible.
    pub more_steps: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { conflicts: 20_000, front_conflicts: 200_000, chunks: 6, more_steps: 3 }
    }
}

/// What is known of a point.
#[derive(Clone, Debug)]
pub enum Answer {
    Possible(ExactPlan),
    Impossible(Proof),
    /// The limits were reached.
    Unknown,
}

/// A network and a collective, made ready for questions.
#[derive(Clone, Debug)]
pub struct Exact {
    board: Board,
}

impl Exact {
    /// Prepares questions about AllGather, Broadcast, ReduceScatter or Reduce, on networks of few ranks
    /// that can all reach each other.
    pub fn new(task: &Task<'_>, fabric: &Fabric) -> Result<Self, SynthError> {
        use CollectiveKind::{AllGather, Broadcast, Reduce, ReduceScatter};
        match task.goal.kind() {
            AllGather | Broadcast => Self::spreading(task, fabric),
            ReduceScatter | Reduce => Self::spreading(task, &fabric.turned_round()),
            kind => Err(SynthError::not_for(NAME, format!("{kind} is none of its collectives"))),
        }
    }

    /// Prepares questions about spreading the data of every root over the fabric.
    fn spreading(task: &Task<'_>, fabric: &Fabric) -> Result<Self, SynthError> {
        let ranks = fabric.rank_count();
        if ranks > MOST_RANKS {
            let why = format!("{ranks} ranks are more than the {MOST_RANKS} it can search");
            return Err(SynthError::not_for(NAME, why));
        }
        let mut number: Vec<Option<u32>> = vec![None; fabric.node_count()];
        for rank in fabric.ranks() {
            number[fabric.node(rank).index()] = Some(rank.0);
        }
        let mut nodes = ranks as u32;
        let mut number = |node: motet_units::NodeId| {
            *number[node.index()].get_or_insert_with(|| {
                nodes += 1;
                nodes - 1
            })
        };
        let wires: Vec<Wire> = fabric
            .links()
            .iter()
            .map(|link| Wire {
                from: number(fabric.from(*link)),
                to: number(fabric.to(*link)),
                link: link.0,
                speed: fabric.bits_per_s(*link),
            })
            .collect();
        let roots = match task.goal.root() {
            Some(root) => vec![root.0],
            None => (0..ranks as u32).collect(),
        };
        let board = Board::new(ranks, nodes as usize, roots, &wires)
            .ok_or_else(|| SynthError::not_for(NAME, "there are too many ways between ranks"))?;
        if board.least_steps() == FAR {
            task.bound()?;
            return Err(SynthError::not_for(NAME, "some rank cannot be reached"));
        }
        Ok(Self { board })
    }

    /// Whether there is a program with these chunks, steps and rounds.
    #[must_use]
    pub fn solve(&self, point: Point, limits: &Limits) -> Answer {
        self.ask(point, limits.conflicts, Watch::default()).0
    }

    /// The answer, and how many conflicts it took.
    fn ask(&self, point: Point, most_conflicts: u64, watch: Watch<'_>) -> (Answer, u64) {
        let (outcome, met) = search::search(&self.board, point, most_conflicts, watch);
        let answer = match outcome {
            Outcome::Found(rounds, sent) => {
                Answer::Possible(ExactPlan::new(&self.board, point, rounds, &sent))
            }
            Outcome::Impossible(proof) => Answer::Impossible(proof),
            Outcome::Unknown => Answer::Unknown,
        };
        (answer, met)
    }

    /// The Pareto front of steps and rounds per chunk, as far as the limits allow.
    #[must_use]
    pub fn front(&self, limits: &Limits) -> Front {
        self.front_within(limits, Watch::default())
    }

    /// The same; stops when the watch's clock says that time is up, and returns what is known by then.
    #[must_use]
    pub fn front_within(&self, limits: &Limits, watch: Watch<'_>) -> Front {
        front::front(self, limits, watch)
    }

    /// Whether a point takes as few rounds per chunk as the tightest cut allows.
    fn is_bandwidth_optimal(&self, point: Point) -> bool {
        self.board.cuts.first().is_none_or(|cut| {
            let must = cut.roots.len() as u64 * u64::from(point.chunks);
            cut.capacity * u64::from(point.rounds) == must
        })
    }
}

const NAME: &str = "exact";

/// The method `exact`, as `motet synth --list` shows it.
pub static METHOD: Recipe = Recipe {
    name: NAME,
    about: "the fewest steps and rounds there are, proved; up to 32 ranks",
    collectives: &[
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllReduce,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
    ],
    scales: false,
    auto: false,
    make: |task, fabric| synthesize(task, fabric, &limits(task)),
};

/// What the search may cost: seconds on one box, and no more than that on larger networks.
fn limits(task: &Task<'_>) -> Limits {
    match task.goal.ranks() {
        ..=8 => Limits::default(),
        _ => Limits { conflicts: 2_000, front_conflicts: 20_000, chunks: 4, more_steps: 2 },
    }
}

/// The program of the front's points that is fastest for the task's size.
pub fn synthesize(
    task: &Task<'_>,
    fabric: &Fabric,
    limits: &Limits,
) -> Result<Lowered, SynthError> {
    use CollectiveKind::{AllReduce, Reduce, ReduceScatter};
    let forests = |exact: Exact| -> Vec<Forest> {
        let front = exact.front_within(limits, task.watch);
        front.points.into_iter().map(|it| it.plan.forest).collect()
    };
    let kind = task.goal.kind();
    let mut best: Option<Lowered> = None;
    // If the search took all the time there was, what it found still becomes a program, uncut.
    let hurried = Task { watch: Watch::in_a_hurry(), ..task.clone() };
    let in_time = || if task.watch.out_of_time() { &hurried } else { task };
    let mut offer = |trees: Trees<'_>| -> Result<(), SynthError> {
        let lowered = match Lowering::new(in_time(), fabric, trees)?.best(MOST_TRANSFERS) {
            Err(SynthError::OutOfTime { .. }) => {
                if best.is_some() {
                    return Ok(());
                }
                Lowering::new(&hurried, fabric, trees)?.best(MOST_TRANSFERS)?
            }
            other => other?,
        };
        if best.as_ref().is_none_or(|it| lowered.makespan < it.makespan) {
            best = Some(lowered);
        }
        Ok(())
    };
    if kind == AllReduce {
        let collect = forests(Exact::spreading(task, &fabric.turned_round())?);
        let spread = forests(Exact::spreading(task, fabric)?);
        for collect in &collect {
            for spread in &spread {
                offer(Trees::Both(&paired(collect, spread)))?;
            }
        }
    } else {
        for forest in &forests(Exact::new(task, fabric)?) {
            let collects = matches!(kind, ReduceScatter | Reduce);
            offer(if collects { Trees::Collect(forest) } else { Trees::Spread(forest) })?;
        }
    }
    best.ok_or_else(|| match task.watch.out_of_time() {
        true => SynthError::OutOfTime { method: NAME },
        false => SynthError::not_for(NAME, "nothing was found within the limits"),
    })
}

/// Pairs a collecting forest with a spreading one. Where their roots have different weights, weights are
/// scaled up until they agree.
fn paired(collect: &Forest, spread: &Forest) -> PairForest {
    let weight = |it: &Forest| {
        let root = it.trees.first().map(|it| it.root);
        root.map_or(1, |root| it.weight_of(root)).max(1) as u32
    };
    let (up, down) = (weight(collect), weight(spread));
    let scaled = |it: &Forest, times: u32| Forest {
        paths: it.paths.clone(),
        trees: it
            .trees
            .iter()
            .map(|it| Tree { weight: it.weight.saturating_mul(times), ..it.clone() })
            .collect(),
    };
    PairForest::of(&scaled(collect, down), &scaled(spread, up))
}
