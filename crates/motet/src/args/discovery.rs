//! The arguments of `motet net discover` and `motet probe`.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};
use motet_units::Bytes;

#[derive(Debug, Args)]
pub(crate) struct DiscoverArgs {
    /// The root of the sysfs tree: that of this machine, or a recorded one
    #[arg(long, value_name = "FOLDER", default_value = "/sys")]
    pub(crate) sysfs: String,
    /// What `nvidia-smi topo -m`, `nvlink -R`, `nvlink -s` or several of them printed; by default
    /// nvidia-smi is run, if it is there and the tree is this machine's
    #[arg(long, value_name = "FILE")]
    pub(crate) nvidia_smi: Option<String>,
    /// Measure the bandwidth of GPUs with CUDA; keeps their copy engines busy for some seconds
    #[arg(long)]
    pub(crate) measure: bool,
    /// What to call the network
    #[arg(long, default_value = "discovered")]
    pub(crate) name: String,
    /// Write the cluster file, with the source of each figure as a comment; `-` for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProbeCommand {
    /// The agent of this host: answers probes until it is stopped
    Serve(ServeArgs),
    /// Measure between the agents of hosts, and make a network of it
    Run(RunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: an address of this host and a port, 0 for any
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Serve anybody on this machine, and nobody else; needs a loopback address to listen on
    #[arg(long, conflicts_with = "token")]
    pub(crate) no_token: bool,
    /// Connections at once, at most
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) max_connections: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SharedArgs {
    /// What all agents and whoever asks them must say [default: MOTET_PROBE_TOKEN; an agent makes one up
    /// if that is not set either]
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) token: Option<String>,
    /// For each step of a conversation
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
}

/// What to make of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArg {
    /// Hosts below the switch of their rack, racks below a spine, datacenters joined by a WAN
    Racks,
    /// Hosts joined pairwise
    Direct,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The hosts: see docs/discovery.md
    #[arg(value_name = "HOSTS")]
    pub(crate) hosts: String,
    /// What is given after it, which is refused with what to do instead.
    #[arg(hide = true)]
    pub(crate) more: Vec<String>,
    /// Write the cluster file, with the source of each figure as a comment; `-` for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Past utilization, as CSV: from,to,utilization
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<String>,
    /// Leave out pairs whose past utilization is below this
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(crate) low: f64,
    /// Only say which pairs would be probed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, default_value = "racks")]
    pub(crate) model: ModelArg,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Bytes of a stream each way
    #[arg(long, value_name = "SIZE", default_value = "64 MiB", help_heading = "Probes")]
    pub(crate) bytes: Bytes,
    /// Connections of a stream
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Probes")]
    pub(crate) streams: u32,
    /// Round trips whose median counts
    #[arg(long, value_name = "COUNT", default_value_t = 200, help_heading = "Probes")]
    pub(crate) pings: u32,
    /// The most that one probe may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Probes", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) deadline: u64,
    /// Probes at once, at most; never two of one host or out of one rack
    #[arg(long, value_name = "COUNT", default_value_t = 32, help_heading = "Probes", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) parallel: u32,
    /// Rings of pairs through a rack of many hosts, and through many racks
    #[arg(long, value_name = "COUNT", default_value_t = 2, help_heading = "Sampling", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) rings: u32,
    /// Pairs of hosts that stand for two racks or two datacenters
    #[arg(long, value_name = "COUNT", default_value_t = 2, help_heading = "Sampling", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) representatives: u32,
    #[arg(long, default_value_t = 1, help_heading = "Sampling")]
    pub(crate) seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it: &f64| (0.0..=1.0).contains(it));
    value.ok_or_else(|| format!("`{text}` is no number from 0 to 1"))
}
