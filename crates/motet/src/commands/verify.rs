//! `motet verify`: a program proved right, or everything that is wrong with it.

use std::fmt::Write as _;

use motet_collective::formats::{self, Imported};
use motet_collective::{Report, Severity};
use motet_net::formats::ReadOptions;
use serde::Serialize;

use crate::args::program::VerifyArgs;
use crate::commands::reroute;
use crate::failure::{Failure, Status};
use crate::files;
use crate::mistaken::{self, Wanted};
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Serialize)]
struct VerifyJson {
    ok: bool,
    /// "right", "wrong" or "not judged".
    verdict: &'static str,
    name: String,
    format: &'static str,
    collective: &'static str,
    ranks: u32,
    chunks: u32,
    transfers: usize,
    diagnostics: Vec<DiagnosticJson>,
    /// How many diagnostics were left out of the list.
    left_out: usize,
}

#[derive(Serialize)]
struct DiagnosticJson {
    severity: &'static str,
    finding: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// Reads a program in any format, with the name of its format.
pub(crate) fn read(name: &str) -> Result<(formats::ProgramFormat, Imported), Failure> {
    let text = files::read(name).map_err(|it| mistaken::for_missing(Wanted::Program, name, it))?;
    formats::read_any(&text).map_err(|it| {
        mistaken::for_text(Wanted::Program, name, &text, Failure::from(it).in_file(name))
    })
}

pub(crate) fn run(args: &VerifyArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let network = match &args.net {
        Some(name) => Some(files::network(name, &ReadOptions::default(), printer)?.network),
        None => None,
    };
    let progress = Progress::start(printer, format!("verifying {}", args.file));
    let (format, imported) = read(&args.file)?;
    let report = imported.check(network.as_ref());
    drop(progress);
    if printer.is_json() {
        printer.json(&json(format, &imported, &report))?;
    } else {
        printer.out(&text(&args.file, &imported, &report))?;
    }
    let remedy = network.as_ref().and_then(|it| reroute::remedy(&imported.program, it));
    if let Some(remedy) = remedy.filter(|_| !report.is_right()) {
        printer.note(&remedy);
    }
    Ok(if report.is_right() { Status::Done } else { Status::Wrong })
}

/// In one word. A program with an operation that was not judged is never right, and it is wrong
/// only if something else is.
fn verdict(report: &Report) -> &'static str {
    if report.is_right() {
        "right"
    } else if report.diagnostics().iter().any(|it| it.severity == Severity::Error) {
        "wrong"
    } else {
        "not judged"
    }
}

fn json(format: formats::ProgramFormat, imported: &Imported, report: &Report) -> VerifyJson {
    let program = &imported.program;
    let diagnostic = |it: &motet_collective::Diagnostic| DiagnosticJson {
        severity: it.severity.name(),
        finding: it.finding.name(),
        message: it.message.clone(),
        transfer: it.transfer.map(|it| it.0),
        origin: it.origin.clone(),
    };
    VerifyJson {
        ok: report.is_right(),
        verdict: verdict(report),
        name: program.name().to_owned(),
        format: format.name(),
        collective: program.collective().kind().name(),
        ranks: program.collective().ranks(),
        chunks: program.collective().chunks(),
        transfers: program.transfers().len(),
        diagnostics: report.diagnostics().iter().map(diagnostic).collect(),
        left_out: report.left_out(),
    }
}

fn text(file: &str, imported: &Imported, report: &Report) -> String {
    let program = &imported.program;
    let mut out = report.to_string();
    let _ = writeln!(
        out,
        "{file}: {} ({} over {} ranks, {} transfers)",
        Printer::strong(verdict(report)),
        program.collective().kind(),
        program.collective().ranks(),
        program.transfers().len(),
    );
    out
}
