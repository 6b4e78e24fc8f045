//! `motet workload show` of traces: recordings, Chakra traces without times, and AICB's workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Rank};
use motet_workload::formats::aicb::AicbWorkload;
use motet_workload::formats::chakra::{Collective, NodeKind, Trace};
use motet_workload::recording::Span;
use motet_workload::{Parallelism, Recording};
use serde::Serialize;

use super::input::ChakraTraces;
use super::{short, time, who};
use crate::failure::Failure;
use crate::printer::Printer;

#[derive(Serialize)]
struct RecordingJson<'a> {
    kind: &'static str,
    ranks: usize,
    world: Option<u32>,
    steps: usize,
    span_us: f64,
    calls: usize,
    rows: Vec<RowJson>,
    groups: Vec<GroupJson<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct RowJson {
    parallelism: Option<&'static str>,
    /// The parallelism is a guess from members and calls.
    guessed: bool,
    collective: &'static str,
    group_ranks: usize,
    groups: usize,
    /// Over all groups.
    calls: usize,
    bytes: u128,
    /// From when the slowest rank joins to the end.
    median_us: f64,
    longest_us: f64,
    /// From the first rank's start to when the slowest joins.
    median_wait_us: f64,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    name: &'a str,
    description: &'a str,
    parallelism: Option<&'static str>,
    guessed: bool,
    members: Vec<u32>,
}

/// What rows are told apart by: parallelism and whether it is guessed, collective, ranks of the group.
type Alike = (Option<Parallelism>, bool, CollectiveKind, usize);

/// Calls that are alike.
#[derive(Default)]
struct Row {
    groups: BTreeSet<usize>,
    calls: usize,
    bytes: u128,
    times: Vec<Duration>,
    waits: Vec<Duration>,
}

fn rows(recording: &Recording) -> BTreeMap<Alike, Row> {
    let mut rows: BTreeMap<Alike, Row> = BTreeMap::new();
    for call in recording.calls() {
        let group = recording.group(call);
        let size = match call.kind {
            CollectiveKind::SendRecv => 2,
            _ => group.members.len(),
        };
        let row = rows.entry((group.parallelism, group.is_guessed, call.kind, size)).or_default();
        row.groups.insert(call.group);
        row.calls += 1;
        row.bytes += u128::from(call.bytes.get());
        let (span, joined) = (call.span(), call.joined());
        row.times.push(span.end.since(joined));
        row.waits.push(joined.since(span.start));
    }
    for row in rows.values_mut() {
        row.times.sort_unstable();
        row.waits.sort_unstable();
    }
    rows
}

fn median(times: &[Duration]) -> Duration {
    times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO)
}

pub(super) fn recording(it: &Recording, printer: &mut Printer) -> Result<(), Failure> {
    let rows = rows(it);
    let span = Span::around(it.calls().iter().map(motet_workload::Call::span));
    let span = span.map_or(Duration::ZERO, Span::length);
    if printer.is_json() {
        return printer.json(&recording_json(it, &rows, span));
    }
    let of = it.world().filter(|all| *all as usize != it.ranks().len());
    let of = of.map_or(String::new(), |all| format!(" of {all}"));
    let steps = match it.steps().len() {
        0 => "steps not marked".to_owned(),
        1 => "1 step".to_owned(),
        many => format!("{many} steps"),
    };
    let mut out = format!(
        "recording of {}{of} ranks: {steps}, {} calls within {}\n",
        it.ranks().len(),
        it.calls().len(),
        time(span)
    );
    let heading = format!(
        "  {:5}{:15}{:>6}{:>8}{:>8}{:>11}{:>12}{:>12}{:>12}",
        "", "collective", "ranks", "groups", "calls", "bytes", "median", "longest", "waited"
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", Printer::strong(&heading));
    for ((parallelism, guessed, kind, size), row) in &rows {
        let name = parallelism.map_or("-", Parallelism::name);
        let name = if *guessed { format!("{name}?") } else { name.to_owned() };
        let _ = writeln!(
            out,
            "  {name:5}{:15}{size:6}{:8}{:8}{:>11}{:>12}{:>12}{:>12}",
            kind.name(),
            row.groups.len(),
            row.calls,
            short(row.bytes),
            time(median(&row.times)),
            time(row.times.last().copied().unwrap_or(Duration::ZERO)),
            time(median(&row.waits))
        );
    }
    let _ = writeln!(
        out,
        "\ntimes from when the slowest rank joins; `waited` is how long the first waited for it (median)"
    );
    group_lines(&mut out, it, printer.is_verbose());
    printer.out(&out)
}

/// Who is in which group; a few of them unless all are asked for.
fn group_lines(out: &mut String, it: &Recording, all: bool) {
    const SHOWN: usize = 8;
    let shown = if all { it.groups().len() } else { SHOWN };
    for group in it.groups().iter().take(shown) {
        let guess = if group.is_guessed { "?" } else { "" };
        let name = group.parallelism.map_or("-", Parallelism::name);
        let text = if group.description.is_empty() { &group.name } else { &group.description };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name}{guess} group `{text}`: ranks {}", who(&group.members));
    }
    if it.groups().len() > shown {
        let _ = writeln!(out, "  and {} groups more (-v shows all)", it.groups().len() - shown);
    }
    if it.groups().iter().any(|it| it.is_guessed) {
        let _ = writeln!(out, "  ? is guessed from who is in the group and what it calls");
    }
}

fn recording_json<'a>(
    it: &'a Recording,
    rows: &BTreeMap<Alike, Row>,
    span: Duration,
) -> RecordingJson<'a> {
    let row = |((parallelism, guessed, kind, size), row): (&Alike, &Row)| RowJson {
        parallelism: parallelism.map(Parallelism::name),
        guessed: *guessed,
        collective: kind.name(),
        group_ranks: *size,
        groups: row.groups.len(),
        calls: row.calls,
        bytes: row.bytes,
        median_us: median(&row.times).as_us_f64(),
        longest_us: row.times.last().copied().unwrap_or(Duration::ZERO).as_us_f64(),
        median_wait_us: median(&row.waits).as_us_f64(),
    };
    let groups = it.groups().iter().map(|it| GroupJson {
        name: &it.name,
        description: &it.description,
        parallelism: it.parallelism.map(Parallelism::name),
        guessed: it.is_guessed,
        members: it.members.iter().map(|it| it.0).collect(),
    });
    RecordingJson {
        kind: "recording",
        ranks: it.ranks().len(),
        world: it.world(),
        steps: it.steps().len(),
        span_us: span.as_us_f64(),
        calls: it.calls().len(),
        rows: rows.iter().map(row).collect(),
        groups: groups.collect(),
        notes: it.notes(),
    }
}

#[derive(Serialize)]
struct ChakraJson {
    kind: &'static str,
    version: String,
    ranks: usize,
    nodes: usize,
    /// Waits for nodes that are not there.
    missing: usize,
    rows: Vec<PlainRowJson>,
}

#[derive(Serialize)]
struct PlainRowJson {
    parallelism: Option<&'static str>,
    group: Option<String>,
    collective: &'static str,
    calls: u64,
    /// What ranks give to the calls.
    bytes: u128,
}

/// Calls and bytes over all traces, by group and collective; what the CPU calls counts only where no kernel does.
fn chakra_rows(traces: &ChakraTraces) -> BTreeMap<(Option<String>, &'static str), (u64, u128)> {
    let mut rows: BTreeMap<(Option<String>, &'static str), (u64, u128)> = BTreeMap::new();
    for trace in traces.traces.values() {
        let kernels =
            trace.nodes.iter().any(|it| it.is_cpu != Some(true) && calls(&it.kind).is_some());
        for node in trace.nodes.iter().filter(|it| !kernels || it.is_cpu != Some(true)) {
            if let Some((group, name, bytes)) = calls(&node.kind) {
                let row = rows.entry((group, name)).or_default();
                row.0 += 1;
                row.1 += u128::from(bytes);
            }
        }
    }
    rows
}

fn calls(kind: &NodeKind) -> Option<(Option<String>, &'static str, u64)> {
    Some(match kind {
        NodeKind::Send(it) => (None, "send", it.bytes?.get()),
        NodeKind::Receive(it) => (None, "receive", it.bytes?.get()),
        NodeKind::Collective { what: Some(what), bytes, group } => {
            let name = match what {
                Collective::Data(kind) => kind.name(),
                Collective::Barrier => "barrier",
            };
            (group.clone(), name, bytes.map_or(0, Bytes::get))
        }
        _ => return None,
    })
}

pub(super) fn chakra(it: &ChakraTraces, printer: &mut Printer) -> Result<(), Failure> {
    let rows = chakra_rows(it);
    let nodes = it.traces.values().map(|it| it.nodes.len()).sum();
    let missing: usize = it.traces.values().map(|it| Trace::missing(it).len()).sum();
    let version = it.traces.values().next().map_or(String::new(), |it| it.version.clone());
    let ranks = it.traces.len();
    if printer.is_json() {
        let rows = rows.into_iter().map(|((group, collective), (calls, bytes))| PlainRowJson {
            parallelism: None,
            group,
            collective,
            calls,
            bytes,
        });
        let rows = rows.collect();
        return printer.json(&ChakraJson { kind: "chakra", version, ranks, nodes, missing, rows });
    }
    let version = if version.is_empty() { "not said".to_owned() } else { version };
    let of =
        if ranks == 1 { "trace of 1 rank".to_owned() } else { format!("traces of {ranks} ranks") };
    let mut out = format!("Chakra {of}: {nodes} nodes (schema {version})\n");
    if missing > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {missing} waits are for nodes that are not there");
    }
    plain_heading(&mut out, "group");
    for ((group, name), (calls, bytes)) in &rows {
        let members = members(it, group.as_deref());
        let group = group.as_deref().unwrap_or("-");
        let line = format!("  {group:14}{name:15}{calls:8}{:>11}  {members}", short(*bytes));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    printer.out(&out)
}

fn plain_heading(out: &mut String, first: &str) {
    let heading = format!("  {first:14}{:15}{:>8}{:>11}", "collective", "calls", "bytes");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", Printer::strong(&heading));
}

#[derive(Serialize)]
struct AicbJson<'a> {
    kind: &'static str,
    policy: &'a str,
    gpus: Option<u32>,
    tp: u32,
    ep: u32,
    pp: u32,
    micro_batches: u32,
    layers: usize,
    compute_us: f64,
    rows: Vec<PlainRowJson>,
}

pub(super) fn aicb(it: &AicbWorkload, printer: &mut Printer) -> Result<(), Failure> {
    let passes = || it.layers.iter().flat_map(|it| &it.passes);
    let compute: Duration = passes().map(|it| it.compute).sum();
    let mut rows: BTreeMap<(Parallelism, CollectiveKind), (u64, u128)> = BTreeMap::new();
    for (parallelism, kind, bytes) in passes().filter_map(|it| it.call) {
        let row = rows.entry((parallelism, kind)).or_default();
        row.0 += 1;
        row.1 += u128::from(bytes.get());
    }
    if printer.is_json() {
        let rows = rows.into_iter().map(|((parallelism, kind), (calls, bytes))| PlainRowJson {
            parallelism: Some(parallelism.name()),
            group: None,
            collective: kind.name(),
            calls,
            bytes,
        });
        return printer.json(&AicbJson {
            kind: "aicb",
            policy: &it.policy,
            gpus: it.gpus,
            tp: it.tp,
            ep: it.ep,
            pp: it.pp,
            micro_batches: it.micro_batches,
            layers: it.layers.len(),
            compute_us: compute.as_us_f64(),
            rows: rows.collect(),
        });
    }
    let gpus = it.gpus.map_or(String::new(), |it| format!(" on {it} GPUs"));
    let mut out = format!(
        "AICB workload{gpus}: TP {}, EP {}, PP {}, {} micro-batches; {} lines that compute {}\n",
        it.tp,
        it.ep,
        it.pp,
        it.micro_batches,
        it.layers.len(),
        time(compute)
    );
    plain_heading(&mut out, "");
    for ((parallelism, kind), (calls, bytes)) in &rows {
        let name = parallelism.name();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:14}{:15}{calls:8}{:>11}", kind.name(), short(*bytes));
    }
    printer.out(&out)
}

/// The members of a group of Chakra traces, where the file of groups has them.
fn members(traces: &ChakraTraces, group: Option<&str>) -> String {
    let ranks = group.and_then(|it| traces.groups.get(it));
    let ranks: Vec<Rank> = ranks.into_iter().flatten().map(|it| Rank(*it)).collect();
    if ranks.is_empty() { String::new() } else { format!("ranks {}", who(&ranks)) }
}
