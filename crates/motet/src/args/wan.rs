//! The arguments of `motet wan`.

use clap::{Args, ValueEnum};
use motet_control::hand::HandKind;
use motet_wan::Strength;

use super::read::ReadArgs;

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

/// How a live run's hands know the rates of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveSight {
    /// They are told them, as the simulation assumes
    Told,
    /// From the throughput of the collectives so far
    Measured,
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
    /// Only modes in which none but these hands move, several after commas: routes, programs, knobs
    #[arg(long, value_name = "HAND", value_delimiter = ',')]
    pub(crate) hands: Vec<HandKind>,
    /// Also run every mode with a knobs hand: a policy of `motet agent eval` that chooses NCCL's algorithm and channels before
    /// every collective; `infer` if `--hands` names knobs and this is not given
    #[arg(long, value_name = "POLICY")]
    pub(crate) agent: Option<String>,
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
    #[arg(long, value_name = "OUT.svg", value_parser = super::svg)]
    pub(crate) svg: Option<String>,
    /// Run base, routes, programs and both on a testbed of network namespaces too, and print live beside simulated (Linux, root;
    /// see docs/testbed.md)
    #[arg(long, help_heading = "Live", conflicts_with_all = ["hands", "agent", "output", "timeline", "svg"])]
    pub(crate) live: bool,
    /// What the hands know of links' rates in a live run
    #[arg(
        long,
        value_name = "HOW",
        default_value = "told",
        requires = "live",
        help_heading = "Live"
    )]
    pub(crate) sight: LiveSight,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
