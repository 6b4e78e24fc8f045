//! The thread that sees calls end. It waits for them in the order in which they were started, which also copies out results that
//! could not be written straight into the caller's buffers, and then tells whoever waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use motet_exec::Operation;

use crate::call::Call;
use crate::completion::Completion;
use crate::error::CommError;

/// A call that is under way. The completion is the last field, so that it is dropped last: a completion that is dropped reports the
/// call's end, and the call has ended only once its operation is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) call: Call,
    /// The operation's number among those of its sort.
    pub(crate) at: usize,
    pub(crate) operation: Operation,
    pub(crate) completion: Completion,
}

/// An operation whose call has ended, and the error if it failed.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) call: Call,
    pub(crate) at: usize,
    pub(crate) operation: Operation,
    pub(crate) failed: Option<CommError>,
}

/// Serves until the starter has gone; `copied` counts the bytes of buffers that were copied.
pub(crate) fn run(flights: &Receiver<Flight>, landed: &Sender<Landed>, copied: &AtomicU64) {
    for flight in flights {
        let Flight { call, at, mut operation, completion } = flight;
        let result = operation.wait().map_err(CommError::from);
        copied.fetch_add(operation.copied() as u64, Ordering::Relaxed);
        let failed = result.as_ref().err().cloned();
        // The starter hears of it first, because whoever waits may call again at once. It may have gone.
        let _ = landed.send(Landed { call, at, operation, failed });
        completion.end(result);
    }
}
