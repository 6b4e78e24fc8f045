//! The beginning of every connection, to a rank or to the store: blocking, with a limit of time for all
//! of it, so that a stranger who connects and says nothing, or garbage, holds nobody up.
//!
//! With TLS that is agreed on first, in the same time, and what follows is said inside it.
//!
//! ```text
//! connecting            accepting
//! Hello  (nonce)   ──►
//!                  ◄──  Challenge (nonce)
//! Intro  (proof, what it wants) ──►
//!                  ◄──  Welcome (proof)   or   Refused (why)
//! ```

use std::io::{self, ErrorKind};
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::{Duration, Instant};

use crate::link::{Link, Look, Timed, look};
use crate::tls::Tls;
use crate::wire::header::MAGIC;
use crate::wire::proof::{Nonce, Proof, Side, holds, nonce, prove};
use crate::wire::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD};

/// How a record of TLS begins, in a handshake or with an alert.
const RECORDS: [[u8; 2]; 2] = [[22, 3], [21, 3]];
/// The longest reason that is given to whoever is refused.
const MAX_REASON: usize = 4 << 10;

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("it did not say in time what it must")]
    Late,
    #[error("it closed the connection")]
    Closed,
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it said something else than was due")]
    Unexpected,
    #[error("its token is another; give all ranks and the store the same")]
    Token,
    #[error("{0}")]
    Tls(String),
    #[error(
        "it speaks no TLS, and this group does; give all ranks and the store certificate, key and CA, or none"
    )]
    NoTls,
    #[error(
        "it speaks TLS, and this group does not; give all ranks and the store certificate, key and CA, or none"
    )]
    OnlyTls,
    #[error("{0}")]
    Refused(String),
    #[error("it is at another attempt to meet")]
    Stale,
    #[error("the system has no random numbers")]
    NoRandom,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Late,
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// A connection that speaks frames one at a time, until a point in time.
pub(crate) struct Talk<'a> {
    link: &'a mut Link,
    clock: &'a dyn Clock,
    until: Instant,
}

/// How long is left of a time, in the form that sockets take, which is never zero.
pub(crate) fn left(clock: &dyn Clock, until: Instant) -> Option<Wall> {
    let now = clock.now();
    (now < until).then(|| Wall::from_nanos((until.since(now).as_ps() / 1000).max(1000)))
}

impl<'a> Talk<'a> {
    pub(crate) fn new(link: &'a mut Link, clock: &'a dyn Clock, most: Duration) -> Self {
        Self { link, clock, until: clock.now() + most }
    }

    /// Gives it longer.
    pub(crate) fn extend(&mut self, most: Duration) {
        self.until = self.clock.now() + most;
    }

    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), HandshakeError> {
        let header = Header { length: payload.len() as u32, ..Header::new(kind) };
        let mut bytes = header.encode().to_vec();
        bytes.extend(payload);
        self.link.write(&bytes, self.clock, self.until)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), HandshakeError> {
        self.link.read(into, self.clock, self.until)
    }

    /// Receives a frame of one of some kinds; if it is a refusal, that is the error. Of any other not even the payload is
    /// read, and none is longer than its kind may be: nobody has shown yet that they know the token, and strangers
    /// who could make this side wait for megabytes could fill its memory.
    pub(crate) fn expect_one(&mut self, due: &[Kind]) -> Result<(Kind, Vec<u8>), HandshakeError> {
        let mut header = [0; HEADER];
        self.read(&mut header)?;
        if !self.link.is_secure() && RECORDS.iter().any(|it| header.starts_with(it)) {
            return Err(HandshakeError::OnlyTls);
        }
        let header = Header::decode(&header)?;
        if !due.contains(&header.kind) && header.kind != Kind::Refused {
            return Err(HandshakeError::Unexpected);
        }
        let length = header.length as usize;
        if length > most(header.kind) {
            return Err(FrameError::TooLong(header.length).into());
        }
        let mut payload = vec![0; length];
        self.read(&mut payload)?;
        match header.kind {
            Kind::Refused => {
                Err(HandshakeError::Refused(String::from_utf8_lossy(&payload).into_owned()))
            }
            kind => Ok((kind, payload)),
        }
    }

    /// Receives a frame of a kind.
    pub(crate) fn expect(&mut self, kind: Kind) -> Result<Vec<u8>, HandshakeError> {
        Ok(self.expect_one(&[kind])?.1)
    }

    /// Whether the other side says something within some time, or is gone.
    pub(crate) fn look(&self, most: Wall) -> Look {
        look(&self.link.socket, most)
    }

    /// Says no, and why.
    pub(crate) fn refuse(&mut self, why: &str) -> Result<(), HandshakeError> {
        let mut end = why.len().min(MAX_REASON);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        self.send(Kind::Refused, why.get(..end).unwrap_or_default().as_bytes())
    }

    /// The connecting side: says `said`, and makes sure of the other.
    pub(crate) fn connect(
        &mut self,
        tls: Option<&Tls>,
        token: &str,
        said: &[u8],
    ) -> Result<(), HandshakeError> {
        if let Some(tls) = tls {
            self.link.secure(tls, Side::Connecting, self.clock, self.until)?;
        }
        let ours = nonce().map_err(|_| HandshakeError::NoRandom)?;
        self.send(Kind::Hello, &ours)?;
        let theirs = nonce_of(&self.expect(Kind::Challenge)?)?;
        let mut payload = prove(token, Side::Connecting, [&ours, &theirs], said).to_vec();
        payload.extend(said);
        self.send(Kind::Intro, &payload)?;
        let proof = self.expect(Kind::Welcome)?;
        let proof: Proof = proof.try_into().map_err(|_| HandshakeError::Unexpected)?;
        if !holds(token, Side::Accepting, [&ours, &theirs], said, &proof) {
            return Err(HandshakeError::Token);
        }
        Ok(())
    }

    /// Who begins with a frame where TLS is due is one of Motet's without TLS, and is told so in words that it knows.
    fn turn_away_plain(&mut self) -> Result<(), HandshakeError> {
        let first = Timed::new(&self.link.socket, self.clock, self.until).peek()?;
        if first != MAGIC.first().copied() {
            return Ok(());
        }
        self.expect(Kind::Hello)?;
        self.refuse(NEEDS_TLS)?;
        Err(HandshakeError::NoTls)
    }

    /// The accepting side: hears what the other says, if it knows the token and `check` has nothing
    /// against it. Who is not refused but [`Stale`](HandshakeError::Stale) is told nothing, and may try again.
    pub(crate) fn accept<T>(
        &mut self,
        tls: Option<&Tls>,
        token: &str,
        check: impl FnOnce(&[u8]) -> Result<T, HandshakeError>,
    ) -> Result<T, HandshakeError> {
        if let Some(tls) = tls {
            self.turn_away_plain()?;
            self.link.secure(tls, Side::Accepting, self.clock, self.until)?;
        }
        let theirs = nonce_of(&self.expect(Kind::Hello)?)?;
        let ours = nonce().map_err(|_| HandshakeError::NoRandom)?;
        self.send(Kind::Challenge, &ours)?;
        let payload = self.expect(Kind::Intro)?;
        let (proof, said) = payload.split_first_chunk::<32>().ok_or(HandshakeError::Unexpected)?;
        let refused = if holds(token, Side::Connecting, [&theirs, &ours], said, proof) {
            match check(said) {
                Ok(value) => {
                    let proof = prove(token, Side::Accepting, [&theirs, &ours], said);
                    self.send(Kind::Welcome, &proof)?;
                    return Ok(value);
                }
                Err(HandshakeError::Stale) => return Err(HandshakeError::Stale),
                Err(why) => why,
            }
        } else {
            HandshakeError::Token
        };
        self.refuse(&refused.to_string())?;
        Err(refused)
    }
}

/// What a rank without TLS is told by a group with it.
const NEEDS_TLS: &str = "the group speaks TLS and this side does not; give all ranks and the store certificate, key and CA, or none";

/// The longest payload of a frame of a kind.
const fn most(kind: Kind) -> usize {
    match kind {
        Kind::Hello | Kind::Challenge => 16,
        Kind::Welcome => 32,
        Kind::Refused => MAX_REASON,
        // A rank hears it from the store, which has proved by then who it is.
        Kind::Roster => MAX_PAYLOAD,
        // A few texts and numbers.
        _ => 8 << 10,
    }
}

fn nonce_of(payload: &[u8]) -> Result<Nonce, HandshakeError> {
    payload.try_into().map_err(|_| HandshakeError::Unexpected)
}
