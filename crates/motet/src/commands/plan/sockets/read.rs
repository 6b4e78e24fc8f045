//! Plans of `--backend tcp` shown, and proved.

use std::fmt::Write as _;
use std::path::Path;

use motet_collective::Verified;
use motet_collective::formats::program_json;
use motet_net::Signature;
use motet_tune::plan::algbw;
use motet_tune::plan::check::Problem;
use motet_tune::sockets::{MANIFEST, SocketPlan, SocketTask};
use motet_units::{Bytes, Duration};

use crate::args::plan::ShowArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

/// The plan in a folder, if it is one of these.
pub(crate) fn stored(folder: &str) -> Result<Option<SocketPlan>, Failure> {
    let path = Path::new(folder).join(MANIFEST);
    if !path.is_file() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let plan = SocketPlan::read(&files::read(&name)?);
    let wrong = |it: String| Failure::wrong(it).in_file(&name).with_remedy("make the plan anew");
    plan.map(Some).map_err(wrong)
}

/// `motet plan show`.
pub(crate) fn show(
    args: &ShowArgs,
    plan: &SocketPlan,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    if let Some(name) = &args.network {
        let cluster = files::network(name, &args.read.options(), printer)?;
        let here = Signature::of(&cluster.network).to_string();
        if here != plan.signature {
            return Err(Failure::wrong(format!(
                "the plan is for network {}, this one is {here}",
                plan.signature
            ))
            .in_file(&args.folder)
            .with_remedy("make a plan for this network"));
        }
    }
    if printer.is_json() {
        printer.json(plan)?;
    } else {
        printer.out(&text(plan))?;
    }
    Ok(Status::Done)
}

/// `motet plan check`: how many programs there are, and what is wrong with them.
pub(crate) fn problems(folder: &str, plan: &SocketPlan) -> (usize, Vec<Problem>) {
    let mut problems = Vec::new();
    for task in &plan.tasks {
        if let Err(problem) = check(folder, plan, task) {
            problems.push(Problem { file: task.program.clone(), problem });
        }
    }
    (plan.tasks.len(), problems)
}

fn check(folder: &str, plan: &SocketPlan, task: &SocketTask) -> Result<(), String> {
    let path = Path::new(folder).join(&task.program);
    let text = files::read(&path.display().to_string()).map_err(|it| it.to_string())?;
    let program = program_json::read(&text).map_err(|it| it.to_string())?;
    let program =
        Verified::new(program, None).map_err(|it| format!("is not right:\n{}", it.report))?;
    let collective = program.collective();
    if (collective.kind(), collective.ranks()) != (task.collective, plan.ranks) {
        return Err(format!("is {} of {} ranks", collective.kind(), collective.ranks()));
    }
    Ok(())
}

/// The plan as a table.
pub(crate) fn text(plan: &SocketPlan) -> String {
    let SocketPlan { network, signature, ranks, seed, tasks, .. } = plan;
    let mut out = format!(
        "plan for {network} ({signature}), {ranks} ranks between processes, seed {seed}\n\
         measured by turns, the middle of the slowest rank's times; ~: by the simulator, on ideal links\n"
    );
    let mut last = None;
    for task in tasks {
        if last != Some(task.collective) {
            let _ = write!(
                out,
                "\n{}\n  {:>9} {:>13} {:>9} {:>7}  program (and what else was tried)\n",
                task.collective, "size", "time µs", "GB/s", "gain"
            );
            last = Some(task.collective);
        }
        let _ = writeln!(out, "{}", line(task));
    }
    out
}

fn line(task: &SocketTask) -> String {
    let (size, time) = (Bytes::new(task.size_bytes), Duration::from_ps(task.time_ps));
    let gain = task.gain().map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let mut others = Vec::new();
    for trial in task.tried.iter().filter(|it| it.method != task.method) {
        others.push(match trial.median() {
            _ if trial.wrong => format!("{} WRONG", trial.method),
            Some(median) => format!("{} {:.1}", trial.method, median.as_us_f64()),
            None => format!("{} ~{:.1}", trial.method, trial.simulated_ps as f64 / 1e6),
        });
    }
    let mark = if task.measured { "" } else { "~" };
    format!(
        "  {:>9} {:>13} {:>9.3} {gain:>7}  {}{}",
        size.to_string(),
        format!("{mark}{:.1}", time.as_us_f64()),
        algbw(size, time),
        task.method,
        if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) }
    )
}
