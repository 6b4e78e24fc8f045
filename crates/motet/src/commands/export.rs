//! `motet export`: a program in the format of a real runtime.

use motet_collective::formats::{msccl_xml, mscclpp_json, program_json};
use motet_collective::program::in_instances;
use motet_collective::{Diagnostic, Finding, Program, Report, Verified};

use crate::args::{ExportArgs, Target};
use crate::commands::verify;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

pub(crate) fn run(args: &ExportArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let progress = Progress::start(printer, format!("exporting {}", args.file));
    let (_, imported) = verify::read(&args.file)?;
    // Proving a program right takes longer than counting what it has too much of.
    too_much(&imported.program, args).map_err(|it| not_loaded(&it, args))?;
    let program = imported.verify(None).map_err(|rejected| {
        refused("the program is not right, so it is not exported", &rejected.report)
            .in_file(&args.file)
    })?;
    let text = write(&program, args).map_err(|it| not_loaded(&it, args))?;
    drop(progress);
    files::write(args.output.as_deref().unwrap_or("-"), &text, printer)?;
    Ok(Status::Done)
}

fn msccl(args: &ExportArgs) -> msccl_xml::Options {
    let runtime = match args.msccl_steps {
        Some(steps) => msccl_xml::Runtime::Custom { steps },
        None => msccl_xml::Runtime::Azure,
    };
    msccl_xml::Options { runtime, channels: args.msccl_channels, instances: args.instances }
}

fn mscclpp(args: &ExportArgs) -> mscclpp_json::Options {
    let channel = match args.gpus_per_server {
        Some(gpus_per_server) => mscclpp_json::Channel::Auto { gpus_per_server },
        None => mscclpp_json::Channel::Memory,
    };
    let threads_per_block = args.mscclpp_threads;
    mscclpp_json::Options { channel, threads_per_block, instances: args.instances }
}

/// Refuses what has too much for the runtime, from counts alone.
fn too_much(program: &Program, args: &ExportArgs) -> Result<(), Report> {
    match args.to {
        Target::Msccl => msccl_xml::check_counts(program, &msccl(args)),
        Target::Mscclpp => mscclpp_json::check_counts(program, &mscclpp(args)),
        Target::Motet => Ok(()),
    }
}

fn write(program: &Verified<Program>, args: &ExportArgs) -> Result<String, Report> {
    let instances = args.instances;
    match args.to {
        Target::Msccl => msccl_xml::write(program, &msccl(args)),
        Target::Mscclpp => mscclpp_json::write(program, &mscclpp(args)),
        Target::Motet => match in_instances(program, instances) {
            Ok(copies) => Ok(program_json::write(&copies)),
            Err(error) => {
                let mut report = Report::default();
                let message = format!("in {instances} instances {error}");
                report.push(Diagnostic::error(Finding::TooLarge, message));
                Err(report)
            }
        },
    }
}

fn not_loaded(report: &Report, args: &ExportArgs) -> Failure {
    let failure = refused("the runtime could not load this program, so it is not exported", report)
        .in_file(&args.file);
    if !report.has(Finding::Limit) {
        return failure;
    }
    let to = match args.to {
        Target::Msccl => "msccl",
        Target::Mscclpp => "mscclpp",
        Target::Motet => return failure,
    };
    failure.with_remedy(format!(
        "make a program that stays within the limits: `motet synth --for {to}`"
    ))
}

fn refused(what: &str, report: &Report) -> Failure {
    Failure::wrong(format!("{what}:\n{}", report.to_string().trim_end()))
}
