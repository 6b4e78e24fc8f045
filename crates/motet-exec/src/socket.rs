//! [`Socket`]: a TCP connection that never blocks, plain or with TLS. Plain data goes straight between memory and the
//! system. With TLS it passes through two buffers of limited size: one of received data that is not decrypted yet, and
//! one of encrypted data that is not sent yet.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::Connection;

/// Encrypted data is read in batches of this size: two of TLS's records.
const INCOMING: usize = 32 << 10;

/// How many bytes a write took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Bytes of the caller's that were accepted, and need not be written again.
    pub(crate) taken: usize,
    /// Bytes that the system was given. With TLS these are encrypted, and their number differs.
    pub(crate) went: usize,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    tls: Option<Box<Session>>,
}

#[derive(Debug)]
struct Session {
    connection: Box<Connection>,
    /// Received data, of which `used` to `end` is not decrypted yet. The buffer is allocated at the first read.
    incoming: Vec<u8>,
    used: usize,
    end: usize,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, tls: Option<Box<Connection>>) -> Self {
        let session =
            |connection| Box::new(Session { connection, incoming: Vec::new(), used: 0, end: 0 });
        Self { stream, tls: tls.map(session) }
    }

    /// The socket below.
    pub(crate) const fn raw(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads into `room` and, without TLS, what does not fit into `behind`; `None` if there is nothing now, and 0 bytes are the end of the
    /// connection. With TLS, `None` means that nothing is left either here or in the socket, so that the system reports the next data:
    /// it reports only what is new.
    pub(crate) fn read(&mut self, room: &mut [u8], behind: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => read(&mut self.stream, room, behind),
            Some(session) => session.read(&mut self.stream, room),
        }
    }

    /// Writes the slices one behind the other, as far as there is room; `WouldBlock` if there is none.
    pub(crate) fn write(&mut self, all: &[IoSlice<'_>]) -> io::Result<Written> {
        let Some(session) = &mut self.tls else {
            let bytes = self.stream.write_vectored(all)?;
            return Ok(Written { taken: bytes, went: bytes });
        };
        let before = session.flush(&mut self.stream)?;
        if session.connection.wants_write() {
            // Nothing is encrypted ahead of what the socket takes.
            return if before > 0 {
                Ok(Written { taken: 0, went: before })
            } else {
                Err(ErrorKind::WouldBlock.into())
            };
        }
        let taken = session.connection.writer().write_vectored(all)?;
        if taken == 0 {
            return Err(io::Error::new(ErrorKind::WriteZero, "TLS takes nothing any more"));
        }
        Ok(Written { taken, went: before + session.flush(&mut self.stream)? })
    }

    /// Whether TLS holds encrypted data that the system has not taken yet.
    pub(crate) fn holds(&self) -> bool {
        self.tls.as_ref().is_some_and(|it| it.connection.wants_write())
    }

    /// Gives the system what TLS holds, as far as there is room; how many bytes that was.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        self.tls.as_mut().map_or(Ok(0), |it| it.flush(&mut self.stream))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(session) = &mut self.tls {
            session.connection.send_close_notify();
            // Who is gone need not hear it.
            let _ = session.flush(&mut self.stream);
        }
    }
}

impl Session {
    fn read(&mut self, stream: &mut TcpStream, room: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The other side, or somebody between, has closed the connection without saying so. Whether it was
                // allowed to is for its last frame to say, which nobody else can have sent.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                read => return read.map(Some),
            }
            if self.used >= self.end && !self.fill(stream)? {
                return Ok(None);
            }
            // At the end of the connection this is empty, by which TLS learns of it.
            let mut rest = self.incoming.get(self.used..self.end).unwrap_or_default();
            self.used += self.connection.read_tls(&mut rest)?;
            self.connection.process_new_packets().map_err(|it| {
                let _ = self.connection.write_tls(stream);
                io::Error::new(ErrorKind::InvalidData, format!("TLS: {it}"))
            })?;
        }
    }

    /// Reads encrypted data into the buffer; false if there is nothing now.
    fn fill(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        (self.used, self.end) = (0, 0);
        self.incoming.resize(INCOMING, 0);
        let came = read(stream, &mut self.incoming, &mut [])?;
        self.end = came.unwrap_or(0);
        Ok(came.is_some())
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        let mut went = 0;
        while self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => went += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(went)
    }
}

/// Reads into `room` and then into `behind`; `None` if there is nothing now.
fn read(stream: &mut TcpStream, room: &mut [u8], behind: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        let read = if behind.is_empty() {
            stream.read(room)
        } else {
            stream.read_vectored(&mut [IoSliceMut::new(room), IoSliceMut::new(behind)])
        };
        match read {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

impl Source for Socket {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.stream.register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.stream.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.stream.deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as Blocking};
    use std::time::Duration as Wall;

    use motet_net::probe::Clock;
    use motet_units::Instant;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::link::Link;
    use crate::tls::TlsFiles;
    use crate::wire::proof::Side;

    /// Two ends of a connection that have agreed on TLS.
    fn pair() -> (Socket, Socket) {
        let folder = tempfile::tempdir().unwrap();
        let (own, secret) = (folder.path().join("own.pem"), folder.path().join("own.key"));
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["motet".to_owned()]).unwrap();
        std::fs::write(&own, certificate.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        // Its own CA.
        let ca = Some(own.clone());
        let files = TlsFiles { certificate: Some(own), key: Some(secret), ca, name: None };
        let tls = files.load().unwrap().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let agree = |socket: Blocking, side| {
            // A clock that stands still: there is time enough.
            let clock = || Instant::from_ps(1);
            let clock: &dyn Clock = &clock;
            let mut link = Link::new(socket);
            let until = clock.now() + motet_units::Duration::from_ms(60_000);
            link.secure(&tls, side, clock, until).unwrap();
            link.into_socket().unwrap()
        };
        let (near, far) = std::thread::scope(|scope| {
            let far = scope.spawn(|| agree(listener.accept().unwrap().0, Side::Accepting));
            let near = Blocking::connect(listener.local_addr().unwrap()).unwrap();
            (agree(near, Side::Connecting), far.join().unwrap())
        });
        (near, far)
    }

    /// What one side writes is what the other reads, however often it looks.
    fn passes(from: &mut Socket, to: &mut Socket, bytes: &[u8]) {
        let written = from.write(&[IoSlice::new(bytes)]).unwrap();
        assert_eq!((written.taken, from.holds()), (bytes.len(), false));
        let mut came: Vec<u8> = Vec::new();
        let mut room = [0_u8; 100];
        while came.len() < bytes.len() {
            match to.read(&mut room, &mut []).unwrap() {
                Some(count) => came.extend(&room[..count]),
                None => std::thread::sleep(Wall::from_millis(1)),
            }
        }
        assert_eq!(came, bytes);
        // And nothing more.
        assert_eq!(to.read(&mut room, &mut []).unwrap(), None);
    }

    /// What comes behind a payload goes elsewhere, in the same read.
    #[test]
    fn what_is_behind_comes_along() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = Blocking::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nonblocking(true).unwrap();
        let mut far = Socket::new(TcpStream::from_std(far), None);
        let (mut payload, mut header) = ([0; 5], [0; 4]);
        assert_eq!(far.read(&mut payload, &mut header).unwrap(), None);
        io::Write::write_all(&mut near, b"12345abc").unwrap();
        let came = loop {
            match far.read(&mut payload, &mut header).unwrap() {
                Some(count) => break count,
                None => std::thread::sleep(Wall::from_millis(1)),
            }
        };
        assert_eq!((came, &payload, &header), (8, b"12345", b"abc\0"));
    }

    #[test]
    fn new_keys_are_taken_and_answered() {
        let (mut near, mut far) = pair();
        passes(&mut near, &mut far, &[1; 5000]);
        // As TLS does by itself after so much data.
        near.tls.as_mut().unwrap().connection.refresh_traffic_keys().unwrap();
        passes(&mut near, &mut far, &[2; 5000]);
        // The answer, with keys of the other side, goes before what it writes next.
        passes(&mut far, &mut near, &[3; 5000]);
        passes(&mut near, &mut far, &[4; 5000]);
    }

    #[test]
    fn what_was_taken_arrives_without_anything_new_being_written() {
        let (mut near, mut far) = pair();
        let (head, body) = ([7; 40], vec![9; 1 << 20]);
        let all = [IoSlice::new(&head), IoSlice::new(&body)];
        let (mut taken, mut went) = (0, 0);
        while let Ok(written) = near.write(&all) {
            taken += written.taken;
            went += written.went;
        }
        // The socket is full, and something more was taken than it has.
        assert!(near.holds() && taken > 0);
        assert_eq!(near.write(&all).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut room = vec![0; 300_000];
        let mut came = 0;
        while came < taken {
            went += near.flush().unwrap();
            match far.read(&mut room, &mut []).unwrap() {
                Some(count) => {
                    assert!(count > 0 && room[..count].iter().all(|it| [7, 9].contains(it)));
                    came += count;
                }
                None => std::thread::sleep(Wall::from_millis(1)),
            }
        }
        assert_eq!((came, near.holds()), (taken, false));
        // Encrypted it is a little more.
        assert!(went > taken && went < taken + taken / 100, "{went} for {taken}");
        drop(near);
        while far.read(&mut room, &mut []).unwrap() != Some(0) {
            std::thread::sleep(Wall::from_millis(1));
        }
    }
}
