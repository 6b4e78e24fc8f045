//! `motet plan`: from a cluster to tuned programs and knobs; plans shown and compared.
//!
//! [`make`] makes one, in a folder that [`store`] writes whole or not at all; [`report`] is its page
//! for people; [`workload`] makes one for each sort of group of a training job; [`show`] and [`diff`] read plans, [`check`] proves them; [`considered`] writes what was
//! not picked. [`measured`] and [`sockets`] are plans from measurements, of NCCL and of the executor.

mod check;
mod considered;
mod diff;
mod make;
mod measured;
mod report;
mod show;
mod sockets;
mod store;
mod workload;

use crate::args::plan::{PlanArgs, PlanCommand};
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &PlanArgs, printer: &mut Printer) -> Result<Status, Failure> {
    match &args.command {
        Some(PlanCommand::Show(args)) => show::run(args, printer),
        Some(PlanCommand::Check(args)) => check::run(args, printer),
        Some(PlanCommand::Diff(args)) => diff::run(args, printer),
        None => make::run(&args.make, printer),
    }
}
