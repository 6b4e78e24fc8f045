//! [`fit`]: the terms that explain measured calls best.
//!
//! They are found by [`descent`]. Every second sample is held back: the terms are found from the
//! others, and judged by those held back.

use motet_units::Bytes;

use super::cost::PlanCost;
use super::terms::{PlanTerms, TERMS};
use crate::descent::{self, Moves};

/// A measured call.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    pub plan: &'a PlanCost,
    pub size: Bytes,
    /// The measured time, in µs.
    pub micros: f64,
}

/// Terms, and how good they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    pub terms: PlanTerms,
    /// The median relative error over the samples that the terms were found from.
    pub known: f64,
    /// The median relative error over the samples held back.
    pub held_back: f64,
    /// The share of pairs that the terms put in the right order, and how many pairs there are. A pair is two calls
    /// held back, of the same collective, ranks and size, whose measured times differ by more than a tenth.
    pub pairs_right: f64,
    pub pairs: u64,
}

/// How good given terms are for samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The median relative error.
    pub error: f64,
    /// Pairs as in [`Fitted`], but of all samples.
    pub pairs_right: f64,
    pub pairs: u64,
}

/// Judges terms by samples.
#[must_use]
pub fn judge(samples: &[Sample<'_>], terms: &PlanTerms) -> Judged {
    let samples: Vec<&Sample<'_>> = samples.iter().collect();
    judged(&samples, terms)
}

fn judged(samples: &[&Sample<'_>], terms: &PlanTerms) -> Judged {
    let (pairs, right) = pairs(samples, terms);
    let pairs_right = if pairs == 0 { 1.0 } else { right as f64 / pairs as f64 };
    Judged { error: median_error(samples, terms), pairs_right, pairs }
}

/// How much each term matters: the share by which the error over all samples grows if that term alone is a fifth
/// larger or smaller, whichever grows it less. 0 if no sample depends on the term; negative if another value would
/// be better.
#[must_use]
pub fn weights(samples: &[Sample<'_>], terms: &PlanTerms) -> [f64; TERMS] {
    let samples: Vec<&Sample<'_>> = samples.iter().collect();
    descent::weights(&terms.values(), |values| score(&samples, values))
}

/// Fits terms to samples, beginning at `start`. Terms that no sample depends on stay as they are there.
#[must_use]
pub fn fit(samples: &[Sample<'_>], start: &PlanTerms) -> Fitted {
    let known: Vec<&Sample<'_>> = samples.iter().step_by(2).collect();
    let held_back: Vec<&Sample<'_>> = samples.iter().skip(1).step_by(2).collect();
    let mut values = start.values();
    descent::descend(&mut values, Moves::Single, |values| score(&known, values));
    let terms = PlanTerms::from_values(&values);
    let Judged { error: held_back, pairs_right, pairs } = judged(&held_back, &terms);
    Fitted { terms, known: median_error(&known, &terms), held_back, pairs_right, pairs }
}

fn score(samples: &[&Sample<'_>], values: &[f64; TERMS]) -> f64 {
    let terms = PlanTerms::from_values(values);
    samples.iter().filter_map(|it| Some(error(it, &terms)?.abs())).sum()
}

/// ln(predicted time ÷ measured time).
fn error(sample: &Sample<'_>, terms: &PlanTerms) -> Option<f64> {
    let said = sample.plan.micros(sample.size, terms)?;
    Some(libm::log(said / sample.micros))
}

fn median_error(samples: &[&Sample<'_>], terms: &PlanTerms) -> f64 {
    let relative = |it: &&Sample<'_>| {
        let said = it.plan.micros(it.size, terms)?;
        Some((said / it.micros - 1.0).abs())
    };
    descent::median(samples.iter().filter_map(relative))
}

/// How many pairs differ by more than a tenth, and how many of them the terms put in the right order.
fn pairs(samples: &[&Sample<'_>], terms: &PlanTerms) -> (u64, u64) {
    let mut known = Vec::with_capacity(samples.len());
    for it in samples {
        let collective = &it.plan.outline.collective;
        let key = (collective.kind(), collective.ranks(), it.size);
        known.extend(it.plan.micros(it.size, terms).map(|said| (key, said, it.micros)));
    }
    known.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)));
    let (mut pairs, mut right) = (0, 0);
    for (at, (key, said, micros)) in known.iter().enumerate() {
        for (other, other_said, other_micros) in
            known[at + 1..].iter().take_while(|it| it.0 == *key)
        {
            debug_assert_eq!(other, key);
            if *other_micros > micros * 1.1 {
                pairs += 1;
                right += u64::from(other_said > said);
            }
        }
    }
    (pairs, right)
}
