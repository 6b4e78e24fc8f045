//! [`synthesize`]: a program by one method, or by the best of all.
//!
//! What a method makes is a [`Draft`]: a program and how long its maker's schedule says it takes.
//! [`Draft::prove`] verifies and simulates it; only what comes out of that is given to
//! anyone.
//!
//! `auto` tries methods in the order in which they are likely to win and stops as soon as a program is
//! within 0.8% of the bound (5% on large networks). A method that fails is listed with the reason, and
//! the next one is tried. Programs are compared by the time of their schedules; only where switches copy
//! or reduce data themselves, which schedules know nothing of, are they simulated instead. Without a time limit its choice depends on the task, the seed and the work
//! allowed alone. With a work limit, a method also stops as soon as its program is clearly not going to
//! beat the best so far ([`Task::to_beat`]).

use motet_collective::{CollectiveKind, Program, Verified};
use motet_units::{Duration, Seed};

use crate::effort::{Effort, Progress};
use crate::fabric::Fabric;
use crate::forest::{CLOSE, ForestOptions};
use crate::grid::LazyGrid;
use crate::lower::{Lowered, Lowering, Trees};
use crate::method::{Method, Recipe};
use crate::task::{SynthError, Task};
use crate::watch::{Watch, Work};
use crate::{classic, exchange, forest, greedy, in_switch, packing, symmetric};

/// On large networks, where one more method may take minutes, a program within one part in so many of the
/// bound is good enough.
const CLOSE_IF_LARGE: u64 = 20;

/// Each method may spend one part in so many of the work that is left, so that those after it have a chance
/// too.
const SHARE: u64 = 3;

/// Most ranks for which exact packing of trees is tried: its cost grows much faster than the number of ranks.
const MOST_PACKED: usize = 96;
/// Most ranks for which every classic algorithm is tried, and not only those that scale.
const MOST_TRIED: usize = 256;

/// A method that `auto` tried, and what came of it.
#[derive(Clone, Debug)]
pub struct Tried {
    pub method: Method,
    /// How long its program takes, if it made one.
    pub time: Option<Duration>,
    /// Why it made none, otherwise.
    pub why_not: Option<String>,
}

/// A program as a method made it, which nobody has proved right yet: see [`Draft::prove`].
#[derive(Clone, Debug)]
pub struct Draft {
    pub method: Method,
    pub program: Program,
    /// How long the method's own schedule says it takes; the simulator has the last word.
    pub makespan: Duration,
    /// In one line: which method won, with what.
    pub explanation: String,
    pub tried: Vec<Tried>,
    /// The least time that any program takes, where it is known.
    pub(crate) least: Option<Duration>,
    /// Where this is the choice of `auto`: its seed and most transfers, to choose another if this one
    /// turns out not to be right.
    pub(crate) chosen_with: Option<(Seed, u64)>,
}

/// A program that was proved right, and how long it takes in the simulator.
#[derive(Clone, Debug)]
pub struct Synthesis {
    pub method: Method,
    pub program: Verified<Program>,
    pub time: Duration,
    pub explanation: String,
    pub tried: Vec<Tried>,
}

/// Makes a program for the task.
pub fn synthesize(
    task: &Task<'_>,
    method: Method,
    effort: &Effort<'_>,
) -> Result<Draft, SynthError> {
    let fabric = Fabric::new(task)?;
    if matches!(method, Method::Auto) {
        return best(task, &fabric, effort, Vec::new());
    }
    let work = Work::new(effort.allowance(task.goal.ranks()));
    let watch = Watch::new(effort.out_of_time, &work);
    one(&Task { watch, ..task.clone() }, &fabric, &LazyGrid::new(&fabric), method, effort)
}

fn one(
    task: &Task<'_>,
    fabric: &Fabric,
    grid: &LazyGrid<'_>,
    method: Method,
    effort: &Effort<'_>,
) -> Result<Draft, SynthError> {
    let most = effort.most_transfers.max(enough(task)).min(task.most_transfers);
    let task = &Task { most_transfers: most, ..task.clone() };
    let made = match method {
        Method::Auto => return best(task, fabric, effort, Vec::new()),
        Method::Forest => by_forest(task, fabric, most),
        Method::Packing => packing::synthesize(task, fabric),
        Method::Greedy => greedy::synthesize(task, fabric, effort.seed, most),
        Method::Symmetric => symmetric::synthesize(task, fabric, grid, effort.seed, most),
        Method::Exchange => {
            let options = exchange::Options { most_transfers: most, ..Default::default() };
            exchange::synthesize(task, &options).map(|made| Lowered {
                program: made.program,
                makespan: made.makespan,
                slices: 1,
            })
        }
        Method::InSwitch => in_switch::synthesize(task, most),
        Method::Recipe(it) => (it.make)(task, fabric),
    };
    let lowered = made.map_err(|error| match error {
        SynthError::OutOfTime { .. } => SynthError::OutOfTime { method: method.name() },
        other => other,
    })?;
    let slices = match lowered.slices {
        1 => String::new(),
        slices => format!(", in {slices} slices"),
    };
    Ok(Draft {
        method,
        makespan: lowered.makespan,
        explanation: format!("{}{slices}", method.name()),
        program: lowered.program,
        tried: Vec::new(),
        least: None,
        chosen_with: None,
    })
}

/// The fewest transfers that a limit must allow: two for each pair of ranks. With fewer, programs for large
/// networks stay far from the bound.
fn enough(task: &Task<'_>) -> u64 {
    2 * u64::from(task.goal.ranks()).pow(2)
}

/// The method `forest`. An AllReduce is done as a ReduceScatter followed by an AllGather: the trees of
/// each root that collect, then those that spread.
fn by_forest(task: &Task<'_>, fabric: &Fabric, most: u64) -> Result<Lowered, SynthError> {
    if task.goal.kind() != CollectiveKind::AllReduce {
        return forest::synthesize(task, ForestOptions { most_transfers: most });
    }
    let pairs = forest::pairs(task, fabric)?;
    Lowering::new(task, fabric, Trees::Both(&pairs))?.best(most)
}

/// What came of the methods that `auto` tried.
#[derive(Default)]
struct Tries {
    best: Option<Draft>,
    tried: Vec<Tried>,
    /// The error to show if no method makes a program.
    problem: Option<SynthError>,
}

impl Tries {
    fn note(&mut self, method: Method, made: Result<Draft, SynthError>) {
        match made {
            Ok(draft) => {
                self.tried.push(Tried { method, time: Some(draft.makespan), why_not: None });
                if self.best.as_ref().is_none_or(|it| draft.makespan < it.makespan) {
                    self.best = Some(draft);
                }
            }
            Err(error) => {
                self.tried.push(Tried { method, time: None, why_not: Some(error.to_string()) });
                let shown = self.problem.as_ref();
                if shown.is_none_or(|it| says_little(it) && !says_little(&error)) {
                    self.problem = Some(error);
                }
            }
        }
    }

    fn choice(self, effort: &Effort<'_>) -> Result<Draft, SynthError> {
        let chosen_with = Some((effort.seed, effort.most_transfers));
        match (self.best, self.problem) {
            (Some(draft), _) => Ok(Draft { tried: self.tried, chosen_with, ..draft }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(SynthError::not_for("auto", "no method does this collective")),
        }
    }
}

/// The best program of all methods that can do the task, leaving out those that have `failed` already.
pub(crate) fn best(
    task: &Task<'_>,
    fabric: &Fabric,
    effort: &Effort<'_>,
    failed: Vec<Tried>,
) -> Result<Draft, SynthError> {
    let bound = task.bound()?;
    let least = bound.program_time(task.size);
    if least.as_ps() == u64::MAX {
        return Err(SynthError::TooLong);
    }
    let small = fabric.rank_count() <= MOST_PACKED;
    let margin = least.as_ps() / if small { CLOSE } else { CLOSE_IF_LARGE };
    let close = least.as_ps().saturating_add(margin);
    let in_switches = task.network.nodes().iter().any(|it| it.multicast || it.reduces);
    let mut tries = Tries { tried: failed, ..Tries::default() };
    let mut left = effort.allowance(task.goal.ranks());
    let by_latency = left.is_some() && bound.latency.as_ps() > least.as_ps() / 8;
    let grid = LazyGrid::new(fabric);
    for method in candidates(task, fabric, &grid, by_latency) {
        if tries.tried.iter().any(|it| it.method.name() == method.name()) {
            continue;
        }
        // For data from one rank to one other hardly any method is better, so it may spend all that is left.
        let share = if matches!(method, Method::Exchange) { 1 } else { SHARE };
        let work = Work::new(left.map(|it| it / share));
        let watch = Watch::new(effort.out_of_time, &work);
        let over = !tries.tried.is_empty() && watch.out_of_time();
        if over || (tries.best.is_some() && !watch.affords(1)) {
            break;
        }
        let so_far = tries.best.as_ref().map(|it: &Draft| (it.method, it.makespan));
        (effort.progress)(&Progress { method, best: so_far, least });
        // Methods are told what to beat only if work is limited, and if their schedules tell the time, which
        // they do not where switches copy or reduce.
        let prunes = left.is_some() && !in_switches;
        let to_beat = so_far.map(|it| it.1).filter(|_| prunes);
        let asked = Task { watch, to_beat, at_least: Some(least), ..task.clone() };
        let made = one(&asked, fabric, &grid, method, effort).and_then(|draft| {
            let mut draft = Draft { least: Some(least), ..draft };
            if in_switches {
                draft.makespan = draft.check(task)?.1;
            }
            Ok(draft)
        });
        left = left.map(|it| it.saturating_sub(work.spent()));
        tries.note(method, made);
        if tries.best.as_ref().is_some_and(|it| it.makespan.as_ps() <= close) {
            break;
        }
    }
    if tries.best.is_none() && (effort.out_of_time)() {
        tries.best = in_a_hurry(task, fabric, effort);
    }
    tries.choice(effort)
}

/// Whether an error says only that a method is not for the task. Of several errors the first that says more
/// is shown, else that of the likeliest method.
const fn says_little(error: &SynthError) -> bool {
    matches!(error, SynthError::NotForMethod { .. })
}

/// Any program at all, uncut and by the first method that makes one: for when time was up before there
/// was one.
fn in_a_hurry(task: &Task<'_>, fabric: &Fabric, effort: &Effort<'_>) -> Option<Draft> {
    let grid = LazyGrid::new(fabric);
    let hurried = Task { watch: Watch::in_a_hurry(), ..task.clone() };
    let methods = classic::methods().iter().map(Method::Recipe).chain([Method::Greedy]);
    let mut does = methods.filter(|it| it.does(task.goal.kind()));
    does.find_map(|it| one(&hurried, fabric, &grid, it, effort).ok())
}

/// Methods worth trying, likely winners first. Packing is for large sizes: where latency is a good part of the
/// time (`by_latency`) it comes last, since its work is better spent on other methods.
fn candidates<'a>(
    task: &'a Task<'_>,
    fabric: &'a Fabric,
    grid: &'a LazyGrid<'a>,
    by_latency: bool,
) -> impl Iterator<Item = Method> + use<'a> {
    let kind = task.goal.kind();
    let in_switch = in_switch::is_possible(task).then_some(Method::InSwitch);
    let first = in_switch.into_iter().chain([Method::Symmetric, Method::Exchange]);
    // The later ones are listed only when they are needed: that takes a search for a grid.
    let rest =
        std::iter::once_with(move || later_candidates(task, fabric, grid, by_latency)).flatten();
    first.chain(rest).filter(move |it| it.does(kind))
}

/// The methods of [`candidates`] after the first two or three.
fn later_candidates(
    task: &Task<'_>,
    fabric: &Fabric,
    grid: &LazyGrid<'_>,
    by_latency: bool,
) -> Vec<Method> {
    let kind = task.goal.kind();
    let mut methods = Vec::new();
    // On a grid greedy matching is as good as packing, and much cheaper.
    let greedy_first = kind != CollectiveKind::AllReduce && grid.get().is_some();
    if greedy_first {
        methods.push(Method::Greedy);
    }
    match kind {
        // Exact packing costs a flow for every edge of every tree.
        _ if fabric.rank_count() > MOST_PACKED => {}
        CollectiveKind::AllReduce => methods.extend([Method::Packing, Method::Forest]),
        _ => methods.push(Method::Forest),
    }
    if !greedy_first {
        methods.push(Method::Greedy);
    }
    let large = |it: &Recipe| it.auto && (fabric.rank_count() <= MOST_TRIED || it.scales);
    methods.extend(classic::methods().iter().filter(|it| large(it)).map(Method::Recipe));
    if by_latency {
        methods.sort_by_key(|it| matches!(it, Method::Packing));
    }
    methods
}
