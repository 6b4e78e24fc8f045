//! [`Timeline`]: an observer that records when every link was occupied by what, and when every rank
//! sent and received.
//!
//! [`Timeline::to_perfetto`] (in `perfetto`) turns it into a trace that ui.perfetto.dev opens; `rows` puts
//! overlapping spans on rows of their own, and [`Trace`] writes the file format, also for other crates. For
//! figures rather than pictures see [`crate::utilization`].

mod perfetto;
mod rows;
mod trace;

pub use trace::{Slice, Trace};

use motet_collective::TransferId;
use motet_units::{Bandwidth, Bytes, Instant, LinkId};
use rustc_hash::FxHashMap;

use crate::event::{Crossing, Observer};
use crate::route::Routed;

/// One transmission over a link, for as long as it occupies the link. It ends when the next one may start,
/// although the tail may still be to come from a slower link upstream; under fair sharing it ends when the
/// tail has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub link: LinkId,
    pub bytes: Bytes,
    pub start: Instant,
    pub end: Instant,
    /// Its transfers: `count` entries of [`Timeline::carried`] from `first` on.
    first: usize,
    count: usize,
}

/// When one transfer was sent and received, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Course {
    /// When its first link began to carry it, and when its tail had left that link.
    sending: Option<Instant>,
    sent: Option<Instant>,
    /// When its head reached its destination, and when it counted as arrived.
    receiving: Option<Instant>,
    arrived: Option<Instant>,
}

/// Everything that happened in a run, by the run's clock.
#[derive(Debug)]
pub struct Timeline<'a> {
    routed: &'a Routed<'a>,
    spans: Vec<Span>,
    /// The transfers of all spans, one span after the other.
    carried: Vec<TransferId>,
    /// The spans that have not ended yet, by the first transfer of the crossing and its hop there.
    open: FxHashMap<(TransferId, u32), usize>,
    courses: Vec<Course>,
    changes: Vec<(Instant, LinkId, Bandwidth)>,
}

impl<'a> Timeline<'a> {
    /// An empty timeline for a run of this routed program.
    #[must_use]
    pub fn new(routed: &'a Routed<'a>) -> Self {
        Self {
            routed,
            spans: Vec::new(),
            carried: Vec::new(),
            open: FxHashMap::default(),
            courses: vec![Course::default(); routed.program().transfers().len()],
            changes: Vec::new(),
        }
    }

    /// Spans in order of start time.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The transfers whose data a span carried.
    #[must_use]
    pub fn transfers(&self, span: &Span) -> &[TransferId] {
        &self.carried[span.first..span.first + span.count]
    }
}

impl Observer for Timeline<'_> {
    fn started(&mut self, at: Instant, crossing: Crossing<'_>) {
        let Crossing { link, transfers, hop, bytes } = crossing;
        let latency = self.routed.network().link(link).spec.latency;
        for transfer in transfers {
            let (hops, course) =
                (self.routed.hops(transfer.index()), &mut self.courses[transfer.index()]);
            if hops.first().is_some_and(|it| it.link == link) && course.sending.is_none() {
                course.sending = Some(at);
            }
            if hops.last().is_some_and(|it| it.link == link) {
                course.receiving = Some(at + latency);
            }
        }
        if let Some(first) = transfers.first() {
            self.open.insert((*first, hop), self.spans.len());
        }
        let (first, count) = (self.carried.len(), transfers.len());
        self.carried.extend_from_slice(transfers);
        self.spans.push(Span { link, bytes, start: at, end: at, first, count });
    }

    fn streamed(&mut self, at: Instant, crossing: Crossing<'_>) {
        let first = crossing.transfers.first();
        if let Some(span) = first.and_then(|it| self.open.remove(&(*it, crossing.hop))) {
            self.spans[span].end = at;
        }
    }

    fn sent(&mut self, at: Instant, transfer: TransferId) {
        self.courses[transfer.index()].sent = Some(at);
    }

    fn arrived(&mut self, at: Instant, transfer: TransferId) {
        self.courses[transfer.index()].arrived = Some(at);
    }

    fn changed(&mut self, at: Instant, link: LinkId, bandwidth: Bandwidth) {
        self.changes.push((at, link, bandwidth));
    }
}
