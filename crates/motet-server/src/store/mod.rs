//! [`Store`]: keeps what must outlive the process: the registered jobs, and the journal.
//!
//! A batch is written before anything that follows from it is carried out. So after a crash the store has
//! every job whose registration was confirmed, and every change that a switch was ordered to make. Circuits
//! themselves are *not* kept: the switches know them better, and are read.
//!
//! - [`Embedded`]: a file of redb, for one controller.
//! - [`Etcd`]: in etcd, for a controller and others standing by to replace it.
//! - [`Memory`]: in memory, for tests and for trying things out; nothing outlives the process.

mod embedded;
mod etcd;
mod log;
mod memory;

use motet_control::controller::ChangeId;
use motet_control::protocol::{JobId, Registration};

pub use embedded::Embedded;
pub use etcd::{Etcd, EtcdConfig};
pub use memory::Memory;

use crate::record::Record;

/// How many of the last records are searched for unfinished changes at a start.
const RECENT: usize = 20_000;

/// Persistent storage for the service. Calls may block for as long as a disk or a server takes.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Reads what was kept, when the service starts.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn load(&self) -> Result<Saved, StoreError>;

    /// Writes a batch, all of it or nothing.
    ///
    /// # Errors
    ///
    /// If it could not be written; then nothing of it was.
    fn commit(&self, batch: &Batch) -> Result<(), StoreError>;

    /// At most `most` records, in ascending order: the first ones from number `from` on, or the last ones
    /// without it.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, StoreError>;
}

/// What a store holds at a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    pub jobs: Vec<Registration>,
    /// The number of the next record.
    pub next: u64,
    /// The number of the next change.
    pub change: ChangeId,
    /// Changes that had begun and not ended.
    pub unfinished: Vec<ChangeId>,
}

impl Saved {
    /// Made from the jobs and the last records of a journal.
    fn new(jobs: Vec<Registration>, recent: &[Record], next: u64, change: u64) -> Self {
        let seen = crate::record::last_change(recent).map_or(0, |it| it.0 + 1);
        let unfinished = crate::record::unfinished(recent);
        Self { jobs, next, change: ChangeId(change.max(seen)), unfinished }
    }
}

/// What is written together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub put: Vec<Registration>,
    pub remove: Vec<JobId>,
    pub records: Vec<Record>,
    /// Whether it must be on the disk before anything follows from it, so that it survives a crash of the
    /// machine. Otherwise it must survive the end of the process only. Batches with changes of jobs are
    /// always written to the disk.
    pub durable: bool,
}

impl Batch {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty() && self.records.is_empty() && !self.durable
    }
}

/// Why a store has failed.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}; {remedy}")]
pub struct StoreError {
    /// The file or server.
    pub place: String,
    pub problem: String,
    pub remedy: &'static str,
    /// Whether it will never work again for this process, as when another controller has taken its place.
    pub lost: bool,
}
