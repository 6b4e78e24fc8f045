//! Cost models held against measurements, and the terms of MSCCL++'s fitted to them: what `motet calibrate`
//! runs.
//!
//! - [`entry`]: an [`Entry`] is one plan of a sweep, a one-sided program in one shape; its name says all
//!   that is needed to make the plan again.
//! - [`sweep`]: which entries are worth measuring, as plans and a manifest for `benches/mscclpp`.
//! - [`results`]: what came out, from the harness's lines or from a table.
//! - [`samples`]: results beside their plans, ready to be fitted.
//! - [`report`]: the fitted terms and how good they are ([`calibrate`]).
//! - [`terms_file`]: terms as a file.
//! - [`nccl_tests`]: nccl-tests' logs, and [`nccl`]: the model of NCCL beside them.
//!
//! The model itself is [`motet_nccl::mscclpp`]; docs/mscclpp-model.md says what its terms mean.

pub mod entry;
pub mod nccl;
pub mod nccl_tests;
pub mod report;
pub mod results;
pub mod samples;
pub mod sweep;
pub mod terms_file;

pub use entry::Entry;
pub use report::{Calibration, Group, calibrate, picks};
pub use results::{Measured, Results};
pub use samples::{CalibrateError, LeftOut, Machine, Samples};

use motet_net::formats::ReadError;

/// What measurements can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `results.jsonl` of `benches/mscclpp`.
    Harness,
    /// A table as in `benches/mscclpp/results`.
    Table,
    /// What nccl-tests print.
    NcclTests,
}

/// Which of them a text is, by how it begins.
///
/// # Errors
/// If it is none.
pub fn detect(text: &str) -> Result<Format, ReadError> {
    let first = text.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    if first.starts_with('{') {
        Ok(Format::Harness)
    } else if results::is_heading(first) {
        Ok(Format::Table)
    } else if nccl_tests::is_log(text) {
        Ok(Format::NcclTests)
    } else {
        Err(ReadError::new("no measurements that Motet knows").with_remedy(
            "give results.jsonl of benches/mscclpp, a table with its columns, or what nccl-tests printed",
        ))
    }
}
