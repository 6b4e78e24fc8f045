//! [`synthesize`]: a program by one method, or by the best of all.
//!
//! What a method makes is a [`Draft`]: a program and how long its maker's schedule says it takes.
//! [`Draft::prove`] verifies and simulates it; only what comes out of that is given to
//! anyone.
//!
//! `auto` tries methods in the order in which they are likely to win and stops as soon as one is
//! within 0.8% of the bound (5% on large networks). A method that fails is noted, never fatal. Where
//! switches copy or reduce, schedules know nothing of what that saves or delays, and programs are
//! judged by the simulator. Without a time limit its choice depends on the task and the seed alone.

use motet_collective::{CollectiveKind, Program, Verified};
use motet_units::{Duration, Seed};

use crate::classic::Classic;
use crate::fabric::Fabric;
use crate::forest::{CLOSE, ForestOptions};
use crate::lower::{Lowered, Lowering, Trees};
use crate::method::Method;
use crate::task::{SynthError, Task};
use crate::{classic, exact, exchange, forest, greedy, grid, packing, symmetric};

/// Close enough on large networks, where one more method may cost minutes: 1/20.
const CLOSE_IF_LARGE: u64 = 20;

/// Most transfers of a program unless told otherwise, or the network is so large that it needs more.
pub const MOST_TRANSFERS: u64 = 1 << 21;

/// Most ranks for which exact packing and every classic are tried: their cost grows fast.
const MOST_PACKED: usize = 96;
const MOST_TRIED: usize = 256;

/// How hard to try.
pub struct Effort<'a> {
    pub seed: Seed,
    /// Most transfers that a program should have, where the method can choose.
    pub most_transfers: u64,
    /// Asked between methods; once it says so, the best so far is taken. It makes the result
    /// depend on the machine.
    pub out_of_time: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Effort<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effort").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Effort<'_> {
    /// As much as the task needs.
    #[must_use]
    pub const fn unlimited(seed: Seed) -> Self {
        Self { seed, most_transfers: MOST_TRANSFERS, out_of_time: &|| false }
    }
}

/// A method that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    pub method: Method,
    /// How long its program takes.
    pub time: Option<Duration>,
    /// Why it made none.
    pub why_not: Option<String>,
}

/// A program that nobody has proved yet.
#[derive(Clone, Debug)]
pub struct Draft {
    pub method: Method,
    pub program: Program,
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
    match method {
        Method::Auto => best(task, &fabric, effort, Vec::new()),
        _ => one(task, &fabric, method, effort),
    }
}

fn one(
    task: &Task<'_>,
    fabric: &Fabric,
    method: Method,
    effort: &Effort<'_>,
) -> Result<Draft, SynthError> {
    let most = effort.most_transfers.max(enough(task)).min(task.most_transfers);
    let task = &Task { most_transfers: most, ..task.clone() };
    let lowered = match method {
        Method::Auto => return best(task, fabric, effort, Vec::new()),
        Method::Forest => by_forest(task, fabric, most)?,
        Method::Packing => packing::synthesize(task, fabric)?,
        Method::Greedy => greedy::synthesize(task, fabric, effort.seed, most)?,
        Method::Symmetric => symmetric::synthesize(task, fabric, effort.seed, most)?,
        Method::Exchange => {
            let options = exchange::Options { most_transfers: most, ..Default::default() };
            let made = exchange::synthesize(task, &options)?;
            Lowered { program: made.program, makespan: made.makespan, slices: 1 }
        }
        Method::Exact => exact::synthesize(task, fabric, &exact_limits(task))?,
        Method::Classic(it) => (it.make)(task, fabric)?,
    };
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

/// What the exact search may cost: seconds on one box, and no more than that on larger networks.
fn exact_limits(task: &Task<'_>) -> exact::Limits {
    match task.goal.ranks() {
        ..=8 => exact::Limits::default(),
        _ => exact::Limits { conflicts: 2_000, front_conflicts: 20_000, chunks: 4, more_steps: 2 },
    }
}

/// Two for each pair of ranks, without which a large network is far from the bound.
fn enough(task: &Task<'_>) -> u64 {
    2 * u64::from(task.goal.ranks()).pow(2)
}

/// By forests: an AllReduce is a ReduceScatter, then an AllGather, root by root.
fn by_forest(task: &Task<'_>, fabric: &Fabric, most: u64) -> Result<Lowered, SynthError> {
    if task.goal.kind() != CollectiveKind::AllReduce {
        return forest::synthesize(task, ForestOptions { most_transfers: most });
    }
    let pairs = forest::pairs(task, fabric)?;
    Lowering::new(task, fabric, Trees::Both(&pairs))?.best(most)
}

/// The best of the methods that may do the task, but for those that have `failed` already.
pub(crate) fn best(
    task: &Task<'_>,
    fabric: &Fabric,
    effort: &Effort<'_>,
    failed: Vec<Tried>,
) -> Result<Draft, SynthError> {
    let least = task.bound()?.program_time(task.size);
    if least.as_ps() == u64::MAX {
        return Err(SynthError::TooLong);
    }
    let small = fabric.rank_count() <= MOST_PACKED;
    let margin = least.as_ps() / if small { CLOSE } else { CLOSE_IF_LARGE };
    let close = least.as_ps().saturating_add(margin);
    let in_switches = task.network.nodes().iter().any(|it| it.multicast || it.reduces);
    let mut best: Option<Draft> = None;
    let mut tried = failed;
    let mut problem = None;
    for method in candidates(task, fabric) {
        if tried.iter().any(|it| it.method.name() == method.name()) {
            continue;
        }
        if best.is_some() && (effort.out_of_time)() {
            break;
        }
        let made = one(task, fabric, method, effort).and_then(|draft| {
            let mut draft = Draft { least: Some(least), ..draft };
            if in_switches {
                draft.makespan = draft.check(task)?.1;
            }
            Ok(draft)
        });
        match made {
            Ok(draft) => {
                tried.push(Tried { method, time: Some(draft.makespan), why_not: None });
                if best.as_ref().is_none_or(|it| draft.makespan < it.makespan) {
                    best = Some(draft);
                }
            }
            Err(error) => {
                tried.push(Tried { method, time: None, why_not: Some(error.to_string()) });
                // What says more than that a method is not for the task; else of the likeliest method.
                let says_little = |it: &SynthError| matches!(it, SynthError::NotForMethod { .. });
                if problem.as_ref().is_none_or(|it| says_little(it) && !says_little(&error)) {
                    problem = Some(error);
                }
            }
        }
        if best.as_ref().is_some_and(|it| it.makespan.as_ps() <= close) {
            break;
        }
    }
    let chosen_with = Some((effort.seed, effort.most_transfers));
    match (best, problem) {
        (Some(draft), _) => Ok(Draft { tried, chosen_with, ..draft }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(SynthError::not_for("auto", "no method does this collective")),
    }
}

/// Methods worth trying, likely winners first.
fn candidates(task: &Task<'_>, fabric: &Fabric) -> Vec<Method> {
    let kind = task.goal.kind();
    let mut first = vec![Method::Symmetric, Method::Exchange];
    // On a grid matching is as good as packing, and much cheaper.
    let on_grid = grid::grid(fabric).is_some();
    if on_grid && kind != CollectiveKind::AllReduce {
        first.push(Method::Greedy);
    }
    match kind {
        // Exact packing costs a flow for every edge of every tree.
        _ if fabric.rank_count() > MOST_PACKED => {}
        CollectiveKind::AllReduce => first.extend([Method::Packing, Method::Forest]),
        _ => first.push(Method::Forest),
    }
    if !on_grid || kind == CollectiveKind::AllReduce {
        first.push(Method::Greedy);
    }
    let large = |it: &Classic| fabric.rank_count() <= MOST_TRIED || it.scales;
    first.extend(classic::methods().iter().filter(|it| large(it)).map(Method::Classic));
    first.retain(|it| it.does(kind));
    first
}
