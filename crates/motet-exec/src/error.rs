//! [`ExecError`]: why a group, a registration or a call failed.

use motet_collective::CollectiveKind;
use motet_units::Duration;

use crate::element::Element;
use crate::wire::FrameError;

/// Why a group, a registration or a call failed. It can be cloned, because one cause ends every
/// operation that is under way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    #[error(
        "{address} is no loopback address, and there without a token anybody could join; set the same token on all ranks"
    )]
    NeedsToken { address: String },
    #[error("{0}")]
    Tls(String),
    #[error("cannot listen on {address}: {why}")]
    Listen { address: String, why: String },
    #[error("`{address}` is no address that can be found: {why}")]
    Unresolved { address: String, why: String },
    #[error("no connection to {who} at {address}: {why}")]
    Unreachable { who: String, address: String, why: String },
    #[error("{who}: {why}")]
    Handshake { who: String, why: String },
    #[error("{who} refused: {why}")]
    Refused { who: String, why: String },
    #[error("{0}")]
    Group(String),
    #[error("the program is for {program} ranks and the group has {group}")]
    Ranks { program: u32, group: u32 },
    #[error("the program serves no {form} calls of {kind}")]
    Form { kind: CollectiveKind, form: &'static str },
    #[error("{what} must hold {wanted} bytes and holds {given}")]
    Size { what: &'static str, wanted: usize, given: usize },
    #[error("{0} bytes of memory cannot be had: {1}")]
    Memory(usize, String),
    #[error("{elements} {element} elements are more than can be addressed")]
    TooLarge { elements: u64, element: Element },
    #[error(
        "transfers may arrive before they can be written, and keeping them takes up to {wanted} bytes, more than the limit of {limit}; \
         allow more, or use a program whose arrivals wait for less"
    )]
    Stash { wanted: u64, limit: u64 },
    #[error("rank {rank} registered {theirs} where this rank registered {ours}")]
    Mismatch { rank: u32, theirs: String, ours: String },
    #[error("the operation is already under way; wait for it first")]
    Busy,
    #[error("rank {rank} is gone: {why}")]
    Lost { rank: u32, why: String },
    #[error("rank {rank} is gone: nothing was heard from it for {:.1} s", limit.as_ps() as f64 * 1e-12)]
    Silent { rank: u32, limit: Duration },
    #[error("rank {rank} sent what it may not: {why}")]
    Protocol { rank: u32, why: String },
    #[error("rank {rank}: {error}")]
    Frame { rank: u32, error: FrameError },
    #[error("rank {teller} gave up: {why}")]
    Told { teller: u32, culprit: Option<u32>, why: String },
    #[error("operation {operation} did not end within {seconds} s: {waiting}")]
    Deadline { operation: u32, seconds: u64, waiting: String },
    #[error("rank {rank} did not register operation {operation} within {seconds} s")]
    Unregistered { rank: u32, operation: u32, seconds: u64 },
    #[error("the group was left")]
    Left,
    #[error("joining was given up, because nobody needs the group any more")]
    Abandoned,
    #[error("the engine's thread has ended; this is a fault in Motet")]
    Ended,
    #[error("a fault in Motet: {0}")]
    Internal(&'static str),
}

impl ExecError {
    /// The rank that is at fault, as far as is known: the one to leave out when going on.
    #[must_use]
    pub fn culprit(&self) -> Option<u32> {
        match self {
            Self::Lost { rank, .. }
            | Self::Silent { rank, .. }
            | Self::Protocol { rank, .. }
            | Self::Frame { rank, .. } => Some(*rank),
            Self::Told { culprit, .. } => *culprit,
            _ => None,
        }
    }

    /// Whether a call or a registration took too long among ranks that all still answer. Then it has failed on all of them, and none
    /// is [at fault](Self::culprit).
    #[must_use]
    pub const fn is_too_late(&self) -> bool {
        matches!(
            self,
            Self::Deadline { .. } | Self::Unregistered { .. } | Self::Told { culprit: None, .. }
        )
    }

    /// The rank that this one has itself lost touch with, and whether that is sure to stay so. Losses that other ranks have
    /// reported do not count: those ranks tell the store themselves, if they are still there.
    ///
    /// A connection that was closed may be made again: something on the network path may have cut it, or the other rank may have
    /// heard of a failure elsewhere. A path on which nothing arrives, or not what was sent, is not tried again.
    pub(crate) fn out_of_touch(&self) -> Option<(u32, bool)> {
        match self {
            Self::Lost { rank, .. } => Some((*rank, false)),
            Self::Silent { rank, .. } | Self::Protocol { rank, .. } | Self::Frame { rank, .. } => {
                Some((*rank, true))
            }
            _ => None,
        }
    }
}
