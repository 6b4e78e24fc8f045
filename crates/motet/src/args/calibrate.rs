//! The arguments of `motet calibrate`.

use clap::Args;
use motet_collective::CollectiveKind;

use super::bench::Nccl;
use super::read::ReadArgs;

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Measurements. Of MSCCL++: results.jsonl of benches/mscclpp or a table of it. Of NCCL: what nccl-tests printed, NCCL's
    /// own log (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING), a table of benches/nccl, or one that `--store` wrote
    #[arg(value_name = "FILE", required_unless_present = "write_plans")]
    pub(crate) files: Vec<String>,
    /// Write plans to measure, and their manifest.jsonl, into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["files", "plans", "from", "output", "collective", "cluster", "store"])]
    pub(crate) write_plans: Option<String>,
    /// Ranks of the plans to write
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "2,4,8",
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) ranks: Vec<u32>,
    /// Ranks that share a GPU [default: all of them; with a cluster one]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_gpu: Option<u32>,
    /// Write plans whose packets go over ports between servers of so many ranks [default: none with ports]
    #[arg(long, value_name = "COUNT", requires = "write_plans", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus_per_server: Option<u32>,
    /// Where the measured plans are, as ID.json; those of `--write-plans` are made again where there is none
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plans: Option<String>,
    /// Terms to begin with, as `-o` writes them; the other runtime's are kept in what `-o` writes [default: MSCCL++: those
    /// of an H200; NCCL: its own constants]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<String>,
    /// Write the terms, as TOML
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// The network that it was measured on, as other commands take it; MSCCL++ without one: all ranks on one GPU. NCCL: may
    /// be given several times; calls of fewer ranks are taken to be on its first GPUs
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Vec<String>,
    /// NCCL: write all calls as one table
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<String>,
    /// nccl-tests: what was run, where the log does not say
    #[arg(short, long)]
    pub(crate) collective: Option<CollectiveKind>,
    /// The version of NCCL, where measurements do not say
    #[arg(long, value_name = "VERSION", default_value = "2.30")]
    pub(crate) nccl: Nccl,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
