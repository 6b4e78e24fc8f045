//! The operations of a plan taken apart: moves of data, signals, waits and barriers, with every
//! channel and buffer looked up. It stands between the file as it is ([`super::model`]) and the graph
//! of what happens before what ([`super::graph`]).

use std::collections::BTreeMap;

use motet_units::Rank;

use super::model::{ChannelType, IterContext};
use crate::formats::Place;
use crate::program::Transfer;

/// Everything a plan does.
#[derive(Debug, Default)]
pub(super) struct PlanSteps {
    pub(super) blocks: Vec<Block>,
    /// Channel ends and device semaphores, and what they hold at the start.
    pub(super) counters: BTreeMap<Counter, i64>,
    /// By rank: chunks of switch registers.
    pub(super) switch: Vec<u32>,
}

/// One threadblock.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rank: Rank,
    pub(super) id: u32,
    pub(super) steps: Vec<PlanStep>,
}

#[derive(Debug)]
pub(super) struct PlanStep {
    pub(super) place: Place,
    /// Inside a `pipeline`: how its loop is cut.
    pub(super) pipeline: Option<IterContext>,
    pub(super) kind: PlanStepKind,
}

#[derive(Debug)]
pub(super) enum PlanStepKind {
    /// All threads of the block meet.
    Sync,
    /// All threads of `blocks` blocks meet.
    Barrier { id: u32, blocks: u32 },
    /// Moves by all threads, each element by one of them.
    Moves(Moves),
    /// Moves posted to the proxy, the i-th by thread i.
    Posts(Vec<Post>),
    /// Counters raised (signal, sem_release), the i-th by thread i.
    Raise(Vec<Touch>),
    /// Counters waited for (wait, sem_acquire), the i-th by thread i.
    Take(Vec<Touch>),
}

/// Moves of one operation.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) moves: Vec<Move>,
    /// Whether each element goes through the moves one after the other, in the thread that has
    /// it; otherwise they are independent.
    pub(super) chained: bool,
    /// Whether threads share out packets (8 bytes) or vectors (16 bytes). Two operations of the
    /// same kind on the same range give each element to the same thread.
    pub(super) packets: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) transfer: Transfer,
    /// The source is packets: reading waits until they have been written.
    pub(super) reads_packets: bool,
    /// The destination becomes packets.
    pub(super) writes_packets: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) what: Move,
    pub(super) end: ChannelEnd,
    /// The counter raised behind the data.
    pub(super) signal: Option<Counter>,
    /// Whether the posting thread waits until the data is there.
    pub(super) flush: bool,
}

/// One end of a channel: the `ordinal`-th channel of its type from `rank` to `peer`. Its other end
/// is the channel with the same ordinal from `peer` to `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChannelEnd {
    pub(super) rank: Rank,
    pub(super) kind: ChannelType,
    pub(super) peer: Rank,
    pub(super) ordinal: u32,
}

impl ChannelEnd {
    pub(super) const fn other(self) -> Self {
        Self { rank: self.peer, peer: self.rank, ..self }
    }
}

impl std::fmt::Display for ChannelEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, kind, peer, ordinal } = self;
        write!(f, "{} channel {ordinal} between gpu {rank} and gpu {peer}", kind.name())
    }
}

/// Something that is counted up by one and waited for by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    /// What arrives at this end of a channel.
    Inbound(ChannelEnd),
    Semaphore {
        rank: Rank,
        id: u32,
    },
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inbound(end) => {
                write!(
                    f,
                    "{} channel {} from gpu {} to gpu {}",
                    end.kind.name(),
                    end.ordinal,
                    end.peer,
                    end.rank
                )
            }
            Self::Semaphore { rank, id } => write!(f, "semaphore {id} of gpu {rank}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) counter: Counter,
    /// The channel it goes through, if it is one: a signal over a port channel follows what was
    /// posted to that channel before.
    pub(super) end: Option<ChannelEnd>,
    /// Orders the steps of the two blocks, but not what they see of memory.
    pub(super) relaxed: bool,
}
