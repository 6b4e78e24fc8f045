//! The thread that sees calls end: it waits for them in the order in which they were started, by which results that could not be
//! made in place are copied out, and tells whoever waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use motet_exec::Operation;

use crate::call::Call;
use crate::completion::Completion;
use crate::error::CommError;

/// A call that is under way. The completion comes last: dropped, it tells that the call has ended, which it has when the operation
/// is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) call: Call,
    /// Which of the operations of its sort.
    pub(crate) at: usize,
    pub(crate) operation: Operation,
    pub(crate) completion: Completion,
}

/// An operation that can be called again, or why nothing can.
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
        // The starter first: whoever waits may call again at once. It may have gone.
        let _ = landed.send(Landed { call, at, operation, failed });
        completion.end(result);
    }
}
