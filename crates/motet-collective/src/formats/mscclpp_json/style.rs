//! The ways to write a program down, and the first that says just what the program says.
//!
//! A plan orders more than it must: what a block waits for holds back all it does later, and what
//! it tells others covers all it did before. Which way of writing adds nothing to a program shows
//! when the plan is read again, so that each is tried until one comes back as the same program.

use super::model::ExecutionPlan;
use super::packing::Packing;
use super::{Options, emit, read};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::Program;

/// A way to write a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Scratch holds packets.
    pub(super) packing: Option<Packing>,
    /// Steps share operations.
    pub(super) fused: bool,
    /// What is posted is known to its own GPU by a flush, not from the other end.
    pub(super) flush: bool,
    /// The threads of a block meet after each read of packets.
    pub(super) careful: bool,
}

/// The plan of a one-sided program as text, which reads back as the same program.
pub(super) fn text(program: &Program, options: &Options) -> Result<String, Report> {
    let mut refused: Option<Report> = None;
    let packing = Packing::new(program);
    let plain = Style { packing: None, fused: true, flush: true, careful: false };
    let packed = packing.map(|_| Style { packing, ..plain });
    let careful = packed.map(|it| Style { careful: true, ..it });
    for first in packed.into_iter().chain(careful).chain([plain]) {
        // Without the one or the other a plan only grows.
        for (fused, flush) in [(true, true), (true, false), (false, true), (false, false)] {
            let plan = match emit::plan(program, options, Style { fused, flush, ..first }) {
                Ok(plan) => plan,
                Err(report) => {
                    refused.get_or_insert(report);
                    break;
                }
            };
            match same(&plan, program) {
                Ok(text) => return Ok(text),
                Err(report) => {
                    refused.get_or_insert(report);
                }
            }
        }
    }
    Err(refused.unwrap_or_default())
}

/// The text of the plan, if it does what the program does, no more and no less.
fn same(plan: &ExecutionPlan, program: &Program) -> Result<String, Report> {
    let refuse = |finding, message: String| {
        let mut report = Report::default();
        report.push(Diagnostic::error(finding, message));
        report
    };
    let mut text = serde_json::to_string_pretty(plan)
        .map_err(|it| refuse(Finding::Limit, format!("the plan cannot be written: {it}")))?;
    text.push('\n');
    let back = read(&text)
        .map_err(|it| refuse(Finding::Mismatch, format!("the plan cannot be read back: {it}")))?;
    if !back.report.is_right() {
        return Err(back.report);
    }
    if back.program != *program {
        let message = "a plan cannot say this order of transfers without adding to it";
        return Err(refuse(Finding::Limit, message.to_owned()));
    }
    Ok(text)
}
