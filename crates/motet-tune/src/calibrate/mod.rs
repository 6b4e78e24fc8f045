//! Cost models compared with measurements, and their terms fitted to these: what `motet calibrate` runs.
//!
//! - [`entry`]: an [`Entry`] is one plan of a sweep, a one-sided program in one shape; its name has all
//!   that is needed to make the plan again.
//! - [`sweep`]: which entries are worth measuring, as plans and a manifest for `benches/mscclpp`.
//! - [`manifest`]: a plan's line there.
//! - [`results`]: the measurements, from the harness's lines or from a table.
//! - [`samples`]: results beside their plans, ready to be fitted.
//! - [`report`]: the fitted terms and how good they are ([`calibrate`]).
//! - [`terms_file`]: terms as a file.
//! - [`nccl_tests`]: nccl-tests' logs; [`nccl`]: all other measurements of NCCL, compared with the model, and the
//!   model's terms fitted to them.
//!
//! The models themselves are [`motet_nccl::mscclpp`] and [`motet_nccl::fitted`]; docs/mscclpp-model.md and
//! docs/nccl-model.md say what their terms mean.

pub mod entry;
pub mod manifest;
pub mod nccl;
pub mod nccl_tests;
pub mod report;
pub mod results;
pub mod samples;
pub mod sweep;
pub mod terms_file;

pub use entry::Entry;
pub use manifest::Manifest;
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
    /// What nccl-tests print, with NCCL's own log between its lines or without.
    NcclTests,
    /// NCCL's own log, without nccl-tests.
    NcclLog,
    /// A table of NCCL's calls, as Motet writes it.
    NcclStore,
    /// The table of `benches/nccl/run.py`.
    NcclRuns,
}

impl Format {
    /// Whether the measurements are of NCCL rather than of MSCCL++.
    #[must_use]
    pub const fn is_of_nccl(self) -> bool {
        !matches!(self, Self::Harness | Self::Table)
    }
}

/// Which format a text has, by how it begins.
///
/// # Errors
/// If it is none.
pub fn detect(text: &str) -> Result<Format, ReadError> {
    let first = text.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
    // Tables may begin with comments; nccl-tests' lines begin as comments do.
    let heading = text.lines().map(str::trim).find(|it| !it.is_empty() && !it.starts_with('#'));
    let heading = heading.unwrap_or_default();
    if first.starts_with('{') {
        Ok(Format::Harness)
    } else if results::is_heading(heading) {
        Ok(Format::Table)
    } else if nccl::store::is_heading(heading) {
        Ok(Format::NcclStore)
    } else if nccl::run_table::is_heading(heading) {
        Ok(Format::NcclRuns)
    } else if nccl_tests::is_log(text) {
        Ok(Format::NcclTests)
    } else if nccl::log::is_log(text) {
        Ok(Format::NcclLog)
    } else {
        Err(ReadError::new("no measurements that Motet knows").with_remedy(
            "give results.jsonl of benches/mscclpp, a table of it, what nccl-tests or NCCL printed, or a table of \
             NCCL's calls",
        ))
    }
}
