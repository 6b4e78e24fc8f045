//! [`KnobError`]: why a program does not run under given knobs.

use motet_units::{Bytes, Rank};

use crate::TermsError;

/// Why a program does not run under given knobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    #[error(transparent)]
    Terms(#[from] TermsError),
    #[error("{channels} channels cannot be; use 1 to {most}")]
    Channels { channels: u32, most: u32 },
    #[error(
        "{channels} channels are not a multiple of the program's own {own}; use {own}, or {own} \
         times as many instances as you want"
    )]
    NotInstances { channels: u32, own: u32 },
    #[error(
        "rank {rank} would need {blocks} thread blocks at once and its GPU has room for {most}; \
         use fewer channels"
    )]
    Blocks { rank: Rank, blocks: u32, most: u32 },
    #[error(
        "chunks of {chunk} in places of {place} need {iterations} iterations, and the executor \
         counts to {most}; use more channels, larger buffers or a smaller size"
    )]
    Iterations { chunk: Bytes, place: Bytes, iterations: u64, most: u64 },
    #[error("link {link} has no bandwidth, so the program never ends")]
    NoBandwidth { link: String },
    #[error(
        "the program halts: rank {from} fills the {places} places of its connection to rank {to}, \
         which empties none before it gets something that waits for them; use a protocol with \
         more places (LL, LL128) or a program that receives earlier"
    )]
    Halts { from: Rank, to: Rank, places: u32 },
    #[error("the program takes longer than 2⁶⁴ ps (213 days); use a smaller size or faster links")]
    TooLong,
}
