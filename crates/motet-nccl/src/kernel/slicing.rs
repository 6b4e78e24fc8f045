//! [`Slicing`]: how chunks are cut into iterations, and packed into places.
//!
//! With places of p bytes a program runs ⌈chunk ÷ p⌉ times, on p bytes of every chunk and on the
//! rest in the last run. A transfer of several chunks takes one place for each, or, where chunks are
//! small, one for as many as fit.

use motet_units::Bytes;

use super::error::PriceError;
use super::terms::Grain;

/// The executor numbers iterations with 16 bits.
const MOST_ITERATIONS: u64 = 65_535;
/// The most chunks that the executor puts into one place.
const MOST_CHUNKS: u64 = 71;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slicing {
    pub(super) iterations: u32,
    /// Bytes of a chunk in every iteration but the last.
    pub(super) full: u64,
    pub(super) last: u64,
    /// Chunks in one place.
    per_place: u64,
}

impl Slicing {
    pub(super) fn new(chunk: Bytes, grain: Option<&Grain>) -> Result<Self, PriceError> {
        let Some(grain) = grain else {
            let (full, last) = (chunk.get(), chunk.get());
            return Ok(Self { iterations: 1, full, last, per_place: MOST_CHUNKS });
        };
        let place = grain.place.get().max(1);
        let iterations = chunk.get().div_ceil(place).max(1);
        if iterations > MOST_ITERATIONS {
            let (place, most) = (grain.place, MOST_ITERATIONS);
            return Err(PriceError::Iterations { chunk, place, iterations, most });
        }
        Ok(Self {
            iterations: iterations as u32,
            full: place,
            last: chunk.get() - (iterations - 1) * place,
            per_place: place.checked_div(chunk.get()).unwrap_or(MOST_CHUNKS).clamp(1, MOST_CHUNKS),
        })
    }

    /// The places that `count` chunks take in one iteration.
    pub(super) const fn places(&self, count: u32) -> u64 {
        (count as u64).div_ceil(self.per_place)
    }
}
