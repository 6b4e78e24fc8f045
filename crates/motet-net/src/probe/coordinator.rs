//! The coordinator: greets the agents of all hosts, then has the chosen pairs measured, round by
//! round. A host or pair that fails costs its timeout and is reported; the rest goes on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration as Wall;

use motet_units::{Bandwidth, Duration};

use super::Clock;
use super::connection::{Connection, ProbeError, after};
use super::frame::{Frame, ProbePlan};
use super::hosts::Host;
use super::rounds::rounds;
use super::sample::Pair;
use super::session::Measurement;

/// How to probe.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What each probe measures.
    pub plan: ProbePlan,
    /// What the agents must be told.
    pub token: String,
    /// For each step of a conversation.
    pub timeout: Wall,
    /// Probes at once, at most.
    pub parallel: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            plan: ProbePlan::default(),
            token: String::new(),
            timeout: Wall::from_secs(5),
            parallel: 32,
        }
    }
}

/// What came of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Which hosts it was between.
    pub pair: Pair,
    /// From the pair's first host to its second.
    pub outcome: Result<Measurement, ProbeError>,
}

/// Whether the agent of each host answers; the error says why not.
#[must_use]
pub fn greet(
    hosts: &[Host],
    options: &RunOptions,
    clock: &dyn Clock,
) -> Vec<Result<(), ProbeError>> {
    at_once(hosts, options.parallel, |host| {
        // Connecting, greeting, and names with several addresses.
        let patience = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
        let deadline = after(clock.now(), patience.saturating_mul(8));
        let opened =
            Connection::open(&host.address, &options.token, clock, options.timeout, deadline);
        opened.map(drop)
    })
}

/// Has all pairs measured. `done` is told how many are, each time one is.
#[must_use]
pub fn run(
    hosts: &[Host],
    pairs: &[Pair],
    options: &RunOptions,
    clock: &dyn Clock,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Probed> {
    let count = AtomicUsize::new(0);
    let mut probed = Vec::with_capacity(pairs.len());
    for round in rounds(hosts, pairs, options.parallel) {
        let outcomes = at_once(&round, round.len(), |pair| {
            let outcome = ask(&hosts[pair.a], &hosts[pair.b], options, clock);
            done(count.fetch_add(1, Ordering::AcqRel) + 1);
            outcome
        });
        let both = round.into_iter().zip(outcomes);
        probed.extend(both.map(|(pair, outcome)| Probed { pair, outcome }));
    }
    probed.sort_by_key(|it| it.pair);
    probed
}

/// Asks the agent of `from` to measure the way to `to`.
fn ask(
    from: &Host,
    to: &Host,
    options: &RunOptions,
    clock: &dyn Clock,
) -> Result<Measurement, ProbeError> {
    let timeout_ms = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
    let patience = options.plan.deadline_ms.saturating_add(timeout_ms.saturating_mul(2));
    let deadline = after(clock.now(), patience.saturating_add(timeout_ms));
    let mut connection =
        Connection::open(&from.address, &options.token, clock, options.timeout, deadline)?;
    connection.be_patient(Wall::from_millis(patience))?;
    match connection.ask(&Frame::Probe { target: to.address.clone(), plan: options.plan })? {
        Frame::Result { round_trip_ps, there, back } if there > 0 && back > 0 => Ok(Measurement {
            round_trip: Duration::from_ps(round_trip_ps),
            there: Bandwidth::from_bits_per_s(there),
            back: Bandwidth::from_bits_per_s(back),
        }),
        Frame::Failed { why } => Err(ProbeError::Refused(why)),
        _ => Err(ProbeError::Unexpected),
    }
}

/// `work` on each item in up to `threads` threads; results in the items' order.
fn at_once<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, ProbeError> + Sync,
) -> Vec<Result<R, ProbeError>> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Result<R, ProbeError>>> = items.iter().map(|_| None).collect();
    let take = || {
        let mut mine = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::AcqRel);
            let Some(item) = items.get(index) else { return mine };
            mine.push((index, work(item)));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads.clamp(1, items.len().max(1))).map(|_| scope.spawn(take)).collect();
        for (index, result) in threads.into_iter().filter_map(|it| it.join().ok()).flatten() {
            results[index] = Some(result);
        }
    });
    let lost = || Err(ProbeError::Broken("a thread ended early".to_owned()));
    results.into_iter().map(|it| it.unwrap_or_else(lost)).collect()
}
