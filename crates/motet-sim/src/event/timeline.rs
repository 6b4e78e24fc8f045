//! How the network's state changes during a run: [`Feed`] applies changes one by one, and
//! [`Timeline`] answers when a link will have carried a given amount.
//!
//! Changes are known before they happen (a trace, a schedule, a seeded draw), so an engine whose
//! links carry one transfer at a time need not stop for them: it asks the timeline, which looks as
//! far ahead as the answer requires and remembers the rates of every link.

use motet_net::{NetworkState, StateEvent};
use motet_units::{Instant, LinkId};

use super::error::SimError;

/// Picoseconds in a second. In units of 1/`PS_PER_S` bit, a rate of r bit/s does r units of work per picosecond.
pub(super) const PS_PER_S: u128 = 1_000_000_000_000;

/// The most changes that a run takes; more than any real run needs. It ends a run whose source of changes
/// never ends while a transfer waits for a link that never comes up.
const MOST_CHANGES: u64 = 1 << 28;

/// Where changes come from, in time order.
pub(super) type Source<'a> = Box<dyn Iterator<Item = StateEvent> + Send + 'a>;

/// Changes one by one, applied to a state.
pub(super) struct Feed<'a> {
    source: Source<'a>,
    state: NetworkState,
    next: Option<StateEvent>,
    taken: u64,
    limit: u64,
}

impl<'a> Feed<'a> {
    pub(super) fn new(state: NetworkState, source: Source<'a>) -> Result<Self, SimError> {
        Self::limited(state, source, MOST_CHANGES)
    }

    fn limited(state: NetworkState, source: Source<'a>, limit: u64) -> Result<Self, SimError> {
        let mut feed = Self { source, state, next: None, taken: 0, limit };
        feed.fetch(Instant::START)?;
        Ok(feed)
    }

    /// When the next change is; the end of time if there is none.
    pub(super) fn next_at(&self) -> u64 {
        self.next.map_or(u64::MAX, |it| it.at.as_ps())
    }

    /// Takes the next change: when, which link, and the link's rate from then on.
    pub(super) fn take(&mut self) -> Result<Option<(u64, LinkId, u64)>, SimError> {
        let Some(StateEvent { at, link, change }) = self.next else { return Ok(None) };
        self.state.apply(link, change);
        self.fetch(at)?;
        Ok(Some((at.as_ps(), link, self.rate(link))))
    }

    fn fetch(&mut self, before: Instant) -> Result<(), SimError> {
        self.next = self.source.next();
        let Some(StateEvent { at, link, .. }) = self.next else { return Ok(()) };
        let links = self.state.link_count();
        if link.index() >= links {
            return Err(SimError::UnknownLink { link, links });
        }
        if at < before {
            return Err(SimError::ChangesOutOfOrder { at, before });
        }
        self.taken += 1;
        if self.taken > self.limit {
            return Err(SimError::TooManyChanges { limit: self.limit });
        }
        Ok(())
    }

    pub(super) fn rate(&self, link: LinkId) -> u64 {
        self.state.bandwidth(link).bits_per_s()
    }
}

/// The rate of a link from `at` on, until its `next` piece begins.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u64,
    rate: u64,
    next: u32,
}

const NONE: u32 = u32::MAX;

/// When something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    At(u64),
    /// Never: the link has no bandwidth from this time on.
    Never(u64),
}

/// The rates of all links as far as they have been looked at.
pub(super) struct Timeline<'a> {
    feed: Feed<'a>,
    pieces: Vec<Piece>,
    /// By link: the piece that [`finish`](Self::finish) has come to (starts never go back), and the last piece
    /// known so far.
    current: Vec<u32>,
    last: Vec<u32>,
    /// Changes in order, for an observer; `None` if there is none.
    log: Option<Vec<(u64, LinkId, u64)>>,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(feed: Feed<'a>, keep_log: bool) -> Self {
        let links = feed.state.link_count();
        let pieces = (0..links)
            .map(|it| Piece { at: 0, rate: feed.rate(LinkId::from_index(it)), next: NONE })
            .collect();
        let ids: Vec<u32> = (0..links).map(|it| it as u32).collect();
        Self { feed, pieces, current: ids.clone(), last: ids, log: keep_log.then(Vec::new) }
    }

    /// When `link`, starting at `start`, will have carried `work` (in bits × [`PS_PER_S`]): the
    /// first whole picosecond at which all of it has gone. Starts of one link must not go back.
    pub(super) fn finish(
        &mut self,
        link: usize,
        start: u64,
        mut work: u128,
    ) -> Result<End, SimError> {
        let mut from = start;
        loop {
            while self.feed.next_at() <= from && self.look_ahead()? {}
            let mut piece = self.pieces[self.current[link] as usize];
            while piece.next != NONE && self.pieces[piece.next as usize].at <= from {
                self.current[link] = piece.next;
                piece = self.pieces[piece.next as usize];
            }
            let until = match piece.next {
                NONE => self.feed.next_at(),
                next => self.pieces[next as usize].at,
            };
            let rate = u128::from(piece.rate);
            if work == 0 {
                return Ok(End::At(from));
            }
            if rate == 0 && until == u64::MAX {
                return Ok(End::Never(from));
            }
            // The rest at this rate, if it lasts.
            let needed = if rate == 0 { u128::MAX } else { work.div_ceil(rate) };
            if needed <= u128::from(until - from) {
                return Ok(End::At(from + needed as u64));
            }
            if until == u64::MAX {
                return Ok(End::At(u64::MAX));
            }
            work -= rate * u128::from(until - from);
            from = until;
        }
    }

    /// Takes the next change from the feed and records it; `false` if there is none.
    fn look_ahead(&mut self) -> Result<bool, SimError> {
        let Some((at, link, rate)) = self.feed.take()? else { return Ok(false) };
        if let Some(log) = &mut self.log {
            log.push((at, link, rate));
        }
        // Fewer than 2³²: links and changes are limited.
        let new = self.pieces.len() as u32;
        let last = &mut self.last[link.index()];
        let piece = &mut self.pieces[*last as usize];
        if piece.at == at {
            piece.rate = rate;
        } else if piece.rate != rate {
            piece.next = new;
            *last = new;
            self.pieces.push(Piece { at, rate, next: NONE });
        }
        Ok(true)
    }

    /// Change number `index`, if there is one so far or to come; for an observer.
    pub(super) fn change(&mut self, index: usize) -> Result<Option<(u64, LinkId, u64)>, SimError> {
        if self.log.as_ref().is_some_and(|it| it.len() <= index) {
            self.look_ahead()?;
        }
        Ok(self.log.as_ref().and_then(|it| it.get(index)).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{Params, find};
    use motet_net::{LinkChange, Network};

    fn ring() -> Network {
        find("ring").unwrap().build(&Params::from_words(["gpus=2"]).unwrap()).unwrap()
    }

    /// Link 1 changes at 0, 10, 20 and so on, without end.
    fn endless() -> Source<'static> {
        Box::new((0..).map(|it| StateEvent {
            at: Instant::from_ps(it * 10),
            link: LinkId(1),
            change: LinkChange::Bandwidth(motet_units::Bandwidth::from_bits_per_s(it % 2)),
        }))
    }

    #[test]
    fn a_link_that_waits_for_ever_stops_at_the_limit() {
        let network = ring();
        let mut state = NetworkState::nominal(&network);
        state.set_up(LinkId(0), false);
        let feed = Feed::limited(state, endless(), 1000).unwrap();
        let mut timeline = Timeline::new(feed, false);
        assert_eq!(timeline.finish(0, 0, 1), Err(SimError::TooManyChanges { limit: 1000 }));
    }

    /// Link 1 has 1 bit/s every other 10 ps: of 25 units, 10 are done by 20 and 40, 5 by 55.
    #[test]
    fn looks_as_far_ahead_as_it_must() {
        let network = ring();
        let feed = Feed::new(NetworkState::nominal(&network), endless()).unwrap();
        let mut timeline = Timeline::new(feed, true);
        assert_eq!(timeline.finish(1, 0, 25), Ok(End::At(55)));
        assert_eq!(timeline.finish(1, 55, 5), Ok(End::At(60)));
        assert_eq!(timeline.finish(1, 60, 0), Ok(End::At(60)));
        assert_eq!(timeline.finish(1, 60, 1), Ok(End::At(71)));
        assert_eq!(timeline.change(3), Ok(Some((30, LinkId(1), 1))));
        assert_eq!(timeline.change(0), Ok(Some((0, LinkId(1), 0))));
    }
}
