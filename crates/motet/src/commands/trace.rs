//! `motet trace`: what the NCCL plugin saw in a job.

use std::fmt::Write as _;

use motet_runtime::trace::{TraceRow, summary};
use motet_runtime::{Algorithm, Protocol, Source, Trace};
use motet_units::Bytes;
use serde::Serialize;

use crate::args::trace::TraceArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct TraceJson {
    files: usize,
    calls: usize,
    /// Files that break off within a block.
    cut: usize,
    rows: Vec<RowJson>,
}

#[derive(Serialize)]
struct RowJson {
    collective: &'static str,
    ranks: u32,
    size_bytes: u64,
    algorithm: Option<&'static str>,
    protocol: Option<&'static str>,
    calls: u64,
    timed: u64,
    median_us: Option<f64>,
    p99_us: Option<f64>,
    longest_us: Option<f64>,
}

pub(crate) fn run(args: &TraceArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let mut traces = Vec::with_capacity(args.files.len());
    for name in &args.files {
        let trace = Trace::read(&files::read_bytes(name)?);
        let trace = trace.map_err(|it| Failure::unreadable(it.to_string()).in_file(name))?;
        if let Some(at) = trace.cut_at {
            printer
                .note(&format!("{name} breaks off at byte {at}, as after a job that was killed"));
        }
        traces.push(trace);
    }
    if let Some(output) = &args.output {
        calls(&traces).write(output, printer)?;
    }
    let rows = summary(&traces);
    if printer.is_json() {
        let cut = traces.iter().filter(|it| it.cut_at.is_some()).count();
        let calls = traces.iter().map(|it| it.calls.len()).sum();
        let rows = rows.iter().map(json).collect();
        printer.json(&TraceJson { files: traces.len(), calls, cut, rows })?;
    } else {
        let by_host = traces.iter().any(|it| it.calls.iter().any(|it| it.source == Source::Host));
        printer.out(&text(&rows, by_host))?;
    }
    Ok(Status::Done)
}

fn size(row: &TraceRow) -> Bytes {
    Bytes::new(1 << row.bucket.log2())
}

fn json(row: &TraceRow) -> RowJson {
    let timed = |it: motet_units::Duration| (row.timed > 0).then(|| it.as_us_f64());
    RowJson {
        collective: row.collective.name(),
        ranks: row.ranks,
        size_bytes: size(row).get(),
        algorithm: row.algorithm.map(Algorithm::name),
        protocol: row.protocol.map(Protocol::name),
        calls: row.calls,
        timed: row.timed,
        median_us: timed(row.median),
        p99_us: timed(row.high),
        longest_us: timed(row.longest),
    }
}

fn text(rows: &[TraceRow], by_host: bool) -> String {
    let heading = format!(
        "{:14}{:>6}{:>14}  {:15}{:9}{:>9}{:>11}{:>11}{:>11}",
        "collective",
        "ranks",
        "bytes from",
        "algorithm",
        "protocol",
        "calls",
        "median",
        "99%",
        "longest"
    );
    let mut out = format!("{}\n", Printer::strong(heading.trim_end()));
    for row in rows {
        let algorithm = row.algorithm.map_or("-", |it| it.name());
        let protocol = row.protocol.map_or("-", |it| it.name());
        let _ = write!(
            out,
            "{:14}{:6}{:14}  {algorithm:15}{protocol:9}{:9}",
            row.collective,
            row.ranks,
            size(row).get(),
            row.calls
        );
        // Writing to a string cannot fail, above and below.
        let _ = match row.timed {
            0 => writeln!(out, "{:>11}{:>11}{:>11}", "-", "-", "-"),
            _ => writeln!(
                out,
                "{:11.2}{:11.2}{:11.2}",
                row.median.as_us_f64(),
                row.high.as_us_f64(),
                row.longest.as_us_f64()
            ),
        };
    }
    out += "\ntimes in µs, of kernels whose channels were all seen; a size stands for all up to twice as large\n";
    if by_host {
        out += "some are by the host's clock, because NCCL gave none (2.26): far too short for calls in CUDA graphs\n";
    }
    out
}

/// One row for each call.
fn calls(traces: &[Trace]) -> Table {
    let all = || {
        traces.iter().flat_map(|trace| {
            let about = |number: u32| trace.communicators.get(number as usize);
            trace.calls.iter().filter_map(move |call| Some((about(call.communicator)?, call)))
        })
    };
    // Counts of GPUs, bytes and nanoseconds are far below 2⁶³; ids keep their bits as text.
    let whole = |value: &dyn Fn(&motet_runtime::TracedCall) -> u64| {
        Values::Whole(all().map(|it| value(it.1) as i64).collect())
    };
    let words = |value: &dyn Fn(&motet_runtime::TracedCall) -> &'static str| {
        Values::Words(all().map(|it| value(it.1).to_owned()).collect())
    };
    let source = |it: Source| match it {
        Source::Unknown => "none",
        Source::Host => "host",
        Source::Gpu => "gpu",
    };
    Table::new()
        .with("communicator", Values::Words(all().map(|it| format!("{:016x}", it.0.id)).collect()))
        .with("rank", Values::Whole(all().map(|it| it.0.rank.into()).collect()))
        .with("ranks", Values::Whole(all().map(|it| it.0.ranks.into()).collect()))
        .with("nodes", Values::Whole(all().map(|it| it.0.nodes.into()).collect()))
        .with("sequence", whole(&|it| it.sequence))
        .with("collective", words(&|it| it.collective.name()))
        .with("bytes", whole(&|it| it.bytes.get()))
        .with("algorithm", words(&|it| it.algorithm.map_or("", |it| it.name())))
        .with("protocol", words(&|it| it.protocol.map_or("", |it| it.name())))
        .with("channels", whole(&|it| it.channels.into()))
        .with("finished", whole(&|it| it.finished.into()))
        .with("clock", words(&|it| source(it.source)))
        .with("start_ns", whole(&|it| it.start_ns))
        .with("duration_ns", whole(&|it| it.duration_ns))
}
