//! The arguments of `motet bench`.

use clap::{Args, ValueEnum};
use motet_collective::CollectiveKind;
use motet_units::Bytes;

use super::CLUSTER;
use super::live::LiveArgs;
use super::read::ReadArgs;

/// Where a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// By NCCL's own cost model
    Sim,
    /// NCCL itself, on the GPUs of this machine or of a job
    Nccl,
    /// Motet's programs between processes of this machine, as `motet exec bench` runs them
    Tcp,
}

/// The versions of NCCL that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Nccl {
    #[value(name = "2.28")]
    V2_28,
    #[value(name = "2.30")]
    V2_30,
    /// By the development branch before it: the release has no source
    #[value(name = "2.32", alias = "2.31")]
    V2_32,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER, required_unless_present = "ranks")]
    pub(crate) cluster: Option<String>,
    /// allreduce, allgather, reducescatter, broadcast, reduce or alltoall
    #[arg(short, long, default_value = "allreduce")]
    pub(crate) collective: CollectiveKind,
    /// The least size in nccl-tests' sense
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "8")]
    pub(crate) min: Bytes,
    /// The greatest size
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "128 MiB")]
    pub(crate) max: Bytes,
    /// From one size to the next
    #[arg(short = 'f', long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) factor: u64,
    /// Terms of NCCL that `motet calibrate -o` fitted to measured calls: times are by them, choices stay NCCL's
    #[arg(long, value_name = "FILE", conflicts_with = "tuning")]
    pub(crate) terms: Option<String>,
    /// What runs it
    #[arg(long, default_value = "sim")]
    pub(crate) backend: Backend,
    /// The version of NCCL
    #[arg(long, value_name = "VERSION", default_value = "2.30")]
    pub(crate) nccl: Nccl,
    /// Print NCCL's tables of latency and bandwidth instead, as its TUNING log does; with -v its
    /// GRAPH lines too
    #[arg(long, conflicts_with_all = ["collective", "min", "max", "factor"])]
    pub(crate) tuning: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// How many ranks to start on this machine, in place of CLUSTER
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..), help_heading = "With --backend nccl or tcp")]
    pub(crate) ranks: Option<u32>,
    /// Let the plan in this folder decide, rather than NCCL
    #[arg(long, value_name = "FOLDER", help_heading = "With --backend nccl")]
    pub(crate) plan: Option<String>,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}
