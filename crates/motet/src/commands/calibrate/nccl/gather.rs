//! All files of the command line as calls and logs.

use motet_tune::calibrate::Format;
use motet_tune::calibrate::nccl::log::{self, NcclLog};
use motet_tune::calibrate::nccl::{NcclCall, join, run_table, store};
use motet_tune::calibrate::nccl_tests::{self, Log};

use crate::args::calibrate::CalibrateArgs;
use crate::failure::Failure;
use crate::printer::Printer;

#[derive(Default)]
pub(super) struct Gathered<'a> {
    pub(super) calls: Vec<NcclCall>,
    /// Rows of nccl-tests by file; their calls are among the calls.
    pub(super) rows: Vec<(&'a str, Log)>,
    pub(super) logs: Vec<(&'a str, NcclLog)>,
    /// Whether there is a table of calls.
    pub(super) has_tables: bool,
    /// Rounds under a plan.
    of_plans: u64,
}

pub(super) fn gather<'a>(
    texts: &'a [(&'a str, Format, String)],
    args: &CalibrateArgs,
) -> Result<Gathered<'a>, Failure> {
    let mut all = Gathered::default();
    for (name, format, text) in texts {
        let in_file = |it| Failure::from(it).in_file(name);
        match format {
            Format::NcclStore => all.calls.extend(store::read(text).map_err(in_file)?),
            Format::NcclRuns => {
                let read = run_table::read(text).map_err(in_file)?;
                all.calls.extend(read.calls);
                all.of_plans += read.of_plans;
            }
            Format::NcclLog => all.logs.push((name, log::read(text).map_err(in_file)?)),
            _ => {
                all.rows.push((name, nccl_tests::read(text).map_err(in_file)?));
                // NCCL's own lines may stand between the rows, and need not say anything.
                all.logs.extend(log::read(text).ok().map(|it| (*name, it)));
            }
        }
        all.has_tables |= matches!(format, Format::NcclStore | Format::NcclRuns);
    }
    let logs: Vec<(&str, &NcclLog)> = all.logs.iter().map(|it| (it.0, &it.1)).collect();
    for (name, rows) in &all.rows {
        // A file's own log speaks for it; a log apart speaks for every file.
        let own: Vec<&NcclLog> = logs.iter().filter(|it| it.0 == *name).map(|it| it.1).collect();
        let every: Vec<&NcclLog> = logs.iter().map(|it| it.1).collect();
        let logs = if own.is_empty() { every } else { own };
        let calls = join(rows, args.collective, &logs);
        all.calls.extend(calls.map_err(|it| Failure::from(it).in_file(name))?);
    }
    Ok(all)
}

impl Gathered<'_> {
    pub(super) fn notes(&self, printer: &Printer) {
        if self.of_plans > 0 {
            let count = self.of_plans;
            printer.note(&format!("{count} rounds are left out: they ran a plan, and the table does not say what it chose"));
        }
        for (name, log) in &self.logs {
            if let Some(first) = log.torn.first {
                let count = log.torn.lines;
                printer.note(&format!(
                    "{name}:{first}: a line of NCCL's log is torn; torn lines are left out ({count} in all)"
                ));
            }
        }
    }
}
