//! `motet bench --backend nccl`: nccl-tests' table of what NCCL takes on the GPUs at hand, by itself or as a plan says.
//!
//! Every size is checked (fresh input, every element compared) and then timed, out of place and in place; a time is that of the
//! slowest rank, in the middle of several samples.

use motet_collective::{Collective, CollectiveKind};
use motet_live::{Call, Mode};
use motet_units::{Duration, Rank};
use serde::Serialize;

use super::nccl_tests::{self, Group, Iterations, Row, Table};
use crate::args::bench::BenchArgs;
use crate::args::sizes::sizes;
use crate::commands::live::{Session, Wanted, collective, failure};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Bar;

/// Samples of a size, whose middle counts.
const SAMPLES: u32 = 5;
/// Calls in a sample, of small sizes.
const CALLS: u64 = 20;
/// Bytes after which there are fewer.
const MANY_BYTES: u64 = 64 << 20;

#[derive(Serialize)]
struct BenchJson {
    backend: &'static str,
    /// NCCL's version.
    nccl: String,
    gpu: String,
    collective: &'static str,
    ranks: u32,
    plan: Option<String>,
    graphs: bool,
    results: Vec<LineJson>,
    wrong: u64,
    avg_busbw_gbps: f64,
}

#[derive(Serialize)]
struct LineJson {
    size_bytes: u64,
    /// Elements, as NCCL's call is given them.
    count: u64,
    out_of_place: Option<GroupJson>,
    in_place: Option<GroupJson>,
}

#[derive(Serialize)]
pub(super) struct GroupJson {
    time_us: f64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    wrong: Option<u64>,
}

impl From<Group> for GroupJson {
    fn from(it: Group) -> Self {
        let Group { time_us, algbw, busbw, wrong } = it;
        Self { time_us, algbw_gbps: algbw, busbw_gbps: busbw, wrong }
    }
}

pub(super) fn run(args: &BenchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if args.tuning {
        return Err(Failure::unreadable("`--tuning` is a table of the model").with_remedy(
            "leave `--backend nccl` away; NCCL_DEBUG_SUBSYS=TUNING prints NCCL's own",
        ));
    }
    let kind = args.collective;
    let name = collective(kind).ok_or_else(|| {
        Failure::unreadable(format!("NCCL has no call for {kind}")).with_remedy(
            "it has allreduce, allgather, reducescatter, broadcast, reduce and alltoall",
        )
    })?;
    let ranks = ranks(args, printer)?;
    let called = if kind.has_root() {
        Collective::rooted(kind, ranks, 1, Rank(0))
    } else {
        Collective::new(kind, ranks, 1)
    };
    let called = called.map_err(|it| Failure::wrong(it.to_string()))?;
    let calls: Vec<(u64, Call)> = sizes(args.min, args.max, args.factor)?
        .into_iter()
        .map(|it| nccl_tests::size(kind, ranks, it))
        .filter(|it| it.1 > 0)
        .map(|(size, count)| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            (size, Call { collective: name, count, in_place: false })
        })
        .collect();
    let bytes = calls.iter().map(|it| it.1.bytes(ranks)).max().ok_or_else(|| {
        Failure::unreadable(format!("{} are too few for {ranks} ranks", args.max))
            .with_remedy("give `--max` an element for every rank")
    })?;
    let plan = args.plan.clone();
    let wanted = Wanted { ranks, tuner: plan.is_some(), plan, bytes };
    let bar = Bar::start(printer, calls.len() as u64, "sizes timed");
    bar.say("starting ranks");
    let Some(mut session) = Session::start(&args.live, wanted)? else { return Ok(Status::Done) };
    let mut rows = Vec::new();
    for (at, (size_bytes, call)) in calls.into_iter().enumerate() {
        bar.say(format!("{kind} of {size_bytes} bytes"));
        let mut groups = [None, None];
        for (group, in_place) in groups.iter_mut().zip([false, true]) {
            if in_place && kind == CollectiveKind::AllToAll {
                continue;
            }
            let (time, wrong) = timed(&mut session, args, size_bytes, Call { in_place, ..call })?;
            *group = Some(Group::new(&called, size_bytes, time.as_us_f64(), Some(wrong)));
        }
        rows.push(Row { size_bytes, count: call.count as u64, groups, more: String::new() });
        bar.set(at as u64 + 1);
    }
    drop(bar);
    let (nccl, gpu) = (session.nccl.clone(), session.gpu.clone());
    session.end()?;
    let by =
        args.plan.as_ref().map_or_else(|| "by itself".to_owned(), |it| format!("as {it} says"));
    let graph = u32::from(args.live.graphs);
    let run = Iterations { warm_up: 1, counted: SAMPLES * CALLS as u32, validation: 1, graph };
    let about =
        format!("NCCL {nccl} {by}, {ranks} ranks on {gpu}\n# time: measured, the slowest rank's");
    let table = Table { collective: &called, run, about, more: "", rows };
    if printer.is_json() {
        printer.json(&json(args, &table, (nccl, gpu)))?;
    } else {
        printer.out(&table.text(args))?;
    }
    Ok(if table.wrong() == 0 { Status::Done } else { Status::Wrong })
}

/// As many as the cluster has GPUs, or as were asked for.
pub(super) fn ranks(args: &BenchArgs, printer: &Printer) -> Result<u32, Failure> {
    if let Some(ranks) = args.ranks {
        return Ok(ranks);
    }
    let cluster = super::cluster(args)?;
    let ranks = files::network(cluster, &args.read.options(), printer)?.network.ranks().len();
    u32::try_from(ranks)
        .ok()
        .filter(|it| *it >= 2)
        .ok_or_else(|| Failure::wrong(format!("has {ranks} GPUs: nothing to run")).in_file(cluster))
}

/// The middle of some samples, and how many elements were wrong before.
fn timed(
    session: &mut Session,
    args: &BenchArgs,
    size_bytes: u64,
    call: Call,
) -> Result<(Duration, u64), Failure> {
    let mode = if args.plan.is_some() { Mode::Plan } else { Mode::Default };
    let wrong = session.check(call, mode).map_err(|it| failure(&it))?.wrong;
    // At most twenty.
    let calls = (CALLS * MANY_BYTES / size_bytes.max(1)).clamp(1, CALLS) as u32;
    let modes = [mode; SAMPLES as usize];
    let timed = session.time(call, &modes, calls, args.live.graphs);
    let mut times = timed.map_err(|it| failure(&it))?;
    times.sort_unstable();
    Ok((times[times.len() / 2], wrong))
}

fn json(args: &BenchArgs, table: &Table<'_>, (nccl, gpu): (String, String)) -> BenchJson {
    let line = |it: &Row| LineJson {
        size_bytes: it.size_bytes,
        count: it.count,
        out_of_place: it.groups[0].map(GroupJson::from),
        in_place: it.groups[1].map(GroupJson::from),
    };
    BenchJson {
        backend: "nccl",
        nccl,
        gpu,
        collective: table.collective.kind().name(),
        ranks: table.collective.ranks(),
        plan: args.plan.clone(),
        graphs: args.live.graphs,
        results: table.rows.iter().map(line).collect(),
        wrong: table.wrong(),
        avg_busbw_gbps: table.average(),
    }
}
