//! `motet export`: a program in the format of a real runtime, and what it loses by that.

mod loss;
mod place;

use motet_collective::formats::{ProgramFormat, msccl_xml, mscclpp_json, program_json};
use motet_collective::program::in_instances;
use motet_collective::{Diagnostic, Finding, Program, Report, Verified};
use motet_nccl::NcclOptions;
use motet_nccl::kernel::Kernels;
use motet_net::Network;
use serde::Serialize;

use crate::args::program::{ExportArgs, Target};
use crate::commands::verify;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;
use loss::Loss;
use place::Place;

#[derive(Serialize)]
struct ExportJson<'a> {
    file: &'a str,
    to: &'static str,
    ranks: u32,
    instances: u32,
    size_bytes: Option<u64>,
    /// Of the program and of the file, on the network it is for; null where that is not known.
    program_time_us: Option<f64>,
    file_time_us: Option<f64>,
    /// By how much more time the file takes: 0 is nothing, 1 is twice as long.
    loss: Option<f64>,
    reasons: Vec<String>,
}

pub(crate) fn run(args: &ExportArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let output = args.output.as_deref().unwrap_or("-");
    if printer.is_json() && output == "-" {
        return Err(Failure::unreadable("the file and the JSON cannot both go to stdout")
            .with_remedy("give `--output` the name of a file"));
    }
    let progress = Progress::start(printer, format!("exporting {}", args.file));
    let (format, imported) = verify::read(&args.file)?;
    let place = place::find(&imported.program, args, printer)?;
    let export = Export { args, place: &place, format };
    // Proving a program right takes longer than counting what it has too much of.
    export.too_much(&imported.program).map_err(|it| not_loaded(&it, args))?;
    let program = imported.verify(None).map_err(|rejected| {
        refused("the program is not right, so it is not exported", &rejected.report)
            .in_file(&args.file)
    })?;
    let text = export.write(&program).map_err(|it| not_loaded(&it, args))?;
    let loss = export.loss(&program, &text)?;
    drop(progress);
    files::write(output, &text, printer)?;
    export.tell(&program, loss.as_ref(), printer);
    if printer.is_json() {
        printer.json(&export.json(output, &program, loss.as_ref()))?;
    }
    Ok(Status::Done)
}

/// What is exported, and where to.
struct Export<'a> {
    args: &'a ExportArgs,
    place: &'a Place,
    /// Of the file that is exported.
    format: ProgramFormat,
}

impl Export<'_> {
    fn msccl(&self) -> msccl_xml::Options {
        let runtime = match self.args.msccl_steps {
            Some(steps) => msccl_xml::Runtime::Custom { steps },
            None => msccl_xml::Runtime::Azure,
        };
        let (channels, instances) = (self.args.msccl_channels, self.args.instances);
        msccl_xml::Options { runtime, channels, instances, packed: self.args.packed }
    }

    fn mscclpp(&self) -> mscclpp_json::Options {
        let channel = match (self.args.gpus_per_server, &self.place.network) {
            (Some(gpus_per_server), _) => mscclpp_json::Channel::Auto { gpus_per_server },
            (None, Some(network)) => mscclpp_json::Channel::on(network),
            (None, None) => mscclpp_json::Channel::Memory,
        };
        let multiprocessors = self.place.network.as_ref().map(resident_blocks);
        let gpu = mscclpp_json::Gpu {
            multiprocessors: multiprocessors
                .unwrap_or(mscclpp_json::Gpu::default().multiprocessors),
            ranks: self.args.ranks_per_gpu.max(1),
        };
        mscclpp_json::Options {
            channel,
            threads_per_block: self.args.mscclpp_threads,
            instances: self.args.instances,
            in_place: self.args.in_place,
            gpu,
            size: self.place.asked,
            // A plan that comes from MSCCL++ keeps the name that it is called by.
            own_name: self.format != ProgramFormat::Mscclpp,
        }
    }

    /// Refuses what has too much for the runtime, from counts alone.
    fn too_much(&self, program: &Program) -> Result<(), Report> {
        match self.args.to {
            Target::Msccl => msccl_xml::check_counts(program, &self.msccl()),
            Target::Mscclpp => mscclpp_json::check_counts(program, &self.mscclpp()),
            Target::Motet => Ok(()),
        }
    }

    fn write(&self, program: &Verified<Program>) -> Result<String, Report> {
        let instances = self.args.instances;
        match self.args.to {
            Target::Msccl => msccl_xml::write(program, &self.msccl()),
            Target::Mscclpp => mscclpp_json::write(program, &self.mscclpp()),
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

    /// `None` where the network or the size is not known, in Motet's own format, which has place for all
    /// that a program is, and where switches copy or reduce: operations in them stream, and threadblocks
    /// are simulated one transfer after the other.
    fn loss(&self, program: &Verified<Program>, text: &str) -> Result<Option<Loss>, Failure> {
        if program.uses_switches() {
            return Ok(None);
        }
        match (self.args.to, &self.place.network, self.place.size) {
            (Target::Msccl | Target::Mscclpp, Some(network), Some(size)) => {
                let failure = |it: Failure| it.in_file(&self.args.file);
                Loss::of(program, text, network, size).map(Some).map_err(failure)
            }
            _ => Ok(None),
        }
    }

    fn tell(&self, program: &Program, loss: Option<&Loss>, printer: &Printer) {
        let assumed = self.args.gpus_per_server.is_none() && self.place.network.is_none();
        if self.args.to == Target::Mscclpp && assumed && program.collective().ranks() > 1 {
            printer.note(
                "all ranks are taken for GPUs that reach each other's memory; if they are in \
                 several servers, give `--cluster` or `--gpus-per-server`",
            );
        }
        if self.args.to == Target::Msccl {
            self.tell_divisor(program, printer);
        }
        match loss {
            Some(loss) if loss.is_worth_saying() => printer.warning(&format!(
                "on ideal links the file takes {:.3} µs where the program takes {:.3} µs, {:.0}% more: {}",
                loss.file.as_us_f64(),
                loss.program.as_us_f64(),
                (loss.share() * 100.0).round() + 0.0,
                loss.reasons(self.args).join("; ")
            )),
            None if program.uses_switches() && self.args.to != Target::Motet => printer.note(
                "whether the file is slower than the program is not known: operations in switches go \
                 element by element, which is not simulated",
            ),
            None if self.args.to != Target::Motet => printer.note(
                "whether the file is slower than the program is not known; `--cluster` and \
                 `--size` say where and at what size to compare them",
            ),
            _ => {}
        }
    }

    /// MSCCL runtimes take a file only for sizes that divide into its chunks, and say nothing.
    fn tell_divisor(&self, program: &Program, printer: &Printer) {
        let chunks = u64::from(program.collective().size_chunks()) * u64::from(self.args.instances);
        let divides = self.place.size.is_some_and(|it| it.get().is_multiple_of(chunks));
        if !chunks.is_power_of_two() && !divides {
            printer.warning(&format!(
                "runtimes pass over this file, without a word, for counts of elements that do not \
                 divide by {chunks}, as no power of two does"
            ));
        }
    }

    fn json<'a>(&self, file: &'a str, program: &Program, loss: Option<&Loss>) -> ExportJson<'a> {
        let told = loss.filter(|it| it.is_worth_saying());
        ExportJson {
            file,
            to: target(self.args.to),
            ranks: program.collective().ranks(),
            instances: self.args.instances,
            size_bytes: self.place.size.map(motet_units::Bytes::get),
            program_time_us: loss.map(|it| it.program.as_us_f64()),
            file_time_us: loss.map(|it| it.file.as_us_f64()),
            loss: loss.map(Loss::share),
            reasons: told.map(|it| it.reasons(self.args)).unwrap_or_default(),
        }
    }
}

/// The multiprocessors of the network's GPUs, each of which runs a full threadblock.
fn resident_blocks(network: &Network) -> u32 {
    Kernels::plain(network, &NcclOptions::default()).resident_blocks()
}

const fn target(to: Target) -> &'static str {
    match to {
        Target::Msccl => "msccl",
        Target::Mscclpp => "mscclpp",
        Target::Motet => "motet",
    }
}

fn not_loaded(report: &Report, args: &ExportArgs) -> Failure {
    let failure = refused("the runtime could not load this program, so it is not exported", report)
        .in_file(&args.file);
    if !report.has(Finding::Limit) {
        return failure;
    }
    if args.instances > 1 {
        return failure.with_remedy("take fewer `--instances`");
    }
    let to = target(args.to);
    failure.with_remedy(format!(
        "make a program that stays within the limits: `motet synth --for {to}`"
    ))
}

fn refused(what: &str, report: &Report) -> Failure {
    Failure::wrong(format!("{what}:\n{}", report.to_string().trim_end()))
}
