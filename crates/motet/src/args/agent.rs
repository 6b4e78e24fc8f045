//! The arguments of `motet agent`.

pub(crate) mod export;
pub(crate) mod train;

use clap::{Args, Subcommand};
use motet_collective::CollectiveKind;
use motet_units::Bytes;

use super::read::ReadArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Train the LSTM policy in the simulated world
    Train(train::TrainArgs),
    /// All policies on scenarios that are held out of training: times over the oracle's and over NCCL's
    Eval(EvalArgs),
    /// What the agent sees, may do and holds to be so before anything is measured
    Show(ShowArgs),
    /// Make tables of what a policy decides, for the run-time half and the NCCL plugin
    Export(export::AgentExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Only these policies, several after commas: nccl, plan, epsilon, linucb, thompson, star, infer (the default),
    /// infer-triggered, oracle, and with `--policy-file` lstm and lstm-bare (without the guard)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// What `motet agent train` wrote, for the policies lstm and lstm-bare
    #[arg(long, value_name = "FILE")]
    pub(crate) policy_file: Option<String>,
    /// Only these families of scenarios, several after commas: held-out (quiet, abrupt, periodic, drifting, neighbour, faults,
    /// sockets, 3d), fresh (straggler, bursts, messages, paths, protocols, creep, sizes), training (stage-1, stage-2,
    /// stage-3), or single ones. Without it held-out and fresh ones
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) family: Vec<String>,
    /// Scenarios of each family
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: u64,
    /// Calls of each scenario
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) calls: u64,
    /// Decide for so many calls at a time, as tables that all ranks swap do
    #[arg(long, value_name = "CALLS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) epoch: u64,
    /// With `--epoch`: what is tried holds for so many calls of a size, before what stands in the table runs again
    #[arg(long, value_name = "CALLS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) lease: u32,
    /// The seed that all scenarios are drawn from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the table to this file: CSV, or Parquet by its ending
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Write regret over time to this file, as an SVG
    #[arg(long, value_name = "FILE", value_parser = super::svg)]
    pub(crate) plot: Option<String>,
    /// Write which kernels ran where which would have been best to this file, as an SVG: of infer if it is among the
    /// policies, else of the first
    #[arg(long, value_name = "FILE", value_parser = super::svg)]
    pub(crate) plot_confusion: Option<String>,
    /// Write which kernels ran at which tier to this file, as an SVG, of the same policy
    #[arg(long, value_name = "FILE", value_parser = super::svg)]
    pub(crate) plot_tiers: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "CLUSTER", help = super::CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// The collective of the call
    #[arg(short, long, default_value = "allreduce")]
    pub(crate) collective: CollectiveKind,
    /// Its size, in nccl-tests' meaning
    #[arg(short, long, default_value = "1 MiB")]
    pub(crate) size: Bytes,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
