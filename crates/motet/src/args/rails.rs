//! The arguments of `motet rails`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum RailsCommand {
    /// How many GPUs optical switches of each technology reach
    Scale(ScaleArgs),
    /// What optical rails cost in dollars and watts, beside packet-switched networks
    Cost(CostArgs),
}

/// How GPUs are wired to optical switches.
#[derive(Debug, Args)]
pub(crate) struct WiringArgs {
    /// Ports of a GPU's NIC; two are what a ring needs
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ports: u32,
    /// Two fibres per port, one for each direction, instead of bidirectional transceivers
    #[arg(long)]
    pub(crate) fibre_pairs: bool,
    /// A switch for each port of the NICs: as many times the reach, but rings of even length only
    #[arg(long)]
    pub(crate) planes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// GPUs per scale-up domain: 8 in a DGX H200, 72 in a GB200 NVL72
    #[arg(long, value_name = "GPUS", value_delimiter = ',', default_values_t = [72, 8], value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) domain: Vec<u32>,
    /// Ports of an optical switch of your own, as one more row
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) switch_ports: Option<u32>,
    #[command(flatten)]
    pub(crate) wiring: WiringArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// GPUs of the clusters
    #[arg(long, value_name = "GPUS", value_delimiter = ',', default_values_t = [256, 512, 1024, 2048, 2304])]
    pub(crate) gpus: Vec<u64>,
    /// GPUs per server, and so rails
    #[arg(long, value_name = "GPUS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) domain: u32,
    /// Prices and powers (TOML); by default round figures, each with its source
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<String>,
    /// Write the default prices to a file, to edit
    #[arg(long, value_name = "FILE", conflicts_with = "prices")]
    pub(crate) write_prices: Option<String>,
    /// Count NICs too, which all designs have alike
    #[arg(long)]
    pub(crate) nics: bool,
    /// Write the table as CSV or Parquet, by the file's ending
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) wiring: WiringArgs,
}
