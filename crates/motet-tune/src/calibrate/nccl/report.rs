//! [`calibrate`]: fits the terms to measured NCCL calls, and says how far off they and NCCL's own model are.

use std::collections::BTreeMap;
use std::fmt;

use motet_collective::CollectiveKind;
use motet_nccl::fitted::fit::is_held_back;
use motet_nccl::fitted::terms::TERMS;
use motet_nccl::fitted::{Fitted, fit, weights};
use motet_nccl::{Algorithm, NcclTerms, Protocol};
use motet_units::Bytes;

use super::super::CalibrateError;
use super::super::report::median;
use super::samples::{NcclSample, NcclSamples};

/// A pick is good if it takes at most so much longer than the best.
const GOOD_PICK: f64 = 1.1;

/// Terms, and how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclCalibration {
    pub samples: usize,
    pub fitted: Fitted,
    /// What the fit began with: NCCL's own constants in these terms.
    pub start: NcclTerms,
    /// How much each term matters for all samples.
    pub weights: [f64; TERMS],
    /// The median relative error of the times that NCCL's own model expects, on the half held back.
    pub believed: f64,
    /// Errors on the half held back.
    pub groups: Vec<NcclGroup>,
    /// How many cases (collective, ranks and size) were run in several ways.
    pub picks: u64,
    /// In how many of these the way that is fastest by the fitted terms takes at most a tenth more than the one that
    /// was fastest.
    pub picks_good: u64,
    /// The same for the way that is fastest by NCCL's own model.
    pub picks_believed: u64,
}

/// How large a call is: latency counts, both do, or bandwidth does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// Up to 32 KiB.
    Small,
    /// Up to 1 MiB.
    Medium,
    Large,
}

impl SizeClass {
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    #[must_use]
    pub const fn of(size: Bytes) -> Self {
        match size.get() {
            ..=0x8000 => Self::Small,
            0x8001..=0x10_0000 => Self::Medium,
            _ => Self::Large,
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "to 32 KiB",
            Self::Medium => "to 1 MiB",
            Self::Large => "above",
        }
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Calls of one collective, algorithm, protocol and size class that were held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NcclGroup {
    pub kind: CollectiveKind,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub class: SizeClass,
    pub samples: usize,
    /// The median relative error of NCCL's own model, if it allows these calls at all.
    pub believed: Option<f64>,
    /// The median relative error of the fitted terms.
    pub error: f64,
    /// The median of (predicted ÷ measured − 1): above zero, the terms predict too much.
    pub bias: f64,
}

/// Fits the terms.
///
/// # Errors
/// If there are too few samples for the terms that they depend on.
pub fn calibrate(samples: &NcclSamples) -> Result<NcclCalibration, CalibrateError> {
    let plain = samples.samples();
    let seen = weights(&plain, &samples.start).iter().filter(|it| **it != 0.0).count();
    // Half of them is held back.
    if plain.len() < 2 * seen.max(1) {
        return Err(CalibrateError::TooFew { found: plain.len(), terms: seen.max(1) });
    }
    let fitted = fit(&plain, &samples.start);
    let held_back: Vec<&NcclSample> =
        samples.list.iter().enumerate().filter(|it| is_held_back(it.0)).map(|it| it.1).collect();
    let (picks, picks_good) =
        picks(&samples.list, |it| Some(fitted.terms.micros(&it.sample.counts)));
    let (_, picks_believed) = self::picks(&samples.list, |it| it.believed);
    Ok(NcclCalibration {
        samples: plain.len(),
        start: samples.start,
        weights: weights(&plain, &fitted.terms),
        believed: median(held_back.iter().filter_map(|it| believed_error(it))),
        groups: groups(&held_back, &fitted.terms),
        fitted,
        picks,
        picks_good,
        picks_believed,
    })
}

fn believed_error(sample: &NcclSample) -> Option<f64> {
    Some((sample.believed? / sample.sample.micros - 1.0).abs())
}

fn groups(held_back: &[&NcclSample], terms: &NcclTerms) -> Vec<NcclGroup> {
    let mut all: BTreeMap<_, Vec<&NcclSample>> = BTreeMap::new();
    for it in held_back {
        let key = (it.kind, it.algorithm, it.protocol, SizeClass::of(it.size));
        all.entry(key).or_default().push(it);
    }
    let group = |((kind, algorithm, protocol, class), list): (_, Vec<&NcclSample>)| {
        let off = |it: &&NcclSample| terms.micros(&it.sample.counts) / it.sample.micros - 1.0;
        let allowed = list.iter().any(|it| it.believed.is_some());
        NcclGroup {
            kind,
            algorithm,
            protocol,
            class,
            samples: list.len(),
            believed: allowed.then(|| median(list.iter().filter_map(|it| believed_error(it)))),
            error: median(list.iter().map(|it| off(it).abs())),
            bias: median(list.iter().map(off)),
        }
    };
    all.into_iter().map(group).collect()
}

/// How many cases were run in several ways, and in how many of these the way with the least time by `said` is good.
fn picks(list: &[NcclSample], said: impl Fn(&NcclSample) -> Option<f64>) -> (u64, u64) {
    // Of each case: ways, the least time said and what that way took, and the least time taken.
    let mut cases: BTreeMap<_, (u64, f64, f64, f64)> = BTreeMap::new();
    for it in list {
        let none = (0, f64::INFINITY, f64::INFINITY, f64::INFINITY);
        let case = cases.entry((it.kind, it.ranks, it.size)).or_insert(none);
        case.0 += 1;
        case.3 = case.3.min(it.sample.micros);
        if let Some(said) = said(it).filter(|said| *said < case.1) {
            (case.1, case.2) = (said, it.sample.micros);
        }
    }
    let several = cases.values().filter(|it| it.0 > 1);
    let good = several.clone().filter(|it| it.2 <= it.3 * GOOD_PICK);
    (several.count() as u64, good.count() as u64)
}
