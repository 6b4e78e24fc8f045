//! [`Link`]: a connection that never blocks. Frames go in and out of its buffers, which are filled from the socket and
//! emptied to it whenever it is ready.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use motet_runtime::wire::{self, Frame, MOST};
use rustix::event::PollFlags;

/// How many bytes may wait to be sent. A peer that lets more pile up is taken to be gone.
const MOST_WAITING: usize = 4 * MOST;

pub(super) struct Link {
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

/// The other side has gone, or is none of ours.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl Link {
    pub(super) fn new(stream: TcpStream) -> Result<Self, Broken> {
        let prepared = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        prepared.map_err(|it| Broken(it.to_string()))?;
        Ok(Self { stream, incoming: Vec::new(), outgoing: Vec::new() })
    }

    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn waits_for(&self) -> PollFlags {
        if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    pub(super) fn send(&mut self, frame: &Frame) -> Result<(), Broken> {
        if self.outgoing.len() > MOST_WAITING {
            return Err(Broken("it takes nothing any more".to_owned()));
        }
        wire::encode(frame, &mut self.outgoing);
        self.flush()
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> Result<(), Broken> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(Broken("it has gone".to_owned())),
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken(error.to_string())),
            }
        }
        Ok(())
    }

    /// All frames that have come. It reads a limited amount at a time, so that a peer that sends without end holds nobody up.
    pub(super) fn receive(&mut self) -> Result<Vec<Frame>, Broken> {
        let mut part = [0; 1 << 16];
        let mut frames = Vec::new();
        let mut gone = None;
        for _ in 0..64 {
            match self.stream.read(&mut part) {
                Ok(0) => {
                    gone = Some(Broken("it has gone".to_owned()));
                    break;
                }
                Ok(count) => self.incoming.extend(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken(error.to_string())),
            }
        }
        let mut read = 0;
        while let Some((frame, length)) =
            wire::decode(&self.incoming[read..]).map_err(|it| Broken(it.to_string()))?
        {
            read += length;
            frames.push(frame);
        }
        self.incoming.drain(..read);
        // What was said before it went still counts.
        match gone {
            Some(gone) if frames.is_empty() => Err(gone),
            _ => Ok(frames),
        }
    }
}
