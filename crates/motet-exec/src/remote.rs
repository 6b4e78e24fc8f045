//! [`Remote`]: a group as threads see it that do not own it: which of its ranks are gone, and how to leave it while its owner waits.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;

use crate::engine::Command;
use crate::error::ExecError;

/// What the engine has noticed of its group, for other threads to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health(Arc<Mutex<Noticed>>);

#[derive(Debug, Default)]
struct Noticed {
    /// Why the group has failed, if it has.
    failed: Option<ExecError>,
    /// Ranks that have left it in order.
    left: BTreeSet<u32>,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, Noticed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fail(&self, error: &ExecError) {
        self.lock().failed = Some(error.clone());
    }

    pub(crate) fn leave(&self, rank: u32) {
        self.lock().left.insert(rank);
    }

    pub(crate) fn failure(&self) -> Option<ExecError> {
        self.lock().failed.clone()
    }

    fn lost(&self, rank: u32) -> Option<ExecError> {
        let noticed = self.lock();
        let left = || ExecError::Lost { rank, why: "it has left the group".to_owned() };
        noticed.failed.clone().or_else(|| noticed.left.contains(&rank).then(left))
    }
}

/// A handle to a group for threads that do not own it. It does not keep the group alive.
#[derive(Clone)]
pub struct Remote {
    pub(crate) health: Health,
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Arc<Waker>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Remote").field(&self.health).finish()
    }
}

impl Remote {
    /// Why nobody should wait for this rank any more: the group has failed, or the rank has left it. `None` while all is well.
    #[must_use]
    pub fn lost(&self, rank: u32) -> Option<ExecError> {
        self.health.lost(rank)
    }

    /// Leaves the group now. Whatever its owner waits for ends with an error, [`ExecError::Left`] as a rule; its owner still
    /// has to drop it.
    pub fn leave(&self) {
        // An engine that has ended needs no telling.
        if self.commands.send(Command::Leave).is_ok() {
            // One that cannot be woken looks by itself, several times a second.
            let _ = self.waker.wake();
        }
    }
}
