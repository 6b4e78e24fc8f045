//! [`Cache`]: the operations that were registered, for the next call of the same sort.
//!
//! A call is served by an operation that is not under way. How many there are of a sort, and which of them serves the next call, must come out alike
//! on all ranks, because all register together; and a call that has ended on one rank may still be under way on another. So only the order of calls
//! decides: a second operation of a sort is registered when calls of that sort follow closely on one another, and otherwise a call waits for
//! the one before it of its sort.

use std::collections::BTreeMap;

use motet_collective::{Program, Verified};
use motet_exec::Operation;

use crate::call::Call;

/// Operations of a sort, at most.
const MOST: usize = 2;
/// A call among so many after one of the same sort follows closely.
const CLOSE: u64 = 2;

#[derive(Debug)]
struct Slot {
    /// Not while it is under way.
    operation: Option<Operation>,
    /// The number of the last call that it served.
    used: u64,
}

#[derive(Debug)]
struct Entry {
    program: Verified<Program>,
    slots: Vec<Slot>,
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

/// Who serves a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The operation with this number, once it is back.
    Known(usize),
    /// One that is still to be registered.
    New,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: BTreeMap<Call, Entry>,
    calls: u64,
    limit: u64,
}

impl Cache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Who serves the next call.
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

    /// Adds an operation; its number.
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

    /// Takes an operation for the call that was chosen for last; `None` while it is under way.
    pub(crate) fn take(&mut self, call: &Call, at: usize) -> Option<Operation> {
        let slot = self.entries.get_mut(call)?.slots.get_mut(at)?;
        let operation = slot.operation.take()?;
        slot.used = self.calls;
        Some(operation)
    }

    /// An operation is back.
    pub(crate) fn give_back(&mut self, call: &Call, at: usize, operation: Operation) {
        if let Some(slot) = self.entries.get_mut(call).and_then(|it| it.slots.get_mut(at)) {
            slot.operation = Some(operation);
        }
    }

    /// What has to go before `bytes` more find room: whatever was longest not called. `None` if there is room.
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
