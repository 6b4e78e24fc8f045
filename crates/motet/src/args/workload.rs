//! The arguments of `motet workload`, and those by which a model's name becomes a job.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// A training job or traces of one: who communicates what, how often and with whom
    Show(ShowArgs),
    /// A job or a recording as Chakra traces for ASTRA-sim, or Chakra traces as JSON and back
    Convert(ConvertArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A training job (docs/workloads.md), a model's name with the options below, or the traces of all
    /// ranks: Kineto's, Chakra's, those of the NCCL plugin; a folder stands for its files
    #[arg(value_name = "JOB|TRACE", required = true)]
    pub(crate) inputs: Vec<String>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A training job, a model's name with the options below, or traces; a folder stands for its files
    #[arg(value_name = "JOB|TRACE", required = true)]
    pub(crate) inputs: Vec<String>,
    /// A file for one Chakra trace, else a folder, which is made if it is not there
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: String,
    /// et or json [default: the ending of OUT, or et]
    #[arg(long, value_name = "FORMAT", value_parser = ["et", "json"])]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// How a model that is given by name is trained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "With a model's name")]
pub(crate) struct LayoutArgs {
    /// The GPU: a100, h100, h200 or b200 [default: h100]
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// Tensor-parallel ranks [default: 1]
    #[arg(long, value_name = "RANKS")]
    pub(crate) tp: Option<u32>,
    /// Data-parallel ranks [default: 1]
    #[arg(long, value_name = "RANKS")]
    pub(crate) dp: Option<u32>,
    /// Pipeline stages [default: 1]
    #[arg(long, value_name = "STAGES")]
    pub(crate) pp: Option<u32>,
    /// Context-parallel ranks [default: 1]
    #[arg(long, value_name = "RANKS")]
    pub(crate) cp: Option<u32>,
    /// Expert-parallel ranks, out of the data-parallel ones [default: 1]
    #[arg(long, value_name = "RANKS")]
    pub(crate) ep: Option<u32>,
    /// What data-parallel ranks share out: none, zero1, zero2 or fsdp [default: none]
    #[arg(long, value_name = "WHAT", value_parser = ["none", "zero1", "zero2", "zero3", "fsdp"])]
    pub(crate) sharding: Option<String>,
    /// The pipeline's order: 1f1b, interleaved or zero-bubble [default: 1f1b]
    #[arg(long, value_name = "ORDER", value_parser = ["1f1b", "interleaved", "zero-bubble"])]
    pub(crate) schedule: Option<String>,
    /// Embedding and head count as a layer each when layers are dealt out to stages
    #[arg(long)]
    pub(crate) ends_count: bool,
    /// Tokens of a sequence [default: 8192]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sequence: Option<u64>,
    /// Sequences of a micro-batch [default: 1]
    #[arg(long, value_name = "COUNT")]
    pub(crate) micro_batch: Option<u64>,
    /// Sequences of a step over all ranks [default: as many micro-batches per replica as stages]
    #[arg(long, value_name = "COUNT")]
    pub(crate) global_batch: Option<u64>,
}

impl LayoutArgs {
    /// The options that were given, as they are typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let number = |it: Option<u32>| it.map(|it| it.to_string());
        let long = |it: Option<u64>| it.map(|it| it.to_string());
        let all = [
            ("gpu", self.gpu.clone()),
            ("tp", number(self.tp)),
            ("dp", number(self.dp)),
            ("pp", number(self.pp)),
            ("cp", number(self.cp)),
            ("ep", number(self.ep)),
            ("sharding", self.sharding.clone()),
            ("schedule", self.schedule.clone()),
            ("sequence", long(self.sequence)),
            ("micro-batch", long(self.micro_batch)),
            ("global-batch", long(self.global_batch)),
        ];
        let words = all.into_iter().filter_map(|(name, it)| Some(format!("--{name} {}", it?)));
        words.chain(self.ends_count.then(|| "--ends-count".to_owned())).collect()
    }
}
