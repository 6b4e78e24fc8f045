//! `motet exec`: programs run between processes.

pub(crate) mod bench;
mod program;
pub(crate) mod run;
pub(crate) mod store;

use std::sync::Arc;

use motet_exec::{ExecError, Note, SharedClock};
use motet_units::Instant;

use crate::failure::Failure;

/// The time since the command began.
pub(crate) fn clock() -> SharedClock {
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let start = std::time::Instant::now();
    Arc::new(move || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000))
    })
}

/// Notes of threads: lines on stderr, unless that is to be quiet.
pub(crate) fn note(shown: bool) -> Note {
    Arc::new(move |line: &str| {
        if shown {
            let mut stderr = std::io::stderr().lock();
            // If stderr itself is gone there is nobody left to tell.
            let _ = std::io::Write::write_fmt(&mut stderr, format_args!("note: {line}\n"));
        }
    })
}

pub(crate) fn failure(error: &ExecError) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error {
        ExecError::NeedsToken { .. } => {
            failure.with_remedy("give all ranks the same `--token`, or set MOTET_EXEC_TOKEN")
        }
        ExecError::Tls(_) => Failure::unreadable(error.to_string()),
        error if error.is_too_late() => failure.with_remedy(
            "all ranks still answer: see which of them did not make that call; a longer limit is `--deadline`",
        ),
        ExecError::Lost { .. } | ExecError::Silent { .. } | ExecError::Told { .. } => failure
            .with_remedy("look at that rank's own message; `--on-loss shrink` goes on without it"),
        _ => failure,
    }
}
