//! `motet plan check FOLDER`: everything that a plan has written read again and proved.

use std::fmt::Write as _;

use motet_tune::plan::check::{Checked, Problem, check};
use serde::Serialize;

use super::{sockets, store};
use crate::args::plan::CheckArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Serialize)]
struct CheckJson {
    ok: bool,
    files: usize,
    programs: usize,
    tasks: usize,
    /// Times that were worked out again.
    times: usize,
    problems: Vec<ProblemJson>,
}

#[derive(Serialize)]
struct ProblemJson {
    file: String,
    problem: String,
}

pub(crate) fn run(args: &CheckArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let progress = Progress::start(printer, format!("checking {}", args.folder));
    if let Some(plan) = sockets::stored(&args.folder)? {
        let (programs, problems) = sockets::problems(&args.folder, &plan);
        drop(progress);
        if problems.is_empty() && !printer.is_json() {
            let ranks = plan.ranks;
            printer.out(&format!(
                "{}: holds up: {programs} programs right for {ranks} ranks; measured times are not worked out again\n",
                args.folder
            ))?;
            return Ok(Status::Done);
        }
        let checked = Checked { files: programs + 1, programs, tasks: plan.tasks.len(), times: 0 };
        return say(args, checked, problems, printer);
    }
    let stored = store::read(&args.folder)?;
    let result = check(&stored);
    drop(progress);
    let (checked, problems) = match result {
        Ok(checked) => (checked, Vec::new()),
        Err(problems) => (Checked::default(), problems),
    };
    say(args, checked, problems, printer)
}

fn say(
    args: &CheckArgs,
    checked: Checked,
    problems: Vec<Problem>,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let ok = problems.is_empty();
    if printer.is_json() {
        printer.json(&json(checked, problems))?;
    } else {
        printer.out(&text(&args.folder, checked, &problems))?;
    }
    Ok(if ok { Status::Done } else { Status::Wrong })
}

fn json(checked: Checked, problems: Vec<Problem>) -> CheckJson {
    let Checked { files, programs, tasks, times } = checked;
    let problems: Vec<ProblemJson> = problems
        .into_iter()
        .map(|Problem { file, problem }| ProblemJson { file, problem })
        .collect();
    CheckJson { ok: problems.is_empty(), files, programs, tasks, times, problems }
}

fn text(folder: &str, checked: Checked, problems: &[Problem]) -> String {
    let mut out = String::new();
    for Problem { file, problem } in problems {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{folder}/{file}: {problem}");
    }
    if problems.is_empty() {
        let Checked { files, programs, tasks, times } = checked;
        let _ = writeln!(
            out,
            "{folder}: holds up: {files} files as written, {programs} programs right and within their \
             runtime's limits, {times} times of {tasks} tasks as the table says, none below the bound"
        );
    } else {
        let _ = writeln!(out, "{folder}: {} problems; make the plan anew", problems.len());
    }
    out
}
