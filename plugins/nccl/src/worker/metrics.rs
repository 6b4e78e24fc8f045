//! [`Metrics`]: Prometheus' text format, for the textfile collector of its node exporter.
//!
//! Counters of what was profiled, by collective, size, algorithm, protocol, rank and ranks; what was lost; and what
//! the plan expects beside what was measured of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_runtime::{Bucket, Collective, Communicator, Source, Table};
use motet_units::Bytes;

use crate::profiler::Finished;

/// Series beyond these are counted together as lost: a job with a thousand communicators must not fill a disk.
const MOST: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    rank: u32,
    ranks: u32,
    collective: Collective,
    bucket: Bucket,
    /// Named `-` where NCCL did not say.
    algorithm: &'static str,
    protocol: &'static str,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    timed: u64,
    ns: u64,
    bytes: u64,
}

/// A figure in the file: its name, its help text, and how it is computed.
type Figure<T, R> = (&'static str, &'static str, fn(&T) -> R);

#[derive(Debug, Default)]
pub(super) struct Metrics {
    series: BTreeMap<Series, Sums>,
    left_out: u64,
}

/// What the plan says of one task, and what was measured of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) collective: Collective,
    pub(super) ranks: u32,
    pub(super) bucket: Bucket,
    pub(super) expected_ps: u64,
    pub(super) measured_ps: u64,
}

impl Metrics {
    pub(super) fn add(&mut self, about: &Communicator, it: &Finished) {
        let series = Series {
            rank: about.rank,
            ranks: about.ranks,
            collective: it.enqueued.collective,
            bucket: Bucket::of(Bytes::new(it.enqueued.bytes)),
            algorithm: it.enqueued.algorithm.map_or("-", |it| it.name()),
            protocol: it.enqueued.protocol.map_or("-", |it| it.name()),
        };
        if self.series.len() >= MOST && !self.series.contains_key(&series) {
            self.left_out += 1;
            return;
        }
        let sums = self.series.entry(series).or_default();
        sums.calls += 1;
        if it.source != Source::Unknown {
            sums.timed += 1;
            sums.ns = sums.ns.saturating_add(it.duration_ns);
            sums.bytes = sums.bytes.saturating_add(it.enqueued.bytes);
        }
    }

    /// The file's text.
    pub(super) fn text(&self, lost: u64, planned: &[Planned]) -> String {
        let mut text = String::new();
        let figures: [Figure<Sums, String>; 4] = [
            ("calls_total", "Collectives that were profiled", |it| it.calls.to_string()),
            ("timed_total", "Collectives whose kernel was timed", |it| it.timed.to_string()),
            ("seconds_total", "Time of those kernels", |it| seconds(it.ns.saturating_mul(1000))),
            ("bytes_total", "Size of those collectives, as nccl-tests counts it", |it| {
                it.bytes.to_string()
            }),
        ];
        for (name, help, figure) in figures {
            head(&mut text, name, help, "counter");
            for (series, sums) in &self.series {
                let labels = labels(series);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "motet_nccl_{name}{{{labels}}} {}", figure(sums));
            }
        }
        head(&mut text, "lost_total", "Collectives of which nothing is known", "counter");
        let _ = writeln!(text, "motet_nccl_lost_total {}", lost + self.left_out);
        for (name, help, figure) in [
            ("plan_expected_seconds", "What the plan says", |it: &Planned| it.expected_ps),
            ("plan_measured_seconds", "Median of the last calls", |it: &Planned| it.measured_ps),
        ] as [Figure<Planned, u64>; 2]
        {
            head(&mut text, name, help, "gauge");
            for it in planned {
                let size = 1u64 << it.bucket.log2();
                let (collective, ranks) = (it.collective, it.ranks);
                let labels =
                    format!("collective=\"{collective}\",ranks=\"{ranks}\",size=\"{size}\"");
                let _ = writeln!(text, "motet_nccl_{name}{{{labels}}} {}", seconds(figure(it)));
            }
        }
        text
    }
}

/// The time that a table expects for an entry, beside the measured one.
pub(super) fn planned(table: &Table, entry: u32, measured_ps: u64) -> Option<Planned> {
    let entry = table.entries().get(entry as usize)?;
    Some(Planned {
        collective: entry.key.collective,
        ranks: entry.key.ranks,
        bucket: entry.key.bucket,
        expected_ps: entry.candidates.first()?.expected.as_ps(),
        measured_ps,
    })
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP motet_nccl_{name} {help}\n# TYPE motet_nccl_{name} {kind}");
}

/// The labels of a series. The size is the lower end of its bucket.
fn labels(it: &Series) -> String {
    let Series { rank, ranks, collective, bucket, algorithm, protocol } = it;
    let size = 1u64 << bucket.log2();
    format!(
        "algorithm=\"{algorithm}\",collective=\"{collective}\",protocol=\"{protocol}\",rank=\"{rank}\",\
         ranks=\"{ranks}\",size=\"{size}\""
    )
}

/// Picoseconds as seconds, exactly: nothing is rounded in a file.
fn seconds(ps: u64) -> String {
    format!("{}.{:012}", ps / 1_000_000_000_000, ps % 1_000_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picoseconds_are_seconds_with_twelve_places() {
        assert_eq!(seconds(0), "0.000000000000");
        assert_eq!(seconds(1_234_567_890_123), "1.234567890123");
    }
}
