//! [`Guarded`]: the tables that the calling thread of a communicator has seen last ([`Seen`]), which make the next lookup cheap.
//!
//! NCCL asks for one call of a communicator after the other, but not always on the same thread. A mutex would be a
//! lock on the call path. Instead a flag says whether a thread is using them; another that finds it set does without.

#![allow(unsafe_code, reason = "a flag gives the access that the compiler cannot see")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use motet_runtime::{Runtime, Seen};

pub(crate) struct Guarded {
    busy: AtomicBool,
    seen: UnsafeCell<Seen>,
}

// SAFETY: `with` lets one thread at a time to `seen`, which may go from thread to thread.
unsafe impl Sync for Guarded {}

/// Gives the flag back however `with` ends.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

impl Guarded {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        Self { busy: AtomicBool::new(false), seen: UnsafeCell::new(Seen::new(runtime)) }
    }

    /// Does `work` with what was seen; `None` if another thread is using it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Seen) -> T) -> Option<T> {
        if self.busy.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return None;
        }
        let _release = Leaving(&self.busy);
        // SAFETY: the flag was not set and is now, so nobody else has a reference until it is given back.
        let seen = unsafe { &mut *self.seen.get() };
        Some(work(seen))
    }
}
