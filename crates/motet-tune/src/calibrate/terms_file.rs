//! The terms of MSCCL++'s cost model as a file: TOML, with every term by its name.
//!
//! ```toml
//! version = 1
//! [mscclpp]
//! launch = 1.64 # µs
//! …
//! [fit]
//! samples = 5342
//! ```
//!
//! `[fit]` says how good they are and may be left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_nccl::mscclpp::PlanTerms;
use motet_nccl::mscclpp::terms::TERMS;
use motet_net::formats::{ReadError, read_toml};
use serde::{Deserialize, Serialize};
use toml::Spanned;

const VERSION: u32 = 1;

/// Terms as they stand in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TermsFile {
    pub terms: PlanTerms,
    pub fit: Option<FitNotes>,
}

/// How good terms are, as the fit found it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitNotes {
    pub samples: u64,
    pub error: f64,
    pub held_back_error: f64,
    pub pairs: u64,
    pub pairs_right: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    mscclpp: Spanned<BTreeMap<Spanned<String>, Spanned<f64>>>,
    fit: Option<Spanned<FitNotes>>,
}

/// Reads terms.
///
/// # Errors
/// Where the file is not what [`write()`] would write: every term must be there, once, and be a number
/// above zero.
pub fn read(text: &str) -> Result<TermsFile, ReadError> {
    let file: File = read_toml(text)?;
    let version = *file.version.get_ref();
    if version != VERSION {
        let problem = format!("version {version} of terms is not known");
        return Err(ReadError::new(problem)
            .at(text, file.version.span().start)
            .with_remedy(format!("this Motet reads version {VERSION}")));
    }
    let names = PlanTerms::H200.list().map(|it| it.0);
    let mut values = [None; TERMS];
    for (name, value) in file.mscclpp.get_ref() {
        let Some(place) = names.iter().position(|it| it == name.get_ref()) else {
            let problem = format!("there is no term `{}`", name.get_ref());
            return Err(ReadError::new(problem)
                .at(text, name.span().start)
                .with_remedy(format!("the terms are {}", names.join(", "))));
        };
        let number = *value.get_ref();
        if !(number.is_finite() && number > 0.0) {
            let problem = format!("`{}` must be a number above zero", name.get_ref());
            return Err(ReadError::new(problem).at(text, value.span().start));
        }
        values[place] = Some(number);
    }
    let mut terms = [0.0; TERMS];
    for ((term, value), name) in terms.iter_mut().zip(values).zip(names) {
        let missing = || {
            ReadError::new(format!("the term `{name}` is missing"))
                .at(text, file.mscclpp.span().start)
                .with_remedy("`motet calibrate -o` writes all of them")
        };
        *term = value.ok_or_else(missing)?;
    }
    let fit = file.fit.map(|it| notes(text, &it)).transpose()?;
    Ok(TermsFile { terms: PlanTerms::from_values(&terms), fit })
}

fn notes(text: &str, notes: &Spanned<FitNotes>) -> Result<FitNotes, ReadError> {
    let it = *notes.get_ref();
    if [it.error, it.held_back_error, it.pairs_right].iter().all(|it| it.is_finite()) {
        return Ok(it);
    }
    Err(ReadError::new("`[fit]` must have finite numbers").at(text, notes.span().start))
}

/// Terms as text, which [`read()`] gives back as they are.
#[must_use]
pub fn write(file: &TermsFile) -> String {
    let mut out = String::from(
        "# Terms of the cost model of MSCCL++ plans (docs/mscclpp-model.md), by `motet calibrate`.\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "version = {VERSION}\n\n[mscclpp]");
    for (name, unit, value) in file.terms.list() {
        let _ = writeln!(out, "{name} = {value:?} # {unit}");
    }
    if let Some(it) = &file.fit {
        let _ = writeln!(
            out,
            "\n[fit]\nsamples = {}\nerror = {:?}\nheld_back_error = {:?}\npairs = {}\npairs_right = {:?}",
            it.samples, it.error, it.held_back_error, it.pairs, it.pairs_right
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: FitNotes =
        FitNotes { samples: 12, error: 0.1, held_back_error: 0.125, pairs: 3, pairs_right: 1.0 };

    #[test]
    fn what_is_written_comes_back() {
        for fit in [None, Some(NOTES)] {
            let file = TermsFile { terms: PlanTerms::H200, fit };
            assert_eq!(read(&write(&file)), Ok(file));
        }
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let text = write(&TermsFile { terms: PlanTerms::H200, fit: Some(NOTES) });
        let problem = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let error = read(&text.replacen(from, to, 1)).unwrap_err();
            (error.at.map(|it| it.line), error.problem)
        };
        assert_eq!(problem("sharer", "sharers").1, "there is no term `sharers`");
        assert_eq!(problem("sharer", "sharers").0, Some(6));
        assert_eq!(problem("post = ", "#").1, "the term `post` is missing");
        assert_eq!(problem("post = ", "post = -").1, "`post` must be a number above zero");
        assert_eq!(problem("version = 1", "version = 2").1, "version 2 of terms is not known");
        assert_eq!(problem("error = 0.1", "error = nan").1, "`[fit]` must have finite numbers");
        assert!(problem("samples", "sample").1.contains("unknown field `sample`"));
    }
}
