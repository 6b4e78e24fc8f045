//! [`Outcome`]: what a run gives.

use motet_units::{Bytes, Duration, LinkId};

/// What one link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUse {
    /// How long it was taken: for each crossing as long as the bits need on this link alone; under
    /// fair sharing, how long it carried anything.
    pub busy: Duration,
    /// How much it carried. Saturates.
    pub bytes: Bytes,
    /// How often: one for each transfer, or for each group of transfers that shared it.
    pub crossings: u64,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the start to the last arrival, launch included.
    pub time: Duration,
    /// What one chunk had.
    pub chunk: Bytes,
    /// Whether chunks were rounded up, so that more than the size asked for was moved.
    pub rounded_up: bool,
    pub transfers: usize,
    /// Events taken from the queue; a run without an observer needs fewer.
    pub events: u64,
    /// By link.
    pub links: Vec<LinkUse>,
}

impl Outcome {
    /// Bytes per second of a size, in 10⁹ bytes (nccl-tests' algbw), zero if it took no
    /// time: for printing only.
    #[must_use]
    pub fn algbw_gb_per_s(&self, size: Bytes) -> f64 {
        if self.time.is_zero() {
            return 0.0;
        }
        // bytes ÷ ps is TB/s.
        size.get() as f64 / self.time.as_ps() as f64 * 1e3
    }

    /// The part of the time that a link was busy, 0 to 1: for printing only.
    #[must_use]
    pub fn utilization(&self, link: LinkId) -> f64 {
        if self.time.is_zero() {
            return 0.0;
        }
        self.links[link.index()].busy.as_ps() as f64 / self.time.as_ps() as f64
    }
}
