//! The ways to write a program down, and the first that says just what the program says.
//!
//! A plan orders more than it must: what a block waits for holds back all it does later, and what
//! it tells others covers all it did before. Which way of writing adds nothing to a program shows
//! when the plan is read again, so that each is tried until one comes back as the same program.

use siphasher::sip::SipHasher13;

use super::model::ExecutionPlan;
use super::packing::Packing;
use super::{Options, emit, group, limits, read};
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

/// The plan of a one-sided program, under its name: text which reads back as the same program.
pub(super) fn text(program: &Program, options: &Options) -> Result<(String, String), Report> {
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
            for plan in group::grouped(&plan).into_iter().chain([plan]) {
                if let Some(why) = options.size.and_then(|it| limits::unfit(&plan, program, it)) {
                    refused.get_or_insert_with(|| only(why));
                    continue;
                }
                match same(&plan, program) {
                    Ok(text) if options.own_name => return with_own_name(plan, &text),
                    Ok(text) => return Ok((plan.name, text)),
                    Err(report) => {
                        refused.get_or_insert(report);
                    }
                }
            }
        }
    }
    Err(refused.unwrap_or_default())
}

/// The text of the plan, if it does what the program does, no more and no less.
fn same(plan: &ExecutionPlan, program: &Program) -> Result<String, Report> {
    let text = pretty(plan)?;
    let back = read(&text)
        .map_err(|it| refusal(Finding::Mismatch, format!("the plan cannot be read back: {it}")))?;
    if !back.report.is_right() {
        return Err(back.report);
    }
    if back.program != *program {
        let message = "a plan cannot say this order of transfers without adding to it";
        return Err(refusal(Finding::Limit, message.to_owned()));
    }
    Ok(text)
}

/// The plan under a name that tells it from others: its own, and a checksum of all else. A checksum that
/// is there already is replaced, so that the same plan keeps its name however often it is written.
fn with_own_name(mut plan: ExecutionPlan, text: &str) -> Result<(String, String), Report> {
    const DIGITS: usize = 8;
    let (base, sum) = plan.name.rsplit_once('-').unwrap_or((&plan.name, ""));
    let is_sum =
        sum.len() == DIGITS && sum.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let base = if is_sum { base.to_owned() } else { plan.name.clone() };
    let rest = text.split_once("\"collective\"").map_or(text, |it| it.1);
    let sum = SipHasher13::new().hash(rest.as_bytes()) as u32;
    plan.name = format!("{base}-{sum:0DIGITS$x}");
    let text = pretty(&plan)?;
    Ok((plan.name, text))
}

fn pretty(plan: &ExecutionPlan) -> Result<String, Report> {
    let mut text = serde_json::to_string_pretty(plan)
        .map_err(|it| refusal(Finding::Limit, format!("the plan cannot be written: {it}")))?;
    text.push('\n');
    Ok(text)
}

fn refusal(finding: Finding, message: String) -> Report {
    only(Diagnostic::error(finding, message))
}

/// A report of one finding.
pub(super) fn only(diagnostic: Diagnostic) -> Report {
    let mut report = Report::default();
    report.push(diagnostic);
    report
}
