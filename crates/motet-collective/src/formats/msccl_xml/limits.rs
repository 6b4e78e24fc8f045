//! What MSCCL runtimes can load.
//!
//! A file beyond a limit is read with a warning (the limits differ between builds), but never
//! written.

use motet_units::Rank;

use super::parse::XmlBlock;
use crate::diagnostic::{Diagnostic, Finding, Report};

/// The runtime to write for; they differ in how many steps a threadblock may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runtime {
    /// Azure/msccl-executor-nccl as it is built by default.
    #[default]
    Azure,
    /// microsoft/msccl, which this executor replaces.
    Msccl,
    /// A build with its own limit.
    Custom {
        /// Steps per threadblock, nops included.
        steps: u32,
    },
}

impl Runtime {
    /// Most steps in a threadblock, nops included.
    #[must_use]
    pub const fn max_steps(self) -> u32 {
        match self {
            Self::Azure => 64,
            Self::Msccl => 256,
            Self::Custom { steps } => steps,
        }
    }
}

pub(super) const MAX_CHANNELS: u32 = 32;
/// Threadblocks of a gpu: what others can wait for has an 8-bit number.
pub(super) const MAX_BLOCKS: u32 = 128;
/// Send peers (and receive peers) of a gpu on one channel.
pub(super) const MAX_PEERS_PER_CHANNEL: usize = 32;
/// The count of a step is below this.
pub(super) const COUNT_LIMIT: u32 = 72;
/// Offsets and ranks are 16-bit numbers with a sign.
pub(super) const MAX_OFFSET: u32 = i16::MAX as u32;
/// Elements of one gpu that the parser holds, its `<algo>`, `<gpu>` and `<tb>`s included.
pub(super) const MAX_ELEMENTS: usize = 4096;
/// Elements directly inside another.
pub(super) const MAX_CHILDREN: usize = 1024;
/// Characters of an attribute.
pub(super) const MAX_ATTRIBUTE: usize = 255;
/// Local reductions in a row that run as one.
pub(super) const MAX_FUSED_REDUCTIONS: usize = 16;

/// Warns of what common builds do not load.
pub(super) fn check_blocks(rank: Rank, blocks: &[&XmlBlock], report: &mut Report) {
    let mut warn = |message: String| {
        report.push(Diagnostic::warning(Finding::Limit, message));
    };
    if blocks.len() > MAX_BLOCKS as usize {
        let count = blocks.len();
        warn(format!("gpu {rank} has {count} threadblocks; runtimes load {MAX_BLOCKS}"));
    }
    for block in blocks {
        let name = format!("gpu {rank}, threadblock {} (line {})", block.id, block.line);
        let (steps, most) = (block.steps.len(), Runtime::Msccl.max_steps() as usize);
        if steps > most {
            warn(format!("{name} has {steps} steps; runtimes load {most}"));
        }
        if block.channel >= i64::from(MAX_CHANNELS) {
            warn(format!("{name} is on channel {}; there are {MAX_CHANNELS}", block.channel));
        }
        if block.steps.iter().any(|it| it.count >= i64::from(COUNT_LIMIT)) {
            warn(format!("{name} moves {COUNT_LIMIT} chunks or more in a step"));
        }
    }
}
