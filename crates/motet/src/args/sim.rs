//! The arguments of `motet sim`.

use clap::{Args, ValueEnum};
use motet_units::Bytes;

use super::CLUSTER;
use super::read::ReadArgs;
use super::what_if::WhatIfArgs;

/// The order in which a link carries the transfers that want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Turns {
    /// In the program's order, even if a later one is ready before
    ProgramOrder,
    /// As they come
    Fifo,
    /// All at once, at max–min fair rates
    Fair,
}

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
    /// A program: ours, MSCCL XML or an MSCCL++ JSON plan; it runs on the first GPUs
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// The size in nccl-tests' sense: "1 GiB"
    #[arg(short, long)]
    pub(crate) size: Bytes,
    /// Write a timeline of every link and rank, for ui.perfetto.dev
    #[arg(long, value_name = "OUT.json")]
    pub(crate) trace: Option<String>,
    /// Draw the network with every link coloured by how busy it was
    #[arg(long, value_name = "OUT.svg", value_parser = super::svg)]
    pub(crate) svg: Option<String>,
    /// Who goes first on a link [default: the program's order; for a file of a runtime all at once, as its
    /// thread blocks share links]
    #[arg(long, value_enum)]
    pub(crate) discipline: Option<Turns>,
    /// Leave out the program's routes and its order on links: this network's shortest paths carry it, as they
    /// do a runtime's file. For a program that was made for another network
    #[arg(long)]
    pub(crate) reroute: bool,
    /// Switches pass data on when it is whole, as GPUs do, not as it comes
    #[arg(long)]
    pub(crate) store_and_forward: bool,
    /// How many of the busiest links to show
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) top: usize,
    /// Show when links are busy, in so many equal parts of the time
    #[arg(long, value_name = "PARTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) over_time: Option<u32>,
    #[command(flatten)]
    pub(crate) knobs: KnobArgs,
    #[command(flatten)]
    pub(crate) what_if: WhatIfArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// A protocol of NCCL's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArg {
    Simple,
    Ll,
    Ll128,
}

const KNOBS: &str = "Knobs (the program as the runtime's kernels run it)";

/// With any of these the program runs as a runtime's kernels run it.
#[derive(Debug, Args)]
#[group(id = "knobs", multiple = true, conflicts_with_all = ["trace", "over_time", "discipline"])]
pub(crate) struct KnobArgs {
    /// As the runtime's kernels run it, with the settings of the file's own header
    #[arg(long, help_heading = KNOBS)]
    pub(crate) kernels: bool,
    /// How NCCL's kernels pass data on; by default as the program says
    #[arg(long, ignore_case = true, help_heading = KNOBS)]
    pub(crate) protocol: Option<ProtocolArg>,
    /// Channels in all: a multiple of the program's own, which is the default
    #[arg(long, value_name = "COUNT", help_heading = KNOBS)]
    pub(crate) channels: Option<u32>,
    /// Threads of a thread block; by default the protocol's most
    #[arg(long, value_name = "COUNT", help_heading = KNOBS)]
    pub(crate) threads: Option<u32>,
    /// The buffer of a connection; by default NCCL's for the protocol
    #[arg(long, value_name = "SIZE", help_heading = KNOBS)]
    pub(crate) buffer_size: Option<Bytes>,
}
