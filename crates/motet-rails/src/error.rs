//! [`RailsError`]: why a step cannot be run on rails.

use motet_synth::SynthError;
use motet_workload::Refusals;
use motet_workload::build::Stuck;
use motet_workload::simulate::Halted;

use crate::alone::AloneError;

/// Why a step cannot be run on rails.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RailsError {
    /// The job cannot run on these rails; each reason comes with the nearest choice that can.
    #[error(transparent)]
    Refused(#[from] Refusals),
    #[error(transparent)]
    Alone(#[from] AloneError),
    #[error(transparent)]
    Halted(#[from] Halted),
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error(transparent)]
    Stuck(#[from] Stuck),
}
