//! The arguments of `motet plan`.

use clap::{Args, Subcommand, ValueEnum};
use motet_collective::CollectiveKind;
use motet_tune::search::Method;
use motet_units::{Bytes, Duration};

use super::CLUSTER;
use super::live::LiveArgs;
use super::read::ReadArgs;
use super::workload::LayoutArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PlanCommand>,
    #[command(flatten)]
    pub(crate) make: MakeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// A plan as a table
    Show(ShowArgs),
    /// Reads everything that was written again: right, loadable, as fast as the table says
    Check(CheckArgs),
    /// What differs between two plans
    Diff(DiffArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MakeArgs {
    #[arg(value_name = "CLUSTER", required = true, help = CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// The folder of the plan; a plan that is there stays until the new one is whole
    #[arg(short, long, value_name = "FOLDER", required = true)]
    pub(crate) output: Option<String>,
    /// Plan for the calls of a workload instead: a training job, a model's name with the options below, or
    /// a folder with its ranks' traces; one plan for each sort of group, in folders of their own
    #[arg(long, value_name = "JOB", conflicts_with_all = ["collectives", "min", "max", "factor", "sketch"])]
    pub(crate) workload: Option<String>,
    /// The collectives, separated by commas
    #[arg(
        short = 'c',
        long,
        alias = "collective",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "allreduce,allgather,reducescatter,broadcast,reduce"
    )]
    pub(crate) collectives: Vec<CollectiveKind>,
    /// The least size
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "1 KiB")]
    pub(crate) min: Bytes,
    /// The greatest size
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "1 GiB")]
    pub(crate) max: Bytes,
    /// From one size to the next
    #[arg(short = 'f', long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) factor: u64,
    /// Only programs that keep to this sketch, beside the textbook and NCCL's own
    #[arg(long, value_name = "FILE")]
    pub(crate) sketch: Option<String>,
    /// What a program must gain over NCCL's best to be picked, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    pub(crate) margin: u32,
    /// The most thread blocks that a program may take from a GPU; without it, as many as NCCL would
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_blocks: Option<u32>,
    /// Make programs for this runtime alone, beside NCCL: msccl or mscclpp
    #[arg(long, value_name = "RUNTIME", value_parser = ["msccl", "mscclpp"])]
    pub(crate) runtime: Option<String>,
    /// How many ranks share a GPU; their thread blocks must all fit at once (MSCCL++)
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) ranks_per_gpu: u32,
    /// Plans of MSCCL++ for calls in place: input and output are one buffer, or one is a part of the
    /// other
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Also write every plan of MSCCL++ that was considered into this folder, with what the model says of each, and
    /// a manifest for benches/mscclpp to time them
    #[arg(long, value_name = "FOLDER", conflicts_with = "workload")]
    pub(crate) write_candidates: Option<String>,
    /// Terms that plans of MSCCL++ are priced by, as `motet calibrate -o` writes them [default: those of
    /// an H200]
    #[arg(long, value_name = "FILE")]
    pub(crate) terms: Option<String>,
    /// How to search the communicator's settings: surrogate, mraco, hyperband, coordinate, random,
    /// literal or grid
    #[arg(long, value_name = "METHOD", default_value_t = Method::Surrogate)]
    pub(crate) search: Method,
    /// Settings of the communicator (threads, buffers) that the search may try
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(crate) trials: u32,
    /// The seed of the search
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// What times are from
    #[arg(long, default_value = "sim")]
    pub(crate) backend: Backend,
    /// How long to measure, as 90s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time, help_heading = "With --backend nccl or tcp")]
    pub(crate) budget: Duration,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) tcp: TcpArgs,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// What the times of a plan are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Models of NCCL, MSCCL and MSCCL++
    Sim,
    /// NCCL itself, on the GPUs of this machine or of a job
    Nccl,
    /// Programs between processes, as `motet exec` runs them
    Tcp,
}

/// How ranks of `--backend tcp` find each other, where they are not all on this machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --backend tcp")]
pub(crate) struct TcpArgs {
    /// Run as this rank of the cluster alone; the same command on all hosts, and rank 0 writes the plan
    #[arg(long, requires = "store")]
    pub(crate) rank: Option<u32>,
    /// Where ranks meet; rank 0 serves it
    #[arg(long, value_name = "HOST:PORT", requires = "rank")]
    pub(crate) store: Option<String>,
    /// What all ranks know; needed outside loopback [default: MOTET_EXEC_TOKEN]
    #[arg(long, value_name = "TEXT")]
    pub(crate) token: Option<String>,
    /// TCP connections for data between two ranks
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) streams: u32,
    /// TCP between ranks of one host too
    #[arg(long)]
    pub(crate) no_shared_memory: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let count: u64 =
        number.trim().parse().map_err(|_| "give a time such as 90s, 10m or 1h".to_owned())?;
    let seconds = count.checked_mul(seconds).filter(|it| (1..=1_000_000).contains(it));
    seconds.map(|it| Duration::from_ms(it * 1000)).ok_or("give between 1 s and 11 days".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The folder of the plan
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
    /// Refuse the plan unless it is for this network
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) network: Option<String>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The folder of the plan
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The folder of one plan
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// The folder of the other
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
}
