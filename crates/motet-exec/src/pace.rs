//! [`Pace`]: how fast a connection delivers data, and how much of what it was given it still has to deliver.
//!
//! How much a socket has taken says nothing about the network path behind it: at the beginning the system takes
//! whatever fits its socket buffer. So the pace counts bytes that the other side has acknowledged, which Linux tells
//! (`SIOCOUTQ`). While the socket buffer has room, their rate is that at which it was filled and not what the path can
//! carry, so only times in which it was full lower the rate. Other systems do not tell: there all that was written
//! counts as delivered, and no rate is known.

#![allow(unsafe_code, reason = "one system call that no crate offers in a safe form")]

use mio::net::TcpStream;
use motet_units::{Duration, Instant};

/// Times shorter than this say more about single packets than about the path.
const SHORTEST: Duration = Duration::from_ms(10);
/// The time constant by which the rate is averaged. Congestion control may pause for 200 ms (BBR does every 10 s, to measure the
/// round-trip time), which does not make a path slow; and acknowledgements come in bursts, which do not make it fast.
const MEMORY: Duration = Duration::from_ms(200);
/// The lowest rate, in bytes per second, so that none is 0.
const SLOWEST: f64 = 1e3;

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes written to the socket, ever.
    written: u64,
    /// Of those, the bytes that the other side has not acknowledged.
    backlog: u64,
    /// When the time over which the rate is measured began, and how much had been acknowledged by then.
    since: Option<(Instant, u64)>,
    /// When something was last written while nothing was unacknowledged, and how much had been written before.
    began: Option<(Instant, u64)>,
    /// Bytes per second, averaged over [`MEMORY`]; `None` before the socket buffer was ever full.
    rate: Option<f64>,
    /// The last burst: what was written since nothing was unacknowledged, until all of it was acknowledged, and how long that took.
    burst: Option<(u64, Duration)>,
}

impl Pace {
    /// Bytes were written to the socket.
    pub(crate) fn wrote(&mut self, bytes: usize, now: Instant) {
        if self.backlog == 0 && bytes > 0 {
            self.began = Some((now, self.written));
        }
        self.written += bytes as u64;
        self.backlog += bytes as u64;
    }

    /// Bytes that were written and that the other side has not acknowledged, as far as is known.
    pub(crate) fn backlog(&self) -> f64 {
        self.backlog as f64
    }

    /// Bytes that the other side has acknowledged, as far as is known.
    pub(crate) fn delivered(&self) -> u64 {
        self.written - self.backlog
    }

    /// Bytes per second while the socket was full, or more if more was delivered while it was not; `None` before it was ever full.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// See the field.
    pub(crate) fn burst(&self) -> Option<(u64, Duration)> {
        self.burst
    }

    /// Asks the system how much is unacknowledged. `full` says whether the socket buffer was full: only then is the rate the path's own.
    pub(crate) fn look(&mut self, socket: &TcpStream, full: bool, now: Instant) {
        if self.backlog == 0 {
            return;
        }
        let backlog = unacknowledged(socket).unwrap_or(0).min(self.written);
        self.note(backlog, full, now);
    }

    /// As [`look`](Self::look), with the bytes that are unacknowledged.
    pub(crate) fn note(&mut self, backlog: u64, full: bool, now: Instant) {
        let (before, acknowledged) = (self.written - self.backlog, self.written - backlog);
        self.backlog = backlog;
        if backlog == 0 {
            // When exactly the last byte came is not known.
            self.since = None;
            if let Some((began, first)) = self.began.take() {
                // The time includes the way to the other side and back, so the path is at least so fast.
                let (bytes, time) =
                    (acknowledged.saturating_sub(first), now.since(began).max(SHORTEST));
                let rate = per_second(bytes, time);
                self.burst = Some((bytes, time));
                self.rate = self.rate.map(|it| it.max(rate));
            }
            return;
        }
        let Some((since, first)) = self.since else {
            // The time begins with the first acknowledgement: before it nothing could come.
            if acknowledged > before {
                self.since = Some((now, acknowledged));
            }
            return;
        };
        let time = now.since(since);
        if time < SHORTEST {
            return;
        }
        let rate = per_second(acknowledged.saturating_sub(first), time).max(SLOWEST);
        self.rate = match self.rate {
            // While the socket buffer has room, the path may be faster than the data is written.
            it if !full && it.is_none_or(|it| rate <= it) => it,
            None => Some(rate),
            Some(it) => {
                let weight = time.as_ps() as f64 / (time.as_ps() + MEMORY.as_ps()) as f64;
                Some(it + weight * (rate - it))
            }
        };
        self.since = Some((now, acknowledged));
    }
}

fn per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / (time.as_ps() as f64 * 1e-12)
}

/// Bytes that a socket has and the other side has not acknowledged.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
fn unacknowledged(socket: &TcpStream) -> Option<u64> {
    /// `SIOCOUTQ`, on these processors.
    const OUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: the call writes one int, which is what the getter has room for.
    let getter = unsafe { rustix::ioctl::Getter::<OUTQ, i32>::new() };
    // SAFETY: as above; a descriptor that is no socket gives an error.
    let bytes = unsafe { rustix::ioctl::ioctl(socket, getter) }.ok()?;
    u64::try_from(bytes).ok()
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
fn unacknowledged(_: &TcpStream) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ps(ms * 1_000_000_000)
    }

    #[test]
    fn only_what_is_acknowledged_while_full_counts() {
        let mut pace = Pace::default();
        pace.wrote(1_000_000, at(0));
        // Nothing is acknowledged for 20 ms: the path is long, not slow.
        pace.note(1_000_000, true, at(20));
        assert_eq!(pace.rate(), None);
        pace.note(900_000, true, at(25));
        pace.note(850_000, true, at(30));
        assert_eq!(pace.rate(), None);
        pace.note(800_000, true, at(35));
        assert_eq!(pace.rate(), Some(1e7));
        assert_eq!((pace.backlog(), pace.delivered()), (800_000.0, 200_000));
        // With room in the socket it may be faster than what it is given, not slower.
        pace.note(799_000, false, at(45));
        assert_eq!(pace.rate(), Some(1e7));
        pace.note(499_000, false, at(55));
        let rate = pace.rate();
        assert!(rate.is_some_and(|it| it > 1.09e7 && it < 1.1e7), "{rate:?}");
        // A pause at the end is no time in which anything was sent.
        pace.note(0, false, at(100));
        pace.wrote(100_000, at(1000));
        assert_eq!(pace.rate(), rate);
    }

    #[test]
    fn nothing_is_said_of_one_that_was_never_full() {
        let mut pace = Pace::default();
        pace.wrote(100_000, at(0));
        pace.note(90_000, false, at(10));
        pace.note(80_000, false, at(30));
        pace.note(0, false, at(60));
        assert_eq!((pace.rate(), pace.burst()), (None, Some((100_000, Duration::from_ms(60)))));
    }

    #[test]
    fn one_that_stands_still_for_a_moment_is_not_slow_and_one_that_stays_so_is() {
        let mut pace = Pace::default();
        pace.wrote(10_000_000, at(0));
        pace.note(9_900_000, true, at(10));
        pace.note(9_800_000, true, at(20));
        assert_eq!(pace.rate(), Some(1e7));
        let mut still = |from: u64, until: u64| {
            (from / 10..until / 10).for_each(|it| pace.note(9_800_000, true, at(10 * it)));
            pace.rate().unwrap()
        };
        assert!(still(30, 230) > 1e7 / 3.0);
        assert!(still(230, 2020) < 1e6);
        // What comes soon after it was written shows that it has become faster.
        pace.note(0, true, at(2020));
        pace.wrote(400_000, at(3000));
        pace.note(0, false, at(3020));
        assert_eq!(pace.rate(), Some(2e7));
    }
}
