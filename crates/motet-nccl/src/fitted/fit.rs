//! [`fit`]: the terms that explain measured calls of NCCL best, found by [`descent`].
//!
//! Every second sample is held back: the terms are found from the others and judged by those held back. So
//! samples should be sorted such that neighbours are alike (by collective, algorithm, protocol, channels and then
//! size); then both halves have calls of every kind.

use super::counts::Counts;
use super::terms::{NcclTerms, TERMS};
use crate::descent::{self, Moves};

/// A measured call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub counts: Counts,
    /// The measured time, in µs.
    pub micros: f64,
}

/// Terms, and how good they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    pub terms: NcclTerms,
    /// The median relative error over the samples that the terms were found from.
    pub known: f64,
    /// The median relative error over the samples held back.
    pub held_back: f64,
}

/// The largest factor by which a term may move from its start. Without this limit a term that hardly matters
/// could run away while others are still off.
const FARTHEST: f64 = 30.0;
/// How often the descent is run, each time with large steps first.
const PASSES: u32 = 3;

/// Whether the sample at `place` is held back.
#[must_use]
pub const fn is_held_back(place: usize) -> bool {
    place % 2 == 1
}

/// Fits terms to samples, beginning at `start`. Terms that no sample depends on stay as they are there.
#[must_use]
pub fn fit(samples: &[Sample], start: &NcclTerms) -> Fitted {
    let half = |held_back: bool| -> Vec<Sample> {
        let all = samples.iter().enumerate().filter(|it| is_held_back(it.0) == held_back);
        all.map(|it| *it.1).collect()
    };
    let (known, held_back) = (half(false), half(true));
    let mut values = start.values();
    for _ in 0..PASSES {
        descent::descend(&mut values, Moves::Pairs, |values| {
            if is_far(values, start) { f64::INFINITY } else { score(&known, values) }
        });
    }
    let terms = NcclTerms::from_values(&values);
    Fitted { terms, known: error(&known, &terms), held_back: error(&held_back, &terms) }
}

/// How much each term matters: the share by which the error over all samples grows if that term alone is a fifth
/// larger or smaller, whichever grows it less. 0 if no sample depends on the term.
#[must_use]
pub fn weights(samples: &[Sample], terms: &NcclTerms) -> [f64; TERMS] {
    descent::weights(&terms.values(), |values| score(samples, values))
}

/// Whether values are not allowed: a term is more than a factor of [`FARTHEST`] from its start, or the proxy,
/// which is a share of a hop, is over 1.
fn is_far(values: &[f64; TERMS], start: &NcclTerms) -> bool {
    let far = |(value, start): (&f64, f64)| *value > start * FARTHEST || *value < start / FARTHEST;
    NcclTerms::from_values(values).proxy > 1.0 || values.iter().zip(start.values()).any(far)
}

fn score(samples: &[Sample], values: &[f64; TERMS]) -> f64 {
    let terms = NcclTerms::from_values(values);
    samples.iter().map(|it| libm::log(terms.micros(&it.counts) / it.micros).abs()).sum()
}

/// The median of relative errors.
fn error(samples: &[Sample], terms: &NcclTerms) -> f64 {
    descent::median(samples.iter().map(|it| (terms.micros(&it.counts) / it.micros - 1.0).abs()))
}
