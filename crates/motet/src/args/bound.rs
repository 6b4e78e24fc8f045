//! The arguments of `motet bound`.

use clap::Args;
use motet_collective::CollectiveKind;
use motet_units::Bytes;

use super::CLUSTER;
use super::read::ReadArgs;
use super::sizes::SizesArgs;
use super::what_if::WhatIfArgs;

#[derive(Debug, Args)]
pub(crate) struct BoundArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
    /// allgather, reducescatter, allreduce, broadcast, reduce, gather, scatter, alltoall or
    /// sendrecv (every rank to the next); several, separated by commas, give a table
    #[arg(short, long, required = true, value_delimiter = ',')]
    pub(crate) collective: Vec<CollectiveKind>,
    /// The size in nccl-tests' sense, to get a time: "1 GiB"; several, separated by commas, give a table
    #[arg(short, long, value_delimiter = ',')]
    pub(crate) size: Vec<Bytes>,
    #[command(flatten)]
    pub(crate) range: SizesArgs,
    /// The root of a broadcast, reduce, gather or scatter
    #[arg(long, default_value_t = 0)]
    pub(crate) root: u32,
    /// Try several values of one of the template's parameters: count=2,4,8
    #[arg(long, value_name = "KEY=VALUES", help_heading = "Many at once")]
    pub(crate) sweep: Option<String>,
    /// Write the table, one row per bound; Parquet if the name ends so
    #[arg(long, value_name = "OUT.csv", help_heading = "Many at once")]
    pub(crate) csv: Option<String>,
    /// Draw GB/s over the values of `--sweep`, or over the sizes
    #[arg(long, value_name = "OUT.svg", help_heading = "Many at once", value_parser = super::svg)]
    pub(crate) plot: Option<String>,
    #[command(flatten)]
    pub(crate) what_if: WhatIfArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
