//! [`Pace`]: how fast a connection delivers, and how much it still has to.
//!
//! What a socket has swallowed says nothing about the way behind it: at the beginning the system takes
//! whatever its buffers hold. So the pace counts what the other side has acknowledged, which Linux tells
//! (`SIOCOUTQ`), and only while there was something to deliver. Elsewhere what was written has to do.

#![allow(unsafe_code, reason = "one system call that no crate offers in a safe form")]

use mio::net::TcpStream;
use motet_units::{Duration, Instant};

/// Times shorter than this say more about single packets than about the way.
const SHORTEST: Duration = Duration::from_ms(10);
/// Nothing is slower, so that no rate is 0.
const SLOWEST: f64 = 1e3;

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes written to the socket, ever.
    written: u64,
    /// Of those, what the other side has not acknowledged.
    backlog: u64,
    /// When the time began that is being measured, and what was acknowledged then.
    since: Option<(Instant, u64)>,
    rate: Option<f64>,
}

impl Pace {
    /// Bytes were written to the socket.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.backlog += bytes as u64;
    }

    /// Bytes that the socket has and the other side does not, as far as is known.
    pub(crate) fn backlog(&self) -> f64 {
        self.backlog as f64
    }

    /// Bytes per second while there was something to deliver; `None` before anything was measured.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Looks at what has been acknowledged. Only while the socket is full is that the way's own speed.
    pub(crate) fn look(&mut self, socket: &TcpStream, full: bool, now: Instant) {
        if self.backlog == 0 {
            return;
        }
        let backlog = unacknowledged(socket).unwrap_or(0).min(self.written);
        self.note(backlog, full, now);
    }

    fn note(&mut self, backlog: u64, full: bool, now: Instant) {
        let (before, acknowledged) = (self.written - self.backlog, self.written - backlog);
        self.backlog = backlog;
        if backlog == 0 {
            // When exactly the last byte came is not known.
            self.since = None;
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
        let rate = (acknowledged - first) as f64 / (time.as_ps() as f64 * 1e-12);
        // While the socket has room, the way may be faster than what it is given.
        if full || self.rate.is_none_or(|it| rate > it) {
            let rate = self.rate.map_or(rate, |it| 0.5 * it + 0.5 * rate);
            self.rate = Some(rate.max(SLOWEST));
        }
        self.since = Some((now, acknowledged));
    }
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
    fn only_what_is_acknowledged_while_busy_counts() {
        let mut pace = Pace::default();
        pace.wrote(1_000_000);
        // Nothing comes back for 20 ms: the way is long, not slow.
        pace.note(1_000_000, true, at(20));
        assert_eq!(pace.rate(), None);
        pace.note(900_000, true, at(25));
        pace.note(850_000, true, at(30));
        assert_eq!(pace.rate(), None);
        pace.note(800_000, true, at(35));
        assert_eq!(pace.rate(), Some(1e7));
        assert_eq!(pace.backlog(), 800_000.0);
        // A pause at the end is no time in which anything was sent.
        pace.note(0, false, at(40));
        pace.wrote(100_000);
        pace.note(50_000, true, at(1000));
        pace.note(10_000, true, at(1010));
        assert_eq!(pace.rate(), Some(0.5 * 1e7 + 0.5 * 4e6));
        // One that stands still is slow.
        for ms in 2..20 {
            pace.note(10_000, true, at(1000 + 10 * ms));
        }
        assert_eq!(pace.rate(), Some(SLOWEST));
    }
}
