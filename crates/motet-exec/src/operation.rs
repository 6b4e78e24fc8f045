//! [`Operation`]: a program that is registered, with its memory, ready to be called.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use mio::Waker;
use motet_collective::Buffer;

use crate::buffers::{Input, Output};
use crate::engine::Command;
use crate::error::ExecError;
use crate::layout::Span;
use crate::lending::Lending;
use crate::run::{Outcome, Regions, Registered};

/// A registered operation: [`start`](Self::start) it, do something else, [`wait`](Self::wait) for it, and
/// again. Its memory is the caller's between calls and the engine's during one; [`start_on`](Self::start_on) is a call on
/// buffers of the caller's own. Several operations may be under way at once; all ranks must start them in the same order.
#[derive(Debug)]
pub struct Operation {
    registered: Arc<Registered>,
    /// The operation's memory; `None` while a call is under way, because the engine has it then.
    memory: Option<Regions>,
    running: Option<Receiver<Outcome>>,
    /// The caller's buffers, if the call under way is on those.
    lending: Option<Lending>,
    /// Bytes that the last call on the caller's buffers copied.
    copied: usize,
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Operation {
    pub(crate) const fn new(
        registered: Arc<Registered>,
        memory: Regions,
        commands: Sender<Command>,
        waker: Arc<Waker>,
    ) -> Self {
        Self {
            registered,
            memory: Some(memory),
            running: None,
            lending: None,
            copied: 0,
            commands,
            waker,
        }
    }

    fn span(&self, buffer: Buffer) -> Span {
        self.registered.layout.whole(buffer)
    }

    fn view(&self, buffer: Buffer) -> Option<&[u8]> {
        let span = self.span(buffer);
        self.memory.as_ref().map(|it| &it[span.region as usize].bytes()[span.range()])
    }

    fn view_mut(&mut self, buffer: Buffer) -> Option<&mut [u8]> {
        let span = self.span(buffer);
        self.memory.as_mut().map(|it| &mut it[span.region as usize].bytes_mut()[span.range()])
    }

    /// This rank's input; `None` while a call is under way.
    #[must_use]
    pub fn input(&self) -> Option<&[u8]> {
        self.view(Buffer::Input)
    }

    /// This rank's input, to be written before a call; in place it is part of the output.
    #[must_use]
    pub fn input_mut(&mut self) -> Option<&mut [u8]> {
        self.view_mut(Buffer::Input)
    }

    /// This rank's output; `None` while a call is under way.
    #[must_use]
    pub fn output(&self) -> Option<&[u8]> {
        self.view(Buffer::Output)
    }

    #[must_use]
    pub fn output_mut(&mut self) -> Option<&mut [u8]> {
        self.view_mut(Buffer::Output)
    }

    /// Whether a call is under way.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Calls it, without waiting for it.
    pub fn start(&mut self) -> Result<(), ExecError> {
        let memory = self.memory.take().ok_or(ExecError::Busy)?;
        self.send(memory)
    }

    /// Calls it on the caller's buffers, each as long as [`input`](Self::input) and [`output`](Self::output), or none. The engine
    /// works in them without a copy, unless ranks of this host read that memory, the program writes its input, or a buffer is not
    /// aligned or overlaps the other. In place, an input that is not at its place in the output is copied there. The buffers are the
    /// caller's again when [`wait`](Self::wait) has returned, or `try_wait` has said how the call ended; dropping the operation
    /// before that waits for it. After an error the output holds anything.
    pub fn start_on(&mut self, input: Input, output: Output) -> Result<(), ExecError> {
        let mut memory = self.memory.take().ok_or(ExecError::Busy)?;
        match Lending::begin(&self.registered, &mut memory, input, output) {
            Ok(lending) => self.lending = Some(lending),
            Err(error) => {
                self.memory = Some(memory);
                return Err(error);
            }
        }
        self.send(memory)
    }

    /// Hands a call to the engine. After an error none is under way.
    fn send(&mut self, memory: Regions) -> Result<(), ExecError> {
        let (reply, outcome) = channel();
        let command = Command::Start { registered: Arc::clone(&self.registered), memory, reply };
        if let Err(unsent) = self.commands.send(command) {
            if let Command::Start { memory, .. } = unsent.0 {
                self.take_back(memory, false);
            }
            return Err(ExecError::Left);
        }
        self.running = Some(outcome);
        // An engine that cannot be woken looks by itself, several times a second.
        let _ = self.waker.wake();
        Ok(())
    }

    /// Waits until the call under way has ended, if there is one.
    pub fn wait(&mut self) -> Result<(), ExecError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let outcome = running.recv();
        self.ended(outcome.ok())
    }

    /// Whether the call under way has ended, and how; `None` if it has not.
    pub fn try_wait(&mut self) -> Option<Result<(), ExecError>> {
        let outcome = match self.running.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => None,
            Ok(outcome) => Some(outcome),
        };
        self.running = None;
        Some(self.ended(outcome))
    }

    /// A call has ended. There is no outcome if the engine's thread has ended, which has dropped all memory before.
    fn ended(&mut self, outcome: Option<Outcome>) -> Result<(), ExecError> {
        let Some(Outcome { memory, result }) = outcome else {
            self.lending = None;
            return Err(ExecError::Left);
        };
        self.take_back(memory, result.is_ok());
        result
    }

    fn take_back(&mut self, mut memory: Regions, result: bool) {
        if let Some(lending) = self.lending.take() {
            self.copied = lending.end(&self.registered.layout, &mut memory, result);
        }
        self.memory = Some(memory);
    }

    /// How many bytes the last call on the caller's buffers copied: between them and the operation's memory, or from one to the other.
    #[must_use]
    pub const fn copied(&self) -> usize {
        self.copied
    }

    /// Calls it and waits for it.
    pub fn run(&mut self) -> Result<(), ExecError> {
        self.start()?;
        self.wait()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // The engine must have nothing of the caller's any more when nobody can wait for it.
        if self.lending.as_ref().is_some_and(Lending::is_lent) {
            // Nobody asks how it ended.
            let _ = self.wait();
        }
    }
}
