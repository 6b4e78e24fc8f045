//! Collectives of a real NCCL on real GPUs: what `--backend nccl` runs.
//!
//! One process for each rank, all in step. The driver starts them (or a job launcher does), tells them what to do line by
//! line, and hears from each how long that took. Settings are forced through Motet's tuner plugin, so that hundreds of them
//! are tried on one communicator.
//!
//! - [`team`] is the driver's side: start ranks, ask all of them, notice who is lost.
//! - [`rank`] is what a rank does; [`step`] what they say to each other.
//! - [`library`] is NCCL, opened at run time; [`motet_cuda::work`] the GPU.
//! - [`call`] says where a collective's data lies and [`data`] what must be in it.
//! - [`control`] forces settings in this process's tuner; [`mode`] is what can be forced, as text.
//! - [`launcher`] reads the environment of srun, mpirun and torchrun; [`rendezvous`] is how their ranks find the driver.
//!
//! Nothing here reads a clock: times are the GPU's, by its events.

pub mod call;
pub mod control;
pub mod data;
pub mod launcher;
pub mod library;
pub mod mode;
pub mod rank;
pub mod rendezvous;
pub mod step;
pub mod team;

use motet_cuda::CudaError;
use motet_runtime::Collective;
use motet_runtime::segment::SegmentError;

pub use call::Call;
pub use mode::Mode;
pub use step::{Answer, RankRequest};
pub use team::{Launch, Team};

/// Why something was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    #[error("{name} cannot be loaded: {reason}; give NCCL's library with `--nccl-lib`")]
    NoLibrary { name: String, reason: String },
    #[error("the library has no function `{name}`; is it NCCL, 2.13 or later?")]
    NoFunction { name: &'static str },
    #[error("{function}: {problem}")]
    Nccl { function: &'static str, problem: String },
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("there is no GPU here; `motet bench` without `--backend nccl` needs none")]
    NoGpu,
    #[error("{0} is not run on NCCL")]
    NotRun(Collective),
    #[error("the buffers are smaller than the call; this is a fault in Motet")]
    NoRoom,
    #[error("{0} was asked for too early; this is a fault in Motet")]
    TooEarly(&'static str),
    #[error("the control file {file}: {problem}")]
    Control { file: String, problem: String },
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("rank {rank}: {problem}{log}")]
    Rank { rank: u32, problem: String, log: String },
    #[error(
        "nothing was heard from rank {rank} for {seconds} s, while {during}{log}; a longer wait is `--limit`"
    )]
    Silent { rank: u32, seconds: u64, during: String, log: String },
    #[error("{0}")]
    Environment(String),
}

/// For writing files that nobody else may read.
fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
