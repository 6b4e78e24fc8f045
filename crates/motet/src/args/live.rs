//! How ranks of a real NCCL are started: what `motet plan` and `motet bench` take with `--backend nccl`, and the arguments
//! of a rank.

use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "With --backend nccl")]
pub(crate) struct LiveArgs {
    /// NCCL's library
    #[arg(long, value_name = "FILE", default_value = "libnccl.so.2")]
    pub(crate) nccl_lib: String,
    /// Motet's plugin for NCCL [default: libmotet_nccl.so beside the program]
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<String>,
    /// Set a variable for every rank; %r in the value is the rank's number
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Time CUDA graphs of calls, without what enqueueing them takes
    #[arg(long)]
    pub(crate) graphs: bool,
    /// Seconds that nothing may be heard of a rank, before all are ended
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    /// A folder for what ranks print
    #[arg(long, value_name = "FOLDER")]
    pub(crate) logs: Option<String>,
    /// Under srun, mpirun or torchrun: a file that all hosts see, through which ranks find one another
    #[arg(long, value_name = "FILE")]
    pub(crate) rendezvous: Option<String>,
}

/// A rank: what `--backend nccl` starts. All else is in its environment.
#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    #[arg(long)]
    pub(crate) nccl_lib: String,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}
