//! [`Volumes`]: calls and bytes by parallelism and collective, for one rank of a stage in one step.
//!
//! They are counted on a DAG by [`Iteration::volumes`], and computed without one by
//! [`Job::closed_form`](crate::job::Job::closed_form); tests check that the two are equal.

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

/// Calls and bytes of a rank in one step. A message between stages counts for its sender only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes(pub BTreeMap<(Parallelism, CollectiveKind), Tally>);

impl Volumes {
    /// Adds `calls` calls of `bytes` together.
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
    /// Calls and bytes of one rank of a stage.
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
