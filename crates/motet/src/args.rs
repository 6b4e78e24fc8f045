//! The arguments of every command, as the user types them: here the list of commands and what all of
//! them take; each command's own in the file of its name.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod bound;
pub(crate) mod calibrate;
pub(crate) mod discovery;
pub(crate) mod exec;
pub(crate) mod help;
pub(crate) mod live;
pub(crate) mod net;
pub(crate) mod plan;
pub(crate) mod program;
pub(crate) mod rails;
pub(crate) mod read;
pub(crate) mod reproduce;
#[cfg(feature = "server")]
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod sizes;
pub(crate) mod sketch;
pub(crate) mod synth;
pub(crate) mod testbed;
pub(crate) mod trace;
pub(crate) mod wan;
pub(crate) mod what_if;
pub(crate) mod workload;

use std::path::Path;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// What every command says of its CLUSTER.
pub(crate) const CLUSTER: &str = "The network: a file in any format that `motet net show` reads, a template \
     with parameters such as dgx-h100:count=4 (`motet net gen --list` shows all), or - for stdin";

/// The name of a picture's file: Motet draws SVG, and under another ending that would be a broken file.
fn svg(text: &str) -> Result<String, String> {
    let ending = Path::new(text).extension().map(|it| it.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        None | Some("svg") => Ok(text.to_owned()),
        Some(other) => Err(format!(
            "Motet draws no pictures as .{other}; end the name in .svg: `rsvg-convert` and browsers make other \
             pictures of it"
        )),
    }
}

const AFTER_HELP: &str = "\
New here? Describe your cluster (docs/cluster-file.md) or take a template, then:
  motet net show CLUSTER                what Motet reads
  motet bound CLUSTER -c allreduce      what the network allows at most
  motet plan CLUSTER -o plan            what NCCL, MSCCL and MSCCL++ should load, with a report
CLUSTER is a file, a template such as dgx-h100:count=4 (`motet net gen --list`), or - for stdin.
Exit codes: 0 done, 1 the input was understood and is wrong, 2 usage or unreadable input.";

/// Collective communication, fast on the network it really runs on
#[derive(Debug, Parser)]
#[command(name = "motet", version, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No notes and no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// More detail
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// From a cluster to tuned programs and knobs, with a report
    Plan(Box<plan::PlanArgs>),
    /// Networks: read any supported file, print or write it
    #[command(subcommand)]
    Net(net::NetCommand),
    /// Latency and bandwidth between hosts, measured over TCP between agents
    #[command(subcommand)]
    Probe(discovery::ProbeCommand),
    /// The least time any program could take, and the cut that sets it
    Bound(bound::BoundArgs),
    /// Make a program for a collective on a network, close to the bound
    Synth(synth::SynthArgs),
    /// Prove a program right, or say everything that is wrong with it
    Verify(program::VerifyArgs),
    /// Write a program in the format of a real runtime
    Export(program::ExportArgs),
    /// Simulate a program: its time, its bandwidth, and what every link does meanwhile
    Sim(sim::SimArgs),
    /// nccl-tests' table: what NCCL would do on a network
    Bench(bench::BenchArgs),
    /// Cost models held against measurements of MSCCL++ and NCCL, and fitted to them
    Calibrate(calibrate::CalibrateArgs),
    /// What the NCCL plugin saw in a job: how long its collectives took
    Trace(trace::TraceArgs),
    /// Training jobs and traces of them: who communicates what, how often and with whom
    #[command(subcommand)]
    Workload(workload::WorkloadCommand),
    /// Optical rails: circuits that change between the phases of a training step
    #[command(subcommand)]
    Rails(rails::RailsCommand),
    /// A policy for every collective call: trained and judged in scenarios, shown, made tables of
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Routes and programs over a WAN: the reconfiguration modes over many collectives
    Wan(wan::WanArgs),
    /// Programs run between processes, over TCP and shared memory
    #[command(subcommand)]
    Exec(exec::ExecCommand),
    /// Datacenters out of network namespaces, joined by emulated WAN links, for programs and routes live
    #[command(subcommand)]
    Testbed(testbed::TestbedCommand),
    /// The controller of optical circuits as a service: gRPC, HTTP and a journal
    #[cfg(feature = "server")]
    Serve(serve::ServeArgs),
    /// The manager of a job's ranks on one host, between them and the controller
    #[cfg(all(feature = "server", unix))]
    Manager(serve::ManagerArgs),
    /// Tables and figures of the papers that Motet builds on, ours beside what was published
    Reproduce(reproduce::ReproduceArgs),
    /// One rank of `--backend nccl`
    #[command(hide = true)]
    NcclRank(live::RankArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell to write it for
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, which is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,
}
