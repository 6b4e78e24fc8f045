//! [`Store`]: what must outlive the process: the jobs that are registered, and the journal.
//!
//! A batch is written before anything that follows from it is carried out. So after a crash the store knows every job
//! whose members were told that it is registered, and every change that a switch was told to make. What circuits there are is
//! *not* kept: the switches know that better, and are asked.
//!
//! - [`Embedded`]: a file of redb, for one controller.
//! - [`Etcd`]: in etcd, for a controller and others that wait to take its place.
//! - [`Memory`]: nothing outlives the process; for tests and for trying things out.

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

/// How many of the last records are looked at for changes that had not ended.
const RECENT: usize = 20_000;

/// Persistent storage for the service. Calls may block for as long as a disk or a server takes.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// What was kept, at a start.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn load(&self) -> Result<Saved, StoreError>;

    /// Keeps all of it or nothing.
    ///
    /// # Errors
    ///
    /// If it could not be kept; then nothing of it was.
    fn commit(&self, batch: &Batch) -> Result<(), StoreError>;

    /// The first records from that number on, or the last ones; in ascending order.
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
    /// Changes that had begun and have no end.
    pub unfinished: Vec<ChangeId>,
}

impl Saved {
    /// From the jobs and the last records of a journal.
    fn new(jobs: Vec<Registration>, recent: &[Record], next: u64, change: u64) -> Self {
        let seen = crate::record::last_change(recent).map_or(0, |it| it.0 + 1);
        let unfinished = crate::record::unfinished(recent);
        Self { jobs, next, change: ChangeId(change.max(seen)), unfinished }
    }
}

/// What is kept together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub put: Vec<Registration>,
    pub remove: Vec<JobId>,
    pub records: Vec<Record>,
    /// It must survive the end of the machine, and so have reached the disk, before anything follows from it. If not, it must
    /// survive the end of the process only. Jobs always survive both.
    pub durable: bool,
}

impl Batch {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty() && self.records.is_empty() && !self.durable
    }
}

/// Why a store does not do what it should.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}; {remedy}")]
pub struct StoreError {
    /// The file or server.
    pub place: String,
    pub problem: String,
    pub remedy: &'static str,
    /// It will never work again for this process: another has taken its place.
    pub lost: bool,
}
