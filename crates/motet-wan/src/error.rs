//! [`WanError`]: why a run over the WAN ended before its end.

use motet_collective::BoundError;
use motet_synth::SynthError;

/// Why a run stopped early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WanError {
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error(transparent)]
    Route(#[from] motet_sim::RouteError),
    /// The network is partitioned, and no later change will repair it.
    #[error("before collective {index} the network is cut and stays so: {problem}")]
    Cut { index: u32, problem: String, cut: Option<Box<BoundError>> },
    #[error("before collective {index}: {problem}")]
    Stuck { index: u32, problem: String },
    /// The run takes longer than the clock can count.
    #[error("before collective {index} the run has lasted longer than can be counted, 213 days")]
    TooLong { index: u32 },
    /// The testbed or whatever else runs the collectives has failed.
    #[error("collective {index}: {problem}")]
    Failed { index: u32, problem: String },
    /// The account does not add up: a bug in Motet.
    #[error("collective {index} of mode {mode}: {problem}; this is a fault in Motet")]
    Unsound { index: u32, mode: &'static str, problem: String },
}
