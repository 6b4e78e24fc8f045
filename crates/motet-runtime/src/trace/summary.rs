//! [`summary()`]: how long the calls of some traces took, by collective, ranks, size, algorithm and protocol.

use std::collections::BTreeMap;

use motet_units::Duration;

use super::{Source, Trace};
use crate::key::{Algorithm, Bucket, Collective, Protocol};

/// Calls that were alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    pub collective: Collective,
    /// 0 where the library did not say.
    pub ranks: u32,
    pub bucket: Bucket,
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    /// How many calls there are in all traces that were given.
    pub calls: u64,
    /// How many of them were timed on all their channels.
    pub timed: u64,
    /// The median time of the calls that were timed; zero if none was.
    pub median: Duration,
    /// The 99th percentile of these times.
    pub high: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

type Alike = (Collective, u32, Bucket, Option<Algorithm>, Option<Protocol>);

/// The calls of all ranks' traces together, in the order of collective, ranks and size.
#[must_use]
pub fn summary(traces: &[Trace]) -> Vec<TraceRow> {
    let mut all: BTreeMap<Alike, (u64, Vec<u64>)> = BTreeMap::new();
    for trace in traces {
        for call in &trace.calls {
            // Reading has checked that it is there.
            let about = trace.communicators.get(call.communicator as usize);
            let ranks = about.map_or(0, |it| it.ranks);
            let bucket = Bucket::of(call.bytes);
            let alike = (call.collective, ranks, bucket, call.algorithm, call.protocol);
            let (calls, times) = all.entry(alike).or_default();
            *calls += 1;
            if call.source != Source::Unknown && call.finished >= call.channels {
                times.push(call.duration_ns);
            }
        }
    }
    all.into_iter().map(|(alike, (calls, times))| row(alike, calls, times)).collect()
}

fn row(alike: Alike, calls: u64, mut times: Vec<u64>) -> TraceRow {
    times.sort_unstable();
    let at = |percent: usize| {
        let ns = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        Duration::from_ps(ns.map_or(0, |it| it.saturating_mul(1000)))
    };
    let (collective, ranks, bucket, algorithm, protocol) = alike;
    TraceRow {
        collective,
        ranks,
        bucket,
        algorithm,
        protocol,
        calls,
        timed: times.len() as u64,
        median: at(50),
        high: at(99),
        longest: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Communicator, TracedCall};
    use super::*;
    use motet_units::Bytes;

    #[test]
    fn calls_that_are_alike_stand_together() {
        let call = |bytes, duration_ns, finished| TracedCall {
            communicator: 0,
            sequence: 0,
            collective: Collective::AllReduce,
            bytes: Bytes::new(bytes),
            algorithm: Some(Algorithm::Ring),
            protocol: None,
            channels: 2,
            finished,
            source: Source::Gpu,
            start_ns: 0,
            duration_ns,
        };
        let about = Communicator { id: 1, rank: 0, ranks: 8, nodes: 1, name: String::new() };
        let trace = |calls: Vec<TracedCall>| Trace {
            communicators: vec![about.clone()],
            calls,
            cut_at: None,
        };
        let one = trace((1..=100).map(|it| call(1024, it, 2)).collect());
        let two = trace(vec![call(1500, 5000, 2), call(1024, 9000, 1), call(4096, 7, 1)]);
        let rows = summary(&[one, two]);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].calls, rows[0].timed, rows[0].ranks),
            (102, 101, 8),
            "one lost a channel"
        );
        let ns = |it: Duration| it.as_ps() / 1000;
        assert_eq!((ns(rows[0].median), ns(rows[0].high), ns(rows[0].longest)), (51, 100, 5000));
        assert_eq!((rows[1].timed, rows[1].median), (0, Duration::ZERO));
        assert_eq!(summary(&[]), []);
    }
}
