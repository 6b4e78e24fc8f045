//! [`Program`]: how a collective is done — a DAG of transfers of chunks between ranks, with order
//! where order matters.
//!
//! A [`Transfer`] reads `count` chunks at one rank and copies or reduces them into another place,
//! at another rank or the same. It is two [`Event`]s: it is *sent* (the source has been read) and
//! it has *arrived* (the destination has been written). Any event may be made to wait for others;
//! an event also waits for the one before it in its [`Lane`].
//!
//! Two events rather than one because runtimes buffer: a GPU that sends to its neighbour and then
//! receives from the other one does not wait for the neighbour to take the data. With one event
//! per transfer every ring would be a deadlock; with two, what can be overwritten when (after
//! *sent*) and what can be read when (after *arrived*) are both said exactly.
//!
//! Lanes are what runtimes call threadblocks: sequences of events that one rank runs in order. A
//! program from a synthesizer usually has none and is ordered by its dependencies alone; the
//! exporters give it lanes. See [`builder`] to make a program, [`instances`] to run it in parallel
//! copies, [`crate::verify`] to prove it.

mod builder;
mod canonical;
pub(crate) mod graph;
mod implied;
mod instances;
mod protocol;

use motet_net::signature::Signature;
use motet_units::{Bytes, LinkId, Rank};

pub use builder::ProgramBuilder;
pub use graph::EventGraph;
pub use instances::in_instances;
pub use protocol::Protocol;

use crate::collective::Collective;

/// Where a chunk lies at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    Input,
    Output,
    Scratch,
}

impl Buffer {
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Scratch];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Scratch => "scratch",
        }
    }
}

/// The first chunk of a range: a place in a buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub rank: Rank,
    pub buffer: Buffer,
    /// In chunks.
    pub offset: u32,
}

impl Slot {
    #[must_use]
    pub const fn new(rank: Rank, buffer: Buffer, offset: u32) -> Self {
        Self { rank, buffer, offset }
    }

    #[must_use]
    pub const fn input(rank: Rank, offset: u32) -> Self {
        Self::new(rank, Buffer::Input, offset)
    }

    #[must_use]
    pub const fn output(rank: Rank, offset: u32) -> Self {
        Self::new(rank, Buffer::Output, offset)
    }

    #[must_use]
    pub const fn scratch(rank: Rank, offset: u32) -> Self {
        Self::new(rank, Buffer::Scratch, offset)
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} {}[{}]", self.rank, self.buffer.name(), self.offset)
    }
}

/// What a transfer does at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The destination becomes what was sent.
    Copy,
    /// What was sent is added to the destination.
    Reduce,
}

/// The index of a transfer in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u32);

impl TransferId {
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[must_use]
    pub const fn sent(self) -> Event {
        Event(self.0 * 2)
    }

    #[must_use]
    pub const fn arrived(self) -> Event {
        Event(self.0 * 2 + 1)
    }
}

/// One half of a transfer: sent, or arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(u32);

impl Event {
    /// The event with this dense index (twice the transfer's, plus one if arrived).
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[must_use]
    pub const fn transfer(self) -> TransferId {
        TransferId(self.0 / 2)
    }

    #[must_use]
    pub const fn is_sent(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// A movement of `count` consecutive chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub action: Action,
    pub src: Slot,
    pub dst: Slot,
    pub count: u32,
    /// The route over the network, as an index into the program's paths; without one the
    /// transfer takes the network's default route.
    pub path: Option<u32>,
}

impl Transfer {
    #[must_use]
    pub const fn copy(src: Slot, dst: Slot, count: u32) -> Self {
        Self { action: Action::Copy, src, dst, count, path: None }
    }

    #[must_use]
    pub const fn reduce(src: Slot, dst: Slot, count: u32) -> Self {
        Self { action: Action::Reduce, src, dst, count, path: None }
    }

    /// Whether it stays at one rank.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.src.rank == self.dst.rank
    }
}

impl std::fmt::Display for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self.action {
            Action::Copy => "copy",
            Action::Reduce => "reduce",
        };
        write!(f, "{verb} {} to {}", self.src, self.dst)?;
        if self.count != 1 {
            write!(f, ", {} chunks", self.count)?;
        }
        Ok(())
    }
}

/// Who runs a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// A threadblock of the rank.
    Block,
    /// The network proxy that works off what the threadblock lane with this index has posted, in
    /// order; the threadblock itself goes on without waiting.
    Port { block: u32 },
}

/// Events that one rank runs one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub rank: Rank,
    pub kind: LaneKind,
    /// Tells apart several connections between the same two ranks.
    pub channel: u32,
    pub events: Vec<Event>,
}

/// In which order a link carries the transfers whose paths go over it, each of them once. Without it
/// a link carries them by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    pub link: LinkId,
    pub transfers: Vec<TransferId>,
}

/// Which calls a program may serve; it must be right for every one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forms {
    pub in_place: bool,
    pub out_of_place: bool,
}

impl Forms {
    pub const OUT_OF_PLACE: Self = Self { in_place: false, out_of_place: true };
    pub const IN_PLACE: Self = Self { in_place: true, out_of_place: false };
}

/// What a runtime is told beside the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    pub protocol: Protocol,
    pub min_size: Bytes,
    /// `None`: no limit.
    pub max_size: Option<Bytes>,
}

impl Default for Hints {
    fn default() -> Self {
        Self { protocol: Protocol::Simple, min_size: Bytes::ZERO, max_size: None }
    }
}

/// What a program was made for, as its maker was told: where its times hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFor {
    /// The network as it was named: a file, or a template with its parameters.
    pub cluster: String,
    /// In nccl-tests' sense.
    pub size: Bytes,
}

/// How a collective is done. Made by [`ProgramBuilder`] or a reader; proved by
/// [`Verified`](crate::verify::Verified).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    collective: Collective,
    forms: Forms,
    hints: Hints,
    /// Scratch chunks of each rank.
    scratch: Vec<u32>,
    transfers: Vec<Transfer>,
    /// What event e waits for: `deps[dep_starts[e]..dep_starts[e + 1]]`, sorted, each once.
    dep_starts: Vec<u32>,
    deps: Vec<Event>,
    lanes: Vec<Lane>,
    /// Routes that transfers take, in links of the network with this signature.
    paths: Vec<Vec<LinkId>>,
    /// Of links that do not carry transfers by their numbers; sorted by link.
    turns: Vec<Turns>,
    network: Option<Signature>,
    made_for: Option<MadeFor>,
}

impl Program {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub const fn collective(&self) -> &Collective {
        &self.collective
    }

    #[must_use]
    pub const fn forms(&self) -> Forms {
        self.forms
    }

    #[must_use]
    pub const fn hints(&self) -> &Hints {
        &self.hints
    }

    #[must_use]
    pub fn scratch_chunks(&self, rank: Rank) -> u32 {
        self.scratch.get(rank.index()).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    #[must_use]
    pub fn transfer(&self, id: TransferId) -> &Transfer {
        &self.transfers[id.index()]
    }

    /// What `event` waits for, apart from its lane and its own transfer.
    #[must_use]
    pub fn deps(&self, event: Event) -> &[Event] {
        let (start, end) = (self.dep_starts[event.index()], self.dep_starts[event.index() + 1]);
        &self.deps[start as usize..end as usize]
    }

    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    #[must_use]
    pub fn paths(&self) -> &[Vec<LinkId>] {
        &self.paths
    }

    /// The links that do not carry transfers by their numbers, sorted, and how they do.
    ///
    /// Data from afar are sent long before they come to the last links of their way, and what is
    /// sent later from nearby passes those links first: no numbering of transfers suits both ends.
    #[must_use]
    pub fn turns(&self) -> &[Turns] {
        &self.turns
    }

    /// The signature of the network its paths are for.
    #[must_use]
    pub const fn network(&self) -> Option<Signature> {
        self.network
    }

    /// What it was made for, if its maker said so.
    #[must_use]
    pub const fn made_for(&self) -> Option<&MadeFor> {
        self.made_for.as_ref()
    }

    /// The same program with the word of its maker.
    #[must_use]
    pub fn with_made_for(mut self, made_for: MadeFor) -> Self {
        self.made_for = Some(made_for);
        self
    }

    /// How many chunks a runtime sends in one place of a connection's buffer at the largest size
    /// that the program serves: as many as fit, below 72, and at least one.
    #[must_use]
    pub fn chunks_per_place(&self) -> u32 {
        const MOST: u64 = 71;
        let Some(largest) = self.hints.max_size else { return 1 };
        let chunk = self.collective.chunk_bytes(largest).get().max(1);
        // At most MOST, so it fits.
        (self.hints.protocol.place_bytes().get() / chunk).clamp(1, MOST) as u32
    }

    /// A builder that starts from this program, to make a changed one.
    #[must_use]
    pub fn to_builder(&self) -> ProgramBuilder {
        ProgramBuilder::from_program(self)
    }
}
