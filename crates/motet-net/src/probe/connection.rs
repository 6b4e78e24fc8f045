//! [`Connection`]: a socket that speaks frames, with a time limit for every step and one for all
//! of them, so that a peer that is silent, slow or hostile holds nobody up for long.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration as Wall;

use motet_units::{Duration, Instant};

use super::Clock;
use super::frame::{self, Frame, FrameError, HEADER};

/// A piece of a stream: large enough that calls cost little, small enough that a stream has many.
const PIECE: usize = 64 << 10;

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    #[error("`{address}` is no address that can be found: {why}")]
    Unresolved { address: String, why: String },
    #[error("no connection to {address}: {why}; is `motet probe serve` running there?")]
    Unreachable { address: String, why: String },
    #[error("it closed the connection")]
    Closed,
    #[error("it did not answer in time")]
    Silent,
    #[error("it took longer than the whole probe may")]
    Late,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it answered something else than was asked")]
    Unexpected,
    #[error("{0}")]
    Refused(String),
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl From<io::Error> for ProbeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Which of the two a timeout is depends on the system.
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent,
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// When the pieces of a stream came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// After the first piece.
    pub(super) bytes: u64,
    pub(super) first: Instant,
    pub(super) last: Instant,
}

pub(super) struct Connection<'a> {
    stream: TcpStream,
    clock: &'a dyn Clock,
    deadline: Instant,
    piece: Vec<u8>,
}

impl<'a> Connection<'a> {
    /// `timeout` is for each step, `deadline` for all.
    pub(super) fn new(
        stream: TcpStream,
        clock: &'a dyn Clock,
        timeout: Wall,
        deadline: Instant,
    ) -> Result<Self, ProbeError> {
        // Zero would mean no limit at all.
        let timeout = timeout.max(Wall::from_millis(1));
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        // A ping must not wait for more to send.
        stream.set_nodelay(true)?;
        // Not all zeros: something on the way may compress.
        let mix = |it: usize| (it.wrapping_mul(0x9e37_79b9) >> 11) as u8;
        let piece = (0..PIECE).map(mix).collect();
        Ok(Self { stream, clock, deadline, piece })
    }

    /// Connects and greets.
    pub(super) fn open(
        address: &str,
        token: &str,
        clock: &'a dyn Clock,
        timeout: Wall,
        deadline: Instant,
    ) -> Result<Self, ProbeError> {
        let unresolved = |why: String| ProbeError::Unresolved { address: address.to_owned(), why };
        let found = address.to_socket_addrs().map_err(|it| unresolved(it.to_string()))?;
        let mut last = unresolved("it has no address".to_owned());
        for socket in found.take(4) {
            match TcpStream::connect_timeout(&socket, timeout.max(Wall::from_millis(1))) {
                Ok(stream) => {
                    let mut connection = Self::new(stream, clock, timeout, deadline)?;
                    let answer = connection.ask(&Frame::Hello { token: token.to_owned() })?;
                    return match answer {
                        Frame::Welcome => Ok(connection),
                        Frame::Failed { why } => Err(ProbeError::Refused(why)),
                        _ => Err(ProbeError::Unexpected),
                    };
                }
                Err(error) => {
                    let why = error.to_string();
                    last = ProbeError::Unreachable { address: address.to_owned(), why };
                }
            }
        }
        Err(last)
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Moves the deadline: to that of the whole conversation, once the handshake is over.
    pub(super) fn extend(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn check_time(&self) -> Result<(), ProbeError> {
        if self.clock.now() < self.deadline { Ok(()) } else { Err(ProbeError::Late) }
    }

    /// Waits longer for the next answer: for one that takes work to give.
    pub(super) fn be_patient(&self, timeout: Wall) -> Result<(), ProbeError> {
        Ok(self.stream.set_read_timeout(Some(timeout.max(Wall::from_millis(1))))?)
    }

    pub(super) fn ask(&mut self, frame: &Frame) -> Result<Frame, ProbeError> {
        self.send(frame)?;
        self.receive()
    }

    pub(super) fn send(&mut self, frame: &Frame) -> Result<(), ProbeError> {
        self.check_time()?;
        Ok(self.stream.write_all(&frame::encode(frame))?)
    }

    pub(super) fn receive(&mut self) -> Result<Frame, ProbeError> {
        let mut header = [0; HEADER];
        self.fill(&mut header)?;
        let (kind, length) = frame::decode_header(&header)?;
        let mut payload = vec![0; length];
        self.fill(&mut payload)?;
        Ok(frame::decode(kind, &payload)?)
    }

    /// As `read_exact`, but a peer that sends a byte at a time does not get more time for it.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ProbeError> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.check_time()?;
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Err(ProbeError::Closed),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// So many bytes of data.
    pub(super) fn send_data(&mut self, bytes: u64) -> Result<(), ProbeError> {
        let mut left = bytes;
        while left > 0 {
            self.check_time()?;
            let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.stream.write_all(&self.piece[..count])?;
            left -= count as u64;
        }
        Ok(())
    }

    /// Takes so many bytes of data and notes when they came. The time starts with the first piece:
    /// what was before it is latency.
    pub(super) fn receive_data(&mut self, bytes: u64) -> Result<Arrival, ProbeError> {
        let mut left = bytes;
        let mut first: Option<(Instant, u64)> = None;
        while left > 0 {
            self.check_time()?;
            let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            match self.stream.read(&mut self.piece[..count]) {
                Ok(0) => return Err(ProbeError::Closed),
                Ok(count) => left -= count as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            if first.is_none() {
                first = Some((self.clock.now(), left));
            }
        }
        let last = self.clock.now();
        let (first, bytes) = first.unwrap_or((last, 0));
        Ok(Arrival { bytes, first, last })
    }
}

/// `ms` after `now`.
pub(super) fn after(now: Instant, ms: u64) -> Instant {
    now + Duration::from_ms(1).saturating_mul(ms)
}
