//! The arguments of `motet trace`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Traces that the NCCL plugin wrote (MOTET_TRACE), of one rank or of several
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// Write every call, as CSV or, if the name ends so, as Parquet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}
