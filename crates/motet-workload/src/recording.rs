//! [`Recording`]: what was seen of a job's communication, whatever saw it.
//!
//! Profilers look at one rank at a time: which collective of which group it ran, of how many bytes, from
//! when to when. Readers ([`crate::formats`]) make a [`RankLog`] of each rank's file; [`Recording::join`]
//! puts the ranks together, so that a [`Call`] is one collective with all its ranks' times. Everything
//! behind it (windows, volumes, plans) asks that of a recording and not where it comes from.
//!
//! Calls of different ranks are the same call if they are in the same group and have the same sequence
//! number there; where the profiler knows no sequence numbers, if they stand in the same place of the
//! group's calls, because ranks must call the collectives of a group in the same order. A recording in which a
//! rank of a group is missing is refused ([`JoinError`]): when a collective starts and ends is decided by its
//! slowest rank, which may be the one that nobody looked at.
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

/// From when to when.
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

    /// The least span that holds all of them; none of none.
    pub fn around(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|a, b| Self { start: a.start.min(b.start), end: a.end.max(b.end) })
    }
}

/// A job's communication as it was seen. Times count from the first thing that was seen.
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
    /// As the profiler calls it; groups of different ranks may have the same name.
    pub name: String,
    /// What the framework says it is for; may be empty.
    pub description: String,
    /// In order.
    pub members: Vec<Rank>,
    /// What it is for, where that can be told.
    pub parallelism: Option<Parallelism>,
    /// The parallelism is a guess from who is in the group and what it calls; no description said it.
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
    /// Who sent it, if it is a message of which that is known.
    pub sender: Option<Rank>,
    /// What its ranks saw of it, in the order of ranks: all members of the group for a collective, the two
    /// ends (or the one that was seen, if its profiler did not say who the other is) for a message.
    pub seen: Vec<Sighting>,
}

impl Call {
    /// From the first rank's start to the last rank's end.
    #[must_use]
    pub fn span(&self) -> Span {
        let all = Span::around(self.seen.iter().map(|it| it.span));
        all.unwrap_or(Span { start: Instant::START, end: Instant::START })
    }

    /// When the slowest rank joined: before that, nothing can be done for it.
    #[must_use]
    pub fn joined(&self) -> Instant {
        self.seen.iter().map(|it| it.span.start).max().unwrap_or(Instant::START)
    }
}

/// One rank's part in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub rank: Rank,
    pub span: Span,
    /// The stream or channel of the device, as the profiler numbers them.
    pub stream: u64,
}

impl Recording {
    /// Puts the logs of all ranks together.
    ///
    /// # Errors
    /// Where a rank is missing or ranks do not fit together.
    pub fn join(logs: Vec<RankLog>, clocks: Clocks) -> Result<Self, JoinError> {
        join::join(logs, clocks)
    }

    /// The ranks that were seen, in order.
    #[must_use]
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// Ranks of the job, where some log says so; may be more than were seen, if no group has both.
    #[must_use]
    pub const fn world(&self) -> Option<u32> {
        self.world
    }

    #[must_use]
    pub fn groups(&self) -> &[RecordedGroup] {
        &self.groups
    }

    /// In the order in which their first ranks start.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The group of a call.
    #[must_use]
    pub fn group(&self, call: &Call) -> &RecordedGroup {
        &self.groups[call.group]
    }

    /// When a rank computed, without overlaps and in order; empty where that was not recorded.
    #[must_use]
    pub fn compute(&self, rank: Rank) -> &[Span] {
        self.ranks.binary_search(&rank).map_or(&[], |place| &self.compute[place])
    }

    /// Training steps, where the logs mark them: each from the first rank's start to the last rank's end.
    #[must_use]
    pub fn steps(&self) -> &[Span] {
        &self.steps
    }

    /// What the recording does not say or what had to be guessed.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Whether times of different ranks can be compared as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// One clock, or clocks of hosts that are kept together.
    Shared,
    /// Every rank its own, such as its GPU's. They are brought together by the collectives that ranks share,
    /// whose ends lie close on all ranks.
    Own,
}

/// Nanoseconds of some clock. [`Instant`] is finer and does not reach back to the epochs that clocks of
/// machines count from; so times are made instants when the first of them is known.
pub type Nanoseconds = i64;

/// What was seen on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankLog {
    pub rank: u32,
    /// Ranks of the job, where the log says so.
    pub world: Option<u32>,
    pub groups: Vec<LoggedGroup>,
    pub calls: Vec<LoggedCall>,
    /// When it computed; may overlap.
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
    /// In order, where the log has them all.
    pub members: Option<Vec<Rank>>,
}

/// A call as one rank saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// Place in [`RankLog::groups`].
    pub group: usize,
    pub kind: CollectiveKind,
    /// In nccl-tests' sense.
    pub bytes: Bytes,
    pub span: LoggedSpan,
    pub stream: u64,
    /// The same on all ranks for the same call, and no other of its kind in the group has it.
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
