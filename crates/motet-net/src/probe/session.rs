//! Measuring the way to another agent: round trips of small frames for the latency, then a stream
//! each way, over one connection or several at once, for the bandwidth.

use std::time::Duration as Wall;

use motet_units::{Bandwidth, Duration, Instant};

use super::Clock;
use super::connection::{Arrival, Connection, ProbeError, after};
use super::frame::{Frame, ProbePlan};

/// What was measured between two hosts, `there` from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The median.
    pub round_trip: Duration,
    /// From the first host to the second.
    pub there: Bandwidth,
    /// From the second host to the first.
    pub back: Bandwidth,
}

impl Measurement {
    /// One way, the ways being taken as alike.
    #[must_use]
    pub fn latency(&self) -> Duration {
        Duration::from_ps(self.round_trip.as_ps() / 2)
    }

    /// What both directions have at least.
    #[must_use]
    pub fn bandwidth(&self) -> Bandwidth {
        self.there.min(self.back)
    }
}

/// Measures the way to the agent at `target`.
pub fn measure(
    target: &str,
    plan: &ProbePlan,
    token: &str,
    clock: &dyn Clock,
    timeout: Wall,
) -> Result<Measurement, ProbeError> {
    plan.check().map_err(ProbeError::Refused)?;
    let deadline = after(clock.now(), plan.deadline_ms);
    let open = || Connection::open(target, token, clock, timeout, deadline);
    let mut first = open()?;
    let round_trip = round_trip(&mut first, plan)?;
    let mut connections = vec![first];
    for _ in 1..plan.streams {
        connections.push(open()?);
    }
    let each = plan.bytes / u64::from(plan.streams);
    let there = rate(&together(&mut connections, |it| send(it, each))?);
    let back = rate(&together(&mut connections, |it| fetch(it, each))?);
    Ok(Measurement { round_trip, there, back })
}

/// The median round trip after the warm-up.
fn round_trip(connection: &mut Connection<'_>, plan: &ProbePlan) -> Result<Duration, ProbeError> {
    let mut times = Vec::with_capacity(plan.pings as usize);
    for number in 0..plan.warm_up.saturating_add(plan.pings) {
        let sent = connection.now();
        let answer = connection.ask(&Frame::Ping { number })?;
        let came = connection.now();
        if answer != (Frame::Pong { number }) {
            return Err(unexpected(answer));
        }
        if number >= plan.warm_up {
            times.push(came.since(sent));
        }
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn unexpected(answer: Frame) -> ProbeError {
    match answer {
        Frame::Failed { why } => ProbeError::Refused(why),
        _ => ProbeError::Unexpected,
    }
}

/// Sends, and learns from the other side when it came.
fn send(connection: &mut Connection<'_>, bytes: u64) -> Result<Arrival, ProbeError> {
    connection.send(&Frame::Send { bytes })?;
    connection.send_data(bytes)?;
    match connection.receive()? {
        Frame::Took { bytes: took, first, last } if took <= bytes => Ok(Arrival {
            bytes: took,
            first: Instant::from_ps(first),
            last: Instant::from_ps(last),
        }),
        other => Err(unexpected(other)),
    }
}

fn fetch(connection: &mut Connection<'_>, bytes: u64) -> Result<Arrival, ProbeError> {
    connection.send(&Frame::Fetch { bytes })?;
    connection.receive_data(bytes)
}

/// The same on all connections at once.
fn together(
    connections: &mut [Connection<'_>],
    work: impl Fn(&mut Connection<'_>) -> Result<Arrival, ProbeError> + Sync,
) -> Result<Vec<Arrival>, ProbeError> {
    if let [only] = connections {
        return Ok(vec![work(only)?]);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = connections.iter_mut().map(|it| scope.spawn(|| work(it))).collect();
        let panicked = |_| Err(ProbeError::Broken("a thread ended early".to_owned()));
        threads.into_iter().map(|it| it.join().unwrap_or_else(panicked)).collect()
    })
}

/// All bytes from the first piece of any to the last piece of all, rounded down to four digits of
/// bytes: no measurement has more.
fn rate(arrivals: &[Arrival]) -> Bandwidth {
    let bytes: u64 = arrivals.iter().map(|it| it.bytes).fold(0, u64::saturating_add);
    let first = arrivals.iter().map(|it| it.first).min().unwrap_or_default();
    let last = arrivals.iter().map(|it| it.last).max().unwrap_or_default();
    // No stream is over in less than a nanosecond: a clock that says so is too coarse.
    let time = last.since(first).as_ps().max(1_000);
    let bits = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(time);
    let mut step = 8;
    while bits / step >= 10_000 {
        step *= 10;
    }
    let bits = (bits / step * step).max(8);
    Bandwidth::from_bits_per_s(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_at_once_are_one_rate() {
        let arrival = |bytes, first, last| Arrival {
            bytes,
            first: Instant::from_ps(first),
            last: Instant::from_ps(last),
        };
        let second = 1_000_000_000_000;
        let one = rate(&[arrival(1_000_000_000, 0, second)]);
        assert_eq!(one, Bandwidth::gb_per_s(1));
        let two =
            [arrival(1_000_000_000, 0, second / 2), arrival(1_000_000_000, second / 2, second)];
        assert_eq!(rate(&two), Bandwidth::gb_per_s(2));
        // A peer that lies about its clock gives a bound, not a fault.
        assert!(rate(&[arrival(u64::MAX, 5, 0)]) > Bandwidth::ZERO);
        assert_eq!(rate(&[]).bits_per_s(), 8);
        assert_eq!(rate(&[arrival(123_456_789, 0, second)]).to_string(), "123.4 MB/s");
    }
}
