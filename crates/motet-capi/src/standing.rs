//! [`Standing`]: how it stands with a communicator's group, for the threads that do not own it. Whoever leaves ends by it what the
//! starter waits for; the groups of two for messages learn from it that nobody will come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use motet_exec::{Group, Remote};

use crate::error::CommError;

/// Whether a communicator has a group, is still joining one or has none any more, shared between its threads.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Set when the communicator is left: what has not begun does not begin.
    leaving: AtomicBool,
    group: Mutex<Now>,
}

#[derive(Debug, Default)]
enum Now {
    #[default]
    Joining,
    Joined(Remote),
    /// There is no group, nor will there be one.
    Over(CommError),
}

impl Standing {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a group now, or another than before.
    pub(crate) fn joined(&self, group: &Group) {
        let remote = group.remote();
        let mut now = self.lock();
        // Whoever left before could not tell this group.
        if self.is_leaving() {
            remote.leave();
        }
        *now = Now::Joined(remote);
    }

    /// There will be no group.
    pub(crate) fn over(&self, error: &CommError) {
        *self.lock() = Now::Over(error.clone());
    }

    /// Leaves the group: what is under way ends with an error, also where the starter waits for other ranks.
    pub(crate) fn leave(&self) {
        let now = self.lock();
        self.leaving.store(true, Ordering::Release);
        if let Now::Joined(remote) = &*now {
            remote.leave();
        }
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Why no more is to be expected of a rank: it has left, the group has failed, or there is none.
    pub(crate) fn lost(&self, rank: u32) -> Option<CommError> {
        match &*self.lock() {
            Now::Joining => None,
            Now::Joined(remote) => remote.lost(rank).map(CommError::from),
            Now::Over(error) => Some(error.clone()),
        }
    }
}

/// The communicator that a group of two belongs to, and the number that the other of the two has there.
#[derive(Debug)]
pub(crate) struct Belongs {
    pub(crate) to: std::sync::Arc<Standing>,
    pub(crate) other: u32,
}

impl Belongs {
    /// Why nobody will come to the group of two.
    pub(crate) fn lost(&self) -> Option<CommError> {
        self.to.lost(self.other)
    }
}
