//! [`Observer`]: what wants to know of every step of a run: traces, utilization over time, tests.
//!
//! Calls come in the order of events (time first). A run without an observer ([`Silent`]) sets no
//! event for the sake of being observed and costs nothing; the times are the same either way.

use motet_collective::TransferId;
use motet_units::{Bandwidth, Bytes, Instant, LinkId};

/// A link carrying data once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing<'a> {
    pub link: LinkId,
    /// Whose data it is: several transfers' where a switch multicasts or reduces.
    pub transfers: &'a [TransferId],
    /// Which hop of the first of them, from 0.
    pub hop: u32,
    pub bytes: Bytes,
}

/// Is told what happens. Every method does nothing unless it is overridden.
pub trait Observer {
    /// Whether to tell it anything. Leave it true.
    const ACTIVE: bool = true;

    /// A link begins to carry a transfer.
    fn started(&mut self, at: Instant, crossing: Crossing<'_>) {
        let _ = (at, crossing);
    }

    /// Under fair sharing: the rate of a transfer on a link becomes this, rounded down to bit/s.
    fn rate(&mut self, at: Instant, crossing: Crossing<'_>, rate: Bandwidth) {
        let _ = (at, crossing, rate);
    }

    /// A transfer's bits have had the time on a link that they need there, and the link is free
    /// for the next one. Its tail may be still to come, if the link before is slower; under fair
    /// sharing it leaves now.
    fn streamed(&mut self, at: Instant, crossing: Crossing<'_>) {
        let _ = (at, crossing);
    }

    /// The tail of a transfer has left a link.
    fn finished(&mut self, at: Instant, crossing: Crossing<'_>) {
        let _ = (at, crossing);
    }

    /// A transfer has been sent: its source may be overwritten.
    fn sent(&mut self, at: Instant, transfer: TransferId) {
        let _ = (at, transfer);
    }

    /// A transfer has arrived: its destination may be read.
    fn arrived(&mut self, at: Instant, transfer: TransferId) {
        let _ = (at, transfer);
    }

    /// A link can carry this much from now on; zero when it is down.
    fn changed(&mut self, at: Instant, link: LinkId, bandwidth: Bandwidth) {
        let _ = (at, link, bandwidth);
    }
}

/// Wants to know nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    const ACTIVE: bool = false;
}
