//! [`Anomaly`]: what the trigger agent reports of recent calls (s_anomaly of Fig. 14).
//!
//! The trigger itself is still to come; these are its outputs as the policy sees them. Like everything in the
//! state they are what all ranks have agreed on, not one rank's own.

use super::encoding::Row;

/// See the [module](self). All from 0 (nothing unusual) upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Anomaly {
    /// The CUSUM statistic of completion times, in standard deviations.
    pub cusum: f64,
    /// The error with which a model of normal calls reproduces recent ones, relative to its usual error.
    pub reconstruction: f64,
    /// How congested the network is, as the time of recent calls above what they should take: 1 is twice as long.
    pub congestion: f64,
}

impl Anomaly {
    pub(super) fn encode(&self, row: &mut Row) {
        row.squashed("anomaly.cusum", self.cusum);
        row.squashed("anomaly.reconstruction", self.reconstruction);
        row.squashed("anomaly.congestion", self.congestion);
    }
}
