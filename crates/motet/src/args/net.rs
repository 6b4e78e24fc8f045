//! The arguments of `motet net`; those of its longer commands are in [`super::discovery`] and
//! [`super::sketch`].

use clap::{Args, Subcommand, ValueEnum};

use super::read::ReadArgs;
use super::{CLUSTER, discovery, sketch};

#[derive(Debug, Subcommand)]
pub(crate) enum NetCommand {
    /// What a network is made of
    Show(ShowArgs),
    /// Write a network in another format
    Convert(ConvertArgs),
    /// Make a network from a template
    Gen(GenArgs),
    /// What differs between two networks
    Diff(DiffArgs),
    /// The network of this machine: GPUs, NICs, PCIe, NUMA and the links between GPUs
    Discover(discovery::DiscoverArgs),
    /// A sketch for `motet synth` from the network alone: GPUs bound, NICs grouped, the rest left out
    Sketch(sketch::SketchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// What a network can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// Motet's cluster file
    Toml,
    Graphml,
    /// Graphviz
    Dot,
    /// A picture
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct OutArgs {
    /// The format; by default that of the output file's ending, or toml
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<Picture>,
    /// Where to write it; stdout by default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) out: OutArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// The template
    #[arg(required_unless_present = "list", value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,
    /// Its parameters, as key=value
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// List the templates and their parameters
    #[arg(long)]
    pub(crate) list: bool,
    /// The seed of templates that are random
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) out: OutArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[arg(value_name = "BEFORE", help = CLUSTER)]
    pub(crate) before: String,
    /// The other network, likewise
    #[arg(value_name = "AFTER")]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
