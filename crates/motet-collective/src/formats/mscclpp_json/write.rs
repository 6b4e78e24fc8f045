//! Writes a plan: see [`write()`].

use super::{Options, emit, lower, read};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::Program;
use crate::verify::Verified;

/// Writes a program, [lowered](super::lower()) first, as a plan that the executor loads.
///
/// What is written is read back and compared before it is handed out, so that the plan does what
/// the program does, no more and no less.
pub fn write(program: &Verified<Program>, options: &Options) -> Result<String, Report> {
    let program = lower(program, options)?;
    let plan = emit::plan(&program, options)?;
    let mut report = Report::default();
    let mut text = serde_json::to_string_pretty(&plan).map_err(|error| {
        report.push(Diagnostic::error(
            Finding::Limit,
            format!("the plan cannot be written: {error}"),
        ));
        report.clone()
    })?;
    text.push('\n');
    let back = read(&text).map_err(|error| {
        report.push(Diagnostic::error(
            Finding::Mismatch,
            format!("the plan cannot be read back: {error}"),
        ));
        report.clone()
    })?;
    if !back.report.is_right() {
        return Err(back.report);
    }
    if back.program != *program {
        report.push(Diagnostic::error(
            Finding::Limit,
            "a plan cannot say this order of transfers without adding to it",
        ));
        return Err(report);
    }
    Ok(text)
}
