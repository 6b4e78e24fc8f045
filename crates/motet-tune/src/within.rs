//! [`within`]: a program that a runtime can load, and what its limits cost.
//!
//! The synthesizer knows links, not runtimes: its best programs may have more steps, elements or chunks
//! than an executor holds, or chunks that never divide a call's count. Here every method is asked for
//! programs with fewer and fewer transfers and with chunks in powers of two, until the runtime takes
//! one. Of all methods the best is kept, judged by the time of its *file* on the links, because a file
//! has neither routes nor turns.
//!
//! On MSCCL++ operations, signals and thread blocks cost more than links. Where all GPUs reach one another's
//! memory, or are in servers of one size, the best program is therefore held against the
//! [one-sided](motet_synth::one_sided) ones by the
//! [model of its kernels](motet_nccl::mscclpp), and the faster one is kept.

use motet_collective::formats::{msccl_xml, mscclpp_json};
use motet_collective::{Program, Verified};
use motet_net::NetworkState;
use motet_sim::{Discipline, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_synth::{Draft, Effort, Method, SynthError, Synthesis, Task, synthesize};
use motet_units::Duration;

use crate::layouts::ELEMENT;
use crate::plan::candidates::{Ground, MscclppLayout};
use crate::plan::make::Nccl;
use crate::plan::tune::{UNFITTED_PERCENT, faster_by};
use crate::plan::{MscclppUse, Runtime, Setup, one_sided};

/// The limits on transfers per rank that are tried in turn: from what an executor's parser takes, down to 0, which
/// means that chunks are not cut at all.
const TRANSFERS_PER_RANK: [u64; 4] = [1536, 384, 96, 0];

/// The search ends with a file that takes at most 1/100 longer than the program without limits.
const CLOSE: u64 = 100;

/// Most ranks for which slow methods are tried.
const MOST_RANKS: u32 = 64;

/// A program within a runtime's limits.
#[derive(Debug)]
pub struct Within {
    pub synthesis: Synthesis,
    /// How long the file takes on ideal links.
    pub file_time: Duration,
    /// The best program without the runtime's limits, to compare with.
    pub unlimited: Synthesis,
    /// Thread blocks of the GPU that has most.
    pub blocks: u32,
    /// Methods whose programs the runtime does not take, with why.
    pub left_out: Vec<(Method, String)>,
    /// The program in the model of MSCCL++'s kernels, if one-sided programs were considered.
    pub kernels: Option<OnKernels>,
}

/// A program by the model of MSCCL++'s kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnKernels {
    /// The name of the one-sided program, if one was kept.
    pub one_sided: Option<String>,
    /// Threads of each block of the plan that was timed.
    pub threads: u32,
    /// How long the program that was kept takes.
    pub time: Duration,
    /// How long the best program that is not one-sided takes in one instance, if the executor takes it.
    pub other: Option<Duration>,
}

/// The best program for a task that a runtime can load, by one method or by any.
pub fn within(
    task: &Task<'_>,
    runtime: Runtime,
    method: Method,
    effort: &Effort<'_>,
) -> Result<Within, SynthError> {
    let unlimited = synthesize(task, method, effort)?.prove(task)?;
    let close = unlimited.time + Duration::from_ps(unlimited.time.as_ps() / CLOSE);
    let methods: Vec<Method> = match method {
        Method::Auto => candidates(task),
        _ => vec![method],
    };
    let mut left_out = Vec::new();
    let mut drafts = Vec::new();
    for method in methods {
        let (task, effort) = cut(task, effort, TRANSFERS_PER_RANK[0]);
        match synthesize(&task, method, &effort) {
            Ok(draft) => drafts.push(draft),
            Err(why) => left_out.push((method, why.to_string())),
        }
        if !drafts.is_empty() && (effort.out_of_time)() {
            break;
        }
    }
    // A file is hardly ever faster than its program. With the fastest programs first, most of the
    // others need not be written.
    drafts.sort_by_key(|it| it.makespan);
    let mut best: Option<Found> = None;
    for draft in drafts {
        let enough = close.max(draft.makespan);
        if best.as_ref().is_some_and(|it| it.1 <= enough || (effort.out_of_time)()) {
            break;
        }
        let method = draft.method;
        match by(task, runtime, draft, effort) {
            Ok(found) if best.as_ref().is_none_or(|it| found.1 < it.1) => best = Some(found),
            Ok(_) => {}
            Err(why) => left_out.push((method, why)),
        }
    }
    let one_sided = match (runtime, method) {
        (Runtime::Mscclpp, Method::Auto) => on_kernels(task, best.as_ref().map(|it| &it.0), effort),
        _ => None,
    };
    let kernels = match one_sided {
        Some((kernels, Some(found))) => {
            best = Some(found);
            Some(kernels)
        }
        Some((kernels, None)) => Some(kernels),
        None => None,
    };
    match best {
        Some((synthesis, file_time, blocks)) => {
            Ok(Within { synthesis, file_time, unlimited, blocks, left_out, kernels })
        }
        None => {
            let why = left_out.first().map_or_else(String::new, |it| it.1.clone());
            let why = format!("none of its programs can be loaded by {}: {why}", runtime.name());
            Err(SynthError::not_for(method.name(), why))
        }
    }
}

type Found = (Synthesis, Duration, u32);

/// Compares the best program so far with one-sided ones by the model of MSCCL++'s kernels: the result, and the
/// one-sided program if that is faster. `None` where there are no one-sided programs: servers of different sizes, too
/// many ranks, or another collective.
fn on_kernels(
    task: &Task<'_>,
    best: Option<&Synthesis>,
    effort: &Effort<'_>,
) -> Option<(OnKernels, Option<Found>)> {
    let network = task.network;
    // They are for all GPUs, every link as it is, and no root.
    let (kind, seed) = (task.goal.kind(), effort.seed);
    let whole = task.goal.ranks() as usize == network.ranks().len()
        && task.allowed.iter().all(|it| *it)
        && task.state == NetworkState::nominal(network);
    if !whole {
        return None;
    }
    let nccl = Nccl::new(network, Setup::default());
    let most_blocks = nccl.kernels.resident_blocks();
    let mscclpp = MscclppUse::default();
    let ground =
        Ground { network, kernels: nccl.kernels, most_blocks, mscclpp, runtime: None, seed };
    let (options, terms) = (ground.plan_options(), &ground.mscclpp.terms);
    let price =
        |plan: &MscclppLayout| plan.takes(task.size).then(|| plan.time(task.size)).flatten();
    let candidates = one_sided::candidates(&ground, kind);
    let priced = candidates.iter().filter_map(|it| {
        let plan = it.plans.first()?;
        Some((price(plan)?, it, plan))
    });
    let (time, fastest, plan) =
        priced.min_by(|a, b| a.0.cmp(&b.0).then(a.1.name.cmp(&b.1.name)))?;
    let other =
        best.and_then(|it| price(&MscclppLayout::new(&it.program, network, &options, terms).ok()?));
    // The model was fitted to one-sided programs, so that others must be faster by a margin.
    let wins = |it: &Duration| faster_by(it.as_ps(), time.as_ps(), UNFITTED_PERCENT);
    if let Some(other) = other.filter(wins) {
        let threads = options.threads_per_block;
        let kernels = OnKernels { one_sided: None, threads, time: other, other: Some(other) };
        return Some((kernels, None));
    }
    let file_time = on_links(task, &plan.program).ok()?;
    let synthesis = Synthesis {
        method: Method::Auto,
        program: fastest.program.clone(),
        time: file_time,
        explanation: fastest.about.clone(),
        tried: best.map(|it| it.tried.clone()).unwrap_or_default(),
    };
    let threads = plan.cost.outline.threads;
    let kernels = OnKernels { one_sided: Some(fastest.name.clone()), threads, time, other };
    Some((kernels, Some((synthesis, file_time, plan.blocks()))))
}

/// Every method but `auto` itself and those that take too long.
fn candidates(task: &Task<'_>) -> Vec<Method> {
    let large = task.goal.ranks() > MOST_RANKS;
    let slow = |it: &Method| matches!(it, Method::Packing | Method::Forest);
    Method::all()
        .filter(|it| !matches!(it, Method::Auto))
        .filter(|it| it.does(task.goal.kind()) && !(large && slow(it)))
        .collect()
}

/// The first of a method's programs, the finest cut first, that the runtime takes. `draft` is the
/// finest.
fn by(
    task: &Task<'_>,
    runtime: Runtime,
    draft: Draft,
    effort: &Effort<'_>,
) -> Result<Found, String> {
    let method = draft.method;
    let mut draft = Some(draft);
    let mut why = String::new();
    for each in TRANSFERS_PER_RANK {
        let (task, effort) = cut(task, effort, each);
        let made = match draft.take() {
            Some(finest) => Ok(finest),
            None => synthesize(&task, method, &effort),
        };
        let made = made.and_then(|it| it.prove(&task)).map_err(|it| it.to_string())?;
        match loaded(&task, runtime, &made.program) {
            Ok((time, blocks)) => return Ok((made, time, blocks)),
            Err(problem) => why = problem,
        }
    }
    Err(why)
}

/// The task and the effort for programs with about so many transfers of each rank.
fn cut<'a, 'e>(task: &Task<'a>, effort: &Effort<'e>, each: u64) -> (Task<'a>, Effort<'e>) {
    let most_transfers = each * u64::from(task.goal.ranks());
    let task = Task { even: true, most_transfers, ..task.clone() }.by_numbers();
    (task, Effort { most_transfers, ..*effort })
}

/// How long a program's file takes on the links, and its thread blocks, if the runtime loads it.
fn loaded(
    task: &Task<'_>,
    runtime: Runtime,
    program: &Verified<Program>,
) -> Result<(Duration, u32), String> {
    let first = |it: String| it.lines().next().unwrap_or_default().to_owned();
    let parts = u64::from(program.collective().size_chunks());
    if !parts.is_power_of_two() && !task.size.get().is_multiple_of(ELEMENT * parts) {
        return Err(format!("its {parts} chunks do not divide {}", task.size));
    }
    let read = if runtime == Runtime::Mscclpp {
        let channel = mscclpp_json::Channel::on(task.network);
        let options = mscclpp_json::Options { channel, ..mscclpp_json::Options::default() };
        let text = mscclpp_json::write(program, &options).map_err(|it| first(it.to_string()))?;
        mscclpp_json::read(&text)
    } else {
        let options = msccl_xml::Options::default();
        let text = msccl_xml::write(program, &options).map_err(|it| first(it.to_string()))?;
        msccl_xml::read(&text)
    };
    let read = read.map_err(|it| it.to_string())?;
    let file = read.verify(Some(task.network)).map_err(|it| first(it.report.to_string()))?;
    let time = on_links(task, &file)?;
    let mut blocks = vec![0u32; file.collective().ranks() as usize];
    for lane in file.lanes() {
        blocks[lane.rank.index()] += 1;
    }
    Ok((time, blocks.into_iter().max().unwrap_or(0)))
}

/// How long a program that was read from a file takes on ideal links.
fn on_links(task: &Task<'_>, file: &Verified<Program>) -> Result<Duration, String> {
    let routed = Routed::new(file, task.network, SwitchForwarding::CutThrough)
        .map_err(|it| it.to_string())?;
    // Thread blocks share links; a file's numbers are no order of theirs.
    let options = SimOptions { discipline: Discipline::FairShare, ..SimOptions::default() };
    let prepared = Prepared::new(&routed);
    let run = Simulation::new(&prepared, task.size).state(&task.state).options(options);
    Ok(run.run().map_err(|it| it.to_string())?.time)
}
