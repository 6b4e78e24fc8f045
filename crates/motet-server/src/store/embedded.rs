//! [`Embedded`]: a store in a file of redb, whose transactions are atomic even if the process is killed, with
//! a [`log`](super::log) beside it for records that need not wait for the disk.
//!
//! redb refuses to use a file further once a write to it has failed, as with a full disk. So the file is
//! reopened after every failed write; redb then continues from its last complete transaction.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use motet_control::protocol::{JobId, Registration};
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use tracing::error;

use super::log::{Log, paths};
use super::{Batch, RECENT, Saved, Store, StoreError};
use crate::record::Record;

const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
const JOURNAL: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("journal");
/// `layout`: the version of the file's layout. `changes`: how many changes there were.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const LAYOUT: u64 = 1;

/// Old records are dropped when the journal's numbers pass a multiple of this, so that most writes need not
/// do it.
const LOT: u64 = 10_000;

/// How many records may be in a log before they are moved into the database.
const LOGGED: usize = 10_000;
/// How long records may be in a log before they are moved into the database.
const LOGGED_FOR: Duration = Duration::from_secs(1);

/// A store in a local file.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    /// Tells the thread to move a log into the database. This and `thread` are `Some` until the store is
    /// dropped.
    carry: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The thread ends with its channel. Wait for it, so that the file is closed when it is opened next.
        drop(self.carry.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Shared {
    /// `None` while it could not be reopened after a failure.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    place: String,
    /// How many records are kept.
    most: u64,
    logs: Mutex<Logs>,
    /// Signalled when the thread has moved a log into the database.
    carried: Condvar,
}

/// Records that are not in the database yet.
#[derive(Debug)]
struct Logs {
    /// The file that is being written.
    log: Log,
    /// The records in `log`.
    fresh: Vec<Record>,
    /// When `log` was begun.
    since: Instant,
    /// The other file; `None` while the thread moves its records into the database.
    other: Option<Log>,
    /// The records that the thread is moving. Shared, because copying them would delay writers.
    carrying: Arc<Vec<Record>>,
}

impl Logs {
    /// If it is time and the thread is idle, hands the written records to the thread and continues in the
    /// other file. Returns whether it did.
    fn swap(&mut self) -> bool {
        let due = self.fresh.len() >= LOGGED || self.since.elapsed() >= LOGGED_FOR;
        let Some(other) = self.other.as_mut().filter(|_| due && !self.fresh.is_empty()) else {
            return false;
        };
        if !self.carrying.is_empty() {
            return false;
        }
        self.carrying = Arc::new(std::mem::take(&mut self.fresh));
        std::mem::swap(&mut self.log, other);
        self.since = Instant::now();
        true
    }
}

impl Embedded {
    /// Opens or creates the file. At least `most` records of the journal are kept.
    ///
    /// # Errors
    ///
    /// If the file is not a store of Motet, or another process has it open.
    pub fn open(path: &Path, most: u64) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        let wrong = |it: &dyn std::fmt::Display| StoreError {
            place: place.clone(),
            problem: it.to_string(),
            remedy: "check that its folder exists and can be written, that no other `motet serve` has it open, and that the \
                     file is a store of Motet; moving it away begins without jobs and journal, circuits are read from the \
                     switches",
            lost: false,
        };
        let database = Database::create(path).map_err(|it| wrong(&it))?;
        let [first, second] = paths(path).map(|it| Log::open(&it));
        let ((first, old), (second, older)) =
            (first.map_err(|it| wrong(&it))?, second.map_err(|it| wrong(&it))?);
        let mut left: Vec<Record> = old.into_iter().chain(older).collect();
        left.sort_by_key(|it| it.number);
        let logs = Logs {
            log: first,
            fresh: Vec::new(),
            since: Instant::now(),
            other: Some(second),
            carrying: Arc::default(),
        };
        let shared = Arc::new(Shared {
            database: RwLock::new(Some(database)),
            path: path.to_owned(),
            place: place.clone(),
            most,
            logs: Mutex::new(logs),
            carried: Condvar::new(),
        });
        shared.check_layout()?;
        shared.recover(left)?;
        let (carry, told) = channel();
        let thread = Arc::clone(&shared);
        let carrier = move || told.iter().for_each(|()| thread.carry());
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(carrier);
        let thread = Some(thread.map_err(|it| wrong(&it))?);
        Ok(Self { shared, carry: Some(carry), thread })
    }
}

impl Shared {
    /// Uses the database, after reopening it if a failure has left it closed.
    fn with<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        if self.database.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.open_again()?;
        }
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        // Another thread's write may have failed in between, which has closed the database.
        let Some(database) = database.as_ref() else { return Err(redb::Error::PreviousIo) };
        act(database)
    }

    /// Closes the file after a failed write, and opens it again. It is closed first, because redb does not
    /// open a file that is open.
    fn open_again(&self) -> Result<(), redb::Error> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        drop(database.take());
        *database = Some(Database::open(&self.path)?);
        Ok(())
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves records into the database that an earlier process has left in the logs.
    fn recover(&self, left: Vec<Record>) -> Result<(), StoreError> {
        let next = self.try_load().map_err(|it| self.failed(&it))?.next;
        let records: Vec<Record> = left.into_iter().filter(|it| it.number >= next).collect();
        self.try_write(&[], &[], &records).map_err(|it| self.failed(&it))?;
        let mut logs = self.logs();
        let Logs { log, other, .. } = &mut *logs;
        let cleared = std::iter::once(log).chain(other).try_for_each(Log::clear);
        cleared.map_err(|it| self.failed(&it))
    }

    /// Moves the log that is not being written into the database. Runs on the store's thread.
    fn carry(&self) {
        let (records, log) = {
            let mut logs = self.logs();
            (Arc::clone(&logs.carrying), logs.other.take())
        };
        while let Err(problem) = self.try_write(&[], &[], &records) {
            error!("{}; the journal is only in its log meanwhile", self.failed(&problem));
            std::thread::sleep(Duration::from_secs(1));
        }
        // Not under the lock, because a file system that is busy with other writes may take long for this.
        let mut log = log;
        if let Some(Err(problem)) = log.as_mut().map(Log::clear) {
            // Records that are then in both the log and the database are taken only once.
            error!("{}", self.failed(&problem));
        }
        let carried = {
            let mut logs = self.logs();
            logs.other = log;
            std::mem::take(&mut logs.carrying)
        };
        drop((records, carried));
        self.carried.notify_all();
    }

    /// Writes everything into the database, and waits for the disk.
    fn commit_all(&self, batch: &Batch) -> Result<(), StoreError> {
        let logs = self.logs();
        let wait = self
            .carried
            .wait_timeout_while(logs, Duration::from_secs(5), |it| !it.carrying.is_empty());
        let mut logs = wait.unwrap_or_else(PoisonError::into_inner).0;
        if !logs.carrying.is_empty() {
            return Err(self.failed(&"the database does not take the journal"));
        }
        let records: Vec<Record> = logs.fresh.iter().chain(&batch.records).cloned().collect();
        self.try_write(&batch.put, &batch.remove, &records).map_err(|it| self.failed(&it))?;
        logs.fresh.clear();
        logs.since = Instant::now();
        logs.log.clear().map_err(|it| self.failed(&it))
    }

    fn check_layout(&self) -> Result<(), StoreError> {
        let layout = self.with(|database| {
            let write = database.begin_write()?;
            let found = {
                let mut numbers = write.open_table(NUMBERS)?;
                let found = numbers.get("layout")?.map(|it| it.value());
                if found.is_none() {
                    numbers.insert("layout", LAYOUT)?;
                }
                write.open_table(JOBS)?;
                write.open_table(JOURNAL)?;
                found.unwrap_or(LAYOUT)
            };
            write.commit()?;
            Ok(found)
        });
        let layout = layout.map_err(|it| self.failed(&it))?;
        if layout != LAYOUT {
            let problem = format!("it has layout {layout}, and this program reads layout {LAYOUT}");
            let remedy = "use the version of Motet that wrote it, or move the file away";
            return Err(StoreError { place: self.place.clone(), problem, remedy, lost: false });
        }
        Ok(())
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> StoreError {
        StoreError {
            place: self.place.clone(),
            problem: error.to_string(),
            remedy: "check that the disk is not full and works; the service goes on by itself when it does",
            lost: false,
        }
    }

    fn try_load(&self) -> Result<Saved, redb::Error> {
        self.with(|it| Self::load(&it.begin_read()?))
    }

    fn load(read: &redb::ReadTransaction) -> Result<Saved, redb::Error> {
        let mut jobs = Vec::new();
        for entry in read.open_table(JOBS)?.iter()? {
            jobs.push(decoded::<Registration>(entry?.1.value())?);
        }
        let journal = read.open_table(JOURNAL)?;
        let next = journal.last()?.map_or(0, |it| it.0.value() + 1);
        let mut recent = Vec::new();
        for entry in journal.range(next.saturating_sub(RECENT as u64)..)? {
            recent.push(decoded::<Record>(entry?.1.value())?);
        }
        let changes = read.open_table(NUMBERS)?.get("changes")?.map_or(0, |it| it.value());
        Ok(Saved::new(jobs, &recent, next, changes))
    }

    fn try_write(
        &self,
        put: &[Registration],
        remove: &[JobId],
        records: &[Record],
    ) -> Result<(), redb::Error> {
        let written = self.with(|it| self.write(it.begin_write()?, put, remove, records));
        if written.is_err() {
            // If this fails too, the next one tries again.
            let _ = self.open_again();
        }
        written
    }

    fn write(
        &self,
        mut write: redb::WriteTransaction,
        put: &[Registration],
        remove: &[JobId],
        records: &[Record],
    ) -> Result<(), redb::Error> {
        write.set_durability(Durability::Immediate)?;
        if !(put.is_empty() && remove.is_empty()) {
            let mut jobs = write.open_table(JOBS)?;
            for job in put {
                jobs.insert(job.job.0, encoded(job)?.as_slice())?;
            }
            for job in remove {
                jobs.remove(job.0)?;
            }
        }
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            let mut journal = write.open_table(JOURNAL)?;
            for record in records {
                journal.insert(record.number, encoded(record)?.as_slice())?;
            }
            // Old records are dropped only when the numbers pass a multiple of `LOT`, so that most batches
            // need not do it.
            if first.number / LOT != (last.number + 1) / LOT {
                let keep = last.number.saturating_sub(self.most);
                journal.retain_in(..keep, |_, _| false)?;
            }
        }
        if let Some(change) = crate::record::last_change(records) {
            write.open_table(NUMBERS)?.insert("changes", change.0 + 1)?;
        }
        write.commit()?;
        Ok(())
    }

    fn try_records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, redb::Error> {
        self.with(|database| {
            let journal = database.begin_read()?.open_table(JOURNAL)?;
            let next = journal.last()?.map_or(0, |it| it.0.value() + 1);
            let from = from.unwrap_or(next.saturating_sub(most as u64));
            let mut records = Vec::new();
            for entry in journal.range(from..)?.take(most) {
                records.push(decoded(entry?.1.value())?);
            }
            Ok(records)
        })
    }
}

fn encoded(value: &impl serde::Serialize) -> Result<Vec<u8>, redb::Error> {
    serde_json::to_vec(value).map_err(|it| redb::Error::Corrupted(it.to_string()))
}

fn decoded<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|it| redb::Error::Corrupted(it.to_string()))
}

impl Store for Embedded {
    fn load(&self) -> Result<Saved, StoreError> {
        self.shared.try_load().map_err(|it| self.shared.failed(&it))
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if batch.durable || !batch.put.is_empty() || !batch.remove.is_empty() {
            return self.shared.commit_all(batch);
        }
        let mut logs = self.shared.logs();
        logs.log.append(&batch.records).map_err(|it| self.shared.failed(&it))?;
        logs.fresh.extend(batch.records.iter().cloned());
        if logs.swap() {
            // The thread lives as long as this store.
            let _ = self.carry.as_ref().map(|it| it.send(()));
        }
        Ok(())
    }

    fn records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, StoreError> {
        let unwritten: Vec<Record> = {
            let logs = self.shared.logs();
            logs.carrying.iter().chain(&logs.fresh).cloned().collect()
        };
        let from =
            from.or_else(|| Some((unwritten.last()?.number + 1).saturating_sub(most as u64)));
        let mut records =
            self.shared.try_records(from, most).map_err(|it| self.shared.failed(&it))?;
        let next = records.last().map_or(from.unwrap_or(0), |it| it.number + 1);
        let room = most.saturating_sub(records.len());
        records.extend(unwritten.into_iter().filter(|it| it.number >= next).take(room));
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Entry;
    use motet_control::controller::ChangeId;
    use motet_control::journal::Event;
    use motet_control::protocol::TenantId;

    fn job(number: u64) -> Registration {
        let (job, tenant) = (JobId(number), TenantId(1));
        Registration { job, tenant, ports: Vec::new(), groups: Vec::new(), mode: None }
    }

    fn record(number: u64) -> Record {
        let change = ChangeId(number);
        let (groups, delete, create) = (Vec::new(), Vec::new(), Vec::new());
        let event = Event::Begun { change, job: None, groups, delete, create };
        Record { number, time: 0, entry: Entry::Controller(event) }
    }

    #[test]
    fn what_was_committed_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store");
        let store = Embedded::open(&file, 100).unwrap();
        assert_eq!(store.load().unwrap(), Saved::default());
        let records = vec![record(0), record(1)];
        let put = vec![job(1), job(2)];
        store.commit(&Batch { put, records, durable: true, ..Batch::default() }).unwrap();
        store.commit(&Batch { remove: vec![JobId(1)], durable: true, ..Batch::default() }).unwrap();
        drop(store);
        let store = Embedded::open(&file, 100).unwrap();
        let saved = store.load().unwrap();
        assert_eq!(saved.jobs, [job(2)]);
        assert_eq!((saved.next, saved.change), (2, ChangeId(2)));
        assert_eq!(saved.unfinished, [ChangeId(0), ChangeId(1)]);
        assert_eq!(store.records(None, 1).unwrap(), [record(1)]);
        assert_eq!(store.records(Some(0), 9).unwrap().len(), 2);
    }

    #[test]
    fn what_was_only_logged_is_there_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let (file, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let store = Embedded::open(&file, 100).unwrap();
        store.commit(&Batch { put: vec![job(1)], durable: true, ..Batch::default() }).unwrap();
        for number in 0..5 {
            store.commit(&Batch { records: vec![record(number)], ..Batch::default() }).unwrap();
        }
        assert_eq!(store.records(None, 2).unwrap(), [record(3), record(4)]);
        assert_eq!(store.records(Some(1), 2).unwrap(), [record(1), record(2)]);
        // What a process leaves behind that is killed here.
        std::fs::copy(&file, &copy).unwrap();
        for (from, to) in paths(&file).iter().zip(paths(&copy)) {
            std::fs::copy(from, to).unwrap();
        }
        let after = Embedded::open(&copy, 100).unwrap();
        assert_eq!(after.load().unwrap().next, 5);
        assert_eq!(after.load().unwrap().jobs, [job(1)]);
        assert_eq!(after.records(None, 9).unwrap().len(), 5);
    }

    #[test]
    fn the_log_is_carried_into_the_database_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store");
        let store = Embedded::open(&file, 1_000_000).unwrap();
        let lot = LOGGED as u64;
        for part in 0..3 {
            let records = (part * lot..(part + 1) * lot).map(record).collect();
            store.commit(&Batch { records, ..Batch::default() }).unwrap();
        }
        store
            .commit(&Batch { records: vec![record(3 * lot)], durable: true, ..Batch::default() })
            .unwrap();
        assert_eq!(store.load().unwrap().next, 3 * lot + 1);
        let all = store.records(Some(0), usize::MAX).unwrap();
        assert!((0..).zip(&all).all(|it| it.0 == it.1.number) && all.len() as u64 == 3 * lot + 1);
        assert!(paths(&file).iter().all(|it| std::fs::metadata(it).unwrap().len() == 0));
    }

    #[test]
    fn old_records_are_dropped_and_numbers_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("store"), 100).unwrap();
        for lot in 0..30 {
            let records = (lot * 1000..(lot + 1) * 1000).map(record).collect();
            store.commit(&Batch { records, durable: true, ..Batch::default() }).unwrap();
        }
        assert_eq!(store.load().unwrap().next, 30_000);
        let first = store.records(Some(0), 1).unwrap().first().map(|it| it.number);
        assert_eq!(first, Some(29_899));
    }

    #[test]
    fn one_process_has_it_at_a_time_and_strange_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store");
        let _first = Embedded::open(&file, 100).unwrap();
        let error = Embedded::open(&file, 100).unwrap_err().to_string();
        assert!(error.contains("no other `motet serve`"), "{error}");
        let strange = folder.path().join("strange");
        std::fs::write(&strange, "this is not a store").unwrap();
        assert!(Embedded::open(&strange, 100).is_err());
    }
}
