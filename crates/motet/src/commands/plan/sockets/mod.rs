//! `motet plan CLUSTER --backend tcp -o FOLDER`: which program is fastest between processes, measured on their sockets.
//!
//! All ranks do the same: they make the same candidates and time them by turns, and what they decide by are the greatest times of all
//! ranks, which they tell each other. Rank 0 writes the plan. Without `--rank` the others are started here. [`session`] runs the calls;
//! [`read`](mod@read) shows and checks such plans.

mod read;
mod session;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use motet_collective::CollectiveKind;
use motet_exec::{Config, Group, Store as Meeting};
use motet_net::Network;
use motet_net::formats::cluster_toml;
use motet_synth::Goal;
use motet_tune::plan::folder;
use motet_tune::sockets::{MANIFEST, SocketPlan, SocketTask, candidates, file};
use motet_units::{Bytes, Rank, Seed};
use serde::Serialize;

use super::make;
use super::store::Store;
use crate::args::exec::TlsArgs;
use crate::args::plan::MakeArgs;
use crate::commands::exec::{clock, failure, note};
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::progress::Bar;
use crate::token;
pub(super) use read::{problems, show, stored};
use session::Session;

/// Candidates of a task, at most.
const MOST: usize = 6;
/// Bytes that a rank's candidates of one task may take together.
const MEMORY: u64 = 1 << 30;

#[derive(Serialize)]
struct PlanJson<'a> {
    folder: &'a str,
    backend: &'static str,
    network: &'a str,
    signature: &'a str,
    ranks: u32,
    tasks: usize,
    /// Of them, those that were measured; the others' times are the simulator's.
    measured: usize,
    /// Of these, how many another program does faster than the one that is run without a plan.
    gained: usize,
    /// The most that one gains.
    most_gain: Option<f64>,
    /// Programs with wrong results.
    wrong: usize,
}

pub(super) fn run(
    args: &MakeArgs,
    network: &Network,
    output: &str,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    only_sockets(args)?;
    let tasks: Vec<(CollectiveKind, Bytes)> = make::request(args, network)?
        .tasks
        .into_iter()
        .flat_map(|(kind, sizes)| sizes.into_iter().map(move |it| (kind, it)))
        .collect();
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let (config, _meeting, children) = meet(args, ranks)?;
    let rank = config.rank;
    let bar = Bar::start(printer, tasks.len() as u64, "tasks measured");
    // The place of the plan is looked at before anything is measured.
    let fingerprint = format!("{args:?}");
    let store = (rank == 0).then(|| Store::<()>::open(output, &fingerprint, &bar)).transpose()?;
    let group = Group::join(&config, clock(), note(printer.shows_notes()));
    let group = group.map_err(|it| failure(&it))?;
    let mut session = Session::new(group, clock(), args.budget)?;
    let mut plan = SocketPlan::new(network, env!("CARGO_PKG_VERSION"), args.seed);
    let mut files = BTreeMap::new();
    for (done, (kind, size)) in (0..).zip(tasks) {
        bar.set(done);
        let (task, text) = one(&mut session, network, kind, size, Seed::new(args.seed))?;
        files.insert(task.program.clone(), text);
        plan.tasks.push(task);
    }
    drop(session);
    children.end()?;
    let Some(store) = store else { return Ok(Status::Done) };
    files.insert(folder::NETWORK.to_owned(), cluster_toml::write(network));
    let manifest = serde_json::to_string_pretty(&plan);
    files.insert(MANIFEST.to_owned(), manifest.map_err(|it| Failure::wrong(it.to_string()))?);
    store.finish(&files)?;
    drop(bar);
    let wrong: usize =
        plan.tasks.iter().map(|it| it.tried.iter().filter(|it| it.wrong).count()).sum();
    if printer.is_json() {
        printer.json(&json(output, &plan, wrong))?;
    } else {
        printer.out(&read::text(&plan))?;
    }
    Ok(if wrong == 0 { Status::Done } else { Status::Wrong })
}

/// How this rank joins the others, and what must live until they are done: where they meet and the ranks started here. Without
/// `--rank` there are both.
fn meet(args: &MakeArgs, ranks: u32) -> Result<(Config, Option<Meeting>, Ranks), Failure> {
    let tls = TlsArgs::default().load().map_err(|it| failure(&it))?;
    let (config, meeting, children) = match (args.tcp.rank, &args.tcp.store) {
        (Some(rank), Some(store)) => {
            let given = args.tcp.token.clone();
            let given = given.or_else(|| std::env::var("MOTET_EXEC_TOKEN").ok());
            let token = given.unwrap_or_default();
            (Config { token, ..Config::new(store, rank, ranks) }, None, Ranks(Vec::new()))
        }
        _ => {
            let token = token::random();
            let meeting = Meeting::serve_with(
                ([127, 0, 0, 1], 0).into(),
                &token,
                tls.clone(),
                clock(),
                note(false),
            );
            let meeting = meeting.map_err(|it| failure(&it))?;
            let store = meeting.address().to_string();
            let children = Ranks::start(ranks, &store, &token)?;
            let config = Config { token, serve_store: false, ..Config::new(store, 0, ranks) };
            (config, Some(meeting), children)
        }
    };
    let config = Config {
        streams: args.tcp.streams,
        shared_memory: !args.tcp.no_shared_memory,
        tls,
        ..config
    };
    Ok((config, meeting, children))
}

/// Options for NCCL's runtimes have no place in a plan for the executor.
fn only_sockets(args: &MakeArgs) -> Result<(), Failure> {
    let given = [
        ("--runtime", args.runtime.is_some()),
        ("--sketch", args.sketch.is_some()),
        ("--in-place", args.in_place),
        ("--terms", args.terms.is_some()),
        ("--max-blocks", args.max_blocks.is_some()),
        ("--write-candidates", args.write_candidates.is_some()),
    ];
    match given.into_iter().find(|it| it.1) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::unreadable(format!(
            "`{name}` is for runtimes of GPUs, and `--backend tcp` measures programs between processes"
        ))
        .with_remedy(format!("leave `{name}` away"))),
    }
}

/// Measures a task, or takes the simulator's word once the budget is spent; its program's text.
fn one(
    session: &mut Session,
    network: &Network,
    kind: CollectiveKind,
    size: Bytes,
    seed: Seed,
) -> Result<(SocketTask, String), Failure> {
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let goal = Goal::rooted(kind, ranks, Rank(0)).map_err(|it| Failure::wrong(it.to_string()))?;
    let spent = session.is_spent().map_err(|it| failure(&it))?;
    // Input and output of each candidate, at most.
    let room = MEMORY / size.get().saturating_mul(2).max(1);
    let most = if spent { 1 } else { usize::try_from(room).unwrap_or(MOST).clamp(1, MOST) };
    let all = candidates(network, &goal, size, seed, most);
    let all = all.map_err(|it| Failure::wrong(format!("{kind} of {size}: {it}")))?;
    let (chosen, tried) = if spent {
        (0, all.iter().map(session::untried).collect())
    } else {
        session.race(&all, size, seed).map_err(|it| failure(&it))?
    };
    let (Some(best), Some(trial)) = (all.get(chosen), tried.get(chosen)) else {
        return Err(Failure::wrong(format!("{kind} of {size}: no program gives right results")));
    };
    let (name, text) = file(kind, size, &best.program);
    let median = trial.median();
    let task = SocketTask {
        collective: kind,
        size_bytes: size.get(),
        program: name,
        method: best.method.clone(),
        time_ps: median.unwrap_or(best.simulated).as_ps(),
        measured: median.is_some(),
        tried,
    };
    Ok((task, text))
}

/// The other ranks of this machine, which do not outlive this process.
struct Ranks(Vec<Child>);

impl Ranks {
    /// Starts the same command as all ranks but 0.
    fn start(ranks: u32, store: &str, token: &str) -> Result<Self, Failure> {
        let here =
            |error: std::io::Error| Failure::unreadable(format!("cannot start ranks: {error}"));
        let program = std::env::current_exe().map_err(here)?;
        let mut all = Self(Vec::new());
        for rank in 1..ranks {
            let mut command = Command::new(&program);
            command.args(std::env::args_os().skip(1));
            command.args(["--rank", &rank.to_string(), "--store", store]);
            command.env("MOTET_EXEC_TOKEN", token);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            all.0.push(command.spawn().map_err(here)?);
        }
        Ok(all)
    }

    /// Waits for them.
    fn end(mut self) -> Result<(), Failure> {
        for (rank, mut child) in (1..).zip(std::mem::take(&mut self.0)) {
            let ended = child.wait();
            let well = ended.as_ref().is_ok_and(std::process::ExitStatus::success);
            if !well {
                return Err(Failure::wrong(format!("rank {rank} failed at its end: {ended:?}")));
            }
        }
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed, and need not.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn json<'a>(folder: &'a str, plan: &'a SocketPlan, wrong: usize) -> PlanJson<'a> {
    let measured = || plan.tasks.iter().filter(|it| it.measured);
    let gains = || measured().filter_map(SocketTask::gain);
    PlanJson {
        folder,
        backend: "tcp",
        network: &plan.network,
        signature: &plan.signature,
        ranks: plan.ranks,
        tasks: plan.tasks.len(),
        measured: measured().count(),
        gained: gains().filter(|it| *it > 1.0).count(),
        most_gain: gains().reduce(f64::max),
        wrong,
    }
}
