//! `motet testbed run`: a command on every rank's host, or the scenario's collectives.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};

use motet_testbed::linux::process;
use motet_testbed::state::State;
use serde::Serialize;

use super::place::Place;
use super::say_links;
use crate::args::testbed::RunArgs;
use crate::commands::exec::run::RankJson;
use crate::commands::scenario::Loaded;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::token;

/// Where rank 0 serves the store; the host is its own, so the port is free.
pub(crate) const PORT: u16 = 29_500;

/// Processes that do not outlive this one.
pub(crate) struct Ranks(pub(crate) Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed, and need not.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command in the host of a rank, with what it needs to find the others in its environment.
pub(crate) fn in_host(state: &State, rank: usize, token: &str) -> Result<Command, Failure> {
    let cannot = |it: std::io::Error| Failure::unreadable(format!("cannot start ranks: {it}"));
    let none = || Failure::wrong(format!("there is no rank {rank}"));
    let (host, first) =
        (state.hosts.get(rank).ok_or_else(none)?, state.hosts.first().ok_or_else(none)?);
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(["testbed", "enter", "--keeper", &state.keeper.pid.to_string()]);
    command.args(["--namespace", &host.namespace.to_string(), "--"]);
    command.env(process::MARK, state.mark());
    let (rank, ranks) = (rank.to_string(), state.hosts.len().to_string());
    let (store, port) = (first.address.to_string(), PORT.to_string());
    let own =
        [("MOTET_RANK", &rank), ("MOTET_RANKS", &ranks), ("RANK", &rank), ("WORLD_SIZE", &ranks)];
    command.envs(own).env("MOTET_STORE", format!("{store}:{PORT}"));
    command.env("MASTER_ADDR", store).env("MASTER_PORT", port).env("MOTET_EXEC_TOKEN", token);
    command.stdin(Stdio::null());
    Ok(command)
}

pub(crate) fn run(args: &RunArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let loaded = Loaded::read(&args.up.scenario, &args.up.read, printer)?;
    let scenario = loaded.scenario(args.up.seed)?;
    let place = Place::of(&args.up.scenario);
    let (state, held) = place.find_or_start(&args.up, true, false)?;
    say_links(scenario.testbed.links, &state, printer);
    let ran = if args.command.is_empty() {
        collectives(args, &scenario, &place, &state, printer)
    } else {
        command(args, &state, printer)
    };
    drop(held);
    ran
}

/// What the user gave, on every host or one.
fn command(args: &RunArgs, state: &State, printer: &mut Printer) -> Result<Status, Failure> {
    let cannot = |it: std::io::Error| Failure::unreadable(format!("cannot start ranks: {it}"));
    let token = token::random();
    let chosen: Vec<usize> = match args.only {
        Some(rank) => vec![rank as usize],
        None => (0..state.hosts.len()).collect(),
    };
    let (mut all, mut readers) = (Ranks(Vec::new()), Vec::new());
    for rank in &chosen {
        let mut command = in_host(state, *rank, &token)?;
        command.args(&args.command).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        let name = if chosen.len() == 1 { String::new() } else { format!("{rank}: ") };
        if let Some(from) = child.stdout.take() {
            let name = name.clone();
            readers.push(std::thread::spawn(move || copy(from, &name, &mut std::io::stdout())));
        }
        if let Some(from) = child.stderr.take() {
            readers.push(std::thread::spawn(move || copy(from, &name, &mut std::io::stderr())));
        }
        all.0.push(child);
    }
    let mut failed = Vec::new();
    for (rank, child) in chosen.iter().zip(&mut all.0) {
        let status = child.wait().map_err(cannot)?;
        if !status.success() {
            failed.push(format!("rank {rank} ({status})"));
        }
    }
    drop(all);
    for reader in readers {
        // A reader only fails with its pipe, and then it has said all.
        let _ = reader.join();
    }
    if failed.is_empty() {
        return Ok(Status::Done);
    }
    printer.warning(&format!("the command failed on {}", failed.join(", ")));
    Ok(Status::Wrong)
}

/// Line by line, each with the rank's number before it.
fn copy(from: impl Read, name: &str, to: &mut impl std::io::Write) {
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let mut whole = name.as_bytes().to_vec();
        whole.extend_from_slice(&line);
        whole.push(b'\n');
        if to.write_all(&whole).is_err() {
            return;
        }
    }
}

#[derive(Serialize)]
struct RowJson {
    collective: &'static str,
    size_bytes: u64,
    program: String,
    calls: usize,
    /// Over the calls, of the slowest rank's time.
    median_us: f64,
    min_us: f64,
    max_us: f64,
    wrong: u64,
}

/// Each of the scenario's collectives by `motet exec run`, with a program that is made for the network.
fn collectives(
    args: &RunArgs,
    scenario: &motet_wan::Scenario<'_>,
    place: &Place,
    state: &State,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let (mut rows, mut wrong) = (Vec::new(), 0);
    for asked in &scenario.collectives {
        let kind = asked.goal.kind();
        let said = measured(args, kind, asked.size.get(), place, state)?;
        let first: Vec<_> = said.iter().filter_map(|it| it.rows.first()).collect();
        let calls = first.iter().map(|it| it.times_us.len()).min().unwrap_or(0);
        let slowest = |call: usize| first.iter().map(|it| it.times_us[call]).fold(0.0, f64::max);
        let mut times: Vec<f64> = (0..calls).map(slowest).collect();
        times.sort_by(f64::total_cmp);
        let at = |it: usize| times.get(it).copied().unwrap_or(0.0);
        let bad: u64 = first.iter().map(|it| it.wrong).sum();
        wrong += bad;
        rows.push(RowJson {
            collective: kind.name(),
            size_bytes: asked.size.get(),
            program: first.first().map_or_else(String::new, |it| it.program.clone()),
            calls,
            median_us: at(calls / 2),
            min_us: at(0),
            max_us: at(calls.saturating_sub(1)),
            wrong: bad,
        });
    }
    if printer.is_json() {
        printer.json(&serde_json::json!({ "ranks": state.hosts.len(), "rows": rows }))?;
    } else {
        for row in &rows {
            printer.out(&format!(
                "{} {}: {:.1} ms at the median of {}, {:.1} to {:.1}; {} wrong\n",
                row.collective,
                motet_units::Bytes::new(row.size_bytes),
                row.median_us / 1e3,
                row.calls,
                row.min_us / 1e3,
                row.max_us / 1e3,
                row.wrong
            ))?;
        }
    }
    Ok(if wrong == 0 { Status::Done } else { Status::Wrong })
}

fn measured(
    args: &RunArgs,
    kind: motet_collective::CollectiveKind,
    size: u64,
    place: &Place,
    state: &State,
) -> Result<Vec<RankJson>, Failure> {
    let cannot = |it: std::io::Error| Failure::unreadable(format!("cannot run ranks: {it}"));
    let (token, ranks) = (token::random(), state.hosts.len());
    let program = std::env::current_exe().map_err(cannot)?;
    let mut all = Ranks(Vec::new());
    for rank in 0..ranks {
        let mut command = in_host(state, rank, &token)?;
        let store = format!("{}:{PORT}", state.hosts[0].address);
        command.arg(&program).args(["--json", "exec", "run", "-c", kind.name(), "--cluster"]);
        command.arg(place.cluster()).args(["--size", &format!("{size} B"), "--store", &store]);
        command.args(["-i", &args.iterations.to_string(), "--rank", &rank.to_string()]);
        command.args(["--ranks", &ranks.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        all.0.push(command.spawn().map_err(cannot)?);
    }
    let (mut said, mut problems) = (Vec::new(), Vec::new());
    for (rank, child) in std::mem::take(&mut all.0).into_iter().enumerate() {
        let output = child.wait_with_output().map_err(cannot)?;
        match serde_json::from_slice::<RankJson>(&output.stdout) {
            Ok(json) => said.push(json),
            Err(_) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                problems.push(format!("rank {rank}: {}", stderr.trim_end()));
            }
        }
    }
    if problems.is_empty() {
        return Ok(said);
    }
    Err(Failure::wrong(format!("not all ranks came to the end:\n{}", problems.join("\n"))))
}
