//! [`Anomaly`]: how unusual recent calls were (s_anomaly of Fig. 14), as the policy sees it.
//!
//! [`trigger`](crate::trigger) computes these signals from completion times. Like the rest of the state they
//! must be what all ranks have agreed on, not one rank's own.

use super::encoding::Row;

/// The trigger's signals. Each is 0 if nothing is unusual, and has no upper limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Anomaly {
    /// The CUSUM statistic of completion times, in standard deviations.
    pub cusum: f64,
    /// The error with which a model of normal calls reproduces recent ones, relative to its usual error.
    pub reconstruction: f64,
    /// How congested the network is: the time of recent calls beyond the expected, as a share of it; 1 means twice as long.
    pub congestion: f64,
}

impl Anomaly {
    pub(super) fn encode(&self, row: &mut Row) {
        row.squashed("anomaly.cusum", self.cusum);
        row.squashed("anomaly.reconstruction", self.reconstruction);
        row.squashed("anomaly.congestion", self.congestion);
    }
}
