//! nccl-tests' table: its sizes, its columns, its footer, so that what reads its output reads ours.

use std::fmt::Write as _;

use motet_collective::{Collective, CollectiveKind};
use motet_units::Bytes;

use crate::args::bench::BenchArgs;
use crate::c_format::{fixed, general};

/// Elements are floats.
const ELEMENT: u64 = 4;
pub(super) const TYPE: &str = "float";
/// What a rank has of an AllGather or ReduceScatter is a multiple of this many bytes.
const ALIGNMENT: u64 = 16;

/// Iterations that are not counted, and that are; whether results are checked; whether CUDA graphs are launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iterations {
    pub(super) warm_up: u32,
    pub(super) counted: u32,
    pub(super) validation: u32,
    pub(super) graph: u32,
}

/// Of a model.
pub(super) const NOTHING_RUN: Iterations =
    Iterations { warm_up: 0, counted: 1, validation: 0, graph: 0 };

/// Out of place or in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) time_us: f64,
    /// In GB/s.
    pub(super) algbw: f64,
    pub(super) busbw: f64,
    /// Elements that are wrong; none if nothing was compared.
    pub(super) wrong: Option<u64>,
}

impl Group {
    pub(super) fn new(
        collective: &Collective,
        size_bytes: u64,
        time_us: f64,
        wrong: Option<u64>,
    ) -> Self {
        let algbw = if time_us > 0.0 { size_bytes as f64 / time_us / 1e3 } else { 0.0 };
        let (numerator, denominator) = collective.busbw_factor();
        let busbw = algbw * f64::from(numerator) / f64::from(denominator);
        Self { time_us, algbw, busbw, wrong }
    }

    fn text(group: Option<&Self>) -> String {
        let Some(group) = group else {
            return format!("  {:>7}  {:>6}  {:>6}    N/A", "N/A", "N/A", "N/A");
        };
        let (time, algbw, busbw) =
            (fixed(group.time_us, 7), fixed(group.algbw, 6), fixed(group.busbw, 6));
        let wrong = group.wrong.map_or_else(|| "N/A".to_owned(), |it| it.to_string());
        format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>5}")
    }
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) size_bytes: u64,
    pub(super) count: u64,
    /// Out of place, in place.
    pub(super) groups: [Option<Group>; 2],
    /// Behind nccl-tests' columns.
    pub(super) more: String,
}

/// The whole of it.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    pub(super) collective: &'a Collective,
    pub(super) run: Iterations,
    /// What was run on what, one line or several that each begin with `#` but the first.
    pub(super) about: String,
    pub(super) more: &'static str,
    pub(super) rows: Vec<Row>,
}

impl Table<'_> {
    /// The mean over all lines, in and out of place.
    pub(super) fn average(&self) -> f64 {
        let all = self.rows.iter().flat_map(|it| it.groups).flatten();
        let (count, sum) = all.fold((0, 0.0), |(count, sum), it| (count + 1, sum + it.busbw));
        sum / f64::from(count.max(1))
    }

    /// Elements that are wrong; none if nothing was compared.
    pub(super) fn wrong(&self) -> u64 {
        let all = self.rows.iter().flat_map(|it| it.groups).flatten();
        all.filter_map(|it| it.wrong).sum()
    }

    pub(super) fn text(&self, args: &BenchArgs) -> String {
        let (ranks, kind) = (self.collective.ranks(), self.collective.kind());
        let test = test_name(kind);
        let (min, max) = (args.min.get(), args.max.get());
        let mut out = format!("# Collective test starting: {test}\n");
        let Iterations { warm_up, counted, validation, graph } = self.run;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "# nThread 1 nGpus {ranks} minBytes {min} maxBytes {max} step: {}(factor) warmup iters: \
             {warm_up} iters: {counted} agg iters: 1 validation: {validation} graph: {graph} unalign: 0",
            args.factor
        );
        let _ = writeln!(out, "#\n# {}\n#", self.about);
        let groups = "           out-of-place                       in-place";
        let _ = writeln!(out, "# {:10}  {:12}  {:8}  {:6}  {:6}{groups}", "", "", "", "", "");
        header(
            &mut out,
            ["size", "count", "type", "redop", "root"],
            ["time", "algbw", "busbw", "#wrong"],
            self.more,
        );
        header(&mut out, ["(B)", "(elements)", "", "", ""], ["(us)", "(GB/s)", "(GB/s)", ""], "");
        for Row { size_bytes, count, groups, more } in &self.rows {
            let [apart, within] =
                [Group::text(groups[0].as_ref()), Group::text(groups[1].as_ref())];
            let _ = writeln!(
                out,
                "{size_bytes:12}  {count:12}  {TYPE:>8}  {:>6}  {:>6}{apart}{within}{more}",
                redop(kind),
                root(kind)
            );
        }
        let wrong = self.wrong();
        let verdict = if wrong == 0 { "OK" } else { "FAILED" };
        let _ = writeln!(out, "# {:20} : {wrong} {verdict}", "Out of bounds values");
        let _ = writeln!(out, "# {:20} : {}", "Avg bus bandwidth", general(self.average()));
        let _ = writeln!(out, "#\n# Collective test concluded: {test}");
        out
    }
}

fn header(out: &mut String, call: [&str; 5], group: [&str; 4], more: &str) {
    let [size, count, kind, redop, root] = call;
    let [time, algbw, busbw, wrong] = group;
    let group = format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}");
    let line =
        format!("# {size:>10}  {count:>12}  {kind:>8}  {redop:>6}  {root:>6}{group}{group}{more}");
    let _ = writeln!(out, "{}", line.trim_end());
}

/// The bytes that are moved, in nccl-tests' sense, and the count of elements in the call.
pub(crate) fn size(kind: CollectiveKind, ranks: u32, asked: Bytes) -> (u64, u64) {
    let by_rank = matches!(
        kind,
        CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::Gather
            | CollectiveKind::Scatter
    );
    if !by_rank {
        let count = asked.get() / ELEMENT;
        return (count * ELEMENT, count);
    }
    let ranks = u64::from(ranks);
    let share = asked.get() / ranks / ALIGNMENT * ALIGNMENT;
    (share * ranks, share / ELEMENT)
}

pub(super) const fn redop(kind: CollectiveKind) -> &'static str {
    if kind.reduces() { "sum" } else { "none" }
}

pub(super) const fn root(kind: CollectiveKind) -> i32 {
    if kind.has_root() { 0 } else { -1 }
}

/// The nccl-tests program of a collective.
const fn test_name(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllGather => "all_gather_perf",
        CollectiveKind::ReduceScatter => "reduce_scatter_perf",
        CollectiveKind::Broadcast => "broadcast_perf",
        CollectiveKind::Reduce => "reduce_perf",
        CollectiveKind::AllToAll => "alltoall_perf",
        CollectiveKind::Gather => "gather_perf",
        CollectiveKind::Scatter => "scatter_perf",
        CollectiveKind::SendRecv => "sendrecv_perf",
        _ => "all_reduce_perf",
    }
}
