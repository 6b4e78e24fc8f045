//! Which tuner is of which communicator, for the thread that records times: NCCL gives both plugins the same id of a
//! communicator (from tuner v5 and profiler v4 on).
//!
//! A process that was forked has this list as it was, and perhaps locked for ever by a thread that it does not have.
//! So only the process that used it first may use it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use motet_runtime::Runtime;

static OWNER: AtomicU32 = AtomicU32::new(0);
type Tuners = Vec<(u64, Arc<Runtime>)>;

static TUNERS: Mutex<Tuners> = Mutex::new(Vec::new());

/// Whether this process, and not one that it was forked from, has used the plugin's shared state first.
pub(crate) fn is_owner() -> bool {
    let me = std::process::id();
    match OWNER.compare_exchange(0, me, Relaxed, Relaxed) {
        Ok(_) => true,
        Err(owner) => owner == me,
    }
}

fn tuners() -> Option<MutexGuard<'static, Tuners>> {
    is_owner().then(|| TUNERS.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn add(communicator: u64, runtime: &Arc<Runtime>) {
    if let Some(mut all) = tuners() {
        all.push((communicator, Arc::clone(runtime)));
    }
}

pub(crate) fn remove(runtime: &Arc<Runtime>) {
    if let Some(mut all) = tuners() {
        all.retain(|it| !Arc::ptr_eq(&it.1, runtime));
    }
}

/// The runtime of a communicator; of several ranks in one process, whose plans are the same, the first.
pub(crate) fn find(communicator: u64) -> Option<Arc<Runtime>> {
    let all = tuners()?;
    all.iter().find(|it| it.0 == communicator).map(|it| Arc::clone(&it.1))
}

/// How many operations a communicator has begun; `None` if another thread has the list. Never waits.
pub(crate) fn position(communicator: u64) -> Option<u64> {
    if !is_owner() {
        return None;
    }
    let all = TUNERS.try_lock().ok()?;
    all.iter().find(|it| it.0 == communicator).map(|it| it.1.position())
}

/// The runtime of a communicator of which this process has one rank; `None` if it has several, or none yet.
pub(crate) fn only(communicator: u64) -> Option<Arc<Runtime>> {
    let all = tuners()?;
    let mut found = all.iter().filter(|it| it.0 == communicator);
    let first = found.next().map(|it| Arc::clone(&it.1));
    first.filter(|_| found.next().is_none())
}
