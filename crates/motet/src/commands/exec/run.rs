//! `motet exec run`: one rank of a group.

use motet_collective::{CollectiveKind, Program, Verified};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction, SharedClock};
use motet_synth::{Goal, for_sockets};
use motet_units::{Bytes, Duration, Rank, Seed};
use serde::{Deserialize, Serialize};

use super::program::{choose, network};
use super::{clock, failure, note};
use crate::args::exec::{OnLoss, RunArgs, WhatArgs};
use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// What a rank says of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) size_bytes: u64,
    pub(crate) elements: u64,
    pub(crate) program: String,
    /// How long each timed call took at this rank.
    pub(crate) times_us: Vec<f64>,
    /// Elements of this rank that are wrong, in the first and the last call.
    pub(crate) wrong: u64,
    pub(crate) first_wrong: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RankJson {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) rows: Vec<Row>,
    /// Why ranks were lost, if the group went on without them.
    pub(crate) losses: Vec<String>,
}

/// The call that a size in nccl-tests' sense is.
pub(crate) fn call(element: Element, reduction: Reduction, program: &Program, size: Bytes) -> Call {
    Call::of_size(program, size.get(), element, reduction)
}

pub(crate) fn run(args: &RunArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if args.on_loss == OnLoss::Shrink
        && let Some(file) = &args.what.program
    {
        let ranks = args.ranks;
        return Err(Failure::unreadable(format!(
            "`--on-loss shrink` cannot go on with a program that is given: `{file}` is for {ranks} ranks, and fewer need another"
        ))
        .with_remedy("name the collective with `-c` instead, from which a new one can be made, or leave out `--on-loss`"));
    }
    let clock = clock();
    let tls = args.what.tls.load().map_err(|it| failure(&it))?;
    let config = Config { tls, ..config(args) };
    let mut group = Group::join(&config, clock.clone(), note(printer.shows_notes()))
        .map_err(|it| failure(&it))?;
    let (mut rows, mut losses) = (Vec::new(), Vec::new());
    // The numbers that the ranks had at first, by which the cluster knows them.
    let mut left: Vec<u32> = (0..args.ranks).collect();
    let sizes = args.what.sizes()?;
    let mut sizes = sizes.iter();
    let mut next = sizes.next();
    while let Some(size) = next {
        match timed(args, &mut group, &left, *size, &clock, printer)? {
            Ok(row) => {
                rows.push(row);
                next = sizes.next();
            }
            Err(error) if args.on_loss == OnLoss::Shrink && is_loss(&error) => {
                printer.note(&format!("rank {}: {error}", group.rank()));
                losses.push(error.to_string());
                let grace = Duration::from_ms(args.what.silence * 1000 + 1000);
                group = group.survivors(grace).map_err(|it| failure(&it))?;
                let first = |it: &u32| left.get(*it as usize).copied();
                left = group.members().iter().filter_map(first).collect();
                printer.note(&format!("going on as rank {} of {}", group.rank(), group.ranks()));
            }
            Err(error) => return Err(failure(&error)),
        }
    }
    let said = RankJson { rank: group.rank(), ranks: group.ranks(), rows, losses };
    drop(group);
    let wrong: u64 = said.rows.iter().map(|it| it.wrong).sum();
    if printer.is_json() {
        printer.json(&said)?;
    } else {
        for row in &said.rows {
            let mut times = row.times_us.clone();
            times.sort_by(f64::total_cmp);
            let median = times.get(times.len() / 2).copied().unwrap_or(0.0);
            printer.out(&format!(
                "rank {} of {}: {} in {median:.1} µs (median of {}), {} wrong\n",
                said.rank,
                said.ranks,
                Bytes::new(row.size_bytes),
                times.len(),
                row.wrong
            ))?;
        }
    }
    Ok(if wrong == 0 { Status::Done } else { Status::Wrong })
}

/// Whether a rank or a link was lost, so that there may be a group without it. A call that took too long has failed on all ranks
/// alike, and leaves nobody to go on without.
fn is_loss(error: &ExecError) -> bool {
    error.culprit().is_some()
}

/// The program for the ranks that are left, by their first numbers: after a loss, for their part of the cluster.
fn program(
    args: &RunArgs,
    left: &[u32],
    size: Bytes,
    printer: &Printer,
) -> Result<Verified<Program>, Failure> {
    let (what, ranks) = (&args.what, left.len() as u32);
    if ranks == args.ranks {
        return Ok(choose(what, ranks, size, printer)?.program);
    }
    let kind = what.collective.unwrap_or(CollectiveKind::AllReduce);
    let root = match left.iter().position(|it| *it == what.root) {
        Some(root) => root as u32,
        // Only some collectives have one.
        None if !kind.has_root() => 0,
        None => {
            return Err(Failure::wrong(format!(
                "rank {} was lost, which is the root of the {kind}",
                what.root
            ))
            .with_remedy("without it there is nothing to go on with; start the job anew"));
        }
    };
    let cluster = if ranks > 1 { network(what, printer)? } else { None };
    let Some(cluster) = cluster else {
        let what = WhatArgs { root, cluster: None, ..what.clone() };
        return Ok(choose(&what, ranks, size, printer)?.program);
    };
    let members: Vec<Rank> = left.iter().map(|it| Rank(*it)).collect();
    let part = cluster.part(&members).map_err(|it| {
        Failure::wrong(format!("there is no cluster of the {ranks} ranks that are left: {it}"))
    })?;
    let goal = match kind {
        CollectiveKind::SendRecv => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        kind => Goal::rooted(kind, ranks, Rank(root)),
    };
    let goal = goal.map_err(|it| Failure::unreadable(it.to_string()))?;
    let made = for_sockets(&part, true, &goal, size, what.method, Seed::new(what.seed));
    Ok(made.map_err(|it| Failure::wrong(it.to_string()))?.program)
}

fn config(args: &RunArgs) -> Config {
    let what = &args.what;
    let seconds = |it: u64| Duration::from_ms(it.saturating_mul(1000));
    let silence = seconds(what.silence);
    Config {
        serve_store: args.rank == 0 && !args.store_apart,
        group: args.group.clone(),
        token: what.token(),
        bind: args.bind,
        port: args.port,
        advertise: args.advertise.clone(),
        streams: what.streams.unwrap_or(0),
        shared_memory: !what.no_shared_memory,
        checksums: what.checksums,
        slice: usize::try_from(what.slice.get()).unwrap_or(usize::MAX).max(1),
        wait: seconds(what.wait),
        heartbeat: Duration::from_ps(silence.as_ps() / 5).min(seconds(1)),
        silence,
        deadline: seconds(what.deadline),
        minority: args.minority,
        ..Config::new(args.store.clone(), args.rank, args.ranks)
    }
}

/// Runs one size. The inner error is the group's, which may go on without a rank.
fn timed(
    args: &RunArgs,
    group: &mut Group,
    left: &[u32],
    size: Bytes,
    clock: &SharedClock,
    printer: &Printer,
) -> Result<Result<Row, ExecError>, Failure> {
    let what = &args.what;
    let program = program(args, left, size, printer)?;
    let call = call(what.element, what.reduction, &program, size);
    let seed = Seed::new(what.seed);
    let data = Data::new(program.collective(), call, seed);
    let rank = group.rank();
    let mut go = || -> Result<Row, ExecError> {
        let mut operation = group.register(&program, call)?;
        let (mut wrong, mut first_wrong) = (0, None);
        let mut times_us = Vec::new();
        let calls = what.warm_up.saturating_add(what.iterations);
        for number in 0..calls {
            let checked = number == 0 || number + 1 == calls;
            if checked {
                data.fill(rank, operation.input_mut().ok_or(ExecError::Busy)?);
            }
            group.barrier()?;
            let start = clock.now();
            operation.run()?;
            let took = clock.now().since(start);
            if number >= what.warm_up {
                times_us.push(took.as_us_f64());
            }
            if checked {
                let (count, first) = data.wrong(rank, operation.output().ok_or(ExecError::Busy)?);
                wrong += count;
                first_wrong = first_wrong.or(first);
            }
        }
        let elements = call.elements as u64;
        let (size_bytes, program) = (size.get(), program.name().to_owned());
        Ok(Row { size_bytes, elements, program, times_us, wrong, first_wrong })
    };
    Ok(go())
}
