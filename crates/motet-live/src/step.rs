//! The protocol between the driver and a rank: [`RankRequest`]s and [`Answer`]s, each a JSON object on a line.

use serde::{Deserialize, Serialize};

use crate::call::CallText;
use crate::mode::Mode;

/// A request of the driver to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum RankRequest {
    /// Load NCCL and CUDA, and say what they are.
    About,
    /// An identity for a communicator, in hexadecimal digits; asked of one rank.
    Identity,
    /// Make the communicator.
    Begin { identity: String },
    /// Make input and output buffers of this size.
    Room { bytes: usize },
    /// Run a call once under a mode, on fresh input, and compare every element of the output.
    Check { call: CallText, mode: Mode },
    /// Run a call `calls` times in a row under each mode, and say how long one of them takes. With `graphs` all calls are
    /// one CUDA graph.
    Time { call: CallText, modes: Vec<Mode>, calls: u32, graphs: bool },
    /// Give the communicator back.
    End,
}

impl RankRequest {
    /// How many times the usual time limit it may take: as many as there are settings to time.
    #[must_use]
    pub fn limits(&self) -> u32 {
        match self {
            Self::Time { modes, .. } => u32::try_from(modes.len()).unwrap_or(u32::MAX).max(1),
            _ => 1,
        }
    }

    /// What is being done, for people.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::About => "loading CUDA and NCCL".to_owned(),
            Self::Identity | Self::Begin { .. } => "making the communicator".to_owned(),
            Self::Room { bytes } => format!("getting buffers of {bytes} bytes"),
            Self::Check { call, mode } => format!("checking {call} under {mode}"),
            Self::Time { call, modes, .. } => match modes.as_slice() {
                [mode] => format!("timing {call} under {mode}"),
                _ => format!("timing {call} under {} settings", modes.len()),
            },
            Self::End => "ending the communicator".to_owned(),
        }
    }
}

/// A rank's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    Done,
    About {
        /// As NCCL counts: 22809 is 2.28.9.
        nccl: i32,
        gpu: String,
    },
    Identity {
        identity: String,
    },
    Checked {
        /// Elements that are not what they must be.
        wrong: u64,
        /// Whether the tuner was asked at all; a mode that is `plan` does not count.
        asked: bool,
        /// Whether NCCL does not offer the setting.
        refused: bool,
        /// What NCCL would do by itself: algorithm and protocol.
        own: Option<Mode>,
        /// Ranks and nodes, as NCCL counts them.
        shape: Option<(u32, u32)>,
    },
    /// How long a call took under each mode, on this rank.
    Timed {
        ps: Vec<u64>,
    },
    Failed {
        problem: String,
    },
}
