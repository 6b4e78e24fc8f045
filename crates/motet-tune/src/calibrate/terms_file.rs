//! Fitted terms as a file: TOML, with every term by its name, of MSCCL++'s cost model, of NCCL's, or of both.
//!
//! ```toml
//! version = 1
//! [mscclpp]
//! launch = 1.64 # µs
//! …
//! [fit]
//! samples = 5342
//! …
//! [nccl]
//! call_ll = 12.4 # µs
//! …
//! [nccl_fit]
//! samples = 104
//! …
//! ```
//!
//! `[fit]` and `[nccl_fit]` say how good they are and may be left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_nccl::NcclTerms;
use motet_nccl::mscclpp::PlanTerms;
use motet_net::formats::{ReadError, read_toml};
use serde::{Deserialize, Serialize};
use toml::Spanned;

const VERSION: u32 = 1;

/// Terms of MSCCL++'s ports that files of earlier Motets lack; they are then taken from [`PlanTerms::H200`].
const LATER: [&str; 3] = ["proxy", "proxy_sharer", "post_rate"];

/// Terms as they stand in a file: at least one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TermsFile {
    /// Of MSCCL++'s executor.
    pub mscclpp: Option<PlanTerms>,
    pub fit: Option<FitNotes>,
    /// Of NCCL on a machine.
    pub nccl: Option<NcclTerms>,
    pub nccl_fit: Option<NcclNotes>,
}

/// How good the terms of MSCCL++ are, as the fit found it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitNotes {
    pub samples: u64,
    pub error: f64,
    pub held_back_error: f64,
    pub pairs: u64,
    pub pairs_right: f64,
}

/// How good the terms of NCCL are, compared with NCCL's own model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NcclNotes {
    pub samples: u64,
    pub error: f64,
    pub held_back_error: f64,
    pub believed_error: f64,
}

/// The terms of one table, each with its place in the file.
type Table = Spanned<BTreeMap<Spanned<String>, Spanned<f64>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    mscclpp: Option<Table>,
    fit: Option<Spanned<FitNotes>>,
    nccl: Option<Table>,
    nccl_fit: Option<Spanned<NcclNotes>>,
}

/// Reads terms.
///
/// # Errors
/// Where the file is not what [`write()`] would write: there must be a table of terms, and every term of it
/// once, as a number above zero.
pub fn read(text: &str) -> Result<TermsFile, ReadError> {
    let file: File = read_toml(text)?;
    let version = *file.version.get_ref();
    if version != VERSION {
        let problem = format!("version {version} of terms is not known");
        return Err(ReadError::new(problem)
            .at(text, file.version.span().start)
            .with_remedy(format!("this Motet reads version {VERSION}")));
    }
    let mscclpp = match &file.mscclpp {
        Some(it) => {
            let known = PlanTerms::H200.list();
            let later = known.map(|(name, _, value)| LATER.contains(&name).then_some(value));
            let names = known.map(|it| it.0);
            Some(PlanTerms::from_values(&values(text, it, names, later)?))
        }
        None => None,
    };
    let nccl = match &file.nccl {
        Some(it) => {
            let names = NcclTerms::names();
            let later = names.map(|_| None);
            Some(NcclTerms::from_values(&values(text, it, names, later)?))
        }
        None => None,
    };
    if mscclpp.is_none() && nccl.is_none() {
        return Err(ReadError::new("there is no table `[mscclpp]` or `[nccl]`")
            .with_remedy("`motet calibrate -o` writes terms"));
    }
    let fit = notes(text, file.fit, |it| [it.error, it.held_back_error, it.pairs_right])?;
    let of_nccl = |it: &NcclNotes| [it.error, it.held_back_error, it.believed_error];
    let nccl_fit = notes(text, file.nccl_fit, of_nccl)?;
    Ok(TermsFile { mscclpp, fit, nccl, nccl_fit })
}

/// The values of a table, in the order of `names`. Terms that have a value in `later` may be missing.
fn values<const N: usize>(
    text: &str,
    table: &Table,
    names: [&'static str; N],
    later: [Option<f64>; N],
) -> Result<[f64; N], ReadError> {
    let mut found = [None; N];
    for (name, value) in table.get_ref() {
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
        found[place] = Some(number);
    }
    let mut values = [0.0; N];
    let found = found.into_iter().zip(later).map(|(found, later)| found.or(later));
    for ((term, value), name) in values.iter_mut().zip(found).zip(names) {
        let missing = || {
            ReadError::new(format!("the term `{name}` is missing"))
                .at(text, table.span().start)
                .with_remedy("`motet calibrate -o` writes all of them")
        };
        *term = value.ok_or_else(missing)?;
    }
    Ok(values)
}

fn notes<T: Copy>(
    text: &str,
    notes: Option<Spanned<T>>,
    numbers: impl Fn(&T) -> [f64; 3],
) -> Result<Option<T>, ReadError> {
    let Some(notes) = notes else { return Ok(None) };
    let it = *notes.get_ref();
    if numbers(&it).iter().all(|it| it.is_finite()) {
        return Ok(Some(it));
    }
    Err(ReadError::new("what says how good terms are must have finite numbers")
        .at(text, notes.span().start))
}

/// Terms as text, which [`read()`] gives back as they are.
#[must_use]
pub fn write(file: &TermsFile) -> String {
    let of = match (&file.mscclpp, &file.nccl) {
        (Some(_), None) => "MSCCL++ plans (docs/mscclpp-model.md)",
        (None, _) => "NCCL (docs/nccl-model.md)",
        (Some(_), Some(_)) => {
            "MSCCL++ plans and of NCCL (docs/mscclpp-model.md, docs/nccl-model.md)"
        }
    };
    let mut out = format!("# Terms of the cost model of {of}, by `motet calibrate`.\n");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "version = {VERSION}");
    if let Some(terms) = &file.mscclpp {
        table(&mut out, "mscclpp", &terms.list());
    }
    if let Some(it) = &file.fit {
        let _ = writeln!(
            out,
            "\n[fit]\nsamples = {}\nerror = {:?}\nheld_back_error = {:?}\npairs = {}\npairs_right = {:?}",
            it.samples, it.error, it.held_back_error, it.pairs, it.pairs_right
        );
    }
    if let Some(terms) = &file.nccl {
        table(&mut out, "nccl", &terms.list());
    }
    if let Some(it) = &file.nccl_fit {
        let _ = writeln!(
            out,
            "\n[nccl_fit]\nsamples = {}\nerror = {:?}\nheld_back_error = {:?}\nbelieved_error = {:?}",
            it.samples, it.error, it.held_back_error, it.believed_error
        );
    }
    out
}

fn table(out: &mut String, name: &str, terms: &[(&'static str, &'static str, f64)]) {
    let _ = writeln!(out, "\n[{name}]");
    for (name, unit, value) in terms {
        let _ = writeln!(out, "{name} = {value:?} # {unit}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: FitNotes =
        FitNotes { samples: 12, error: 0.1, held_back_error: 0.125, pairs: 3, pairs_right: 1.0 };

    const NCCL_NOTES: NcclNotes =
        NcclNotes { samples: 12, error: 0.1, held_back_error: 0.125, believed_error: 0.5 };

    fn nccl() -> NcclTerms {
        NcclTerms::from_values(&std::array::from_fn(|it| 1.5 + it as f64))
    }

    fn both() -> TermsFile {
        TermsFile {
            mscclpp: Some(PlanTerms::H200),
            fit: Some(NOTES),
            nccl: Some(nccl()),
            nccl_fit: Some(NCCL_NOTES),
        }
    }

    #[test]
    fn what_is_written_comes_back() {
        let plain = TermsFile { fit: None, nccl_fit: None, ..both() };
        for file in
            [both(), plain, TermsFile { nccl: None, ..plain }, TermsFile { mscclpp: None, ..plain }]
        {
            assert_eq!(read(&write(&file)), Ok(file));
        }
    }

    /// Files of before there were terms of ports are read as they were meant.
    #[test]
    fn terms_of_ports_may_be_missing() {
        let text = write(&both());
        let (before, nccl) = text.split_once("[nccl]").unwrap();
        let is_later = |line: &str| LATER.iter().any(|it| line.starts_with(&format!("{it} = ")));
        let earlier: Vec<&str> = before.lines().filter(|it| !is_later(it)).collect();
        assert_eq!(earlier.len() + LATER.len(), before.lines().count());
        assert_eq!(read(&format!("{}\n[nccl]{nccl}", earlier.join("\n"))), Ok(both()));
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let text = write(&both());
        let problem = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let error = read(&text.replacen(from, to, 1)).unwrap_err();
            (error.at.map(|it| it.line), error.problem)
        };
        assert_eq!(problem("sharer", "sharers").1, "there is no term `sharers`");
        assert_eq!(problem("sharer", "sharers").0, Some(6));
        assert_eq!(problem("post = ", "#").1, "the term `post` is missing");
        assert_eq!(problem("proxy = 10.5", "#").1, "the term `proxy` is missing");
        assert_eq!(problem("between = ", "beyond = ").1, "there is no term `beyond`");
        assert_eq!(problem("post = ", "post = -").1, "`post` must be a number above zero");
        assert_eq!(problem("version = 1", "version = 2").1, "version 2 of terms is not known");
        let finite = "what says how good terms are must have finite numbers";
        assert_eq!(problem("error = 0.1", "error = nan").1, finite);
        assert_eq!(problem("believed_error = 0.5", "believed_error = inf").1, finite);
        assert!(problem("samples", "sample").1.contains("unknown field `sample`"));
        let error = read("version = 1\n").unwrap_err();
        assert_eq!(error.problem, "there is no table `[mscclpp]` or `[nccl]`");
    }
}
