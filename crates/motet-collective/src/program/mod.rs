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

use motet_graph::Rows;
use motet_net::signature::Signature;
use motet_units::{Bytes, LinkId, Rank};

pub use builder::ProgramBuilder;
pub use graph::EventGraph;
pub use instances::in_instances;
pub use protocol::Protocol;

use crate::collective::Collective;

/// What a program can name of a rank: what the caller passes in, what the caller gets back, scratch
/// that belongs to the program, and registers in the switch ([`crate::in_switch`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    Input,
    Output,
    Scratch,
    /// Chunks that pass through a switch which copies or reduces them for the program. A switch
    /// slot belongs to the rank that asks the switch; it stands for one operation of it.
    Switch,
}

impl Buffer {
    pub const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Scratch, Self::Switch];

    /// The name in messages: "input", "output", "scratch" or "switch".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Scratch => "scratch",
            Self::Switch => "switch",
        }
    }
}

/// One chunk of one buffer of one rank. A [`Transfer`] names the first chunk of what it reads and
/// of what it writes this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub rank: Rank,
    pub buffer: Buffer,
    /// Counted in chunks from the start of the buffer.
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

    /// A register in the switch that serves `rank`.
    #[must_use]
    pub const fn switch(rank: Rank, offset: u32) -> Self {
        Self::new(rank, Buffer::Switch, offset)
    }

    /// Whether it is in a switch rather than in a rank's memory.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.buffer == Buffer::Switch
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

/// The number of a transfer: its index in [`Program::transfers`]. Where a program leaves open which
/// of several transfers a link carries first, the lower number goes first.
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

    /// The event that the transfer's source has been read, so that it may be overwritten.
    #[must_use]
    pub const fn sent(self) -> Event {
        Event(self.0 * 2)
    }

    /// The event that the transfer's destination has been written, so that it may be read.
    #[must_use]
    pub const fn arrived(self) -> Event {
        Event(self.0 * 2 + 1)
    }
}

/// One of the two things that happen in a transfer: its source has been read (*sent*), or its
/// destination has been written (*arrived*). Waits and lanes order events.
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

/// A copy or reduction of `count` consecutive chunks from one place to another, between two ranks or
/// within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub action: Action,
    pub src: Slot,
    pub dst: Slot,
    /// How many consecutive chunks are read and written.
    pub count: u32,
    /// The route over the network, as an index into [`Program::paths`]. Without one the transfer
    /// takes whatever route the network gives it.
    pub path: Option<u32>,
}

impl Transfer {
    /// A transfer that replaces the destination, without a route of its own.
    #[must_use]
    pub const fn copy(src: Slot, dst: Slot, count: u32) -> Self {
        Self { action: Action::Copy, src, dst, count, path: None }
    }

    /// A transfer that adds to the destination, without a route of its own.
    #[must_use]
    pub const fn reduce(src: Slot, dst: Slot, count: u32) -> Self {
        Self { action: Action::Reduce, src, dst, count, path: None }
    }

    /// Whether source and destination are in the memory of one rank, so that no link is used.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.src.rank == self.dst.rank && !self.is_in_switch()
    }

    /// Whether it goes into a switch or comes out of one.
    #[must_use]
    pub fn is_in_switch(&self) -> bool {
        self.src.is_switch() || self.dst.is_switch()
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

/// Events that one rank runs one after the other: what one threadblock does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub rank: Rank,
    pub kind: LaneKind,
    /// The channel of its connections. Two ranks may have several connections in parallel, which
    /// the channel tells apart; each delivers in the order sent.
    pub channel: u32,
    /// In the order in which the rank runs them.
    pub events: Vec<Event>,
}

/// The order in which one link carries transfers: every transfer whose path uses the link, once. A
/// link without `Turns` carries transfers in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    pub link: LinkId,
    pub transfers: Vec<TransferId>,
}

/// Which calls a program serves: *in place*, where input and output share memory as NCCL defines it,
/// *out of place*, or both. A program must be right for every form that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forms {
    pub in_place: bool,
    pub out_of_place: bool,
}

impl Forms {
    pub const OUT_OF_PLACE: Self = Self { in_place: false, out_of_place: true };
    pub const IN_PLACE: Self = Self { in_place: true, out_of_place: false };
}

/// What a runtime is told beside the transfers: which protocol to use, and for which sizes of a call
/// (in nccl-tests' sense) the program is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    pub protocol: Protocol,
    /// The smallest call that the program is meant for.
    pub min_size: Bytes,
    /// The largest; `None` if there is no limit.
    pub max_size: Option<Bytes>,
}

impl Default for Hints {
    fn default() -> Self {
        Self { protocol: Protocol::Simple, min_size: Bytes::ZERO, max_size: None }
    }
}

/// The cluster and size that a program was synthesized for. It is a note for people and for `motet
/// export`: the program works elsewhere too, but its promised time holds only there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFor {
    /// The network as it was named: a file, or a template with its parameters.
    pub cluster: String,
    /// The size of the call, in nccl-tests' sense.
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
    /// Switch chunks of each rank.
    switch: Vec<u32>,
    transfers: Vec<Transfer>,
    /// What each event waits for, sorted, each once.
    deps: Rows<Event>,
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

    /// What the program is to achieve.
    #[must_use]
    pub const fn collective(&self) -> &Collective {
        &self.collective
    }

    /// Which calls it serves: in place, out of place or both.
    #[must_use]
    pub const fn forms(&self) -> Forms {
        self.forms
    }

    /// The protocol and sizes it is meant for.
    #[must_use]
    pub const fn hints(&self) -> &Hints {
        &self.hints
    }

    /// How many chunks of scratch a rank needs; 0 for a rank that does not exist.
    #[must_use]
    pub fn scratch_chunks(&self, rank: Rank) -> u32 {
        self.scratch.get(rank.index()).copied().unwrap_or(0)
    }

    /// How many chunks of switch registers a rank uses; 0 for a rank that does not exist.
    #[must_use]
    pub fn switch_chunks(&self, rank: Rank) -> u32 {
        self.switch.get(rank.index()).copied().unwrap_or(0)
    }

    /// Whether it asks switches to copy or reduce.
    #[must_use]
    pub fn uses_switches(&self) -> bool {
        self.transfers.iter().any(Transfer::is_in_switch)
    }

    /// All transfers; a [`TransferId`] is an index into this.
    #[must_use]
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    #[must_use]
    pub fn transfer(&self, id: TransferId) -> &Transfer {
        &self.transfers[id.index()]
    }

    /// The events that `event` waits for, sorted. Not listed: the event before it in its lane, and
    /// for an arrival its own sending, which it always waits for too.
    #[must_use]
    pub fn deps(&self, event: Event) -> &[Event] {
        self.deps.row(event.index())
    }

    /// The threadblocks and proxies that run the events; empty if the program does not say.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The routes that transfers name by their index here, each as its links in order.
    #[must_use]
    pub fn paths(&self) -> &[Vec<LinkId>] {
        &self.paths
    }

    /// The links that carry transfers in another order than by number, sorted by link.
    ///
    /// Why numbers are not enough: over a long route, data is sent long before it reaches the last
    /// links, and what nearby ranks send later crosses those links first. No one numbering of
    /// transfers gives both ends of such a route the order they need.
    #[must_use]
    pub fn turns(&self) -> &[Turns] {
        &self.turns
    }

    /// The signature of the network that its paths and turns are for, if it has any.
    #[must_use]
    pub const fn network(&self) -> Option<Signature> {
        self.network
    }

    /// The cluster and size it was made for, if that was noted.
    #[must_use]
    pub const fn made_for(&self) -> Option<&MadeFor> {
        self.made_for.as_ref()
    }

    /// The same program with a note of what it was made for.
    #[must_use]
    pub fn with_made_for(mut self, made_for: MadeFor) -> Self {
        self.made_for = Some(made_for);
        self
    }

    /// How many chunks fit into one FIFO slot of a connection at the largest size that the program
    /// is meant for: at least 1, and at most 71, because MSCCL counts below 72 in a step.
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
