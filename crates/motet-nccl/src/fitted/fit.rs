//! [`fit`]: the terms that explain measured calls of NCCL's best, found by [`descent`].
//!
//! Of the samples, every second one is held back, and the terms are judged by those alone. Samples should stand
//! in an order in which neighbours are alike (by collective, algorithm, protocol, channels and then size), so that both
//! halves have calls of every kind.

use super::counts::Counts;
use super::terms::{NcclTerms, TERMS};
use crate::descent::{self, Moves};

/// A measured call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub counts: Counts,
    /// As measured, in µs.
    pub micros: f64,
}

/// Terms, and how good they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    pub terms: NcclTerms,
    /// The median of the relative errors of the samples that the terms were found by,
    pub known: f64,
    /// and of those held back.
    pub held_back: f64,
}

/// Terms are not sought farther than this factor from where the fit begins: one that hardly matters must not run away while
/// others are still off.
const FARTHEST: f64 = 30.0;
/// So often the descent begins with large steps again.
const PASSES: u32 = 3;

/// Whether the sample of this place is held back.
#[must_use]
pub const fn is_held_back(place: usize) -> bool {
    place % 2 == 1
}

/// The terms for samples, from `start`. Terms that no sample depends on stay as they are.
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

/// How much each term matters: by which share the error of all samples grows at least if the term alone is a fifth
/// larger or smaller. 0 if none depends on it.
#[must_use]
pub fn weights(samples: &[Sample], terms: &NcclTerms) -> [f64; TERMS] {
    descent::weights(&terms.values(), |values| score(samples, values))
}

/// Whether a term is out of reach; and no proxy takes longer than the hop that it is a part of.
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
