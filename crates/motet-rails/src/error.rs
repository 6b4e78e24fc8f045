//! [`RailsError`]: why a step cannot be run on rails.

use motet_synth::SynthError;
use motet_workload::Refusals;
use motet_workload::build::Stuck;
use motet_workload::simulate::Halted;

use crate::alone::AloneError;

#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RailsError {
    /// The job does not go with these rails; each reason comes with the nearest choice that does.
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
