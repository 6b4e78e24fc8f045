//! The thread that sees calls end: it waits for them in the order in which they were started, copies results out and tells whoever waits.

use std::sync::mpsc::{Receiver, Sender};

use motet_exec::Operation;

use crate::buffers::Output;
use crate::call::Call;
use crate::completion::Completion;
use crate::error::CommError;

/// A call that is under way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) call: Call,
    /// Which of the operations of its sort.
    pub(crate) at: usize,
    pub(crate) operation: Operation,
    pub(crate) output: Output,
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

pub(crate) fn run(flights: &Receiver<Flight>, landed: &Sender<Landed>) {
    for flight in flights {
        let Flight { call, at, mut operation, mut output, completion } = flight;
        let mut result = operation.wait().map_err(CommError::from);
        if result.is_ok() && output.bytes() > 0 {
            let copied = operation.output().is_some_and(|it| output.copy_from(it));
            if !copied {
                result = Err(CommError::fault("an output is not as long as it should be"));
            }
        }
        let failed = result.as_ref().err().cloned();
        // The starter first: whoever waits may call again at once. It may have gone.
        let _ = landed.send(Landed { call, at, operation, failed });
        completion.end(result);
    }
}
