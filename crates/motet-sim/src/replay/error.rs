//! Why a program cannot be compiled, or not run in a state.

use motet_collective::TransferId;
use motet_units::LinkId;

use crate::model::Discipline;

/// Why a program cannot be replayed at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    #[error(
        "replay keeps the program's order on every link and cannot do {0:?}; use the event engine"
    )]
    Discipline(Discipline),
    #[error(
        "switches copy or reduce for transfer {} and others, which replay cannot do; use the \
         event engine",
        transfer.0
    )]
    InNetwork { transfer: TransferId },
    #[error(
        "link {link} has turns of its own, and replay keeps the program's order on every link; use \
         the event engine"
    )]
    Turns { link: LinkId },
    #[error("transfer {} carries more bytes than 64 bits count; use a smaller size", transfer.0)]
    TooManyBytes { transfer: TransferId },
    #[error(
        "transfer {} stays at its rank, where the local bandwidth is zero; give it some or none",
        transfer.0
    )]
    NoLocalBandwidth { transfer: TransferId },
}

/// Why a program does not end in a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error("the state is of a network with {given} links and the program's has {expected}")]
    WrongNetwork { expected: usize, given: usize },
    #[error(
        "transfer {} would never end: link {link} is down or has no bandwidth in this state",
        transfer.0
    )]
    NoBandwidth { transfer: TransferId, link: LinkId },
    #[error("the program takes longer than time reaches here, 2⁶⁴ picoseconds or 213 days")]
    TooLong,
}
