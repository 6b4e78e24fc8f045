//! A [`Timeline`] as a trace in Chrome's JSON format, which ui.perfetto.dev opens.
//!
//! There are two processes, "links" and "ranks". A link has one track; a span on it lasts as long
//! as a transfer occupies the link. A rank has one track for what it sends (from the start on the
//! first link until the tail has left it) and one for what it receives (from the arrival of the
//! head until the transfer counts as arrived). Overlapping spans (links under fair sharing, ranks
//! with several links) get further tracks, marked `+1`, `+2` and so on. Copies within a rank and
//! changes of a link's bandwidth are instants.
//!
//! Times are microseconds with nanosecond digits, which is the viewer's resolution. The viewer
//! rounds start and duration separately, and drops spans that overlap as a result. Here start and
//! end are rounded instead, so spans that do not overlap never will; the exact picoseconds are
//! among the arguments.

use std::fmt::Write as _;

use motet_collective::{Action, TransferId};
use motet_units::{Instant, Rank};

use super::rows::rows;
use super::{Span, Timeline};

const LINKS: u32 = 1;
const RANKS: u32 = 2;

/// A span on a track: when, and what it says.
struct Slice {
    start: Instant,
    end: Instant,
    name: String,
    /// A JSON object.
    args: String,
}

impl Timeline<'_> {
    /// The trace as JSON text. Equal runs give equal text.
    #[must_use]
    pub fn to_perfetto(&self) -> String {
        let (program, network) = (self.routed.program(), self.routed.network());
        let mut out = Writer::default();
        let _ = writeln!(
            out.text,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":{},\"network\":{}}},\
             \"traceEvents\":[",
            quoted(program.name()),
            quoted(network.name())
        );
        out.process(LINKS, "links");
        out.process(RANKS, "ranks");
        self.write_links(&mut out);
        self.write_ranks(&mut out);
        out.text.push_str("\n]}\n");
        out.text
    }

    fn write_links(&self, out: &mut Writer) {
        let network = self.routed.network();
        let mut by_link = vec![(Vec::new(), Vec::new()); network.links().len()];
        for span in &self.spans {
            by_link[span.link.index()].0.push(span);
        }
        for (at, link, bandwidth) in &self.changes {
            by_link[link.index()].1.push((*at, *bandwidth));
        }
        for (id, (spans, changes)) in network.link_ids().zip(&by_link) {
            if spans.is_empty() && changes.is_empty() {
                continue;
            }
            let link = network.link(id);
            let name = |id| &network.node(id).name;
            let title = format!("link {}: {} → {}", id.0, name(link.from), name(link.to));
            let slices = spans.iter().map(|it| self.crossing(it)).collect();
            let track = out.tracks(LINKS, &title, slices);
            for (at, bandwidth) in changes {
                let name = format!("bandwidth {bandwidth}");
                let args = format!("{{\"bits_per_s\":{}}}", bandwidth.bits_per_s());
                out.instant(LINKS, track, *at, &name, &args);
            }
        }
    }

    fn write_ranks(&self, out: &mut Writer) {
        let (program, network) = (self.routed.program(), self.routed.network());
        let ranks = program.collective().ranks() as usize;
        let mut sends: Vec<Vec<Slice>> = (0..ranks).map(|_| Vec::new()).collect();
        let mut receives: Vec<Vec<Slice>> = (0..ranks).map(|_| Vec::new()).collect();
        let mut copies: Vec<Vec<(Instant, TransferId)>> = vec![Vec::new(); ranks];
        for (index, (transfer, course)) in program.transfers().iter().zip(&self.courses).enumerate()
        {
            let id = TransferId::from_index(index);
            let slice = |(start, end)| {
                let name = format!("transfer {index}");
                Slice { start, end, name, args: self.args(&[id], None) }
            };
            let (from, to) = (transfer.src.rank.index(), transfer.dst.rank.index());
            if transfer.is_local() {
                copies[to].extend(course.arrived.map(|at| (at, id)));
            }
            sends[from].extend(course.sending.zip(course.sent).map(slice));
            receives[to].extend(course.receiving.zip(course.arrived).map(slice));
        }
        for (rank, (sends, receives)) in sends.into_iter().zip(receives).enumerate() {
            let id = Rank::from_index(rank);
            let name = network.gpu(id).map_or("", |it| &network.node(it).name);
            if !sends.is_empty() {
                out.tracks(RANKS, &format!("rank {id} {name} sends"), sends);
            }
            if !receives.is_empty() || !copies[rank].is_empty() {
                let track = out.tracks(RANKS, &format!("rank {id} {name} receives"), receives);
                for (at, transfer) in &copies[rank] {
                    let name = format!("transfer {}", transfer.0);
                    out.instant(RANKS, track, *at, &name, &self.args(&[*transfer], None));
                }
            }
        }
    }

    fn crossing(&self, span: &Span) -> Slice {
        let transfers = self.transfers(span);
        let name = match transfers {
            [first] => format!("transfer {}", first.0),
            [first, rest @ ..] => format!("transfer {} and {} more", first.0, rest.len()),
            [] => String::new(),
        };
        let args = self.args(transfers, Some(span.bytes.get()));
        Slice { start: span.start, end: span.end, name, args }
    }

    /// What there is to know of transfers that share a span.
    fn args(&self, transfers: &[TransferId], bytes: Option<u64>) -> String {
        let ids: Vec<String> = transfers.iter().map(|it| it.0.to_string()).collect();
        let mut args = format!("{{\"transfer\":{}", ids.join(","));
        if ids.len() != 1 {
            args = format!("{{\"transfers\":[{}]", ids.join(","));
        }
        if let Some(first) = transfers.first() {
            let transfer = self.routed.program().transfer(*first);
            let action = if transfer.action == Action::Copy { "copy" } else { "reduce" };
            let _ = write!(
                args,
                ",\"action\":\"{action}\",\"src\":\"{}\",\"dst\":\"{}\",\"chunks\":{}",
                transfer.src, transfer.dst, transfer.count
            );
        }
        if let Some(bytes) = bytes {
            let _ = write!(args, ",\"bytes\":{bytes}");
        }
        args.push('}');
        args
    }
}

/// The text so far. Tracks are numbered throughout, since a viewer may take equal numbers in two
/// processes for one thread, and from 1, since 0 is the idle thread to it.
#[derive(Default)]
struct Writer {
    text: String,
    events: usize,
    tracks: u32,
}

impl Writer {
    fn event(&mut self, json: std::fmt::Arguments<'_>) {
        self.text.push_str(if self.events == 0 { "" } else { ",\n" });
        self.events += 1;
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(json);
    }

    fn process(&mut self, pid: u32, name: &str) {
        self.event(format_args!(
            "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":\"{name}\"}}}}"
        ));
    }

    /// Writes spans on as many tracks as they need, at least one; gives the first.
    fn tracks(&mut self, pid: u32, title: &str, mut slices: Vec<Slice>) -> u32 {
        slices.sort_by_key(|it| (it.start, it.end));
        let rows = rows(slices.iter().map(|it| (it.start, it.end)));
        let first = self.tracks + 1;
        for row in 0..rows.iter().max().map_or(1, |it| it + 1) {
            self.tracks += 1;
            let tid = self.tracks;
            let name = if row == 0 { title.to_owned() } else { format!("{title} +{row}") };
            self.event(format_args!(
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\
                 \"args\":{{\"name\":{}}}}}",
                quoted(&name)
            ));
            self.event(format_args!(
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_sort_index\",\
                 \"args\":{{\"sort_index\":{tid}}}}}"
            ));
        }
        for (slice, row) in slices.iter().zip(rows) {
            let Slice { start, end, name, args } = slice;
            self.event(format_args!(
                "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{name}\",\
                 \"args\":{{\"start_ps\":{},\"dur_ps\":{},{}}}",
                first + row as u32,
                microseconds(nanoseconds(*start)),
                microseconds(nanoseconds(*end) - nanoseconds(*start)),
                start.as_ps(),
                end.since(*start).as_ps(),
                args.trim_start_matches('{'),
            ));
        }
        first
    }

    fn instant(&mut self, pid: u32, tid: u32, at: Instant, name: &str, args: &str) {
        self.event(format_args!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"name\":\"{name}\",\
             \"args\":{args}}}",
            microseconds(nanoseconds(at))
        ));
    }
}

/// To the nearest.
fn nanoseconds(at: Instant) -> u64 {
    (at.as_ps() / 1000) + u64::from(at.as_ps() % 1000 >= 500)
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
