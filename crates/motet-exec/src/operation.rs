//! [`Operation`]: a program that is registered, with its memory, ready to be called.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use mio::Waker;
use motet_collective::Buffer;

use crate::engine::Command;
use crate::error::ExecError;
use crate::layout::Span;
use crate::run::{Outcome, Regions, Registered};

/// A registered operation: [`start`](Self::start) it, do something else, [`wait`](Self::wait) for it, and
/// again. Its memory is the caller's between calls and the engine's during one. Several operations may be
/// under way at once; all ranks must start them in the same order.
#[derive(Debug)]
pub struct Operation {
    registered: Arc<Registered>,
    /// Not while a call is under way.
    memory: Option<Regions>,
    running: Option<Receiver<Outcome>>,
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
        Self { registered, memory: Some(memory), running: None, commands, waker }
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
        let (reply, outcome) = channel();
        let command = Command::Start { registered: Arc::clone(&self.registered), memory, reply };
        if let Err(unsent) = self.commands.send(command) {
            if let Command::Start { memory, .. } = unsent.0 {
                self.memory = Some(memory);
            }
            return Err(ExecError::Left);
        }
        self.running = Some(outcome);
        self.waker.wake().map_err(|it| ExecError::Group(format!("cannot wake the engine: {it}")))
    }

    /// Waits until the call under way has ended, if there is one.
    pub fn wait(&mut self) -> Result<(), ExecError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let outcome = running.recv().map_err(|_| ExecError::Left)?;
        self.memory = Some(outcome.memory);
        outcome.result
    }

    /// Whether the call under way has ended, and how; `None` if it has not.
    pub fn try_wait(&mut self) -> Option<Result<(), ExecError>> {
        let running = self.running.as_ref()?;
        match running.try_recv() {
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.running = None;
                Some(Err(ExecError::Left))
            }
            Ok(outcome) => {
                self.running = None;
                self.memory = Some(outcome.memory);
                Some(outcome.result)
            }
        }
    }

    /// Calls it and waits for it.
    pub fn run(&mut self) -> Result<(), ExecError> {
        self.start()?;
        self.wait()
    }
}
