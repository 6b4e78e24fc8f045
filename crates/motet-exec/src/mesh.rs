//! Connections between all ranks of a group: the higher rank connects to the lower, once for each stream.
//! Whoever connects without being one of them is refused and noted, and disturbs no other connection.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::{Duration, Instant};

use crate::descriptors::Descriptors;
use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk};
use crate::link::Link;
use crate::reach::connect;
use crate::store::{HANDSHAKE, Note};
use crate::strangers::{Place, Strangers};
use crate::tls::Tls;
use crate::wire::{Intro, Roster};

/// Handshakes that a rank accepts at once, at most. For a further connection the oldest gives way ([`Strangers`]).
const MAX_HANDSHAKES: usize = 256;
/// How long to sleep between two attempts to accept a connection.
const PAUSE: Wall = Wall::from_millis(1);
/// How long to wait between two checks whether the meeting was called off.
const LOOK: Wall = Wall::from_millis(100);
/// How long to sleep before another attempt, with a rank that was not ready or after an error.
pub(crate) const AGAIN: Wall = Wall::from_millis(50);
/// How many unsent bytes a socket buffer may hold: enough to keep a link busy until the engine's thread has its turn
/// again, and no more, because bytes in one socket buffer cannot go over another connection, which may be faster.
#[cfg(target_os = "linux")]
pub(crate) const UNSENT: u32 = 1 << 20;

/// What connecting a rank to all others takes: who this rank is, who the others are, and how long it may take.
pub(crate) struct Mesh<'a> {
    pub(crate) group: &'a str,
    pub(crate) generation: u32,
    pub(crate) rank: usize,
    pub(crate) roster: &'a Roster,
    pub(crate) token: &'a str,
    pub(crate) tls: Option<&'a Tls>,
    /// Connections to each rank; `None` if that depends on how far away it is.
    pub(crate) streams: Option<u32>,
    pub(crate) clock: &'a (dyn Clock + Send),
    pub(crate) note: &'a Note,
    pub(crate) until: Instant,
    /// How long to try to connect to one rank. All are known to listen.
    pub(crate) patience: Duration,
    /// Whether the store has sent something, which means that another rank could not connect and this attempt is over.
    pub(crate) called_off: &'a (dyn Fn() -> bool + Sync),
}

/// Why a rank is not connected to all others.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The store has called this attempt off.
    CalledOff,
    /// These places of the roster were not reached.
    Missing(Vec<usize>, ExecError),
    /// It is this rank's own fault.
    Own(ExecError),
}

/// Connections per peer, including the control connection. ECMP routers hash each connection onto one path. If a path gets 1/3 of
/// connections, 6 connections all miss it with probability 9%, 16 with 0.15%.
const NEAR: u32 = 2;
const FAR: u32 = 17;
/// Of those to a rank far away, how many carry data at once ([`reserve`](crate::reserve)). With more, each has less to send at a time, in
/// shorter packets, which cost processor time. With fewer, each gets a larger part of the path that they share, so that one alone on a
/// slower path hardly delivers more than they do and is not recognized.
pub(crate) const AT_WORK: usize = 6;
/// A rank that takes at least this long to connect to counts as far away.
const FAR_AWAY: Duration = Duration::from_ms(2);

/// A connection that has been made: the rank at the other end, which of how many streams, and the socket.
type Made = (usize, usize, usize, Link);
/// The connections to each rank, as far as they are there; `None` as long as their number is not known.
type Found = Vec<Option<Vec<Option<Link>>>>;

impl Mesh<'_> {
    fn intro(&self, stream: u32, streams: u32) -> Intro {
        Intro {
            group: self.group.to_owned(),
            generation: self.generation,
            meeting: self.roster.meeting,
            round: self.roster.round,
            rank: self.rank as u32,
            stream,
            streams,
        }
    }

    /// Connects to all other ranks. Returns the connections to each rank, none for our own.
    pub(crate) fn connect(&self, listener: &TcpListener) -> Result<Vec<Vec<Link>>, Failed> {
        let ranks = self.roster.members.len();
        let room = Descriptors::now();
        let (sender, made) = channel();
        let (stop, strangers) = (AtomicBool::new(false), Strangers::new(Arc::clone(self.note)));
        let mut all: Found = (0..ranks).map(|it| (it == self.rank).then(Vec::new)).collect();
        self.fits(&all, room)?;
        std::thread::scope(|scope| {
            let acceptor = sender.clone();
            let (stop, strangers) = (&stop, &strangers);
            scope.spawn(move || self.accept_all(listener, &acceptor, stop, strangers));
            let called = self.call_all(&mut all, room);
            let result = called.and_then(|()| self.await_all(&mut all, &made, room));
            stop.store(true, Ordering::Release);
            result
        })?;
        Ok(all.into_iter().map(|it| it.into_iter().flatten().flatten().collect()).collect())
    }

    /// Waits for the connections of higher ranks.
    fn await_all(
        &self,
        all: &mut Found,
        made: &Receiver<Made>,
        room: Option<Descriptors>,
    ) -> Result<(), Failed> {
        let lacks = |it: &Option<Vec<Option<Link>>>| {
            it.as_ref().is_none_or(|it| it.iter().any(Option::is_none))
        };
        // Each rank connects to the lower ones one after the other. So as long as connections come, the missing ones may still come.
        let patience = self.patience + self.patience;
        let mut until = self.until.min(self.clock.now() + patience);
        while all.iter().any(lacks) {
            if (self.called_off)() {
                return Err(Failed::CalledOff);
            }
            let Some(left) = crate::handshake::left(self.clock, until) else {
                return Err(self.missing(
                    all.iter().enumerate().filter(|it| lacks(it.1)).map(|it| it.0).collect(),
                ));
            };
            let Ok((rank, stream, streams, socket)) = made.recv_timeout(left.min(LOOK)) else {
                continue;
            };
            until = self.until.min(self.clock.now() + patience);
            let Some(places) = all.get_mut(rank) else { continue };
            let first = places.is_none();
            let places = places.get_or_insert_with(|| (0..streams).map(|_| None).collect());
            if let Some(place) = places.get_mut(stream) {
                *place = Some(socket);
            }
            if first {
                self.fits(all, room)?;
            }
        }
        Ok(())
    }

    fn missing(&self, ranks: Vec<usize>) -> Failed {
        let member = ranks.first().and_then(|it| self.roster.members.get(*it));
        let (rank, address) = member.map(|it| (it.rank, it.address.clone())).unwrap_or_default();
        let who = format!("rank {rank}");
        let why = "it did not connect in time".to_owned();
        Failed::Missing(ranks, ExecError::Unreachable { who, address, why })
    }

    /// Whether all connections fit into what this process may have open. How many there are to a rank is known only once one is made,
    /// and until then it is the fewest.
    fn fits(&self, all: &Found, room: Option<Descriptors>) -> Result<(), Failed> {
        let fewest = self.streams.unwrap_or(NEAR) as usize;
        let all: usize = all.iter().map(|it| it.as_ref().map_or(fewest, Vec::len)).sum();
        match room.and_then(|it| it.refuse(all as u64)) {
            Some(why) => Err(Failed::Own(ExecError::Group(why))),
            None => Ok(()),
        }
    }

    /// Connects to all lower ranks.
    fn call_all(&self, all: &mut Found, room: Option<Descriptors>) -> Result<(), Failed> {
        for (rank, member) in self.roster.members.iter().enumerate().take(self.rank) {
            // As the store calls it: after a loss, by the number that it had before.
            let who = format!("rank {}", member.rank);
            let until = self.until.min(self.clock.now() + self.patience);
            let reach = || {
                connect(&who, &member.address, self.clock, until, self.called_off).map(Link::new)
            };
            let lost = |error: ExecError| match (self.called_off)() {
                true => Failed::CalledOff,
                false => Failed::Missing(vec![rank], error),
            };
            // The first two are needed anyhow, and tell how far away the rank is.
            let mut sockets = Vec::new();
            let mut distance = Duration::MAX;
            for _ in 0..NEAR {
                let before = self.clock.now();
                sockets.push(reach().map_err(lost)?);
                distance = distance.min(self.clock.now().since(before));
            }
            let streams = self.streams.unwrap_or(if distance < FAR_AWAY { NEAR } else { FAR });
            if let Some(place) = all.get_mut(rank) {
                *place = Some((0..streams).map(|_| None).collect());
            }
            self.fits(all, room)?;
            let mut places: Vec<Option<Link>> = sockets.into_iter().map(Some).collect();
            places.resize_with(streams as usize, || None);
            let made = self.greet_all(&who, places, until, &reach).map_err(lost)?;
            if let Some(place) = all.get_mut(rank) {
                *place = Some(made.into_iter().map(Some).collect());
            }
        }
        Ok(())
    }

    /// Makes the connections to a rank that are not there yet, and the handshake on each. Many at once, because each takes
    /// several round-trip times.
    fn greet_all(
        &self,
        who: &str,
        places: Vec<Option<Link>>,
        until: Instant,
        reach: &(impl Fn() -> Result<Link, ExecError> + Sync),
    ) -> Result<Vec<Link>, ExecError> {
        let streams = places.len() as u32;
        let make = |stream: u32, mut place: Option<Link>| -> Result<Link, ExecError> {
            let mut tries = 0;
            loop {
                let mut link = place.take().map_or_else(reach, Ok)?;
                tries += 1;
                let mut talk = Talk::new(&mut link, self.clock, HANDSHAKE);
                let intro = self.intro(stream, streams).encode();
                let who = who.to_owned();
                match talk.connect(self.tls, self.token, &intro) {
                    Ok(()) => {
                        self.prepare(&link.socket, streams);
                        return Ok(link);
                    }
                    Err(HandshakeError::Refused(why)) => {
                        return Err(ExecError::Refused { who, why });
                    }
                    Err(error)
                        if error.may_pass(tries)
                            && self.clock.now() < until
                            && !(self.called_off)() =>
                    {
                        std::thread::sleep(AGAIN);
                    }
                    Err(why) => return Err(ExecError::Handshake { who, why: why.to_string() }),
                }
            }
        };
        let failed = |why: String| ExecError::Group(format!("cannot connect to {who}: {why}"));
        let mut places = (0..streams).zip(places);
        let mut made = Vec::new();
        while made.len() < streams as usize {
            let some = places.by_ref().take(at_once(self.roster.members.len()));
            made = std::thread::scope(|scope| {
                let make = &make;
                let begin = |(stream, place)| {
                    std::thread::Builder::new().spawn_scoped(scope, move || make(stream, place))
                };
                let threads: Vec<_> = some.map(begin).collect();
                let links = threads.into_iter().map(|it| {
                    let thread = it.map_err(|it| failed(it.to_string()))?;
                    thread.join().unwrap_or_else(|_| Err(failed("a thread panicked".to_owned())))
                });
                made.into_iter().map(Ok).chain(links).collect::<Result<Vec<Link>, ExecError>>()
            })?;
        }
        Ok(made)
    }

    /// Takes connections of higher ranks until told to stop.
    fn accept_all(
        &self,
        listener: &TcpListener,
        made: &Sender<Made>,
        stop: &AtomicBool,
        strangers: &Strangers,
    ) {
        if let Err(error) = listener.set_nonblocking(true) {
            (self.note)(&format!("cannot listen without blocking: {error}"));
            return;
        }
        let mut trouble = false;
        // It goes on like that for a while; once is enough.
        let mut once = |what: String| {
            if !std::mem::replace(&mut trouble, true) {
                (self.note)(&what);
            }
            std::thread::sleep(AGAIN);
        };
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                let is_full = strangers.count() >= MAX_HANDSHAKES;
                if is_full && strangers.give_way(self.clock.now()) == Place::Soon {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                let (socket, peer) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    Err(error) => {
                        once(format!("cannot accept a connection of another rank: {error}"));
                        continue;
                    }
                };
                let number = match strangers.add(&socket, self.clock.now()) {
                    Ok(number) => number,
                    Err(error) => {
                        once(format!("{peer}: turned away: {error}"));
                        continue;
                    }
                };
                let work = move || {
                    let end = || stop.load(Ordering::Acquire);
                    if let Some(it) = self.welcome(socket, peer, (strangers, number), &end) {
                        // The other end of the channel lives as long as this.
                        let _ = made.send(it);
                    }
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
                    strangers.remove(number);
                    once(format!("{peer}: turned away, no thread: {error}"));
                }
            }
            // Who says nothing must not hold up a rank that is ready.
            strangers.end();
        });
    }

    /// Takes one connection, if it is a higher rank's; otherwise there is a note about it. `end` says whether the ranks have met.
    fn welcome(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        (strangers, number): (&Strangers, u64),
        end: &dyn Fn() -> bool,
    ) -> Option<Made> {
        let mut link = Link::new(socket);
        let mut known = false;
        let greeted = self.greet(&mut link, || known = strangers.remove(number));
        let stayed = known || strangers.remove(number);
        let why = match greeted {
            Ok((rank, stream, streams)) => {
                self.prepare(&link.socket, streams as u32);
                return Some((rank, stream, streams, link));
            }
            // It tries again, or is about to hear that it need not.
            Err(HandshakeError::Stale) => return None,
            Err(error) if known => {
                (self.note)(&format!("{peer}: refused: {error}"));
                return None;
            }
            Err(_) if end() => "it had not said who it is when the ranks had met".to_owned(),
            Err(_) if !stayed => "it had not said who it is when others came".to_owned(),
            Err(error) => error.to_string(),
        };
        strangers.note(&format!("{peer}: refused: {why}"), self.clock.now());
        None
    }

    /// Sets socket options that matter for speed, on one of `streams` connections to a rank. Where the system lacks one it is left out.
    fn prepare(&self, socket: &TcpStream, streams: u32) {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_read_timeout(None);
        let _ = socket.set_write_timeout(None);
        #[cfg(target_os = "linux")]
        {
            let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT);
            // Unless the caller has set the number of connections, it tells both sides whether the rank is nearby.
            if self.streams.is_none() && streams == NEAR {
                unpaced(socket2::SockRef::from(socket));
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = streams;
    }

    /// The handshake with a rank that has connected: its number, and which of how many connections this is. `proved` is called
    /// when it has proved that it knows the token.
    fn greet(
        &self,
        link: &mut Link,
        proved: impl FnOnce(),
    ) -> Result<(usize, usize, usize), HandshakeError> {
        link.socket.set_nonblocking(false)?;
        let mut talk = Talk::new(link, self.clock, HANDSHAKE);
        talk.accept(self.tls, self.token, |said| {
            proved();
            let nobody = |_| HandshakeError::Refused("that is no rank of a group".to_owned());
            let intro = Intro::decode(said).map_err(nobody)?;
            let Intro { group, generation, meeting, round, rank, stream, streams } = intro;
            let refused = |why: String| Err(HandshakeError::Refused(why));
            if group != self.group || generation != self.generation {
                return refused(format!(
                    "this is group `{}`, generation {}, and not `{group}`, {generation}",
                    self.group, self.generation
                ));
            }
            if meeting != self.roster.meeting {
                return refused(format!("this is another group `{group}`, which met elsewhere"));
            }
            if round != self.roster.round {
                return Err(HandshakeError::Stale);
            }
            let right = match self.streams {
                Some(ours) => streams == ours,
                None => streams == NEAR || streams == FAR,
            };
            if !right {
                let theirs = streams.saturating_sub(1);
                let ours = self.streams.map_or("1 or 16".to_owned(), |it| (it - 1).to_string());
                return refused(format!(
                    "it has {theirs} streams to each rank and this one has {ours}"
                ));
            }
            let (rank, stream, streams) = (rank as usize, stream as usize, streams as usize);
            let higher = rank > self.rank && rank < self.roster.members.len();
            if !higher || stream >= streams {
                return refused(format!("rank {rank} does not connect to rank {}", self.rank));
            }
            Ok((rank, stream, streams))
        })
    }
}

/// How many handshakes a rank begins at once. All ranks begin with rank 0, and all together should not exceed the
/// [`MAX_HANDSHAKES`] that rank 0 accepts at once.
fn at_once(ranks: usize) -> usize {
    (MAX_HANDSHAKES / ranks.max(1)).max(1)
}

/// Switches a connection to a rank nearby from BBR to another congestion control. BBR paces every packet by a timer. Nearby, where there
/// are no long queues to avoid, that gains nothing and costs processor time, of which sending between hosts takes most anyhow.
#[cfg(target_os = "linux")]
fn unpaced(socket: socket2::SockRef<'_>) {
    if socket.tcp_congestion().is_ok_and(|it| it.starts_with(b"bbr")) {
        // What a process may have depends on the system; reno it may always have.
        let _ = socket.set_tcp_congestion(b"cubic").or_else(|_| socket.set_tcp_congestion(b"reno"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn nearby_nothing_is_sent_by_a_timer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let congestion = || socket2::SockRef::from(&socket).tcp_congestion().unwrap();
        // Where the system has it not, or keeps it from this user, there is nothing to leave.
        let has = socket2::SockRef::from(&socket).set_tcp_congestion(b"bbr").is_ok();
        let before = congestion();
        unpaced(socket2::SockRef::from(&socket));
        assert_eq!(congestion() == before, !has && !before.starts_with(b"bbr"));
        assert!(!congestion().starts_with(b"bbr"));
    }

    #[test]
    fn all_ranks_together_begin_no_more_handshakes_than_one_takes_part_in() {
        for ranks in 0..=MAX_HANDSHAKES {
            assert!(at_once(ranks) >= 1 && ranks * at_once(ranks) <= MAX_HANDSHAKES, "{ranks}");
        }
        assert_eq!((at_once(8) >= FAR as usize, at_once(1024)), (true, 1));
    }
}
