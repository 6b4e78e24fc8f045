//! The connection to the manager of this host (`motet manager`, `MOTET_SHIM_SOCKET`).
//!
//! Whatever goes wrong here ends the connection for good, and the job goes on without: a manager that was started anew could not
//! know which calls this rank has made.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use motet_control::JobId;
use motet_control::shim::{Mode, Tell};
use motet_control::wire::{Frame, MOST};
use motet_units::Rank;

/// How long the manager may take to greet, and to read what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Link {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Link {
    /// Connects, and hears how much the shim is to do.
    pub(crate) fn connect(path: &Path, job: JobId, rank: Rank) -> Result<(Self, Mode), String> {
        let place = |it: std::io::Error| format!("the manager's socket {}: {it}", path.display());
        let stream = UnixStream::connect(path).map_err(place)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(place)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(place)?;
        let mut link = Self { stream, bytes: Vec::new() };
        link.send(Frame::Hello { job, rank })?;
        loop {
            if let Some(frame) = link.frame()? {
                let Frame::Welcome(mode) = frame else {
                    return Err(format!("the manager's first word is {frame:?}"));
                };
                link.stream.set_nonblocking(true).map_err(place)?;
                return Ok((link, mode));
            }
            if !link.fill()? {
                return Err("the manager does not answer".to_owned());
            }
        }
    }

    pub(crate) fn tell(&mut self, tell: Tell) -> Result<(), String> {
        self.send(Frame::Tell(tell))
    }

    pub(crate) fn bye(&mut self) {
        // It is the end either way.
        let _ = self.send(Frame::Bye);
    }

    /// Sends a frame. Frames are few and small, so the socket has room for them; if it has none for long, the manager does not read.
    fn send(&mut self, frame: Frame) -> Result<(), String> {
        let mut bytes = Vec::with_capacity(MOST);
        frame.write(&mut bytes);
        let mut rest = bytes.as_slice();
        let mut tries = 0;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(it) if it.kind() == ErrorKind::Interrupted => {}
                Err(it) if it.kind() == ErrorKind::WouldBlock && tries < 1000 => {
                    tries += 1;
                    std::thread::sleep(PATIENCE / 1000);
                }
                Err(it) => return Err(format!("the manager does not take what it is told: {it}")),
            }
        }
        Ok(())
    }

    /// The next frame that has come, if any.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, String> {
        match self.frame()? {
            Some(frame) => Ok(Some(frame)),
            None if self.fill()? => self.frame(),
            None => Ok(None),
        }
    }

    fn frame(&mut self) -> Result<Option<Frame>, String> {
        let read = Frame::read(&self.bytes).map_err(|it| it.to_string())?;
        Ok(read.map(|(frame, length)| {
            self.bytes.drain(..length);
            frame
        }))
    }

    /// Reads what has come; false if nothing has.
    fn fill(&mut self) -> Result<bool, String> {
        let mut more = [0; 16 * MOST];
        match self.stream.read(&mut more) {
            Ok(0) => Err("the manager has closed the connection".to_owned()),
            Ok(count) => {
                self.bytes.extend(more.get(..count).unwrap_or_default());
                Ok(true)
            }
            Err(it)
                if matches!(
                    it.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(it) => Err(format!("the connection to the manager broke: {it}")),
        }
    }
}
