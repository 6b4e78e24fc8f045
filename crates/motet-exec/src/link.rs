//! [`Link`]: a connection during its handshake, plain or with TLS, on a socket that blocks; and [`Timed`], which limits how
//! long its reads and writes may take.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use motet_net::probe::Clock;
use motet_units::{Duration, Instant};
use rustls::Connection;

use crate::handshake::{HandshakeError, left};
use crate::socket::Socket;
use crate::tls::{Tls, explain};
use crate::wire::proof::Side;

/// How many bytes TLS may buffer before they are sent.
pub(crate) const BUFFER: usize = 64 << 10;
/// How long the other side may take to read why TLS failed.
const LINGER: Duration = Duration::from_ms(1_000);
/// How many bytes that it sends meanwhile are read, at most.
const LAST_WORDS: usize = 64 << 10;

/// A blocking socket whose reads and writes fail once a point in time has passed.
pub(crate) struct Timed<'a> {
    socket: &'a TcpStream,
    clock: &'a dyn Clock,
    until: Instant,
}

impl<'a> Timed<'a> {
    pub(crate) fn new(socket: &'a TcpStream, clock: &'a dyn Clock, until: Instant) -> Self {
        Self { socket, clock, until }
    }

    fn left(&self) -> io::Result<std::time::Duration> {
        left(self.clock, self.until).ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Waits for the next byte, which is left to be read; `None` if the other side has closed the connection.
    pub(crate) fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        loop {
            // The limit is for all of it, not from byte to byte.
            self.socket.set_read_timeout(Some(self.left()?))?;
            match self.socket.peek(&mut first) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                came => return came.map(|it| (it > 0).then_some(first[0])),
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.socket).read(into)
    }
}

// One buffer at a time: writing several at once may raise SIGPIPE, which in a program that is not Rust's ends it.
impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a look at a connection shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    /// Something has come, which stays to be read.
    Something,
    Closed,
}

/// Whether the other side says something within some time, or has closed the connection.
pub(crate) fn look(socket: &TcpStream, most: std::time::Duration) -> Look {
    // A timeout of zero is an error, which would look like a closed connection.
    let most = most.max(std::time::Duration::from_millis(1));
    match socket.set_read_timeout(Some(most)).and_then(|()| socket.peek(&mut [0])) {
        Ok(0) => Look::Closed,
        Ok(_) => Look::Something,
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Look::Nothing,
            _ => Look::Closed,
        },
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    tls: Option<Box<Connection>>,
}

impl Link {
    pub(crate) const fn new(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }

    /// Whether it speaks TLS.
    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Makes the TLS handshake. Afterwards both sides have checked the other's certificate, but with TLS 1.3 the connecting
    /// side learns only with what it reads next whether its own was accepted.
    pub(crate) fn secure(
        &mut self,
        tls: &Tls,
        side: Side,
        clock: &dyn Clock,
        until: Instant,
    ) -> Result<(), HandshakeError> {
        // Otherwise the first small frames would wait until the end of the handshake is acknowledged.
        let _ = self.socket.set_nodelay(true);
        let begun = tls.begin(side).map_err(|it| HandshakeError::Tls(explain(&it)))?;
        let connection = self.tls.insert(Box::new(begun));
        connection.set_buffer_limit(Some(BUFFER));
        let mut timed = Timed::new(&self.socket, clock, until);
        let mut agree = || {
            while connection.is_handshaking() {
                flush(connection, &mut timed)?;
                if connection.is_handshaking() {
                    more(connection, &mut timed)?;
                }
            }
            flush(connection, &mut timed)
        };
        match agree() {
            Err(error @ HandshakeError::Tls(_)) => {
                self.let_read(clock, until);
                Err(error)
            }
            Err(HandshakeError::Closed) if side == Side::Connecting => {
                Err(HandshakeError::ClosedBeforeTls)
            }
            ended => ended,
        }
    }

    /// Lets the other side read the last alert. Closing a socket with unread data resets the connection, and the other side's
    /// system may then drop what it has not read yet; so incoming data is read before, for a little while.
    fn let_read(&self, clock: &dyn Clock, until: Instant) {
        let _ = self.socket.shutdown(Shutdown::Write);
        let mut timed = Timed::new(&self.socket, clock, until.min(clock.now() + LINGER));
        let (mut room, mut left) = ([0; 4096], LAST_WORDS);
        while let Ok(came @ 1..) = timed.read(&mut room) {
            let Some(rest) = left.checked_sub(came) else { return };
            left = rest;
        }
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(
        &mut self,
        mut bytes: &[u8],
        clock: &dyn Clock,
        until: Instant,
    ) -> Result<(), HandshakeError> {
        let mut timed = Timed::new(&self.socket, clock, until);
        let Some(connection) = &mut self.tls else {
            timed.write_all(bytes)?;
            return Ok(());
        };
        while !bytes.is_empty() {
            let taken = connection.writer().write(bytes)?;
            bytes = bytes.get(taken..).unwrap_or_default();
            if let Err(error) = flush(connection, &mut timed) {
                // If it was refused, the reason lies there to be read.
                return match more(connection, &mut timed) {
                    Err(refused @ HandshakeError::Tls(_)) => Err(refused),
                    _ => Err(error),
                };
            }
        }
        Ok(())
    }

    /// Whether TLS has received something that was not read yet, which no [`look`] at the socket shows.
    pub(crate) fn holds_some(&mut self) -> bool {
        let Some(connection) = &mut self.tls else { return false };
        // What is wrong is said by the next read.
        connection.process_new_packets().map_or(true, |it| it.plaintext_bytes_to_read() > 0)
    }

    /// Reads until `into` is full.
    pub(crate) fn read(
        &mut self,
        mut into: &mut [u8],
        clock: &dyn Clock,
        until: Instant,
    ) -> Result<(), HandshakeError> {
        let mut timed = Timed::new(&self.socket, clock, until);
        while !into.is_empty() {
            let came = match &mut self.tls {
                None => timed.read(into),
                Some(connection) => match connection.reader().read(into) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        more(connection, &mut timed)?;
                        continue;
                    }
                    came => came,
                },
            };
            match came {
                Ok(0) => return Err(HandshakeError::Closed),
                Ok(bytes) => into = into.get_mut(bytes..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The same connection for the engine, which does not block.
    pub(crate) fn into_socket(self) -> io::Result<Socket> {
        self.socket.set_nonblocking(true)?;
        Ok(Socket::new(mio::net::TcpStream::from_std(self.socket), self.tls))
    }
}

/// Sends what TLS has to send.
fn flush(connection: &mut Connection, timed: &mut Timed<'_>) -> Result<(), HandshakeError> {
    while connection.wants_write() {
        match connection.write_tls(timed) {
            Ok(0) => return Err(HandshakeError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Receives more TLS records and handles them, which may mean to send an answer.
fn more(connection: &mut Connection, timed: &mut Timed<'_>) -> Result<(), HandshakeError> {
    match connection.read_tls(timed) {
        Ok(0) => return Err(HandshakeError::Closed),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if let Err(error) = connection.process_new_packets() {
        // TLS has a word for what is wrong, which the other side should hear; if it cannot, so be it.
        let _ = flush(connection, timed);
        return Err(HandshakeError::Tls(explain(&error)));
    }
    flush(connection, timed)
}
