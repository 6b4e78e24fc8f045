//! [`Metrics`]: the service's metrics for Prometheus.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use motet_control::journal::Event;
use motet_control::protocol::{Reply, Word};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The label `kind` of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    pub kind: &'static str,
}

/// The service's metrics.
#[derive(Debug)]
pub struct Metrics {
    pub registry: Registry,
    pub reports: Counter,
    pub notices: Family<Kind, Counter>,
    /// The time from a member's request to the answer, in seconds, inside the service.
    pub asked: Histogram,
    pub committed: Histogram,
    pub changes: Family<Kind, Counter>,
    pub switches_lost: Counter,
    pub members: Gauge,
    pub jobs: Gauge,
    pub queue: Gauge,
    pub changing: Gauge,
    pub connections: Gauge,
    pub slow_readers: Counter,
    pub store_failures: Counter,
    /// Clients that were turned away, by reason.
    pub refused: Family<Kind, Counter>,
    /// The number of clients that were turned away, for all reasons together.
    turned_away: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        // From 10 µs to 84 s.
        let times = || Histogram::new(exponential_buckets(1e-5, 2.0, 24));
        let mut it = Self {
            registry: Registry::with_prefix("motet"),
            reports: Counter::default(),
            notices: Family::default(),
            asked: times(),
            committed: times(),
            changes: Family::default(),
            switches_lost: Counter::<u64, AtomicU64>::default(),
            members: Gauge::default(),
            jobs: Gauge::default(),
            queue: Gauge::default(),
            changing: Gauge::default(),
            connections: Gauge::default(),
            slow_readers: Counter::default(),
            store_failures: Counter::default(),
            refused: Family::default(),
            turned_away: Counter::default(),
        };
        it.register();
        it
    }
}

impl Metrics {
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("reports", "Reports of members", self.reports.clone());
        to.register("notices", "Notices to members, by what they say", self.notices.clone());
        to.register("ask_seconds", "From a member's ask to the answer", self.asked.clone());
        to.register("commit_seconds", "Writing a batch to the store", self.committed.clone());
        to.register("changes", "Changes of circuits, by how they ended", self.changes.clone());
        to.register("switches_lost", "Times that a switch was lost", self.switches_lost.clone());
        to.register("members", "Members that are connected", self.members.clone());
        to.register("jobs", "Jobs that are registered", self.jobs.clone());
        to.register("queue", "Groups that wait for circuits", self.queue.clone());
        to.register("changing", "Changes that are under way", self.changing.clone());
        to.register("connections", "Open connections", self.connections.clone());
        to.register("slow_readers", "Clients that did not read", self.slow_readers.clone());
        to.register("store_failures", "Batches that were not kept", self.store_failures.clone());
        to.register("refused", "Clients that were turned away, by reason", self.refused.clone());
    }

    /// Counts a client that was refused.
    pub fn refuse(&self, kind: &'static str) {
        self.refused.get_or_create(&Kind { kind }).inc();
        self.turned_away.inc();
    }

    /// How many clients were turned away.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.turned_away.get()
    }

    /// How many notices of that kind there were.
    #[must_use]
    pub fn notices_of(&self, kind: &'static str) -> u64 {
        self.notices.get(&Kind { kind }).map_or(0, |it| it.get())
    }

    /// How many changes had this outcome.
    #[must_use]
    pub fn changes_of(&self, kind: &'static str) -> u64 {
        self.changes.get(&Kind { kind }).map_or(0, |it| it.get())
    }

    pub(crate) fn count(&self, event: &Event) {
        let change = |kind| {
            self.changes.get_or_create(&Kind { kind }).inc();
        };
        match event {
            Event::Registered { .. } => {
                self.jobs.inc();
            }
            Event::Left { .. } => {
                self.jobs.dec();
            }
            Event::Begun { .. } => change("begun"),
            Event::Done { .. } => change("done"),
            Event::Failed { .. } => change("failed"),
            Event::RolledBack { .. } => change("rolled_back"),
            Event::SwitchLost { .. } => {
                self.switches_lost.inc();
            }
            _ => {}
        }
    }

    pub(crate) fn word(&self, word: Word) {
        let kind = match word {
            Word::Reply { reply: Reply::Grant, .. } => "grant",
            Word::Reply { reply: Reply::Pass, .. } => "pass",
            Word::Reply { reply: Reply::Refuse(_), .. } => "refuse",
            Word::Recall => "recall",
            Word::Report => "report",
        };
        self.notices.get_or_create(&Kind { kind }).inc();
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
