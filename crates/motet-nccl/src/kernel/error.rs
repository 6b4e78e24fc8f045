//! [`PriceError`]: why a program has no price.

use motet_units::{Bytes, Rank};

use crate::knobs::KnobError;

/// Why a program has no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    #[error(transparent)]
    Knobs(#[from] KnobError),
    #[error(
        "transfer {transfer} is in no lane: only a program that is laid out on thread blocks has a \
         price; write it for a runtime first (`motet export`)"
    )]
    NotLaidOut { transfer: u32 },
    #[error(
        "transfer {transfer} goes through a switch that copies or reduces, which is not priced yet; \
         without `--kernels` it is simulated on ideal links"
    )]
    InSwitch { transfer: u32 },
    #[error(
        "rank {rank} needs {blocks} thread blocks at once and its GPU has room for {most}; use \
         fewer instances"
    )]
    Blocks { rank: Rank, blocks: u32, most: u32 },
    #[error(
        "chunks of {chunk} in FIFO slots of {slot} need {iterations} iterations, and the executor \
         counts to {most}; use more channels, larger buffers or a smaller size"
    )]
    Iterations { chunk: Bytes, slot: Bytes, iterations: u64, most: u64 },
    #[error("link {link} has no bandwidth, so the program never ends")]
    NoBandwidth { link: String },
    #[error(
        "the program halts: rank {from} fills the {slots} FIFO slots of its connection to rank {to}, \
         which empties none before it gets something that waits for them; use a protocol with \
         more slots (LL, LL128) or a program that receives earlier"
    )]
    Halts { from: Rank, to: Rank, slots: u32 },
    #[error("the program takes longer than 2⁶⁴ ps (213 days); use a smaller size or faster links")]
    TooLong,
}
