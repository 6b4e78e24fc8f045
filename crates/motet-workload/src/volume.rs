//! [`Volumes`]: calls and bytes by parallelism and collective, for one rank of a stage in one step.
//!
//! Counted on a DAG by [`Iteration::volumes`], and foretold without one by
//! [`Job::closed_form`](crate::job::Job::closed_form); the tests hold the two equal.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;

use crate::iteration::Iteration;
use crate::layout::{Layout, Parallelism};

/// Calls, and the sum of their sizes in nccl-tests' sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: u64,
    pub bytes: u128,
}

/// What a rank calls in one step. A message between stages counts at its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes(pub BTreeMap<(Parallelism, CollectiveKind), Tally>);

impl Volumes {
    /// Counts `calls` calls that have `bytes` in all.
    pub(crate) fn add(&mut self, of: (Parallelism, CollectiveKind), calls: u64, bytes: u128) {
        if calls > 0 {
            let tally = self.0.entry(of).or_default();
            tally.calls += calls;
            tally.bytes += bytes;
        }
    }

    /// Calls and bytes of one kind, zero if there are none.
    #[must_use]
    pub fn of(&self, parallelism: Parallelism, kind: CollectiveKind) -> Tally {
        self.0.get(&(parallelism, kind)).copied().unwrap_or_default()
    }
}

impl Iteration {
    /// What one rank of a stage calls.
    #[must_use]
    pub fn volumes(&self, layout: &Layout, stage: u32) -> Volumes {
        let mut all = Volumes::default();
        for (_, operation, it) in self.communications() {
            if layout.takes_part(it.group, operation.stage, stage) {
                all.add((it.parallelism, it.kind), 1, it.bytes.get().into());
            }
        }
        all
    }
}
