//! A [`Timeline`] as a trace in Chrome's JSON format, which ui.perfetto.dev opens.
//!
//! There are two processes, "links" and "ranks". A link has one track; a span on it lasts as long
//! as a transfer occupies the link. A rank has one track for what it sends (from the start on the
//! first link until the tail has left it) and one for what it receives (from the arrival of the
//! head until the transfer counts as arrived). Overlapping spans (links under fair sharing, ranks
//! with several links) get further tracks, marked `+1`, `+2` and so on. Copies within a rank and
//! changes of a link's bandwidth are instants.

use std::fmt::Write as _;

use motet_collective::{Action, TransferId};
use motet_units::{Instant, Rank};

use super::trace::{Slice, Trace};
use super::{Span, Timeline};

const LINKS: u32 = 1;
const RANKS: u32 = 2;

impl Timeline<'_> {
    /// The trace as JSON text. Equal runs give equal text.
    #[must_use]
    pub fn to_perfetto(&self) -> String {
        let (program, network) = (self.routed.program(), self.routed.network());
        let mut out = Trace::new(&[("program", program.name()), ("network", network.name())]);
        out.process(LINKS, "links");
        out.process(RANKS, "ranks");
        self.write_links(&mut out);
        self.write_ranks(&mut out);
        out.finish()
    }

    fn write_links(&self, out: &mut Trace) {
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

    fn write_ranks(&self, out: &mut Trace) {
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

    /// The arguments that the viewer shows for the transfers of a span, as a JSON object.
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
