//! [`Slicing`]: how chunks are cut into iterations, and packed into FIFO slots.
//!
//! A chunk that is larger than a FIFO slot of p bytes is sent in parts: the whole program runs
//! ⌈chunk ÷ p⌉ times, each time on p bytes of every chunk, the last time on the rest.
//! A transfer of several chunks takes one slot for each chunk, or, where chunks are small, one slot for as
//! many as fit.

use motet_units::Bytes;

use super::error::PriceError;
use super::terms::FifoShape;

/// The executor numbers iterations with 16 bits.
const MOST_ITERATIONS: u64 = 65_535;
/// The most chunks that the executor puts into one slot.
const MOST_CHUNKS: u64 = 71;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slicing {
    pub(super) iterations: u32,
    /// Bytes of a chunk in every iteration but the last.
    pub(super) full: u64,
    pub(super) last: u64,
    /// Chunks in one slot.
    per_slot: u64,
}

impl Slicing {
    pub(super) fn new(chunk: Bytes, fifo: Option<&FifoShape>) -> Result<Self, PriceError> {
        let Some(fifo) = fifo else {
            let (full, last) = (chunk.get(), chunk.get());
            return Ok(Self { iterations: 1, full, last, per_slot: MOST_CHUNKS });
        };
        let slot = fifo.slot.get().max(1);
        let iterations = chunk.get().div_ceil(slot).max(1);
        if iterations > MOST_ITERATIONS {
            let (slot, most) = (fifo.slot, MOST_ITERATIONS);
            return Err(PriceError::Iterations { chunk, slot, iterations, most });
        }
        Ok(Self {
            iterations: iterations as u32,
            full: slot,
            last: chunk.get() - (iterations - 1) * slot,
            per_slot: slot.checked_div(chunk.get()).unwrap_or(MOST_CHUNKS).clamp(1, MOST_CHUNKS),
        })
    }

    /// The slots that `count` chunks take in one iteration.
    pub(super) const fn slots(&self, count: u32) -> u64 {
        (count as u64).div_ceil(self.per_slot)
    }
}
