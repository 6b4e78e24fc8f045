//! [`calibrate`]: the terms that explain samples best, and how far to trust them.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_nccl::mscclpp::terms::TERMS;
use motet_nccl::mscclpp::{Fitted, Judged, PlanTerms, Sample, fit, judge, weights};
use motet_units::Bytes;

use super::entry::Entry;
use super::samples::{CalibrateError, Samples};

/// A pick is good if it takes at most so much longer than the best.
const GOOD_PICK: f64 = 1.1;

/// Terms, and how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub samples: usize,
    pub plans: usize,
    pub fitted: Fitted,
    /// How much each term matters for all samples ([`weights`]).
    pub weights: [f64; TERMS],
    /// How good the terms were that the fit began with, on all samples.
    pub before: Judged,
    /// Errors of the fitted terms by collective and pattern, over all samples.
    pub groups: Vec<Group>,
    /// How many cases have several plans, and in how many of these the model picks a good one ([`picks`]).
    pub picks: u64,
    pub picks_good: u64,
}

/// Samples of one collective and pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Such as "allreduce direct-twice".
    pub name: String,
    pub samples: usize,
    /// The median of (predicted ÷ measured − 1): above zero, the model predicts too much.
    pub bias: f64,
    /// The median of its absolute value.
    pub error: f64,
}

/// Fits the terms, beginning at `start`, and judges them.
///
/// # Errors
/// If there are too few samples.
pub fn calibrate(samples: &Samples, start: &PlanTerms) -> Result<Calibration, CalibrateError> {
    let list = samples.list();
    let plain: Vec<Sample<'_>> = list.iter().map(|it| it.1.clone()).collect();
    // Half of them is held back, and each term must be seen at least once.
    if plain.len() < 2 * TERMS {
        return Err(CalibrateError::TooFew { found: plain.len(), terms: TERMS });
    }
    let before = judge(&plain, start);
    let fitted = fit(&plain, start);
    let (picks, picks_good) = picks(samples, &fitted.terms);
    let groups = groups(&list, &fitted.terms);
    let weights = weights(&plain, &fitted.terms);
    let (samples, plans) = (plain.len(), samples.plans());
    Ok(Calibration { samples, plans, fitted, weights, before, groups, picks, picks_good })
}

fn groups(list: &[(&str, Sample<'_>)], terms: &PlanTerms) -> Vec<Group> {
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, sample) in list {
        let Some(said) = sample.plan.micros(sample.size, terms) else { continue };
        let kind = sample.plan.outline.collective.kind();
        let pattern = Entry::of_name(name).map_or("other", |it| it.shape.pattern.name());
        errors.entry(format!("{kind} {pattern}")).or_default().push(said / sample.micros - 1.0);
    }
    let group = |(name, errors): (String, Vec<f64>)| Group {
        name,
        samples: errors.len(),
        bias: median(errors.iter().copied()),
        error: median(errors.iter().map(|it| it.abs())),
    };
    errors.into_iter().map(group).collect()
}

/// The median of some values (of an even number, the upper of the middle two); 0 of none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

type Case = (CollectiveKind, u32, Bytes, Option<bool>);

/// How many cases (collective, ranks, size and form) have several plans, and in how many of these the plan
/// that the terms predict to be fastest takes at most a tenth more than the one that was fastest.
#[must_use]
pub fn picks(samples: &Samples, terms: &PlanTerms) -> (u64, u64) {
    // Of each case: plans, the least time said and what that plan took, and the least time taken.
    let mut cases: BTreeMap<Case, (u64, f64, f64, f64)> = BTreeMap::new();
    for (name, sample) in samples.list() {
        let Some(said) = sample.plan.micros(sample.size, terms) else { continue };
        let collective = &sample.plan.outline.collective;
        let form = Entry::of_name(name).map(|it| it.in_place);
        let key = (collective.kind(), collective.ranks(), sample.size, form);
        let none = (0, f64::INFINITY, f64::INFINITY, f64::INFINITY);
        let case = cases.entry(key).or_insert(none);
        case.0 += 1;
        if said < case.1 {
            (case.1, case.2) = (said, sample.micros);
        }
        case.3 = case.3.min(sample.micros);
    }
    let several = cases.values().filter(|it| it.0 > 1);
    let good = several.clone().filter(|it| it.2 <= it.3 * GOOD_PICK);
    (several.count() as u64, good.count() as u64)
}
