//! The arguments of `motet agent export`.

use clap::Args;
use motet_collective::CollectiveKind;
use motet_units::Bytes;

use crate::args::CLUSTER;

#[derive(Debug, Args)]
pub(crate) struct AgentExportArgs {
    /// What `motet agent train` wrote
    pub(crate) policy: String,
    #[arg(help = CLUSTER)]
    pub(crate) cluster: String,
    /// Write the tables into this folder, one for each level of congestion
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: String,
    /// Collectives that the tables are for
    #[arg(short, long, value_delimiter = ',', default_values = ["allreduce", "allgather", "reducescatter"])]
    pub(crate) collective: Vec<CollectiveKind>,
    /// Sizes that the policy is asked about; the run-time half takes the nearest
    #[arg(short, long, value_delimiter = ',', default_values = ["4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB"])]
    pub(crate) size: Vec<Bytes>,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
