//! [`Memory`]: a store in memory only.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use motet_control::protocol::{JobId, Registration};

use super::{Batch, Saved, Store, StoreError};
use crate::record::Record;

/// A store that is lost with the process.
#[derive(Debug)]
pub struct Memory {
    state: Mutex<State>,
    /// How many records are kept.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<JobId, Registration>,
    records: BTreeMap<u64, Record>,
    next: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { state: Mutex::default(), most: 100_000 }
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn load(&self) -> Result<Saved, StoreError> {
        let state = self.state();
        let jobs = state.jobs.values().cloned().collect();
        let records: Vec<Record> = state.records.values().cloned().collect();
        Ok(Saved::new(jobs, &records, state.next, 0))
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut state = self.state();
        state.jobs.extend(batch.put.iter().map(|it| (it.job, it.clone())));
        state.jobs.retain(|job, _| !batch.remove.contains(job));
        for record in &batch.records {
            state.next = record.number + 1;
            state.records.insert(record.number, record.clone());
        }
        while state.records.len() > self.most {
            state.records.pop_first();
        }
        Ok(())
    }

    fn records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, StoreError> {
        let state = self.state();
        let from = from.unwrap_or(state.next.saturating_sub(most as u64));
        Ok(state.records.range(from..).take(most).map(|it| it.1.clone()).collect())
    }
}
