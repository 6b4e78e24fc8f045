//! Optical circuits: links that exist only while a circuit is set.
//!
//! A network holds every link that some circuit can make; a [`CircuitSchedule`] says which of
//! them are there when. To reconfigure at time T takes the links away at T that are no longer
//! wanted, and brings the new ones at T plus the delay; links in both stay and carry on. If the
//! next reconfiguration comes before the delay is over, what it does not want is never brought.
//! A transfer on a link that is taken away stops, and goes on if the link returns.

use std::collections::{BTreeMap, BTreeSet};

use motet_net::{LinkChange, Network, NetworkState, StateEvent, StateTrace};
use motet_units::{Duration, Instant, LinkId};

/// Why circuits cannot be scheduled so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitError {
    #[error("link {link} is not in the network, which has {links} links")]
    UnknownLink { link: LinkId, links: usize },
    #[error("link {link} is not one that circuits make; list it among those")]
    NotACircuit { link: LinkId },
    #[error("a reconfiguration at {} comes after one at {}; give them in time order",
        at.since(Instant::START), before.since(Instant::START))]
    OutOfOrder { at: Instant, before: Instant },
}

/// Which links are there when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitSchedule {
    all: BTreeSet<LinkId>,
    delay: Duration,
    first: BTreeSet<LinkId>,
    last: Instant,
    wanted: BTreeSet<LinkId>,
    /// When each link that is wanted and not there yet will come.
    coming: BTreeMap<LinkId, Instant>,
    events: Vec<StateEvent>,
}

impl CircuitSchedule {
    /// Circuits can make the links `all`, of which `first` are there at the beginning; a
    /// reconfiguration takes `delay`.
    pub fn new(
        network: &Network,
        all: impl IntoIterator<Item = LinkId>,
        first: impl IntoIterator<Item = LinkId>,
        delay: Duration,
    ) -> Result<Self, CircuitError> {
        let all: BTreeSet<LinkId> = all.into_iter().collect();
        let links = network.links().len();
        if let Some(link) = all.iter().find(|it| it.index() >= links) {
            return Err(CircuitError::UnknownLink { link: *link, links });
        }
        let first = Self::checked(&all, first)?;
        let (wanted, last, coming) = (first.clone(), Instant::START, BTreeMap::new());
        Ok(Self { all, delay, first, last, wanted, coming, events: Vec::new() })
    }

    fn checked(
        all: &BTreeSet<LinkId>,
        links: impl IntoIterator<Item = LinkId>,
    ) -> Result<BTreeSet<LinkId>, CircuitError> {
        let links: BTreeSet<LinkId> = links.into_iter().collect();
        match links.difference(all).next() {
            Some(link) => Err(CircuitError::NotACircuit { link: *link }),
            None => Ok(links),
        }
    }

    /// Begins at `at` to make the circuits those of `links`.
    pub fn reconfigure(
        &mut self,
        at: Instant,
        links: impl IntoIterator<Item = LinkId>,
    ) -> Result<(), CircuitError> {
        if at < self.last {
            return Err(CircuitError::OutOfOrder { at, before: self.last });
        }
        let links = Self::checked(&self.all, links)?;
        self.settle(at);
        for link in self.wanted.difference(&links) {
            // What was still to come has nothing to take away.
            if self.coming.remove(link).is_none() {
                self.events.push(StateEvent { at, link: *link, change: LinkChange::Down });
            }
        }
        let due = at + self.delay;
        self.coming.extend(links.difference(&self.wanted).map(|link| (*link, due)));
        (self.wanted, self.last) = (links, at);
        Ok(())
    }

    /// Brings what has come by `until`.
    fn settle(&mut self, until: Instant) {
        let events = &mut self.events;
        self.coming.retain(|link, at| {
            if *at <= until {
                events.push(StateEvent { at: *at, link: *link, change: LinkChange::Up });
            }
            *at > until
        });
    }

    /// Takes the links down in `state` that are not there at the beginning.
    pub fn begin(&self, state: &mut NetworkState) {
        for link in self.all.difference(&self.first) {
            state.set_up(*link, false);
        }
    }

    /// The changes, in time order.
    pub fn trace(mut self, network: &Network) -> Result<StateTrace, motet_net::state::TraceError> {
        self.settle(Instant::NEVER);
        StateTrace::new(network, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{Params, find};

    fn up(trace: &StateTrace, begin: &NetworkState, at: u64) -> Vec<u32> {
        let state = trace.state_at(begin, Instant::from_ps(at));
        (0..6).filter(|it| state.is_up(LinkId(*it))).collect()
    }

    #[test]
    fn circuits_come_after_the_delay_and_go_at_once() {
        let network =
            find("ring").unwrap().build(&Params::from_words(["gpus=3"]).unwrap()).unwrap();
        let ids = |it: &[u32]| it.iter().copied().map(LinkId).collect::<Vec<_>>();
        let mut schedule =
            CircuitSchedule::new(&network, ids(&[0, 1, 2, 3]), ids(&[0, 1]), Duration::from_ps(10))
                .unwrap();
        schedule.reconfigure(Instant::from_ps(100), ids(&[1, 2])).unwrap();
        // Before the delay is over: 2 never comes, 3 comes at 115, 0 returns with it.
        schedule.reconfigure(Instant::from_ps(105), ids(&[0, 1, 3])).unwrap();
        let mut begin = NetworkState::nominal(&network);
        schedule.begin(&mut begin);
        assert!(matches!(
            schedule.reconfigure(Instant::from_ps(1), ids(&[])),
            Err(CircuitError::OutOfOrder { .. })
        ));
        assert_eq!(
            schedule.reconfigure(Instant::from_ps(200), ids(&[4])),
            Err(CircuitError::NotACircuit { link: LinkId(4) })
        );
        let trace = schedule.trace(&network).unwrap();
        for (at, expected) in [
            (99, vec![0, 1, 4, 5]),
            (100, vec![1, 4, 5]),
            (110, vec![1, 4, 5]),
            (114, vec![1, 4, 5]),
            (115, vec![0, 1, 3, 4, 5]),
        ] {
            assert_eq!(up(&trace, &begin, at), expected, "at {at}");
        }
    }
}
