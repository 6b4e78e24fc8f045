//! What every command that reads a network may be told about its file.

use clap::Args;
use motet_units::{Bandwidth, Bytes};

/// What a file may leave open.
#[derive(Clone, Debug, Args)]
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
