//! [`Recording`]: the communication of a real job as profilers recorded it, independent of the file format.
//!
//! A profiler records one rank: which collective of which group it ran, of how many bytes, from when to when.
//! Readers ([`crate::formats`]) make a [`RankLog`] of each rank's file; [`Recording::join`] merges the logs,
//! so that a [`Call`] is one collective with the times of all its ranks. Later code (windows, volumes, plans)
//! does not depend on the file format that a recording came from.
//!
//! Calls of different ranks are the same call if they are in the same group and have the same sequence number
//! there. If the profiler has no sequence numbers, the n-th calls of a group belong together, because ranks
//! must call the collectives of a group in the same order. A recording in which a rank of a group is missing
//! is refused ([`JoinError`]): the slowest rank decides when a collective starts and ends, and that may be
//! the missing one.
//!
//! `recording/groups` finds the groups, `recording/join` matches calls, `recording/clocks` brings clocks of different GPUs together,
//! `recording/parallelism` tells what a group is for.

mod clocks;
mod error;
mod groups;
mod join;
mod parallelism;
mod timed;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Instant, Rank};

use crate::layout::Parallelism;

pub use error::{JoinError, Missing};

/// An interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: Instant,
    pub end: Instant,
}

impl Span {
    #[must_use]
    pub const fn length(self) -> Duration {
        self.end.since(self.start)
    }

    /// The smallest span that contains all of them; `None` if there are none.
    pub fn around(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|a, b| Self { start: a.start.min(b.start), end: a.end.max(b.end) })
    }
}

/// A job's recorded communication. Times count from the first recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    ranks: Vec<Rank>,
    world: Option<u32>,
    groups: Vec<RecordedGroup>,
    calls: Vec<Call>,
    compute: Vec<Vec<Span>>,
    steps: Vec<Span>,
    notes: Vec<String>,
}

/// A communication group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedGroup {
    /// The profiler's name of it; groups of different ranks may have the same name.
    pub name: String,
    /// What the framework says it is for; may be empty.
    pub description: String,
    /// The ranks of the group, in ascending order.
    pub members: Vec<Rank>,
    /// The parallelism it serves, if it can be determined.
    pub parallelism: Option<Parallelism>,
    /// Whether the parallelism was guessed from the group's members and calls instead of read from a description.
    pub is_guessed: bool,
}

/// One collective, or one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Place in [`Recording::groups`].
    pub group: usize,
    pub kind: CollectiveKind,
    /// Size in nccl-tests' sense, as everywhere; zero for messages of which only the time was seen.
    pub bytes: Bytes,
    /// The sender, if it is a message whose sender is known.
    pub sender: Option<Rank>,
    /// The records of its ranks, in rank order: all members of the group for a collective; for a message its two ends, or one if
    /// the profiler did not record the partner.
    pub seen: Vec<Sighting>,
}

impl Call {
    /// From the first rank's start to the last rank's end.
    #[must_use]
    pub fn span(&self) -> Span {
        let all = Span::around(self.seen.iter().map(|it| it.span));
        all.unwrap_or(Span { start: Instant::START, end: Instant::START })
    }

    /// When the last rank joined, before which the collective cannot proceed.
    #[must_use]
    pub fn joined(&self) -> Instant {
        self.seen.iter().map(|it| it.span.start).max().unwrap_or(Instant::START)
    }
}

/// One rank's record of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub rank: Rank,
    pub span: Span,
    /// The stream or channel of the device, as the profiler numbers them.
    pub stream: u64,
}

impl Recording {
    /// Merges the logs of all ranks.
    ///
    /// If a rank is missing, or the logs of ranks contradict each other.
    pub fn join(logs: Vec<RankLog>, clocks: Clocks) -> Result<Self, JoinError> {
        join::join(logs, clocks)
    }

    /// The ranks that were seen, in order.
    #[must_use]
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The number of ranks of the job, if a log says it. It may be larger than the number of recorded ranks,
    /// because only ranks of groups with recorded calls must be there.
    #[must_use]
    pub const fn world(&self) -> Option<u32> {
        self.world
    }

    #[must_use]
    pub fn groups(&self) -> &[RecordedGroup] {
        &self.groups
    }

    /// The calls, in the order in which their first ranks start.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The group of a call.
    #[must_use]
    pub fn group(&self, call: &Call) -> &RecordedGroup {
        &self.groups[call.group]
    }

    /// When a rank computed, in order and without overlaps; empty if that was not recorded.
    #[must_use]
    pub fn compute(&self, rank: Rank) -> &[Span] {
        self.ranks.binary_search(&rank).map_or(&[], |place| &self.compute[place])
    }

    /// Training steps, where the logs mark them: each from the first rank's start to the last rank's end.
    #[must_use]
    pub fn steps(&self) -> &[Span] {
        &self.steps
    }

    /// Remarks about what is missing from the recording or had to be guessed.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Whether the clocks of different ranks are synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// One clock, or clocks of hosts that are kept together.
    Shared,
    /// Every rank has a clock of its own, such as its GPU's. They are aligned by common collectives, which end at nearly the same
    /// time on all ranks.
    Own,
}

/// Nanoseconds of some clock. [`Instant`] is in picoseconds, with too small a range for times since 1970, so times are converted
/// once the earliest is known.
pub type Nanoseconds = i64;

/// The record of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankLog {
    pub rank: u32,
    /// Ranks of the job, where the log says so.
    pub world: Option<u32>,
    pub groups: Vec<LoggedGroup>,
    pub calls: Vec<LoggedCall>,
    /// When it computed; spans may overlap.
    pub compute: Vec<LoggedSpan>,
    /// Training steps.
    pub steps: Vec<LoggedSpan>,
    pub notes: Vec<String>,
}

/// A group as one rank knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedGroup {
    pub name: String,
    pub description: String,
    pub size: Option<u32>,
    /// The ranks of the group in ascending order, if the log has all of them.
    pub members: Option<Vec<Rank>>,
}

/// A call as one rank saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// Place in [`RankLog::groups`].
    pub group: usize,
    pub kind: CollectiveKind,
    /// The size in nccl-tests' sense.
    pub bytes: Bytes,
    pub span: LoggedSpan,
    pub stream: u64,
    /// The call's sequence number: equal on all ranks for the same call, and unique among the group's calls of its kind.
    pub sequence: Option<u64>,
    /// Sender and receiver of a message, where they are known.
    pub ends: Option<(Rank, Rank)>,
}

/// From when to when, by the rank's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedSpan {
    pub start: Nanoseconds,
    pub end: Nanoseconds,
}

#[cfg(test)]
mod tests;
