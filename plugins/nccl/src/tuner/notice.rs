//! [`Notice`]: why a call was left to NCCL, said once per communicator. The texts are made when the communicator is,
//! so that saying one allocates nothing.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use motet_runtime::Reason;

use crate::abi::INFO;
use crate::log::{Log, line};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// No plan is in use; `Tuner::new` has said why.
    NoPlan,
    NoEntry,
    NoSizeNear,
    NotOffered,
    InNetwork,
    OtherShape,
    Program,
    /// The agent's leader is lost, and nobody can be reached who knows whether the ranks switch tables at this call.
    /// Whatever one rank did now, another might do otherwise; so the call fails.
    Hopeless,
}

const TEXTS: [(Notice, &str); 7] = [
    (
        Notice::NoEntry,
        "NCCL decides a collective that the plan has nothing for; add it to the plan (said once)",
    ),
    (
        Notice::NoSizeNear,
        "NCCL decides a size that is more than 16 times from any in the plan; add it to the plan (said once)",
    ),
    (
        Notice::NotOffered,
        "NCCL decides a call for which it does not offer the plan's choice, as it is excluded (NCCL_ALGO, NCCL_PROTO) or not possible here (said once)",
    ),
    (
        Notice::InNetwork,
        "NCCL decides a call that it would reduce in the network (NVLS, CollNet), as the plan has not measured that it is slower (said once)",
    ),
    (
        Notice::OtherShape,
        "NCCL decides: it has algorithms or protocols that this plugin does not know; upgrade Motet (said once)",
    ),
    (
        Notice::Hopeless,
        "a call fails: the agent's leader is gone, and no rank can be reached that knows whether tables are switched at this call; abort the communicator (said once)",
    ),
    (Notice::Program, "NCCL decides a call that the plan gives to a program (said once)"),
];

impl Notice {
    pub(crate) const fn of(reason: Reason) -> Self {
        match reason {
            Reason::NoEntry => Self::NoEntry,
            Reason::NoSizeNear => Self::NoSizeNear,
            Reason::NoTable | Reason::Refused(_) | Reason::OtherNetwork | Reason::Left => {
                Self::NoPlan
            }
        }
    }
}

/// The texts of one communicator, and which of them were said already.
pub(crate) struct Notices {
    said: AtomicU32,
    texts: [CString; TEXTS.len()],
}

impl Default for Notices {
    fn default() -> Self {
        Self { said: AtomicU32::new(0), texts: TEXTS.map(|it| line(it.1)) }
    }
}

impl Notices {
    pub(crate) fn say(&self, notice: Notice, log: &Log) {
        let Some(index) = TEXTS.iter().position(|it| it.0 == notice) else { return };
        let bit = 1 << index;
        // Mostly it has been said, and then nothing is written.
        if self.said.load(Relaxed) & bit == 0 && self.said.fetch_or(bit, Relaxed) & bit == 0 {
            log.say(INFO, &self.texts[index]);
        }
    }
}
