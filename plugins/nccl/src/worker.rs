//! The thread that writes traces and metrics and records times, so that NCCL's threads only put what they have seen
//! into a queue. It runs while a communicator is profiled.
//!
//! The queue holds a few thousand collectives; when it is full they are counted as lost. The thread wakes up by
//! itself, so that nobody has to wake it.

mod metrics;
mod outputs;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::log::Log;
use crate::profiler::{self, Finished};

use outputs::Outputs;

const QUEUE: usize = 8192;
const NAP: Duration = Duration::from_millis(10);
/// How often to look for collectives of which channels are missing.
const LOOK: Duration = Duration::from_millis(500);
/// How often files are written. A job that is killed loses at most this much of its trace.
const FLUSH: Duration = Duration::from_secs(1);
/// How long the end of a communicator waits for files to be written. A disk may hang; the job must not.
const PATIENCE: Duration = Duration::from_secs(2);

static SENDER: OnceLock<SyncSender<Finished>> = OnceLock::new();
static STATE: Mutex<State> =
    Mutex::new(State { idle: None, thread: None, wish: Wish::Go, done: 0 });
static CHANGED: Condvar = Condvar::new();

/// What the thread works with. It outlives the thread, for the next one.
struct Work {
    receiver: Receiver<Finished>,
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Go,
    Flush,
    Stop,
}

struct State {
    /// The work, while no thread has it.
    idle: Option<Box<Work>>,
    thread: Option<JoinHandle<()>>,
    wish: Wish,
    /// How many wishes were fulfilled.
    done: u64,
}

fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands over a collective; says whether there was room. Never waits.
pub(crate) fn send(it: Finished) -> bool {
    SENDER.get().is_some_and(|sender| sender.try_send(it).is_ok())
}

/// Starts the thread; says whether there is anything to write to.
pub(crate) fn begin(rank: Option<u32>, log: Log) -> bool {
    let mut state = state();
    if SENDER.get().is_none() {
        let Some(outputs) = Outputs::from_environment(rank, log) else { return false };
        let (sender, receiver) = sync_channel(QUEUE);
        if SENDER.set(sender).is_ok() {
            state.idle = Some(Box::new(Work { receiver, outputs }));
        }
    }
    // A thread that did not stop in time still has it; then nothing is written any more.
    let Some(work) = state.idle.take() else { return false };
    state.wish = Wish::Go;
    let spawned = std::thread::Builder::new().name("motet".to_owned()).spawn(move || run(work));
    match spawned {
        Ok(thread) => state.thread = Some(thread),
        Err(error) => log.warn(&format!("nothing is profiled: no thread can be started: {error}")),
    }
    state.thread.is_some()
}

/// Has everything so far written.
pub(crate) fn flush() {
    wish(Wish::Flush);
}

/// Has everything written, and the thread end.
pub(crate) fn end() {
    if wish(Wish::Stop) {
        let thread = state().thread.take();
        // It has put its work back; nothing is left to do but to return.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Makes a wish and waits until the thread has fulfilled it, but no longer than [`PATIENCE`]; whether it has.
fn wish(wish: Wish) -> bool {
    let mut state = state();
    state.wish = wish;
    let Some(thread) = &state.thread else { return false };
    thread.thread().unpark();
    let before = state.done;
    let waited = CHANGED.wait_timeout_while(state, PATIENCE, |it| it.done == before);
    let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
    drop(state);
    !late.timed_out()
}

#[allow(clippy::disallowed_methods, reason = "files are written by the clock")]
fn run(mut work: Box<Work>) {
    let (mut looked, mut flushed) = (Instant::now(), Instant::now());
    loop {
        let wish = state().wish;
        work.take_in();
        let now = Instant::now();
        if now - looked >= LOOK {
            looked = now;
            profiler::all_in_use().for_each(profiler::Context::look);
            work.take_in();
        }
        if wish != Wish::Go || now - flushed >= FLUSH {
            flushed = now;
            work.outputs.write(wish != Wish::Go);
        }
        if wish != Wish::Go {
            let mut state = state();
            // Whoever made the wish may have given up waiting, and there may be another wish by now.
            if state.wish == wish {
                state.wish = Wish::Go;
                state.done += 1;
                CHANGED.notify_all();
                if wish == Wish::Stop {
                    state.idle = Some(work);
                    return;
                }
            }
        }
        std::thread::park_timeout(NAP);
    }
}

impl Work {
    fn take_in(&mut self) {
        while let Ok(finished) = self.receiver.try_recv() {
            self.outputs.add(&finished);
        }
    }
}
