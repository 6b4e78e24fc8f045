//! The store: where ranks find each other. Each comes with its group, its number and the address where it
//! listens, hears of all others once all are there, and says whether it could connect to them. It is a meeting place
//! and nothing else: when a group stands, it can go on without the store. Rank 0 may serve it, or a process of its own
//! (`motet exec store`), which then also outlives rank 0 when a group goes on with fewer ranks.
//!
//! Here are connections and threads; what is decided is in [`meeting`](crate::meeting), the ranks' side in
//! [`seat`](crate::seat).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as Wall;

use mio::{Events, Interest, Poll, Token, Waker};
use motet_net::probe::Clock;
use motet_units::Duration;

use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk};
use crate::link::{Link, Look};
use crate::meeting::{Due, Meeting, gone_on};
use crate::strangers::{Place, Strangers};
use crate::tls::Tls;
use crate::wire::payload::MAX_RANKS;
use crate::wire::proof::nonce;
use crate::wire::{Join, Kind, Met};

/// Where a line about a refused or broken connection goes.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;
/// A clock that threads share.
pub type SharedClock = Arc<dyn Clock + Send>;

/// How long the handshake of a connection may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_ms(5_000);
/// Connections at once, at most; each has a thread. For a further one the oldest gives way that has not shown the token yet
/// ([`Strangers`]); if all have, it is turned away.
const MAX_CONNECTIONS: usize = 2048;
/// Groups that meet at once, at most.
const MAX_GROUPS: usize = 1024;
/// Groups that have gone on after a loss and are remembered, so that a rank that comes late is told.
const MAX_REMEMBERED: usize = 4096;
/// How long to sleep after a connection could not be accepted.
const PAUSE: Wall = Wall::from_millis(50);
/// How often to check whether the store is to stop, should the waker fail.
const LOOK: Wall = Wall::from_millis(500);
/// How often to look at a connection whose rank waits for the others.
const WAITS: Wall = Wall::from_millis(100);
/// How long to look at a connection whose rank is to say whom it reaches.
const SPEAKS: Wall = Wall::from_millis(20);
/// How long a rank that comes anew waits for its former connection to be found closed.
const FORMER: Wall = Wall::from_millis(1_000);
/// How long a store that ends waits until the ranks that sit there have been told how their meeting ended.
const LAST_WORDS: Wall = Wall::from_millis(1_000);

/// A group's name, the number of its first meeting (0 as long as there is none) and how often it has lost ranks.
type Key = (String, u64, u32);

/// A meeting, and the threads that wait for it to go on.
struct Table {
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All meetings.
#[derive(Default)]
struct Meetings {
    open: BTreeMap<Key, Arc<Table>>,
    /// Meetings after a loss from which a group has gone on.
    finished: BTreeSet<Key>,
    /// The same, oldest first, to know which to forget.
    order: VecDeque<Key>,
    /// How many ranks have come, which gives each connection a number.
    tickets: u64,
}

impl Meetings {
    /// Remembers a meeting from which a group has gone on. At first nothing is remembered: the same name may be used again.
    fn remember(&mut self, key: &Key) {
        if key.2 == 0 || !self.finished.insert(key.clone()) {
            return;
        }
        self.order.push_back(key.clone());
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }
}

struct Shared {
    meetings: Mutex<Meetings>,
    stop: AtomicBool,
    connections: AtomicUsize,
    strangers: Strangers,
    /// Connections whose rank sits in a meeting.
    seated: AtomicUsize,
    token: String,
    tls: Option<Tls>,
    clock: SharedClock,
    note: Note,
}

/// A store that serves as long as this value lives.
pub struct Store {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.address)
    }
}

/// Listens on an address. One beyond loopback needs a token, for strangers could join there.
pub(crate) fn listen(address: SocketAddr, token: &str) -> Result<TcpListener, ExecError> {
    if token.is_empty() && !address.ip().to_canonical().is_loopback() {
        return Err(ExecError::NeedsToken { address: address.ip().to_string() });
    }
    let failed = |error: std::io::Error| ExecError::Listen {
        address: address.to_string(),
        why: error.to_string(),
    };
    TcpListener::bind(address).map_err(failed)
}

impl Store {
    /// Serves at an address; port 0 takes any that is free.
    pub fn serve(
        address: SocketAddr,
        token: &str,
        clock: SharedClock,
        note: Note,
    ) -> Result<Self, ExecError> {
        Self::serve_with(address, token, None, clock, note)
    }

    /// The same, for ranks that speak TLS.
    pub fn serve_with(
        address: SocketAddr,
        token: &str,
        tls: Option<Tls>,
        clock: SharedClock,
        note: Note,
    ) -> Result<Self, ExecError> {
        let listener = listen(address, token)?;
        let failed = |error: std::io::Error| ExecError::Listen {
            address: address.to_string(),
            why: error.to_string(),
        };
        let address = listener.local_addr().map_err(failed)?;
        let (poll, waker) = wait_on(&listener).map_err(failed)?;
        let shared = Arc::new(Shared {
            meetings: Mutex::new(Meetings::default()),
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            strangers: Strangers::new(Arc::clone(&note)),
            seated: AtomicUsize::new(0),
            token: token.to_owned(),
            tls,
            clock,
            note,
        });
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("motet-store".to_owned())
            .spawn(move || accept_all(&listener, poll, &serving))
            .map_err(failed)?;
        Ok(Self { address, shared, waker, thread: Some(thread) })
    }

    /// Where it serves.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // If it cannot be woken, it looks up by itself a little later.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Rank 0 may end, and the store with it, while others are about to hear how their meeting ended.
        let step = Wall::from_millis(5);
        for _ in 0..LAST_WORDS.as_millis() / step.as_millis() {
            if self.shared.seated.load(Ordering::Acquire) == 0 {
                return;
            }
            std::thread::sleep(step);
        }
    }
}

/// A poll that waits for connections, and a waker that ends the wait without one.
fn wait_on(listener: &TcpListener) -> std::io::Result<(Waiting, Waker)> {
    listener.set_nonblocking(true)?;
    let poll = Poll::new()?;
    let mut watched = mio::net::TcpListener::from_std(listener.try_clone()?);
    poll.registry().register(&mut watched, Token(0), Interest::READABLE)?;
    let waker = Waker::new(poll.registry(), Token(1))?;
    Ok((Waiting { poll, _watched: watched }, waker))
}

struct Waiting {
    poll: Poll,
    /// Kept because a listener that is dropped is not polled any more.
    _watched: mio::net::TcpListener,
}

fn accept_all(listener: &TcpListener, mut waiting: Waiting, shared: &Arc<Shared>) {
    let mut events = Events::with_capacity(8);
    let mut trouble = false;
    while !shared.stop.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((stream, peer)) => {
                trouble = false;
                shared.seat(stream, peer);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Interrupted or not, there is another look.
                if waiting.poll.poll(&mut events, Some(LOOK)).is_err() {
                    std::thread::sleep(Wall::from_millis(1));
                }
            }
            Err(error) => {
                // It goes on like that for a while; once is enough.
                if !std::mem::replace(&mut trouble, true) {
                    (shared.note)(&format!("the store cannot accept a connection: {error}"));
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Counts something as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts a connection until its thread ends, also by a panic.
struct Connection(Arc<Shared>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A rank's place in a meeting, until it goes.
struct Seat<'a> {
    shared: &'a Shared,
    table: Arc<Table>,
    key: Key,
    rank: u32,
    ticket: u64,
    _counted: Counted<'a>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut all = self.shared.lock();
        let mut meeting = self.table.lock();
        let now = self.shared.clock.now();
        meeting.leave(self.rank, self.ticket, now);
        meeting.advance(now);
        self.shared.put_away(&mut all, &self.key, &self.table, &meeting);
        self.table.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Meetings> {
        self.meetings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a new connection, on a thread of its own.
    fn seat(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let turned_away = |why: &str| {
            let what = format!("{peer}: turned away from the store, {why}");
            self.strangers.note(&what, self.clock.now());
        };
        if !self.has_place() {
            return turned_away("which is full");
        }
        let number = match self.strangers.add(&stream, self.clock.now()) {
            Ok(number) => number,
            Err(error) => return turned_away(&error.to_string()),
        };
        self.connections.fetch_add(1, Ordering::AcqRel);
        let connection = Connection(Arc::clone(self));
        let work = move || connection.0.serve(stream, peer, number);
        if let Err(error) = std::thread::Builder::new().spawn(work) {
            self.strangers.remove(number);
            turned_away(&format!("no thread: {error}"));
        }
    }

    /// Whether there is a place for one more connection, if need be after a stranger has given way.
    fn has_place(&self) -> bool {
        while self.connections.load(Ordering::Acquire) >= MAX_CONNECTIONS {
            match self.strangers.give_way(self.clock.now()) {
                // Its thread is about to end.
                Place::Free => return true,
                Place::Soon if !self.stop.load(Ordering::Acquire) => {
                    std::thread::sleep(Wall::from_millis(1));
                }
                Place::Soon | Place::No => return false,
            }
        }
        true
    }

    /// Serves one connection to its end.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, number: u64) {
        let mut known = false;
        let served = self.converse(stream, || known = self.strangers.remove(number));
        let stayed = known || self.strangers.remove(number);
        let Err(error) = served else { return };
        let refused = |why: &dyn std::fmt::Display| format!("{peer}: refused by the store: {why}");
        if known {
            (self.note)(&refused(&error));
        } else if stayed {
            self.strangers.note(&refused(&error), self.clock.now());
        } else {
            let why = "it had not shown the token when others came";
            self.strangers.note(&refused(&why), self.clock.now());
        }
    }

    /// Talks to a rank until its meeting ends for it. `proved` is called when it has proved that it knows the token.
    fn converse(&self, stream: TcpStream, proved: impl FnOnce()) -> Result<(), HandshakeError> {
        // Some systems hand on that the listener does not block.
        stream.set_nonblocking(false)?;
        // A host that is gone closes nothing; this finds out.
        let alive = socket2::TcpKeepalive::new()
            .with_time(Wall::from_secs(10))
            .with_interval(Wall::from_secs(5));
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&alive);
        let mut link = Link::new(stream);
        let mut talk = Talk::new(&mut link, &*self.clock, HANDSHAKE);
        let seat = talk.accept(self.tls.as_ref(), &self.token, |said| {
            proved();
            let nobody = |_| HandshakeError::Refused("that is no rank that joins".to_owned());
            let join = Join::decode(said).map_err(nobody)?;
            self.enter(&join).map_err(HandshakeError::Refused)
        })?;
        self.attend(&seat, &mut talk)
    }

    /// Gives a rank its seat in its meeting. One that was started again waits a moment, until its former connection is seen to be closed.
    fn enter(&self, join: &Join) -> Result<Seat<'_>, String> {
        if join.ranks == 0 || join.ranks > MAX_RANKS || join.rank >= join.ranks {
            return Err(format!("rank {} of {} is none", join.rank, join.ranks));
        }
        let step = Wall::from_millis(20);
        for _ in 0..FORMER.as_millis() / step.as_millis() {
            if !self.is_taken(join) {
                break;
            }
            std::thread::sleep(step);
        }
        let key = key(join);
        let mut all = self.lock();
        if all.finished.contains(&key) {
            return Err(gone_on(&join.group, join.generation, join.rank));
        }
        let now = self.clock.now();
        let open = all.open.get(&key).filter(|it| {
            let meeting = it.lock();
            // After a loss it is remembered once it has gone on.
            !meeting.is_over() || (meeting.stands() && join.generation > 0)
        });
        let table = match open.cloned() {
            Some(table) => table,
            None if all.open.len() >= MAX_GROUPS => {
                return Err("too many groups are meeting".to_owned());
            }
            None => {
                let id = if join.generation == 0 { fresh()? } else { join.meeting };
                let meeting = Mutex::new(Meeting::new(join, id, now));
                Arc::new(Table { meeting, changed: Condvar::new() })
            }
        };
        all.tickets += 1;
        let ticket = all.tickets;
        let mut meeting = table.lock();
        meeting.enter(join, ticket, now)?;
        meeting.advance(now);
        drop(meeting);
        all.open.insert(key.clone(), Arc::clone(&table));
        drop(all);
        table.changed.notify_all();
        let counted = Counted::new(&self.seated);
        Ok(Seat { shared: self, table, key, rank: join.rank, ticket, _counted: counted })
    }

    /// Whether the rank's place is taken at this moment, in a meeting that has not begun.
    fn is_taken(&self, join: &Join) -> bool {
        let all = self.lock();
        all.open.get(&key(join)).is_some_and(|it| {
            let meeting = it.lock();
            !meeting.is_over() && meeting.has(join.rank)
        })
    }

    /// Tells a rank what happens in its meeting, and hears what it says, until the end.
    fn attend(&self, seat: &Seat<'_>, talk: &mut Talk<'_>) -> Result<(), HandshakeError> {
        loop {
            let stopped = self.stop.load(Ordering::Acquire);
            let (due, asked) = self.next(seat);
            talk.extend(HANDSHAKE);
            match due {
                Due::Roster(roster) => talk.send(Kind::Roster, &roster.encode())?,
                Due::Go => return talk.send(Kind::Go, &[]),
                Due::Refused(why) => {
                    talk.refuse(&why)?;
                    return Err(HandshakeError::Refused(why));
                }
                Due::Nothing if stopped => {
                    let why = "the store has ended before the group had met";
                    return talk.refuse(why);
                }
                Due::Nothing => {}
            }
            // Who waits says nothing; but a rank that has ended must not be waited for, nor be in its own way when it
            // comes again.
            match talk.look(if asked { SPEAKS } else { Wall::ZERO }) {
                Look::Nothing => {
                    let mut meeting = seat.table.lock();
                    if meeting.is_called(seat.rank) {
                        meeting.lives(seat.rank, seat.ticket);
                        seat.table.changed.notify_all();
                    }
                }
                Look::Closed => return Err(HandshakeError::Closed),
                Look::Something => {
                    let met = Met::decode(&talk.expect(Kind::Met)?);
                    let met = met.map_err(|_| HandshakeError::Unexpected)?;
                    let mut meeting = seat.table.lock();
                    meeting.answer(seat.rank, &met, self.clock.now());
                    seat.table.changed.notify_all();
                }
            }
        }
    }

    /// What a rank must be told, after waiting a little for that if nothing is due, and whether it is to say whom it reaches.
    fn next(&self, seat: &Seat<'_>) -> (Due, bool) {
        for wait in [true, false] {
            let mut meeting = seat.table.lock();
            let now = self.clock.now();
            meeting.advance(now);
            let due = meeting.due(seat.rank, seat.ticket, now);
            let asked = meeting.is_asked(seat.rank);
            let over = meeting.is_over();
            if over {
                drop(meeting);
                seat.table.changed.notify_all();
                let mut all = self.lock();
                let meeting = seat.table.lock();
                self.put_away(&mut all, &seat.key, &seat.table, &meeting);
                return (due, false);
            }
            let busy = asked || meeting.is_called(seat.rank) || !wait;
            if due != Due::Nothing || busy || self.stop.load(Ordering::Acquire) {
                return (due, asked);
            }
            // Whoever changes something wakes all; the rest is for what time changes.
            drop(seat.table.changed.wait_timeout(meeting, WAITS));
        }
        (Due::Nothing, false)
    }

    /// Removes a meeting that is over, and remembers it if a group goes on from it. Both under one lock, or a rank that
    /// comes in between would find neither.
    fn put_away(&self, all: &mut Meetings, key: &Key, table: &Arc<Table>, meeting: &Meeting) {
        if !meeting.is_over() {
            return;
        }
        if meeting.stands() {
            all.remember(key);
        }
        if all.open.get(key).is_some_and(|it| Arc::ptr_eq(it, table)) {
            all.open.remove(key);
        }
    }
}

fn key(join: &Join) -> Key {
    // A group that meets for the first time has no number yet.
    let meeting = if join.generation == 0 { 0 } else { join.meeting };
    (join.group.clone(), meeting, join.generation)
}

/// A number that no other group has.
fn fresh() -> Result<u64, String> {
    let bytes = nonce().map_err(|_| "the store's system has no random numbers".to_owned())?;
    let (head, _) = bytes.split_first_chunk::<8>().ok_or("no number")?;
    Ok(u64::from_be_bytes(*head))
}
