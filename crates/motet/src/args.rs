//! The arguments of every command, as the user types them.

pub(crate) mod bound;
pub(crate) mod discovery;
pub(crate) mod help;
pub(crate) mod plan;
pub(crate) mod sketch;
pub(crate) mod what_if;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use motet_collective::CollectiveKind;
use motet_synth::Method;
use motet_units::{Bandwidth, Bytes};
use motet_wan::Strength;

/// What every command says of its CLUSTER.
pub(crate) const CLUSTER: &str = "The network: a file in any format that `motet net show` reads, a template \
     with parameters such as dgx-h100:count=4 (`motet net gen --list` shows all), or - for stdin";

const AFTER_HELP: &str = "\
New here? Describe your cluster (docs/cluster-file.md) or take a template, then:
  motet net show CLUSTER                what Motet reads
  motet bound CLUSTER -c allreduce      what the network allows at most
  motet plan CLUSTER -o plan            what NCCL, MSCCL and MSCCL++ should load, with a report
CLUSTER is a file, a template such as dgx-h100:count=4 (`motet net gen --list`), or - for stdin.
Exit codes: 0 done, 1 the input was understood and is wrong, 2 usage or unreadable input.";

/// Collective communication, fast on the network it really runs on
#[derive(Debug, Parser)]
#[command(name = "motet", version, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No notes and no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// More detail
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// From a cluster to tuned programs and knobs, with a report
    Plan(plan::PlanArgs),
    /// Networks: read any supported file, print or write it
    #[command(subcommand)]
    Net(NetCommand),
    /// Latency and bandwidth between hosts, measured over TCP between agents
    #[command(subcommand)]
    Probe(discovery::ProbeCommand),
    /// The least time any program could take, and the cut that sets it
    Bound(bound::BoundArgs),
    /// Make a program for a collective on a network, close to the bound
    Synth(SynthArgs),
    /// Prove a program right, or say everything that is wrong with it
    Verify(VerifyArgs),
    /// Write a program in the format of a real runtime
    Export(ExportArgs),
    /// Simulate a program: its time, its bandwidth, and what every link does meanwhile
    Sim(SimArgs),
    /// nccl-tests' table: what NCCL would do on a network
    Bench(BenchArgs),
    /// Routes and programs over a WAN: the reconfiguration modes over many collectives
    Wan(WanArgs),
    /// Tables and figures of the papers that Motet builds on, ours beside what was published
    Reproduce(ReproduceArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell to write it for
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, which is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,
}

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

/// What a file may leave open.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Bandwidth of wide-area links whose file gives none
    #[arg(long, value_name = "BANDWIDTH", help_heading = "Reading")]
    pub(crate) wan_bandwidth: Option<Bandwidth>,
    /// Chunk size that the costs of a TACCL file are for
    #[arg(long, value_name = "SIZE", help_heading = "Reading")]
    pub(crate) taccl_chunk: Option<Bytes>,
    /// Bandwidth of one NVLink, for the output of `nvidia-smi topo -m`
    #[arg(long, value_name = "BANDWIDTH", help_heading = "Reading")]
    pub(crate) nvlink: Option<Bandwidth>,
    /// Bandwidth of a PCIe link, for the output of `nvidia-smi topo -m`
    #[arg(long, value_name = "BANDWIDTH", help_heading = "Reading")]
    pub(crate) pcie: Option<Bandwidth>,
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

#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    #[arg(value_name = "CLUSTER", required_unless_present = "list", help = CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// allgather, reducescatter, allreduce, broadcast, reduce, gather, scatter, alltoall,
    /// alltoallv (with `--counts`) or sendrecv (every rank to the next)
    #[arg(short, long, required_unless_present = "list")]
    pub(crate) collective: Option<CollectiveKind>,
    /// The size in nccl-tests' sense: "1 GiB"
    #[arg(short, long, required_unless_present = "list")]
    pub(crate) size: Option<Bytes>,
    /// How to make it; `--list` shows them all
    #[arg(short, long, default_value = "auto", value_parser = method)]
    pub(crate) method: Method,
    /// List the methods
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the program, in Motet's own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Only the first so many GPUs take part
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// The root of a broadcast, reduce, gather or scatter
    #[arg(long, default_value_t = 0)]
    pub(crate) root: u32,
    /// What each rank has for each other: a row of numbers per sending rank
    #[arg(long, value_name = "FILE")]
    pub(crate) counts: Option<String>,
    /// Which links may be used: a sketch, Motet's or TACCL's (`motet net sketch` writes both)
    #[arg(long, value_name = "FILE")]
    pub(crate) sketch: Option<String>,
    /// Keep to what this runtime can load, and say what that costs
    #[arg(long = "for", value_name = "RUNTIME")]
    pub(crate) within: Option<RuntimeArg>,
    /// How hard to try: low, normal, high (every method to its end), or how many times as much work as
    /// normal; normal takes a few seconds for up to 64 ranks
    #[arg(long, value_name = "EFFORT", default_value = "normal", value_parser = effort)]
    pub(crate) effort: EffortArg,
    /// Stop after so many seconds with the best so far; the result then depends on the machine
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) budget: Option<f64>,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) what_if: what_if::WhatIfArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// How much work synthesis may do: so many times the normal amount, or any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EffortArg(pub(crate) Option<f64>);

fn effort(text: &str) -> Result<EffortArg, String> {
    match text {
        "low" => Ok(EffortArg(Some(0.1))),
        "normal" => Ok(EffortArg(Some(1.0))),
        "high" => Ok(EffortArg(None)),
        _ => match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(EffortArg(Some(times))),
            _ => Err("give low, normal, high, or a number above 0".to_owned()),
        },
    }
}

/// A runtime with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeArg {
    Msccl,
    Mscclpp,
}

/// Every way of making a program: those of synthesis, and the exact search.
pub(crate) fn methods() -> impl Iterator<Item = Method> {
    Method::all().chain([Method::Recipe(&motet_exact::METHOD)])
}

fn method(text: &str) -> Result<Method, String> {
    methods().find(|it| it.name() == text).ok_or_else(|| {
        let known = methods().map(Method::name).collect::<Vec<_>>().join(", ");
        let (what, name) = ("method", text.to_owned());
        motet_net::node::UnknownName { what, name, known }.to_string()
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number of seconds above zero"))
}

/// What the programs hand can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hand {
    /// Other orders of ranks in the same rings and trees
    Remap,
    /// Programs made for the network and its state
    Synth,
}

impl From<Hand> for Strength {
    fn from(hand: Hand) -> Self {
        match hand {
            Hand::Remap => Self::Remap,
            Hand::Synth => Self::Synth,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct WanArgs {
    /// What to run: see docs/wan.md
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// How many collectives, instead of what the scenario says
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// The seed, instead of what the scenario says
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Only this strength of the programs hand
    #[arg(long)]
    pub(crate) strength: Option<Hand>,
    /// On how many of the collectives to find the bound and the best program in hindsight; 0 for none
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) yardstick: u32,
    /// Write all tables and pictures into this folder, and the programs and routes at the end
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<String>,
    /// Write what every collective took in every mode; Parquet if the name ends so
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) csv: Option<String>,
    /// Write when bandwidth, routes and programs changed; Parquet or a picture if the name ends so
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) timeline: Option<String>,
    /// Draw how completion times are distributed
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) svg: Option<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

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
}

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
    #[arg(long, value_name = "OUT.svg")]
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
    pub(crate) what_if: what_if::WhatIfArgs,
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

/// With any of these the program runs as a runtime's kernels run it.
#[derive(Debug, Args)]
#[group(id = "knobs", multiple = true, conflicts_with_all = ["trace", "over_time", "discipline"])]
pub(crate) struct KnobArgs {
    /// As the runtime's kernels run it, with the settings of the file's own header
    #[arg(long, help_heading = "Knobs (the program as the runtime's kernels run it)")]
    pub(crate) kernels: bool,
    /// How NCCL's kernels pass data on; by default as the program says
    #[arg(
        long,
        ignore_case = true,
        help_heading = "Knobs (the program as the runtime's kernels run it)"
    )]
    pub(crate) protocol: Option<ProtocolArg>,
    /// Channels in all: a multiple of the program's own, which is the default
    #[arg(
        long,
        value_name = "COUNT",
        help_heading = "Knobs (the program as the runtime's kernels run it)"
    )]
    pub(crate) channels: Option<u32>,
    /// Threads of a thread block; by default the protocol's most
    #[arg(
        long,
        value_name = "COUNT",
        help_heading = "Knobs (the program as the runtime's kernels run it)"
    )]
    pub(crate) threads: Option<u32>,
    /// The buffer of a connection; by default NCCL's for the protocol
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Knobs (the program as the runtime's kernels run it)"
    )]
    pub(crate) buffer_size: Option<Bytes>,
}

/// Where a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// NCCL's own cost model
    Sim,
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
    #[arg(value_name = "CLUSTER", help = CLUSTER)]
    pub(crate) cluster: String,
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
}
