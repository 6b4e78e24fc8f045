//! [`Observer`]: told of every step of a run, for traces, utilization over time, and tests.
//!
//! Calls come in the order of events, by time. A run without an observer ([`Silent`]) creates no
//! extra events and pays nothing; the times are the same either way.

use motet_collective::TransferId;
use motet_units::{Bandwidth, Bytes, Instant, LinkId};

/// One transmission of data over one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing<'a> {
    pub link: LinkId,
    /// The transfers whose data it is; several where a switch multicasts or reduces.
    pub transfers: &'a [TransferId],
    /// The hop number in the route of the first of them, from 0.
    pub hop: u32,
    pub bytes: Bytes,
}

/// Receives the steps of a run. Every method does nothing unless overridden.
pub trait Observer {
    /// Whether the engine should report at all. Leave it true.
    const ACTIVE: bool = true;

    /// A link starts to transmit a transfer.
    fn started(&mut self, at: Instant, crossing: Crossing<'_>) {
        let _ = (at, crossing);
    }

    /// Fair sharing only: the rate of a transfer on a link changes to this, rounded down to bit/s.
    fn rate(&mut self, at: Instant, crossing: Crossing<'_>, rate: Bandwidth) {
        let _ = (at, crossing, rate);
    }

    /// A link has spent the transmission time of a transfer, and is free for the next one. The tail
    /// may still be to come if a link upstream is slower; under fair sharing it leaves now.
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

    /// The bandwidth of a link changes to this; zero if the link is down.
    fn changed(&mut self, at: Instant, link: LinkId, bandwidth: Bandwidth) {
        let _ = (at, link, bandwidth);
    }
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    const ACTIVE: bool = false;
}
