//! [`Slicing`]: how chunks are cut for instances and iterations, and packed into places.
//!
//! Each of n instances has ⌈chunk ÷ n⌉ bytes of every chunk, its *piece*. With places of p bytes
//! the program runs ⌈piece ÷ p⌉ times, on p bytes of every piece and on the rest in the last run.
//! A transfer of several chunks takes one place for each, or, where pieces are small, one for as
//! many as fit.

use motet_units::Bytes;

use super::KnobError;
use crate::Terms;

/// The executor numbers iterations with 16 bits.
const MOST_ITERATIONS: u64 = 65_535;
/// The most chunks that the executor puts into one place.
const MOST_CHUNKS: u64 = 71;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slicing {
    pub(super) chunk: Bytes,
    pub(super) instances: u32,
    pub(super) iterations: u32,
    /// Bytes of a piece in every iteration but the last.
    pub(super) full: u64,
    pub(super) last: u64,
    /// Chunks in one place.
    pub(super) per_place: u64,
}

impl Slicing {
    pub(super) fn new(chunk: Bytes, instances: u32, terms: &Terms) -> Result<Self, KnobError> {
        let piece = chunk.get().div_ceil(u64::from(instances));
        let place = terms.place.get();
        let iterations = piece.div_ceil(place).max(1);
        if iterations > MOST_ITERATIONS {
            let (place, most) = (terms.place, MOST_ITERATIONS);
            return Err(KnobError::Iterations { chunk, place, iterations, most });
        }
        Ok(Self {
            chunk,
            instances,
            iterations: iterations as u32,
            full: place,
            last: piece - (iterations - 1) * place,
            per_place: place.checked_div(piece).unwrap_or(MOST_CHUNKS).clamp(1, MOST_CHUNKS),
        })
    }

    /// The places that `count` chunks take in one iteration.
    pub(super) const fn places(&self, count: u32) -> u64 {
        (count as u64).div_ceil(self.per_place)
    }
}
