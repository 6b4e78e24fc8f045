//! The beginning of every connection, to a rank or to the store: blocking, with a limit of time for all
//! of it, so that a stranger who connects and says nothing, or garbage, holds nobody up.
//!
//! With TLS its own handshake comes first, within the same limit of time, and the frames below are encrypted.
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
use motet_units::{Duration, Instant, brief_to};

use crate::link::{Link, Look, Timed, look};
use crate::tls::Tls;
use crate::wire::header::{MAGIC, MAX_REASON};
use crate::wire::payload::beginning;
use crate::wire::proof::{Nonce, Proof, Side, holds, nonce, prove};
use crate::wire::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD};

/// How a TLS record begins, of a handshake or with an alert. It shows that a side speaks TLS where none is expected.
const RECORDS: [[u8; 2]; 2] = [[22, 3], [21, 3]];
/// How many characters of a reason are shown when the other side has not proved that it knows the token.
const SHOWN: usize = 200;

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("it did not say in time what it must")]
    Late,
    #[error("it closed the connection")]
    Closed,
    #[error(
        "it closed the connection when TLS was to begin; if it has no TLS, give all ranks and the store certificate, key and CA, or none"
    )]
    ClosedBeforeTls,
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

impl HandshakeError {
    /// Whether the connecting side should try again, after so many tries. Who takes connections closes those that give way to others
    /// ([`Strangers`](crate::strangers::Strangers)), or that come before it has heard of a new attempt to meet.
    pub(crate) fn may_pass(&self, tries: u32) -> bool {
        match self {
            Self::Closed => true,
            // The likelier reason is that there is no TLS, and that should be known soon.
            Self::ClosedBeforeTls => tries < TLS_TRIES,
            _ => false,
        }
    }
}

/// How often a connection is tried that is closed when TLS is to begin.
const TLS_TRIES: u32 = 5;

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

/// Sends and receives single frames on a connection, and gives up at a point in time.
pub(crate) struct Talk<'a> {
    link: &'a mut Link,
    clock: &'a dyn Clock,
    until: Instant,
}

/// How long is left until a point in time, as a socket's timeout, which must not be zero; `None` when it has passed.
pub(crate) fn left(clock: &dyn Clock, until: Instant) -> Option<Wall> {
    let now = clock.now();
    (now < until).then(|| Wall::from_nanos((until.since(now).as_ps() / 1000).max(1000)))
}

impl<'a> Talk<'a> {
    pub(crate) fn new(link: &'a mut Link, clock: &'a dyn Clock, most: Duration) -> Self {
        Self { link, clock, until: clock.now() + most }
    }

    /// Gives up only after `most` from now.
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

    /// Receives a frame of one of the kinds in `due`; if Refused is among them, it is an error with its reason. The payload of any
    /// other kind is not even read, and each kind has its longest payload: the other side may not have proved yet that it knows
    /// the token, and strangers who could announce megabytes could fill this side's memory.
    pub(crate) fn expect_one(&mut self, due: &[Kind]) -> Result<(Kind, Vec<u8>), HandshakeError> {
        let mut header = [0; HEADER];
        self.read(&mut header)?;
        if !self.link.is_secure() && RECORDS.iter().any(|it| header.starts_with(it)) {
            return Err(HandshakeError::OnlyTls);
        }
        let header = Header::decode(&header)?;
        if !due.contains(&header.kind) {
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

    /// Receives the answer of a side that may refuse this one, and has not proved that it knows the token.
    fn answer(&mut self, kind: Kind) -> Result<Vec<u8>, HandshakeError> {
        match self.expect_one(&[kind, Kind::Refused]) {
            Err(HandshakeError::Refused(why)) => Err(HandshakeError::Refused(harmless(&why))),
            answer => Ok(answer?.1),
        }
    }

    /// Whether the other side says something within some time, or is gone.
    pub(crate) fn look(&self, most: Wall) -> Look {
        look(&self.link.socket, most)
    }

    /// Says no, and why.
    pub(crate) fn refuse(&mut self, why: &str) -> Result<(), HandshakeError> {
        self.send(Kind::Refused, beginning(why, MAX_REASON).as_bytes())
    }

    /// The connecting side: sends `said` with the proof that it knows the token, and checks the other side's proof.
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
        let theirs = nonce_of(&self.answer(Kind::Challenge)?)?;
        let mut payload = prove(token, Side::Connecting, [&ours, &theirs], said).to_vec();
        payload.extend(said);
        self.send(Kind::Intro, &payload)?;
        let proof = self.answer(Kind::Welcome)?;
        let proof: Proof = proof.try_into().map_err(|_| HandshakeError::Unexpected)?;
        if !holds(token, Side::Accepting, [&ours, &theirs], said, &proof) {
            return Err(HandshakeError::Token);
        }
        Ok(())
    }

    /// Refuses a side that begins with a plain frame where TLS is due: a rank without TLS. The answer is a plain frame too, which
    /// that rank understands.
    fn turn_away_plain(&mut self) -> Result<(), HandshakeError> {
        let first = Timed::new(&self.link.socket, self.clock, self.until).peek()?;
        if first != MAGIC.first().copied() {
            return Ok(());
        }
        self.expect(Kind::Hello)?;
        self.refuse(NEEDS_TLS)?;
        Err(HandshakeError::NoTls)
    }

    /// The accepting side: makes sure that the other side knows the token, and returns what `check` makes of what it says about
    /// itself. If `check` finds it [`Stale`](HandshakeError::Stale), it is sent no refusal, so that it tries again.
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

/// The longest payload that a frame of a kind may have in a handshake.
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

/// A text of a side that anybody may be, to be shown: its beginning, in which nothing moves the cursor or ends the line.
fn harmless(text: &str) -> String {
    let plain = |it: char| -> String {
        // Besides control characters, those that turn the direction of writing and separate lines.
        match it {
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                it.escape_unicode().collect()
            }
            it if it.is_control() => it.escape_default().collect(),
            it => it.to_string(),
        }
    };
    brief_to(text, SHOWN).chars().map(plain).collect()
}

fn nonce_of(payload: &[u8]) -> Result<Nonce, HandshakeError> {
    payload.try_into().map_err(|_| HandshakeError::Unexpected)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_a_stranger_says_is_short_and_moves_no_cursor() {
        assert_eq!(harmless("the group `é` is another"), "the group `é` is another");
        assert_eq!(harmless("a\nb\u{1b}[2J\u{202e}"), "a\\nb\\u{1b}[2J\\u{202e}");
        assert_eq!(harmless(&"é".repeat(4_000)), "é".repeat(SHOWN) + "…");
    }

    /// What each side of a handshake makes of a Refused frame, which is the first that it hears.
    #[test]
    fn only_who_connects_is_told_why_it_is_refused() {
        let clock = || Instant::from_ps(1);
        let most = Duration::from_ms(5_000);
        let why = |accepts: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut near = Link::new(listener.accept().unwrap().0);
            let mut far = Link::new(far);
            Talk::new(&mut far, &clock, most).refuse("come\nlater").unwrap();
            let mut talk = Talk::new(&mut near, &clock, most);
            match accepts {
                true => talk.accept(None, "", |_| Ok(())).unwrap_err(),
                false => talk.connect(None, "", &[]).unwrap_err(),
            }
        };
        assert_eq!(why(true), HandshakeError::Unexpected);
        assert_eq!(why(false), HandshakeError::Refused("come\\nlater".into()));
    }
}
