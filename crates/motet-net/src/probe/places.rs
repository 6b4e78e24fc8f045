//! [`Places`]: how many connections an agent holds at once, and for whom.
//!
//! An agent has a bounded number of places. So that no single peer can take them all, one address
//! has at most half of them; and so that many strangers cannot either, those who have not yet said
//! the token have at most half together, each for no longer than the handshake may take.
//!
//! Whoever knows the token is a stranger too until it is said, so strangers who say nothing must not
//! shut others out for as long as a handshake may take. Where there is no place for a newcomer, the
//! stranger who has waited longest gives way: of the newcomer's own address if that has its half,
//! else of the address with the most strangers. Saying the token takes one way over the network, so
//! who is the oldest of a crowd is hardly one who means to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Closes a connection from outside of the thread that serves it.
pub(super) type Close = Box<dyn FnOnce() + Send>;

/// The places of one agent.
pub(super) struct Places {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Without those that gave way.
    all: usize,
    by_peer: BTreeMap<IpAddr, usize>,
    /// Those who have not said the token yet, from the first that came to the last.
    strangers: BTreeMap<u64, Stranger>,
    /// The number of the next stranger.
    next: u64,
    /// Those that gave way, and whose threads have not seen it yet.
    leaving: usize,
}

struct Stranger {
    peer: IpAddr,
    close: Close,
}

/// A place that is given back when dropped.
pub(super) struct Place<'a> {
    places: &'a Places,
    peer: IpAddr,
    number: u64,
    known: bool,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), held: Mutex::default() }
    }

    /// A place for a new connection, for which a stranger may have to give way; the error says why there is none.
    pub(super) fn enter(&self, peer: IpAddr, close: Close) -> Result<Place<'_>, &'static str> {
        let half = self.most.div_ceil(2);
        let mut held = self.lock();
        let of_peer = held.by_peer.get(&peer).copied().unwrap_or_default();
        let gives_way = if of_peer >= half {
            Some(held.oldest_of(peer).ok_or("this address has too many connections")?)
        } else if held.all >= self.most || held.strangers.len() >= half {
            Some(held.oldest_of_most().ok_or("there are too many connections")?)
        } else {
            None
        };
        // Their threads are still there, and threads have a bound too.
        if gives_way.is_some() && held.leaving >= half {
            return Err("too many connections have not said the token yet");
        }
        let closed = gives_way.and_then(|it| held.strangers.remove(&it));
        if let Some(stranger) = &closed {
            held.leave(stranger.peer);
            held.leaving += 1;
        }
        held.all += 1;
        *held.by_peer.entry(peer).or_default() += 1;
        let number = held.next;
        held.next += 1;
        held.strangers.insert(number, Stranger { peer, close });
        drop(held);
        if let Some(stranger) = closed {
            (stranger.close)();
        }
        Ok(Place { places: self, peer, number, known: false })
    }

    /// The counts stay right whatever panics: each is changed in one step.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn oldest_of(&self, peer: IpAddr) -> Option<u64> {
        self.strangers.iter().find(|it| it.1.peer == peer).map(|it| *it.0)
    }

    /// The oldest stranger of the address with the most of them; of several such, of the one that came first.
    fn oldest_of_most(&self) -> Option<u64> {
        let mut of: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, stranger) in &self.strangers {
            of.entry(stranger.peer).or_insert((0, *number)).0 += 1;
        }
        of.into_values().max_by_key(|(count, oldest)| (*count, u64::MAX - oldest)).map(|it| it.1)
    }

    /// One connection of `peer` less.
    fn leave(&mut self, peer: IpAddr) {
        self.all -= 1;
        if let Some(count) = self.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }
}

impl Place<'_> {
    /// The peer has said the token.
    pub(super) fn is_known(&mut self) {
        // A stranger that gave way stays one: its connection is closed already.
        self.known |= self.places.lock().strangers.remove(&self.number).is_some();
    }

    /// Whether another has this place now.
    pub(super) fn gave_way(&self) -> bool {
        !self.known && !self.places.lock().strangers.contains_key(&self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        if self.known || held.strangers.remove(&self.number).is_some() {
            held.leave(self.peer);
        } else {
            held.leaving -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// A closing that is counted.
    fn counted(count: &Arc<AtomicUsize>) -> Close {
        let count = Arc::clone(count);
        Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn never() -> Close {
        Box::new(|| panic!("nobody has to give way"))
    }

    fn why(entered: Result<Place<'_>, &'static str>) -> &'static str {
        entered.err().unwrap()
    }

    fn is_empty(places: &Places) -> bool {
        let held = places.lock();
        (held.all, held.strangers.len(), held.by_peer.len(), held.leaving) == (0, 0, 0, 0)
    }

    #[test]
    fn no_peer_takes_all_places_and_known_ones_give_way_to_nobody() {
        let places = Places::new(4);
        let known = |last| {
            let mut place = places.enter(peer(last), never()).unwrap();
            place.is_known();
            assert!(!place.gave_way());
            place
        };
        let first = (known(1), known(1));
        assert!(why(places.enter(peer(1), never())).contains("this address"));
        let second = (known(2), known(3));
        assert!(why(places.enter(peer(4), never())).contains("too many connections"));
        drop(first.0);
        drop(places.enter(peer(4), never()).unwrap());
        drop((first.1, second));
        assert!(is_empty(&places));
    }

    #[test]
    fn strangers_of_an_address_give_way_to_whoever_comes_from_there() {
        let (places, closed) = (Places::new(8), Arc::default());
        let dripping: Vec<Place<'_>> =
            (0..4).map(|_| places.enter(peer(1), counted(&closed)).unwrap()).collect();
        // Eight newcomers one after the other, as the connections of one probe come.
        let mut holders = Vec::new();
        for _ in 0..4 {
            let mut holder = places.enter(peer(1), never()).unwrap();
            holder.is_known();
            assert!(!holder.gave_way());
            holders.push(holder);
        }
        assert_eq!(closed.load(Ordering::Relaxed), 4);
        assert!(dripping.iter().all(Place::gave_way));
        // Half of the places are the most that an address has, and no stranger of it is left.
        assert!(why(places.enter(peer(1), never())).contains("this address"));
        drop((dripping, holders));
        assert!(is_empty(&places));
    }

    #[test]
    fn of_many_strangers_those_of_the_largest_crowd_give_way() {
        let (places, closed) = (Places::new(8), Arc::default());
        let alone = places.enter(peer(1), never()).unwrap();
        let crowd: Vec<Place<'_>> =
            (0..3).map(|_| places.enter(peer(2), counted(&closed)).unwrap()).collect();
        let newcomer = places.enter(peer(3), never()).unwrap();
        assert_eq!(closed.load(Ordering::Relaxed), 1);
        let gave: Vec<bool> = crowd.iter().map(Place::gave_way).collect();
        assert_eq!(
            (alone.gave_way(), gave, newcomer.gave_way()),
            (false, vec![true, false, false], false)
        );
        // One that gave way before it said the token is no longer in.
        let mut late = crowd;
        late[0].is_known();
        assert!(late[0].gave_way());
        drop((alone, late, newcomer));
        assert!(is_empty(&places));
    }

    #[test]
    fn threads_have_a_bound_however_fast_strangers_come() {
        let (places, closed) = (Places::new(4), Arc::default());
        let entered: Vec<_> = (0..100).map(|_| places.enter(peer(1), counted(&closed))).collect();
        // Two places, and two whose threads have not ended.
        assert_eq!(entered.iter().filter(|it| it.is_ok()).count(), 4);
        assert_eq!(closed.load(Ordering::Relaxed), 2);
        drop(entered);
        assert!(is_empty(&places));
    }
}
