//! [`Load`]: congestion, neighbours and faults at a moment, and how they change the cost terms by which calls are priced.
//!
//! Congestion acts on one tier at a time, and in two independent ways: it takes bandwidth (a neighbour's bulk
//! transfers), and it delays every hop in queues (bursts, incast). The first hurts algorithms that send much,
//! the second those with many hops, so the best action changes. Another job on the same GPUs takes
//! multiprocessors, which hurts calls with many channels. A fault takes a part of the NICs away, and the call
//! that meets it first waits for retransmissions.

use motet_nccl::NcclTerms;
use motet_nccl::fitted::Counts;

/// Which part of the network is congested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Where {
    /// Inside servers: tier 1, or PCIe.
    Inside,
    /// Between servers: the communicator's worst tier.
    #[default]
    Between,
}

/// The load on a communicator at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub at: Where,
    /// The share of the bandwidth that is left there, from 0 to 1.
    pub share: f64,
    /// The time of each hop there, as a multiple of its time without load; 1 for no delay.
    pub delay: f64,
    /// How much another job on the same GPU slows calls: a call of 32 channels takes 1 + `neighbour` times as
    /// long, calls of fewer channels are slowed in proportion less.
    pub neighbour: f64,
    /// A fault occurs in this call.
    pub fault: bool,
}

impl Load {
    /// No load.
    pub const NONE: Self =
        Self { at: Where::Between, share: 1.0, delay: 1.0, neighbour: 0.0, fault: false };

    /// The cost terms under this load.
    #[must_use]
    pub fn terms(&self, nominal: &NcclTerms) -> NcclTerms {
        let mut terms = *nominal;
        let share = self.share.max(1e-3);
        match self.at {
            Where::Inside => {
                terms.inside *= share;
                terms.hop_inside = terms.hop_inside.map(|it| it * self.delay);
            }
            Where::Between => {
                terms.between *= share;
                terms.hop_between = terms.hop_between.map(|it| it * self.delay);
            }
        }
        terms
    }

    /// The slowdown that is not expressed in the cost terms: that of a neighbour on the GPU and of a fault.
    ///
    /// A neighbour slows a call in proportion to its channels, because each channel's thread block needs a
    /// multiprocessor. A fault makes the call take [`FAULT`] times as long.
    #[must_use]
    pub fn factor(&self, channels: f64) -> f64 {
        let crowded = 1.0 + self.neighbour * channels / 32.0;
        if self.fault { crowded * FAULT } else { crowded }
    }

    /// The call's time as a multiple of its time without load.
    #[must_use]
    pub fn slowdown(&self, nominal: &NcclTerms, loaded: &NcclTerms, counts: &Counts) -> f64 {
        loaded.micros(counts) / nominal.micros(counts).max(1e-9) * self.factor(counts.channels)
    }
}

/// The factor by which a fault prolongs the call that it hits.
pub const FAULT: f64 = 10.0;
