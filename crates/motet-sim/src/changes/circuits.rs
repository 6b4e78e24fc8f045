//! Optical circuits: links that exist only while a circuit is set up.
//!
//! The network contains every link that some circuit could provide; a [`CircuitSchedule`] says
//! which of them are up at which time. A reconfiguration at time T takes down the links that are no
//! longer wanted at T, and brings up the new ones at T plus the delay; links wanted before and
//! after stay up. If the next reconfiguration starts before the delay is over, links that it does
//! not want never come up. A transfer on a link that goes down stops, and continues if the link
//! comes back.

use std::collections::{BTreeMap, BTreeSet};

use motet_net::{LinkChange, Network, NetworkState, StateEvent, StateTrace};
use motet_units::{Duration, Instant, LinkId};

/// Why a schedule of circuits is not possible.
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

/// Which circuit links are up at which time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitSchedule {
    /// The links that circuits can provide.
    all: BTreeSet<LinkId>,
    /// How long a new circuit takes to come up.
    delay: Duration,
    /// The links that are up at the start.
    first: BTreeSet<LinkId>,
    /// When the latest reconfiguration started.
    last: Instant,
    /// The links that the latest reconfiguration wants up.
    wanted: BTreeSet<LinkId>,
    /// When each link that is being set up will be up.
    coming: BTreeMap<LinkId, Instant>,
    events: Vec<StateEvent>,
}

impl CircuitSchedule {
    /// Circuits can provide the links `all`, of which `first` are up at the start; a
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

    /// Starts a reconfiguration at `at`, after which exactly `links` are up.
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
            // A link that was still being set up has never been up, so there is nothing to take
            // down.
            if self.coming.remove(link).is_none() {
                self.events.push(StateEvent { at, link: *link, change: LinkChange::Down });
            }
        }
        let due = at + self.delay;
        self.coming.extend(links.difference(&self.wanted).map(|link| (*link, due)));
        (self.wanted, self.last) = (links, at);
        Ok(())
    }

    /// Records that the links whose setting up is over by `until` come up.
    fn settle(&mut self, until: Instant) {
        let events = &mut self.events;
        self.coming.retain(|link, at| {
            if *at <= until {
                events.push(StateEvent { at: *at, link: *link, change: LinkChange::Up });
            }
            *at > until
        });
    }

    /// Takes down, in `state`, the circuit links that are not up at the start.
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
