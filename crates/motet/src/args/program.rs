//! The arguments of `motet verify` and `motet export`, which take nothing but a program.

use clap::{Args, ValueEnum};
use motet_units::Bytes;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A program: ours, MSCCL XML or an MSCCL++ JSON plan
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Check its paths on this network too
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) net: Option<String>,
}

/// The runtimes a program can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// MSCCL XML
    Msccl,
    /// MSCCL++ JSON execution plan
    Mscclpp,
    /// Motet's own program file
    Motet,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A program: ours, MSCCL XML or an MSCCL++ JSON plan
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    #[arg(long)]
    pub(crate) to: Target,
    /// Where to write it; stdout by default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// The network to say for what the file loses [default: the one that `motet synth` made it for]
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<String>,
    /// The size to say it at, in nccl-tests' sense [default: the one that `motet synth` made it for]
    #[arg(short, long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Parallel copies of the program, each on its part of the data and on threadblocks of its own
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) instances: u32,
    /// MSCCL: steps that a threadblock of the runtime's build holds [default: 64, Azure's executor]
    #[arg(long, value_name = "COUNT", help_heading = "Runtimes")]
    pub(crate) msccl_steps: Option<u32>,
    /// MSCCL: at least so many parallel channels between two ranks
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Runtimes")]
    pub(crate) msccl_channels: u32,
    /// MSCCL: as few threadblocks as peers allow, which leaves more of a GPU to compute
    #[arg(long, help_heading = "Runtimes")]
    pub(crate) packed: bool,
    /// MSCCL++: ports between servers of so many consecutive ranks [default: as the network says; one server
    /// if none is known]
    #[arg(long, value_name = "COUNT", help_heading = "Runtimes")]
    pub(crate) gpus_per_server: Option<u32>,
    /// MSCCL++: threads of a threadblock
    #[arg(long, value_name = "COUNT", default_value_t = 1024, help_heading = "Runtimes")]
    pub(crate) mscclpp_threads: u32,
    /// MSCCL++: for calls in place, if the program serves both forms; a plan is for one
    #[arg(long, help_heading = "Runtimes")]
    pub(crate) in_place: bool,
    /// MSCCL++: ranks that share a GPU, on which all their threadblocks must fit at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Runtimes")]
    pub(crate) ranks_per_gpu: u32,
}
