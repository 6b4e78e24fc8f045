//! What a terminal shows while a command works: [`Progress`], a spinner with a message for work of unknown
//! length, and [`Bar`], for work whose amount is known. Nothing is shown with `--quiet` or `--json`, or where
//! stderr is no terminal.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::printer::Printer;

/// How long work may take before anything is shown.
const PATIENCE: Duration = Duration::from_millis(800);
const TICK: Duration = Duration::from_millis(120);

/// A spinner that appears once the work has taken [`PATIENCE`] and disappears when this value is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Takes new messages; dropped to stop the thread.
    messages: Option<mpsc::Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts waiting; `message` stands beside the spinner.
    pub(crate) fn start(printer: &Printer, message: impl Into<String>) -> Self {
        if !printer.shows_progress() {
            return Self { messages: None, thread: None };
        }
        let message = message.into();
        let (messages, received) = mpsc::channel();
        let thread = std::thread::spawn(move || show(message, &received));
        Self { messages: Some(messages), thread: Some(thread) }
    }

    /// Shows this from now on instead.
    pub(crate) fn say(&self, message: String) {
        if let Some(messages) = &self.messages {
            // The thread lives as long as this does.
            let _ = messages.send(message);
        }
    }
}

/// Waits until the work has taken long enough, then shows the latest message until no more can come.
fn show(mut message: String, received: &mpsc::Receiver<String>) {
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let start = std::time::Instant::now();
    while let Some(left) = PATIENCE.checked_sub(start.elapsed()) {
        match received.recv_timeout(left) {
            Ok(next) => message = next,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
    // indicatif draws nothing when stderr is no terminal.
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(TICK);
    while let Ok(next) = received.recv() {
        bar.set_message(next);
    }
    bar.finish_and_clear();
}

/// A bar over a known amount of work, with what is being done at the moment behind it.
#[derive(Debug)]
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    /// An empty bar for `total` pieces of work, which are called `unit`.
    pub(crate) fn start(printer: &Printer, total: u64, unit: &'static str) -> Self {
        if !printer.shows_progress() {
            return Self(None);
        }
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} {prefix}, {elapsed}  {wide_msg}");
        let bar = ProgressBar::new(total).with_prefix(unit);
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        // Drawn at once, and again while nothing is finished: the first tasks may take long.
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    /// Shows what is being done.
    pub(crate) fn say(&self, what: impl Into<String>) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.into());
        }
    }

    /// Moves the bar to `done` pieces.
    pub(crate) fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
