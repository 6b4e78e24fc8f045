//! [`Setting`]: what does not change during a run, for either engine.

use motet_units::{Bytes, LinkId};

use super::error::{Names, SimError};
use super::observer::Crossing;
use super::prepared::Prepared;
use super::timeline::PS_PER_S;

/// What does not change during a run.
pub(super) struct Setting<'a> {
    pub(super) prepared: &'a Prepared<'a>,
    /// The bytes of a chunk. Multiplied by any transfer's count it stays below 2⁶⁴, as `run_with` has checked.
    pub(super) chunk: u64,
    /// Whether links are FIFO; otherwise they keep program order.
    pub(super) fifo: bool,
    /// The rate of copies within a rank; `None`: they take no time.
    pub(super) local_rate: Option<u64>,
}

impl<'a> Setting<'a> {
    /// How long `count` chunks take at a rate, rounded up; `u64::MAX` at rate zero.
    pub(super) fn time_at(&self, count: u32, rate: u64) -> u64 {
        let work = u128::from(count) * u128::from(self.chunk) * 8 * PS_PER_S;
        match (work, rate) {
            (0, _) => 0,
            (_, 0) => u64::MAX,
            _ => u64::try_from(work.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
        }
    }

    /// When a copy of `count` chunks within a rank ends that starts now.
    pub(super) fn local_end(&self, now: u64, count: u32) -> Result<u64, SimError> {
        let time = match self.local_rate {
            None => 0,
            Some(0) => return Err(SimError::NoLocalBandwidth),
            Some(rate) => self.time_at(count, rate),
        };
        let end = now.saturating_add(time);
        if end == u64::MAX { Err(SimError::LocalTooLong) } else { Ok(end) }
    }

    pub(super) fn names(&self) -> Names<'a> {
        let routed = self.prepared.routed;
        Names { program: routed.program(), network: routed.network() }
    }

    /// Calls `what` with the crossing of a leg; does nothing for a transfer within its rank, which crosses no
    /// link.
    pub(super) fn with_crossing(&self, id: u32, what: impl FnOnce(Crossing<'_>)) {
        let leg = &self.prepared.legs[id as usize];
        if (leg.link as usize) < self.prepared.routed.network().links().len() {
            let carries = self.prepared.carries(id);
            what(Crossing {
                link: LinkId(leg.link),
                transfers: carries.as_slice(),
                hop: leg.hop,
                bytes: Bytes::new(u64::from(leg.count).saturating_mul(self.chunk)),
            });
        }
    }
}
