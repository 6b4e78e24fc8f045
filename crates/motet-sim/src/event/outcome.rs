//! [`Outcome`]: the result of a run.

use motet_units::{Bytes, Duration, LinkId};

/// Statistics of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUse {
    /// How long the link was occupied: the sum of transmission times; under fair sharing, the time
    /// during which it carried anything.
    pub busy: Duration,
    /// Bytes carried; saturates.
    pub bytes: Bytes,
    /// How many transmissions: one per transfer, or per group of transfers that shared it.
    pub crossings: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the start to the last arrival, including the launch.
    pub time: Duration,
    /// The size of one chunk.
    pub chunk: Bytes,
    /// Whether chunks were rounded up, so that more than the requested size was moved.
    pub rounded_up: bool,
    /// How many transfers the program has.
    pub transfers: usize,
    /// Events processed; a run without an observer needs fewer.
    pub events: u64,
    /// Statistics per link.
    pub links: Vec<LinkUse>,
}

impl Outcome {
    /// Algorithm bandwidth as in nccl-tests: `size` ÷ time, in GB/s (10⁹ bytes); zero if the run
    /// took no time. For printing only.
    #[must_use]
    pub fn algbw_gb_per_s(&self, size: Bytes) -> f64 {
        if self.time.is_zero() {
            return 0.0;
        }
        // bytes ÷ ps is TB/s.
        size.get() as f64 / self.time.as_ps() as f64 * 1e3
    }

    /// The share of the time that a link was busy, 0 to 1. For printing only.
    #[must_use]
    pub fn utilization(&self, link: LinkId) -> f64 {
        if self.time.is_zero() {
            return 0.0;
        }
        self.links[link.index()].busy.as_ps() as f64 / self.time.as_ps() as f64
    }
}
