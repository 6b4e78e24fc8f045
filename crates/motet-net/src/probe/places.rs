//! [`Places`]: how many connections an agent holds at once, and for whom.
//!
//! An agent has a bounded number of places. So that no single peer can take them all, one address
//! has at most half of them; and so that many strangers cannot either, those who have not yet said
//! the token have at most half together, each for no longer than the handshake may take.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The places of one agent.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// By those who have not said the token yet.
    strangers: usize,
    by_peer: BTreeMap<IpAddr, usize>,
}

/// A place that is given back when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    peer: IpAddr,
    known: bool,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), held: Mutex::default() }
    }

    /// A place for a new connection; the error says why there is none.
    pub(super) fn enter(&self, peer: IpAddr) -> Result<Place<'_>, &'static str> {
        let half = self.most.div_ceil(2);
        let mut held = self.lock();
        if held.all >= self.most {
            return Err("there are too many connections");
        }
        if held.strangers >= half {
            return Err("too many connections have not said the token yet");
        }
        if held.by_peer.get(&peer).is_some_and(|it| *it >= half) {
            return Err("this address has too many connections");
        }
        held.all += 1;
        held.strangers += 1;
        *held.by_peer.entry(peer).or_default() += 1;
        Ok(Place { places: self, peer, known: false })
    }

    /// The counts stay right whatever panics: each is changed in one step.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// The peer has said the token.
    pub(super) fn is_known(&mut self) {
        if !self.known {
            self.known = true;
            self.places.lock().strangers -= 1;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        held.all -= 1;
        held.strangers -= usize::from(!self.known);
        if let Some(count) = held.by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                held.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn no_peer_and_no_crowd_of_strangers_takes_all_places() {
        let places = Places::new(4);
        let mut first = places.enter(peer(1)).unwrap();
        first.is_known();
        let mut second = places.enter(peer(1)).unwrap();
        second.is_known();
        assert!(places.enter(peer(1)).unwrap_err().contains("this address"));
        let third = places.enter(peer(2)).unwrap();
        let fourth = places.enter(peer(3)).unwrap();
        assert!(places.enter(peer(4)).unwrap_err().contains("too many connections"));
        drop(first);
        assert!(places.enter(peer(4)).unwrap_err().contains("not said the token"));
        drop((second, third, fourth));
        let held = places.lock();
        assert_eq!((held.all, held.strangers, held.by_peer.len()), (0, 0, 0));
    }
}
