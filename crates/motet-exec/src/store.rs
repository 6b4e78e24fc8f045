//! The store: where ranks find each other. Each comes with its group, its number and the address where it
//! listens, and hears of all others once all are there. It is a meeting place and nothing else: when a
//! group has met, it can go on without the store. Rank 0 may serve it, or a process of its own
//! (`motet exec store`), which then also outlives rank 0 when a group goes on with fewer ranks.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::{Duration, Instant};

use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk, left};
use crate::link::Link;
use crate::tls::Tls;
use crate::wire::payload::MAX_RANKS;
use crate::wire::{Join, Kind, Member, Roster};

/// Where a line about a refused or broken connection goes.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;
/// A clock that threads share.
pub type SharedClock = Arc<dyn Clock + Send>;

/// For the handshake of one connection.
pub(crate) const HANDSHAKE: Duration = Duration::from_ms(5_000);
/// Connections at once, at most; each has a thread.
const MAX_CONNECTIONS: usize = 2048;
/// Groups that meet at once, at most.
const MAX_GROUPS: usize = 1024;
/// Between two attempts to reach a store that may not be there yet.
const PAUSE: Wall = Wall::from_millis(50);

/// A group that is meeting.
#[derive(Debug)]
struct Gathering {
    ranks: u32,
    first: Instant,
    members: BTreeMap<u32, Member>,
    complete: Option<Roster>,
    fetched: usize,
}

struct Shared {
    gatherings: Mutex<BTreeMap<(String, u32), Gathering>>,
    changed: Condvar,
    stop: AtomicBool,
    connections: AtomicUsize,
    token: String,
    tls: Option<Tls>,
    clock: SharedClock,
    note: Note,
}

/// A store that serves as long as this value lives.
pub struct Store {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.address)
    }
}

/// Binds where strangers cannot come, or only with a token.
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
        let shared = Arc::new(Shared {
            gatherings: Mutex::new(BTreeMap::new()),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            token: token.to_owned(),
            tls,
            clock,
            note,
        });
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("motet-store".to_owned())
            .spawn(move || accept_all(&listener, &serving))
            .map_err(failed)?;
        Ok(Self { address, shared, thread: Some(thread) })
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
        self.shared.changed.notify_all();
        // One more connection, so that it looks up from waiting for one.
        let _ = TcpStream::connect_timeout(&self.address, Wall::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::Acquire) {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                (shared.note)(&format!("the store cannot accept a connection: {error}"));
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            (shared.note)(&format!("{peer}: turned away from the store, which is full"));
            continue;
        }
        let serving = Arc::clone(shared);
        let work = move || {
            if let Err(error) = serving.converse(&mut Link::new(stream)) {
                (serving.note)(&format!("{peer}: refused by the store: {error}"));
            }
            serving.connections.fetch_sub(1, Ordering::AcqRel);
        };
        if let Err(error) = std::thread::Builder::new().spawn(work) {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            (shared.note)(&format!("{peer}: turned away from the store, no thread: {error}"));
        }
    }
}

impl Shared {
    fn converse(&self, link: &mut Link) -> Result<(), HandshakeError> {
        let mut talk = Talk::new(link, &*self.clock, HANDSHAKE);
        let join = talk.accept(self.tls.as_ref(), &self.token, |said| {
            let join = Join::decode(said).map_err(|_| "that is no rank that joins".to_owned())?;
            self.enter(&join)?;
            Ok(join)
        })?;
        let answer = self.await_all(&join);
        talk.extend(HANDSHAKE);
        match answer {
            Ok(roster) => talk.send(Kind::Roster, &roster.encode()),
            Err(why) => {
                talk.send(Kind::Refused, why.as_bytes())?;
                Err(HandshakeError::Refused(why))
            }
        }
    }

    fn enter(&self, join: &Join) -> Result<(), String> {
        let mut all = self.gatherings.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (join.group.clone(), join.generation);
        if join.ranks == 0 || join.ranks > MAX_RANKS || join.rank >= join.ranks {
            return Err(format!("rank {} of {} is none", join.rank, join.ranks));
        }
        if all.len() >= MAX_GROUPS && !all.contains_key(&key) {
            return Err("too many groups are meeting".to_owned());
        }
        let gathering = all.entry(key).or_insert_with(|| Gathering {
            ranks: join.ranks,
            first: self.clock.now(),
            members: BTreeMap::new(),
            complete: None,
            fetched: 0,
        });
        if gathering.ranks != join.ranks {
            let ranks = gathering.ranks;
            return Err(format!(
                "the group `{}` has {ranks} ranks, not {}",
                join.group, join.ranks
            ));
        }
        if gathering.complete.is_some() {
            return Err(format!(
                "the group `{}` is complete without rank {}",
                join.group, join.rank
            ));
        }
        if gathering.members.contains_key(&join.rank) {
            return Err(format!("rank {} of `{}` has come already", join.rank, join.group));
        }
        let member =
            Member { rank: join.rank, address: join.address.clone(), host: join.host.clone() };
        gathering.members.insert(join.rank, member);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until the group is complete.
    fn await_all(&self, join: &Join) -> Result<Roster, String> {
        let key = (join.group.clone(), join.generation);
        let until = self.clock.now() + Duration::from_ms(join.wait_ms);
        let mut all = self.gatherings.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = self.clock.now();
            let gathering = all.get_mut(&key).ok_or("the group has gone")?;
            let due = gathering.first + Duration::from_ms(join.grace_ms);
            let here = gathering.members.len();
            let full = here == gathering.ranks as usize || (join.grace_ms > 0 && now >= due);
            if full && gathering.complete.is_none() {
                let members = gathering.members.values().cloned().collect();
                gathering.complete = Some(Roster { members });
                self.changed.notify_all();
            }
            if let Some(roster) = gathering.complete.clone() {
                gathering.fetched += 1;
                if gathering.fetched == roster.members.len() {
                    all.remove(&key);
                }
                return Ok(roster);
            }
            if now >= until || self.stop.load(Ordering::Acquire) {
                let missing = (0..gathering.ranks).find(|it| !gathering.members.contains_key(it));
                let ranks = gathering.ranks;
                gathering.members.remove(&join.rank);
                if gathering.members.is_empty() {
                    all.remove(&key);
                }
                let missing = missing.unwrap_or(0);
                return Err(format!(
                    "only {here} of {ranks} ranks came in time; rank {missing} is one that did not"
                ));
            }
            let wait = if join.grace_ms > 0 { until.min(due) } else { until };
            let wait = left(&*self.clock, wait).unwrap_or(Wall::from_millis(1));
            let waited = self.changed.wait_timeout(all, wait.min(Wall::from_secs(1)));
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The addresses that a text stands for.
pub(crate) fn resolve(address: &str) -> Result<Vec<SocketAddr>, ExecError> {
    let unresolved = |why: String| ExecError::Unresolved { address: address.to_owned(), why };
    let found: Vec<SocketAddr> =
        address.to_socket_addrs().map_err(|it| unresolved(it.to_string()))?.collect();
    if found.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(found) }
}

/// Connects, trying again as long as there is time: the other side may not listen yet.
pub(crate) fn connect(
    who: &str,
    address: &str,
    clock: &dyn Clock,
    until: Instant,
) -> Result<TcpStream, ExecError> {
    loop {
        let mut why = String::new();
        for address in resolve(address)? {
            let left = left(clock, until).unwrap_or(Wall::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error.to_string(),
            }
        }
        if clock.now() >= until {
            return Err(ExecError::Unreachable {
                who: who.to_owned(),
                address: address.to_owned(),
                why,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Comes to the store over a connection and waits for the others.
pub(crate) fn join(
    link: &mut Link,
    tls: Option<&Tls>,
    token: &str,
    join: &Join,
    clock: &dyn Clock,
) -> Result<Roster, ExecError> {
    let failed = |error: HandshakeError| match error {
        HandshakeError::Refused(why) => ExecError::Refused { who: "the store".to_owned(), why },
        error => ExecError::Handshake { who: "the store".to_owned(), why: error.to_string() },
    };
    let mut talk = Talk::new(link, clock, HANDSHAKE);
    talk.connect(tls, token, &join.encode()).map_err(failed)?;
    talk.extend(Duration::from_ms(join.wait_ms) + HANDSHAKE);
    let payload = talk.expect(Kind::Roster).map_err(failed)?;
    Roster::decode(&payload).map_err(|_| failed(HandshakeError::Unexpected))
}
