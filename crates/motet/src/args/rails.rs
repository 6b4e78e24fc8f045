//! The arguments of `motet rails`.

use clap::{Args, Subcommand, ValueEnum};
use motet_collective::CollectiveKind;
use motet_rails::optical::Granularity;
use motet_units::{Bandwidth, Bytes, Duration};

use super::workload::LayoutArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum RailsCommand {
    /// The time between phases of traffic on a rail, in which circuits can change for free
    Windows(WindowsArgs),
    /// A training step on optical rails, beside packet switches and circuits that stay
    Sim(RailsSimArgs),
    /// Circuits and program for one phase, chosen together: what other circuits than rings add
    Circuits(CircuitsArgs),
    /// How many GPUs optical switches of each technology reach
    Scale(ScaleArgs),
    /// What optical rails cost in dollars and watts, beside packet-switched networks
    Cost(CostArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WindowsArgs {
    /// A training job (docs/workloads.md), a model's name with the options below, or the traces of all
    /// ranks; a folder stands for its files
    #[arg(value_name = "JOB|TRACE", required = true)]
    pub(crate) inputs: Vec<String>,
    /// Which rail, where traces are looked at; simulated rails are all alike
    #[arg(long, default_value_t = 0)]
    pub(crate) rail: u32,
    /// Only traffic of the ranks of this pipeline stage (of a job)
    #[arg(long, value_name = "STAGE", conflicts_with = "rank")]
    pub(crate) stage: Option<u32>,
    /// Only traffic of this rank (of traces)
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// Another collective of the same parallelism is another phase too, as in a job that has only one
    #[arg(long)]
    pub(crate) collectives: bool,
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RailsSimArgs {
    /// A training job (docs/workloads.md has the file's keys), or a model's name with the options below
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// What moving mirrors takes, several after commas
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_values = ["1 ms", "10 ms", "25 ms", "100 ms", "1000 ms"])]
    pub(crate) delay: Vec<Duration>,
    /// What asking the controller and commanding the switch takes
    #[arg(long, value_name = "TIME", default_value = "0 ms")]
    pub(crate) command_delay: Duration,
    /// What transceivers take to find each other again
    #[arg(long, value_name = "TIME", default_value = "0 ms")]
    pub(crate) link_up: Duration,
    /// Ports of a NIC, which share its bandwidth
    #[arg(long, default_value_t = 2)]
    pub(crate) ports: u32,
    /// Which circuits change together
    #[arg(long, value_enum, default_value_t = Unit::Group)]
    pub(crate) granularity: Unit,
    /// Send AllReduces of up to this size over the host's packet network
    #[arg(long, value_name = "SIZE")]
    pub(crate) offload: Option<Bytes>,
    /// Run the step many times more with a knobs hand: a policy of `motet agent eval` that chooses for each AllReduce that no
    /// circuits carry whether it goes by rings or by trees
    #[arg(long, value_name = "POLICY")]
    pub(crate) agent: Option<String>,
    /// With `--agent`: how many steps
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "agent")]
    pub(crate) steps: u32,
    /// Write the step on optical rails as a timeline for ui.perfetto.dev: the first delay, provisioned
    #[arg(long, value_name = "OUT.json")]
    pub(crate) trace: Option<String>,
    #[command(flatten)]
    pub(crate) files: FilesArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CircuitsArgs {
    /// The collective of the phase
    #[arg(short, long)]
    pub(crate) collective: CollectiveKind,
    /// Its size, in nccl-tests' sense
    #[arg(short, long)]
    pub(crate) size: Bytes,
    /// Servers that the group spans: members on the rail
    #[arg(long, default_value_t = 8)]
    pub(crate) members: u32,
    /// Ports of a NIC, which share its bandwidth
    #[arg(long, default_value_t = 4)]
    pub(crate) ports: u32,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// What changes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    /// The circuits of one communication group
    Group,
    /// All circuits of a rail
    Rail,
}

impl From<Unit> for Granularity {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Group => Self::Group,
            Unit::Rail => Self::Rail,
        }
    }
}

/// Results as files.
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Write all rows (every window, every delay); Parquet if the name ends so
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) csv: Option<String>,
    /// Draw them: windows by length, the step over the delay
    #[arg(long, value_name = "OUT.svg", value_parser = super::svg)]
    pub(crate) svg: Option<String>,
}

/// What GPUs are connected by.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The machine")]
pub(crate) struct MachineArgs {
    /// perlmutter, dgx-a100, dgx-h100, dgx-h200 or gb200-nvl72 [default: the DGX of the job's GPU]
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// GPUs per scale-up domain, instead
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) domain: Option<u32>,
    /// A GPU's bandwidth on its rail, instead
    #[arg(long, value_name = "BANDWIDTH")]
    pub(crate) nic: Option<Bandwidth>,
    /// A GPU's bandwidth inside its domain, instead
    #[arg(long, value_name = "BANDWIDTH")]
    pub(crate) scale_up: Option<Bandwidth>,
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
