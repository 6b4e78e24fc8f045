//! [`Handle`]: a call that is under way, and how it ended.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::CommError;

#[derive(Debug, Default)]
struct Shared {
    ended: Mutex<Option<Result<(), CommError>>>,
    changed: Condvar,
}

/// A call that is under way. Any thread may wait for it, and more than one.
#[derive(Clone, Debug, Default)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// How it ended, if it has.
    #[must_use]
    pub fn test(&self) -> Option<Result<(), CommError>> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for its end, but no longer than this. `None` if it has not come by then; the call goes on.
    #[must_use]
    pub fn wait_for(&self, most: Duration) -> Option<Result<(), CommError>> {
        let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(ended, most, |it| it.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits for its end.
    pub fn wait(&self) -> Result<(), CommError> {
        let mut ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = &*ended {
                return result.clone();
            }
            ended = self.0.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The other end of a handle. Dropped without a word, it says that the group was left, so that nobody waits for ever.
#[derive(Debug, Default)]
pub(crate) struct Completion(Handle);

impl Completion {
    pub(crate) fn handle(&self) -> Handle {
        self.0.clone()
    }

    pub(crate) fn end(self, result: Result<(), CommError>) {
        self.set(result);
    }

    fn set(&self, result: Result<(), CommError>) {
        let shared = &self.0.0;
        shared.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(result);
        shared.changed.notify_all();
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.set(Err(CommError::left()));
    }
}
