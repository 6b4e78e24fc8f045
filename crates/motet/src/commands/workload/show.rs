//! `motet workload show`: who communicates what, how often and with whom.

use super::input::{Workload, read};
use super::{show_job, show_traces};
use crate::args::workload::ShowArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    match read(&args.inputs, &args.layout, printer)? {
        Workload::Job(job) => show_job::show(&job, printer)?,
        Workload::Recording(it) => show_traces::recording(&it, printer)?,
        Workload::Chakra(traces) => match traces.recording() {
            Some(recording) => {
                let recording = recording?;
                for note in recording.notes() {
                    printer.note(note);
                }
                show_traces::recording(&recording, printer)?;
            }
            None => show_traces::chakra(&traces, printer)?,
        },
        Workload::Aicb(it) => show_traces::aicb(&it, printer)?,
    }
    Ok(Status::Done)
}
