//! The arguments of `motet reproduce`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Which; `--list` shows them all
    #[arg(value_name = "NAME", required_unless_present = "list", conflicts_with = "list")]
    pub(crate) name: Option<String>,
    /// List what can be reproduced
    #[arg(long)]
    pub(crate) list: bool,
    /// How many collectives each point is of, where it is of many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the figures as CSV, Parquet and SVG into this folder
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,
}
