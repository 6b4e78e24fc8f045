//! The commands, one file each.

mod agent;
mod bench;
mod bound;
mod calibrate;
mod completions;
mod exec;
mod export;
mod live;
mod man;
#[cfg(all(feature = "server", unix))]
mod manager;
mod nccl;
mod net;
mod plan;
mod probe;
mod rails;
mod reproduce;
mod reroute;
mod scenario;
#[cfg(feature = "server")]
mod serve;
mod sim;
mod sourced;
mod synth;
mod testbed;
mod trace;
mod verify;
mod wan;
mod workload;

use crate::args::Command;
use crate::args::agent::AgentCommand;
use crate::args::discovery::ProbeCommand;
use crate::args::exec::ExecCommand;
use crate::args::net::NetCommand;
use crate::args::rails::RailsCommand;
use crate::args::workload::WorkloadCommand;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(command: &Command, printer: &mut Printer) -> Result<Status, Failure> {
    match command {
        Command::Plan(args) => plan::run(args, printer),
        Command::Net(NetCommand::Show(args)) => net::show::run(args, printer),
        Command::Net(NetCommand::Convert(args)) => net::convert::run(args, printer),
        Command::Net(NetCommand::Gen(args)) => net::generate::run(args, printer),
        Command::Net(NetCommand::Diff(args)) => net::diff::run(args, printer),
        Command::Net(NetCommand::Discover(args)) => net::discover::run(args, printer),
        Command::Net(NetCommand::Sketch(args)) => net::sketch::run(args, printer),
        Command::Probe(ProbeCommand::Serve(args)) => probe::serve::run(args, printer),
        Command::Probe(ProbeCommand::Run(args)) => probe::run::run(args, printer),
        Command::Bound(args) => bound::run(args, printer),
        Command::Calibrate(args) => calibrate::run(args, printer),
        Command::Verify(args) => verify::run(args, printer),
        Command::Export(args) => export::run(args, printer),
        Command::Sim(args) => sim::run(args, printer),
        Command::Synth(args) => synth::run(args, printer),
        Command::Trace(args) => trace::run(args, printer),
        Command::Workload(WorkloadCommand::Show(args)) => workload::show::run(args, printer),
        Command::Workload(WorkloadCommand::Convert(args)) => workload::convert::run(args, printer),
        Command::Rails(RailsCommand::Windows(args)) => rails::windows::run(args, printer),
        Command::Rails(RailsCommand::Sim(args)) => rails::sim::run(args, printer),
        Command::Rails(RailsCommand::Circuits(args)) => rails::circuits::run(args, printer),
        Command::Rails(RailsCommand::Scale(args)) => rails::scale::run(args, printer),
        Command::Rails(RailsCommand::Cost(args)) => rails::cost::run(args, printer),
        Command::Agent(AgentCommand::Train(args)) => agent::train::run(args, printer),
        Command::Agent(AgentCommand::Export(args)) => agent::export::run(args, printer),
        Command::Agent(AgentCommand::Eval(args)) => agent::eval::run(args, printer),
        Command::Agent(AgentCommand::Show(args)) => agent::show::run(args, printer),
        Command::Wan(args) => wan::run(args, printer),
        Command::Testbed(command) => testbed::dispatch(command, printer),
        Command::Exec(ExecCommand::Run(args)) => exec::run::run(args, printer),
        Command::Exec(ExecCommand::Bench(args)) => exec::bench::run(args, printer),
        Command::Exec(ExecCommand::Store(args)) => exec::store::run(args, printer),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::run(args, printer),
        #[cfg(all(feature = "server", unix))]
        Command::Manager(args) => manager::run(args, printer),
        Command::Reproduce(args) => reproduce::run(args, printer),
        Command::Bench(args) => bench::run(args, printer),
        Command::Man(args) => man::run(args, printer),
        Command::NcclRank(args) => live::rank::run(args),
        Command::Completions { shell } => completions::run(*shell, printer),
    }
}
