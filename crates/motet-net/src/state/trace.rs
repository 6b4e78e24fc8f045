//! [`StateTrace`]: how a network's state changes as time goes on, as a list of events in time
//! order, and the [`TraceCursor`] that walks a state along it.
//!
//! The simulator keeps one cursor and asks [`next_at`](TraceCursor::next_at) when the network
//! changes next; a bandwidth that changes in the middle of a transfer, a link that fails and
//! returns, are both one event here.

use motet_units::{Bandwidth, Instant, LinkId};

use super::NetworkState;
use crate::network::Network;

/// What happens to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkChange {
    /// Its available bandwidth becomes this.
    Bandwidth(Bandwidth),
    Down,
    Up,
}

/// A change of one link at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateEvent {
    /// When it happens.
    pub at: Instant,
    /// To which link.
    pub link: LinkId,
    /// What happens.
    pub change: LinkChange,
}

/// Why a list of events is not a trace of a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    #[error("a trace changes link {link}, but the network has only {links} links")]
    UnknownLink { link: LinkId, links: usize },
}

/// Events of one network in time order; those of one instant keep the order they were given in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateTrace {
    events: Vec<StateEvent>,
}

impl StateTrace {
    /// Sorts the events and checks that every link exists.
    pub fn new(network: &Network, mut events: Vec<StateEvent>) -> Result<Self, TraceError> {
        let links = network.links().len();
        if let Some(event) = events.iter().find(|it| it.link.index() >= links) {
            return Err(TraceError::UnknownLink { link: event.link, links });
        }
        events.sort_by_key(|it| it.at);
        Ok(Self { events })
    }

    /// The changes in time order.
    #[must_use]
    pub fn events(&self) -> &[StateEvent] {
        &self.events
    }

    /// A cursor before the first event.
    #[must_use]
    pub fn cursor(&self) -> TraceCursor<'_> {
        TraceCursor { rest: &self.events }
    }

    /// The state at `at`, events of that instant included, when `start` was the state before the
    /// first event.
    #[must_use]
    pub fn state_at(&self, start: &NetworkState, at: Instant) -> NetworkState {
        let mut state = start.clone();
        self.cursor().advance(&mut state, at);
        state
    }
}

/// A place in a trace.
#[derive(Clone, Debug)]
pub struct TraceCursor<'a> {
    rest: &'a [StateEvent],
}

impl<'a> TraceCursor<'a> {
    /// When the next event is, if one is left.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.rest.first().map(|it| it.at)
    }

    /// Applies every event left up to and including `until` to the state, and says which they
    /// were. Going back does nothing.
    pub fn advance(&mut self, state: &mut NetworkState, until: Instant) -> &'a [StateEvent] {
        let count = self.rest.partition_point(|it| it.at <= until);
        let (now, later) = self.rest.split_at(count);
        for event in now {
            state.apply(event.link, event.change);
        }
        self.rest = later;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::multigraph;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = LinkChange> {
        prop_oneof![
            (0u64..9).prop_map(|it| LinkChange::Bandwidth(Bandwidth::gbit_per_s(it))),
            Just(LinkChange::Down),
            Just(LinkChange::Up),
        ]
    }

    proptest! {
        /// Any way of stepping through a trace ends where replaying the events one by one, in
        /// time and then in given order, ends.
        #[test]
        fn stepping_and_jumping_agree(
            (network, raw, steps) in multigraph(5, 10).prop_flat_map(|network| {
                let links = network.links().len() as u32;
                let event = (0u64..20, 0..links, change());
                let events = prop::collection::vec(event, 0..30);
                (Just(network), events, prop::collection::vec(0u64..25, 0..6))
            })
        ) {
            let events: Vec<StateEvent> = raw
                .iter()
                .map(|(at, link, change)| StateEvent {
                    at: Instant::from_ps(*at), link: LinkId(*link), change: *change,
                })
                .collect();
            let trace = StateTrace::new(&network, events.clone()).unwrap();
            let start = NetworkState::nominal(&network);
            let mut cursor = trace.cursor();
            let mut state = start.clone();
            let mut seen = 0;
            let mut reached = None;
            for step in steps {
                seen += cursor.advance(&mut state, Instant::from_ps(step)).len();
                reached = reached.max(Some(step));
                let mut expected = start.clone();
                for instant in 0..=reached.unwrap() {
                    for event in events.iter().filter(|it| it.at.as_ps() == instant) {
                        expected.apply(event.link, event.change);
                    }
                }
                let at = Instant::from_ps(reached.unwrap());
                prop_assert_eq!(&state, &expected);
                prop_assert_eq!(&trace.state_at(&start, at), &expected);
                prop_assert!(cursor.next_at().is_none_or(|it| it > at));
            }
            let due = events.iter().filter(|it| Some(it.at.as_ps()) <= reached).count();
            prop_assert_eq!(seen, due);
        }
    }

    #[test]
    fn links_that_do_not_exist_are_refused() {
        let network = crate::network::NetworkBuilder::new("empty").build().unwrap();
        let event = StateEvent { at: Instant::START, link: LinkId(0), change: LinkChange::Down };
        assert_eq!(
            StateTrace::new(&network, vec![event]).unwrap_err().to_string(),
            "a trace changes link l0, but the network has only 0 links"
        );
    }
}
