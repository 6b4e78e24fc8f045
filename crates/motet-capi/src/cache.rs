//! [`Cache`]: the operations that were registered, for the next call of the same sort, that is, an equal [`Call`].
//!
//! A call is served by an operation that is not under way. How many there are of a sort, and which of them serves the next call, must come out alike
//! on all ranks, because all register together; and a call that has ended on one rank may still be under way on another. So only the order of calls
//! decides: a second operation of a sort is registered when calls of that sort follow closely on one another, and otherwise a call waits for
//! the one before it of its sort.

use std::collections::BTreeMap;

use motet_collective::{Program, Verified};
use motet_exec::Operation;

use crate::call::Call;

/// The most operations of a sort.
const MOST: usize = 2;
/// A call follows closely on another of its sort if it is at most this many calls later.
const CLOSE: u64 = 2;

#[derive(Debug)]
struct Slot {
    /// `None` while a call of it is under way.
    operation: Option<Operation>,
    /// The number of the last call that it served.
    used: u64,
}

#[derive(Debug)]
/// The operations of a sort.
struct Entry {
    program: Verified<Program>,
    slots: Vec<Slot>,
    /// What one of them counts for against the cache's limit.
    bytes: u64,
}

impl Entry {
    fn used(&self) -> u64 {
        self.slots.iter().map(|it| it.used).max().unwrap_or(0)
    }

    fn is_under_way(&self) -> bool {
        self.slots.iter().any(|it| it.operation.is_none())
    }

    fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.slots.len() as u64)
    }
}

/// Which operation serves a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The operation with this number, once it is back.
    Known(usize),
    /// A new one, which is still to be registered.
    New,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Call, Entry>,
    /// How many calls there were so far.
    calls: u64,
    /// The most bytes that all operations together may count for.
    limit: u64,
}

impl Cache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Counts the next call, and decides which operation serves it.
    pub(crate) fn choose(&mut self, call: &Call) -> Choice {
        self.calls += 1;
        let Some(entry) = self.entries.get(call) else { return Choice::New };
        if entry.slots.len() < MOST && self.calls - entry.used() <= CLOSE {
            return Choice::New;
        }
        let oldest = entry.slots.iter().enumerate().min_by_key(|(_, it)| it.used);
        oldest.map_or(Choice::New, |(at, _)| Choice::Known(at))
    }

    /// The program of an earlier operation of the same sort.
    pub(crate) fn program(&self, call: &Call) -> Option<&Verified<Program>> {
        self.entries.get(call).map(|it| &it.program)
    }

    /// Adds an operation, and returns its number among those of its sort.
    pub(crate) fn add(
        &mut self,
        call: Call,
        program: Verified<Program>,
        bytes: u64,
        operation: Operation,
    ) -> usize {
        let entry = self.entries.entry(call).or_insert(Entry { program, slots: Vec::new(), bytes });
        entry.slots.push(Slot { operation: Some(operation), used: self.calls });
        entry.slots.len() - 1
    }

    /// Takes an operation out for the call that [`choose`](Self::choose) was last asked about; `None` while the operation is under way.
    pub(crate) fn take(&mut self, call: &Call, at: usize) -> Option<Operation> {
        let slot = self.entries.get_mut(call)?.slots.get_mut(at)?;
        let operation = slot.operation.take()?;
        slot.used = self.calls;
        Some(operation)
    }

    /// Puts an operation back whose call has ended.
    pub(crate) fn give_back(&mut self, call: &Call, at: usize, operation: Operation) {
        if let Some(slot) = self.entries.get_mut(call).and_then(|it| it.slots.get_mut(at)) {
            slot.operation = Some(operation);
        }
    }

    /// The sort that must go before `bytes` more fit the limit: the one that was not called for the longest time. `None` if they fit, or
    /// nothing is left to go.
    pub(crate) fn too_many(&self, bytes: u64) -> Option<Call> {
        let all: u64 = self.entries.values().map(Entry::all_bytes).sum();
        if self.entries.is_empty() || all.saturating_add(bytes) <= self.limit {
            return None;
        }
        self.entries.iter().min_by_key(|(_, it)| it.used()).map(|it| *it.0)
    }

    pub(crate) fn is_under_way(&self, call: &Call) -> bool {
        self.entries.get(call).is_some_and(Entry::is_under_way)
    }

    pub(crate) fn remove(&mut self, call: &Call) {
        self.entries.remove(call);
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
