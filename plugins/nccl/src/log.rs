//! [`Log`]: lines in NCCL's own log, which users look into with `NCCL_DEBUG=INFO`.

#![allow(unsafe_code, reason = "NCCL's logger is a C function")]

use std::ffi::{CStr, CString, c_int, c_ulong};

use crate::abi::{INFO, Logger, WARN};

/// The file that NCCL's log names as the source of our lines.
const FILE: &CStr = c"motet";
/// Texts are arguments, never formats: a path may have a `%` in it.
const FORMAT: &CStr = c"Motet: %s";

/// A communicator's logger; none before profiler v4, and in tests.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    logger: Logger,
    subsystem: c_ulong,
}

impl Log {
    pub(crate) const fn new(logger: Logger, subsystem: c_ulong) -> Self {
        Self { logger, subsystem }
    }

    /// Something is wrong that the user should put right.
    pub(crate) fn warn(&self, text: &str) {
        self.say(WARN, &line(text));
    }

    pub(crate) fn info(&self, text: &str) {
        self.say(INFO, &line(text));
    }

    /// Logs a text that was made ready before, for the call path, which allocates nothing.
    pub(crate) fn say(&self, level: c_int, text: &CStr) {
        let Some(logger) = self.logger else { return };
        // SAFETY: the type is `ncclDebugLogger_t`; the format has one `%s`, and both texts end with a zero and
        // outlive the call.
        unsafe { logger(level, self.subsystem, FILE.as_ptr(), 0, FORMAT.as_ptr(), text.as_ptr()) }
    }
}

/// A text as C wants it. A zero in it would end it early, so that is replaced; no path or message of ours has one.
pub(crate) fn line(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}
