//! Connections between all ranks of a group: the higher rank connects to the lower, once for each stream.
//! Whoever connects without being one of them is refused and noted, and disturbs nobody.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::{Duration, Instant};

use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk};
use crate::link::Link;
use crate::store::{HANDSHAKE, Note, connect};
use crate::tls::Tls;
use crate::wire::{Intro, Roster};

/// Handshakes that a rank takes part in at once, at most; whoever connects meanwhile waits in the listener's queue.
const MAX_HANDSHAKES: usize = 256;
/// Between two looks for a connection.
const PAUSE: Wall = Wall::from_millis(1);
/// Data that the system takes before it has sent what it has: enough to keep a link busy until this thread has its
/// turn again, and no more, so that of several ways each takes what it can carry.
#[cfg(target_os = "linux")]
pub(crate) const UNSENT: u32 = 1 << 20;

/// Who we are, and whom we want to know.
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
}

/// Connections to a rank nearby and to one far away, with the one for all but data: a LAN is one way, a WAN may be several, which
/// routers share out by connection. Of a way that a third of connections take, eight miss in one draw of 25, sixteen in one of 650.
const NEAR: u32 = 2;
const FAR: u32 = 17;
/// Of those to a rank far away, how many carry data at once: twice as many were slower ([`reserve`](crate::reserve)).
pub(crate) const AT_WORK: usize = 8;
/// From so long a time to connect on, a rank is far away.
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
            rank: self.rank as u32,
            stream,
            streams,
        }
    }

    /// Connects to all; the streams of each rank, none for our own.
    pub(crate) fn connect(&self, listener: &TcpListener) -> Result<Vec<Vec<Link>>, ExecError> {
        let ranks = self.roster.members.len();
        let (sender, made) = channel();
        let stop = AtomicBool::new(false);
        let mut all: Found = (0..ranks).map(|it| (it == self.rank).then(Vec::new)).collect();
        std::thread::scope(|scope| {
            let acceptor = sender.clone();
            let stop = &stop;
            scope.spawn(move || self.accept_all(listener, &acceptor, stop));
            let result = self.call_all(&mut all).and_then(|()| {
                let lacks = |it: &Option<Vec<Option<Link>>>| {
                    it.as_ref().is_none_or(|it| it.iter().any(Option::is_none))
                };
                while let Some(missing) = all.iter().position(lacks) {
                    let left = crate::handshake::left(self.clock, self.until);
                    let came =
                        left.and_then(|it| made.recv_timeout(it.min(Wall::from_millis(100))).ok());
                    match came {
                        Some((rank, stream, streams, socket)) => {
                            let places = all.get_mut(rank).map(|it| {
                                it.get_or_insert_with(|| (0..streams).map(|_| None).collect())
                            });
                            if let Some(place) = places.and_then(|it| it.get_mut(stream)) {
                                *place = Some(socket);
                            }
                        }
                        None if left.is_some() => {}
                        None => return Err(self.missing(missing)),
                    }
                }
                Ok(())
            });
            stop.store(true, Ordering::Release);
            result
        })?;
        Ok(all.into_iter().map(|it| it.into_iter().flatten().flatten().collect()).collect())
    }

    fn missing(&self, rank: usize) -> ExecError {
        let address =
            self.roster.members.get(rank).map(|it| it.address.clone()).unwrap_or_default();
        let who = format!("rank {rank}");
        ExecError::Unreachable { who, address, why: "it did not connect in time".to_owned() }
    }

    /// Connects to all lower ranks.
    fn call_all(&self, all: &mut Found) -> Result<(), ExecError> {
        for (rank, member) in self.roster.members.iter().enumerate().take(self.rank) {
            let who = format!("rank {rank}");
            let reach = || connect(&who, &member.address, self.clock, self.until).map(Link::new);
            // The first two are needed anyhow, and tell how far away the rank is.
            let mut sockets = Vec::new();
            let mut distance = Duration::MAX;
            for _ in 0..NEAR {
                let before = self.clock.now();
                sockets.push(reach()?);
                distance = distance.min(self.clock.now().since(before));
            }
            let streams = self.streams.unwrap_or(if distance < FAR_AWAY { NEAR } else { FAR });
            let mut places: Vec<Option<Link>> = sockets.into_iter().map(Some).collect();
            places.resize_with(streams as usize, || None);
            let made = self.greet_all(&who, places, &reach)?;
            if let Some(place) = all.get_mut(rank) {
                *place = Some(made.into_iter().map(Some).collect());
            }
        }
        Ok(())
    }

    /// Makes the connections to a rank that are not there yet and introduces us on each, many at once: one after the other they
    /// would take some round trips each.
    fn greet_all(
        &self,
        who: &str,
        places: Vec<Option<Link>>,
        reach: &(impl Fn() -> Result<Link, ExecError> + Sync),
    ) -> Result<Vec<Link>, ExecError> {
        let streams = places.len() as u32;
        let make = |stream: u32, place: Option<Link>| -> Result<Link, ExecError> {
            let mut link = place.map_or_else(reach, Ok)?;
            let mut talk = Talk::new(&mut link, self.clock, HANDSHAKE);
            let intro = self.intro(stream, streams).encode();
            talk.connect(self.tls, self.token, &intro).map_err(|it| match it {
                HandshakeError::Refused(why) => ExecError::Refused { who: who.to_owned(), why },
                it => ExecError::Handshake { who: who.to_owned(), why: it.to_string() },
            })?;
            self.prepare(&link.socket, streams);
            Ok(link)
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
    fn accept_all(&self, listener: &TcpListener, made: &Sender<Made>, stop: &AtomicBool) {
        if let Err(error) = listener.set_nonblocking(true) {
            (self.note)(&format!("cannot listen without blocking: {error}"));
            return;
        }
        let busy = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                let room = busy.load(Ordering::Acquire) < MAX_HANDSHAKES;
                let Some((socket, peer)) = room.then(|| listener.accept().ok()).flatten() else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                busy.fetch_add(1, Ordering::AcqRel);
                let busy = &busy;
                let work = move || {
                    let mut link = Link::new(socket);
                    match self.greet(&mut link) {
                        Ok((rank, stream, streams)) => {
                            self.prepare(&link.socket, streams as u32);
                            // The other end of the channel lives as long as this.
                            let _ = made.send((rank, stream, streams, link));
                        }
                        Err(error) => (self.note)(&format!("{peer}: refused: {error}")),
                    }
                    busy.fetch_sub(1, Ordering::AcqRel);
                };
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    busy.fetch_sub(1, Ordering::AcqRel);
                }
            }
        });
    }

    /// Socket options that make a difference in speed, for one of so many connections to a rank; a system that has one not is no failure.
    fn prepare(&self, socket: &TcpStream, streams: u32) {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_read_timeout(None);
        let _ = socket.set_write_timeout(None);
        #[cfg(target_os = "linux")]
        {
            let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT);
            // Both sides know by their number whether the rank is nearby, unless the caller has set it.
            if self.streams.is_none() && streams == NEAR {
                unpaced(socket2::SockRef::from(socket));
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = streams;
    }

    fn greet(&self, link: &mut Link) -> Result<(usize, usize, usize), HandshakeError> {
        link.socket.set_nonblocking(false)?;
        let mut talk = Talk::new(link, self.clock, HANDSHAKE);
        talk.accept(self.tls, self.token, |said| {
            let intro = Intro::decode(said).map_err(|_| "that is no rank of a group".to_owned())?;
            let Intro { group, generation, rank, stream, streams } = intro;
            if group != self.group || generation != self.generation {
                return Err(format!(
                    "this is group `{}`, generation {}, and not `{group}`, {generation}",
                    self.group, self.generation
                ));
            }
            let right = match self.streams {
                Some(ours) => streams == ours,
                None => streams == NEAR || streams == FAR,
            };
            if !right {
                let theirs = streams.saturating_sub(1);
                let ours = self.streams.map_or("1 or 16".to_owned(), |it| (it - 1).to_string());
                return Err(format!(
                    "it has {theirs} streams to each rank and this one has {ours}"
                ));
            }
            let (rank, stream, streams) = (rank as usize, stream as usize, streams as usize);
            let higher = rank > self.rank && rank < self.roster.members.len();
            if !higher || stream >= streams {
                return Err(format!("rank {rank} does not connect to rank {}", self.rank));
            }
            Ok((rank, stream, streams))
        })
    }
}

/// Handshakes that a rank begins at once: all ranks begin with rank 0, and together they should not need more than it takes part in.
fn at_once(ranks: usize) -> usize {
    (MAX_HANDSHAKES / ranks.max(1)).max(1)
}

/// Leaves BBR, if the system would have it. BBR sends each packet at a time of its own, by a timer. Nearby, where no long queues need to be
/// avoided, that gains nothing, and it costs processor time, of which data between hosts takes most.
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
