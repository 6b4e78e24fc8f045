//! The arguments of `motet net sketch`.

use clap::{Args, ValueEnum};

use super::CLUSTER;
use super::read::ReadArgs;

/// What a sketch can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SketchFormat {
    /// Motet's sketch file (TOML)
    Motet,
    /// TACCL's sketch (JSON); servers must be alike
    Taccl,
}

#[derive(Debug, Args)]
pub(crate) struct SketchArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
    /// GPUs of each server that exchange data with other servers, spread over its NICs; all by default
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Stop after binding: every NIC with every one of another server
    #[arg(long, conflicts_with = "connections")]
    pub(crate) ungrouped: bool,
    /// The format; by default taccl if the output file ends in .json, or motet
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<SketchFormat>,
    /// Where to write it; stdout by default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
