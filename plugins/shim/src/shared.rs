//! What the job's threads and the [worker](crate::worker) share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as Wall, Instant as Clock};

use motet_units::{Duration, Instant};

use crate::flags::Flags;
use crate::worker::Handed;

pub(crate) struct Shared {
    pub(crate) flags: Flags,
    /// Whether calls of groups with circuits wait until they are let go.
    pub(crate) gates: AtomicBool,
    /// Whether the process is about to end.
    pub(crate) ending: AtomicBool,
    /// How long a call may wait for the manager's word.
    pub(crate) patience: Duration,
    start: Clock,
    /// What the job's threads have handed over and the worker has not taken.
    inbox: Mutex<Vec<Handed>>,
    /// Wakes the worker.
    bell: Condvar,
    /// Whether the worker has ended.
    over: (Mutex<bool>, Condvar),
}

/// Locks, also after a thread has panicked with the lock: it has left nothing half done, because nothing here takes two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    #[allow(
        clippy::disallowed_methods,
        reason = "a library in a job has nobody above it to hand it a clock"
    )]
    pub(crate) fn new(flags: Flags, gates: bool, patience: Duration) -> Self {
        Self {
            flags,
            gates: AtomicBool::new(gates),
            ending: AtomicBool::new(false),
            patience,
            start: Clock::now(),
            inbox: Mutex::default(),
            bell: Condvar::new(),
            over: (Mutex::new(false), Condvar::new()),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let nanoseconds = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::START + Duration::from_ns(nanoseconds)
    }

    pub(crate) fn hand(&self, it: Handed) {
        lock(&self.inbox).push(it);
        self.bell.notify_one();
    }

    pub(crate) fn handed(&self) -> Vec<Handed> {
        std::mem::take(&mut lock(&self.inbox))
    }

    /// Waits until something is handed over.
    pub(crate) fn wait(&self, most: Wall) {
        let inbox = lock(&self.inbox);
        if inbox.is_empty() && !self.ending.load(Ordering::Acquire) {
            // Woken too early or too late, the worker just looks again.
            drop(self.bell.wait_timeout(inbox, most));
        }
    }

    /// Tells the worker that the process ends, and gives it time to say goodbye.
    pub(crate) fn end(&self, most: Wall) {
        self.ending.store(true, Ordering::Release);
        self.bell.notify_one();
        let over = lock(&self.over.0);
        drop(self.over.1.wait_timeout_while(over, most, |it| !*it));
    }

    pub(crate) fn has_ended(&self) {
        *lock(&self.over.0) = true;
        self.over.1.notify_all();
    }
}
