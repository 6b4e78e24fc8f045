//! The engine for links that carry one transfer at a time: program order and FIFO.
//!
//! When the head of a transfer reaches a link and it is its turn, everything about the crossing is
//! already determined: when it starts, how long its bits occupy the link, and when its tail will
//! have left. Nothing that comes later can overtake it, and changes of the network's state are
//! known in advance ([`Timeline`]). The next transfer waits only until the bits have been sent, not
//! for the tail of a stream that a slower link upstream feeds ([`crate::model`]). So a crossing is
//! computed at once, and only what something else waits for becomes an event in the queue: one
//! event for a transfer over one link. An observer wants to hear of the other moments too; for it,
//! events are added that change nothing.
//!
//! - Program order: a link has a fixed list of legs and a pointer to the next one. A head that
//!   arrives early waits for the legs before it.
//! - FIFO: a leg's turn is when its head arrives. Heads that arrive at the same instant go through
//!   the queue and are taken in program order.

use motet_collective::TransferId;
use motet_units::{Bytes, Duration, Instant, LinkId};

use super::dry::Dry;
use super::error::SimError;
use super::observer::{Crossing, Observer};
use super::outcome::LinkUse;
use super::prepared::{Leg, NONE};
use super::progress::Progress;
use super::queue::{Kind, Queue};
use super::setting::Setting;
use super::timeline::{End, PS_PER_S, Timeline};
use crate::link_rule::{Arrival, Passage};

/// The state and statistics of a link.
#[derive(Clone, Copy, Debug)]
struct Port {
    free_at: u64,
    latency: u64,
    rate: u64,
    /// Cached transmission time of `count` chunks: the next transfer usually has as many.
    count: u32,
    time: u64,
    /// The next leg to carry: an index into the list of turns.
    turn: u32,
    /// How many heads have arrived before their turn.
    early: u32,
    busy: u64,
    chunks: u64,
    crossings: u64,
}

/// The arrival times known of a leg before it starts.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Arrival time of its head plus one; zero if it has not arrived.
    head: u64,
    /// The earliest time at which its tail can leave.
    tail: u64,
}

/// State of a shared leg until all its heads have arrived. Separate from [`Waiting`], where a head
/// means that the leg may take its turn.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// How many heads are still missing.
    missing: u32,
    /// When the latest of those that have arrived did so.
    head: u64,
}

pub(super) struct Exclusive<'a, 'o, O> {
    setting: Setting<'a>,
    progress: Progress<'a>,
    queue: Queue,
    ports: Vec<Port>,
    waiting: Vec<Waiting>,
    gathering: Vec<Gathering>,
    timeline: Option<Timeline<'a>>,
    /// How many changes the observer has been told of.
    reported: usize,
    observer: &'o mut O,
    events: u64,
}

impl<'a, 'o, O: Observer> Exclusive<'a, 'o, O> {
    pub(super) fn new(
        setting: Setting<'a>,
        rates: &[u64],
        timeline: Option<Timeline<'a>>,
        start: u64,
        observer: &'o mut O,
    ) -> Self {
        let prepared = setting.prepared;
        let links = prepared.routed.network().links();
        let port = |(index, link): (usize, &motet_net::Link)| Port {
            free_at: 0,
            latency: link.spec.latency.as_ps(),
            rate: rates[index],
            count: 0,
            time: 0,
            turn: prepared.turn_starts[index],
            early: 0,
            busy: 0,
            chunks: 0,
            crossings: 0,
        };
        Self {
            progress: Progress::new(prepared, start),
            queue: Queue::new(start),
            ports: links.iter().enumerate().map(port).collect(),
            waiting: vec![Waiting::default(); prepared.legs.len()],
            gathering: prepared
                .shared
                .iter()
                .map(|it| Gathering { missing: it.heads, head: 0 })
                .collect(),
            timeline,
            reported: 0,
            observer,
            events: 0,
            setting,
        }
    }

    /// Runs to the end: when that was, how many events there were, and what links did.
    pub(super) fn run(mut self) -> Result<(u64, u64, Vec<LinkUse>), SimError> {
        if O::ACTIVE {
            self.expect_change()?;
        }
        self.send_ready()?;
        while let Some((kind, id)) = self.queue.pop() {
            self.events += 1;
            match kind {
                Kind::Reached => self.reached(id)?,
                Kind::Left => self.left(id)?,
                Kind::Head => self.take_turn(id, self.queue.now())?,
                Kind::Streamed => self.tell(id, O::streamed),
                Kind::Started => self.tell_started(id),
                Kind::Passed => {
                    self.tell_started(id);
                    self.left(id)?;
                }
                Kind::Change => self.tell_changes()?,
                // Nothing is shared out here.
                Kind::Share => {}
            }
            if O::ACTIVE && self.progress.is_done() {
                break;
            }
        }
        if !self.progress.is_done() {
            return Err(Dry::run(self.setting.prepared, !self.setting.fifo).stuck());
        }
        let chunk = self.setting.chunk;
        let usage = |port: &Port| LinkUse {
            busy: Duration::from_ps(port.busy),
            bytes: Bytes::new(port.chunks.saturating_mul(chunk)),
            crossings: port.crossings,
        };
        Ok((self.progress.end(), self.events, self.ports.iter().map(usage).collect()))
    }

    /// Sends what may be sent now.
    #[inline]
    fn send_ready(&mut self) -> Result<(), SimError> {
        let now = self.queue.now();
        let mut index = 0;
        while let Some(transfer) = self.progress.ready.get(index) {
            let leg = self.setting.prepared.first[*transfer as usize];
            index += 1;
            self.begin(leg, now)?;
        }
        self.progress.ready.clear();
        Ok(())
    }

    /// A transfer may be sent over its first leg.
    #[inline]
    fn begin(&mut self, id: u32, now: u64) -> Result<(), SimError> {
        let leg = self.setting.prepared.legs[id as usize];
        if leg.link as usize == self.ports.len() {
            return self.stay(id, &leg, now);
        }
        if leg.is_shared || self.setting.fifo {
            self.head_at(id, now, 0);
            return Ok(());
        }
        self.take_turn(id, now)
    }

    /// The head will reach a leg at `at`, and the tail not before `tail`. A shared leg waits until the heads of
    /// all its streams have come.
    #[inline]
    fn head_at(&mut self, id: u32, at: u64, tail: u64) {
        let leg = &self.setting.prepared.legs[id as usize];
        let mut at = at;
        if leg.is_shared {
            // When all have come: the latest of heads and of tails.
            let gathering = &mut self.gathering[leg.next as usize];
            let waiting = &mut self.waiting[id as usize];
            waiting.tail = waiting.tail.max(tail);
            gathering.head = gathering.head.max(at);
            gathering.missing -= 1;
            if gathering.missing > 0 {
                return;
            }
            at = gathering.head;
        } else if !leg.starts_segment {
            self.waiting[id as usize].tail = tail;
        }
        self.queue.push(at, Kind::Head, id);
    }

    /// A transfer within its rank: takes the time of a local copy and no link.
    fn stay(&mut self, id: u32, leg: &Leg, at: u64) -> Result<(), SimError> {
        let end = self.setting.local_end(at, leg.count)?;
        if O::ACTIVE || self.progress.is_sending_awaited(leg.transfer) {
            self.queue.push(end, Kind::Left, id);
        }
        self.queue.push(end, Kind::Reached, id);
        Ok(())
    }

    /// The head of a leg is there: carries it, and those behind it whose turn then comes.
    #[inline]
    fn take_turn(&mut self, id: u32, head: u64) -> Result<(), SimError> {
        let prepared = self.setting.prepared;
        let link = prepared.legs[id as usize].link as usize;
        if self.setting.fifo {
            return self.carry(id, head);
        }
        let port = &mut self.ports[link];
        if prepared.turns[port.turn as usize] != id {
            port.early += 1;
            // Time zero counts too.
            self.waiting[id as usize].head = head.saturating_add(1);
            return Ok(());
        }
        port.turn += 1;
        self.carry(id, head)?;
        // If any are waiting, turns are left.
        while self.ports[link].early > 0 {
            let port = &mut self.ports[link];
            let next = prepared.turns[port.turn as usize];
            let head = self.waiting[next as usize].head;
            if head == 0 {
                break;
            }
            port.early -= 1;
            port.turn += 1;
            self.carry(next, head - 1)?;
        }
        Ok(())
    }

    /// Works out a crossing: when it starts, when the link is free again, when the tail leaves, and
    /// what follows.
    #[inline]
    fn carry(&mut self, id: u32, head: u64) -> Result<(), SimError> {
        let leg = self.setting.prepared.legs[id as usize];
        let port = &mut self.ports[leg.link as usize];
        let start = Passage::start(head, port.free_at);
        let streamed = if self.timeline.is_some() {
            self.streamed_in_time(&leg, start)?
        } else {
            if port.count != leg.count {
                (port.count, port.time) = (leg.count, self.setting.time_at(leg.count, port.rate));
            }
            start.saturating_add(port.time)
        };
        let fed = (!leg.starts_segment).then(|| self.waiting[id as usize].tail);
        let passage = Passage::from_start(start, streamed, fed);
        let port = &mut self.ports[leg.link as usize];
        let arrival = passage.arrival(port.latency);
        if arrival.tail == u64::MAX {
            return Err(self.too_long(&leg, start));
        }
        port.free_at = streamed;
        port.busy += streamed - start;
        port.chunks = port.chunks.saturating_add(u64::from(leg.count));
        port.crossings += 1;
        if O::ACTIVE {
            self.expect_crossing(id, passage);
        } else if leg.hop == 0 && (leg.is_shared || self.progress.is_sending_awaited(leg.transfer))
        {
            self.queue.push(passage.left, Kind::Left, id);
        }
        if leg.is_shared {
            self.pass_on(id, &leg, arrival);
        } else if leg.next == NONE {
            self.queue.push(arrival.tail, Kind::Reached, id);
        } else {
            self.follow(leg.next, arrival);
        }
        Ok(())
    }

    /// Queues the events of a crossing that only the observer needs.
    fn expect_crossing(&mut self, id: u32, passage: Passage<u64>) {
        let Passage { start, streamed, left } = passage;
        if start < left {
            self.queue.push(start, Kind::Started, id);
        }
        // What takes no time is told with the start.
        if start < streamed {
            self.queue.push(streamed, Kind::Streamed, id);
        }
        let kind = if start < left { Kind::Left } else { Kind::Passed };
        self.queue.push(left, kind, id);
    }

    /// Goes on behind a shared leg: its transfers that end here reach their destination, the others go on to
    /// the next legs.
    fn pass_on(&mut self, id: u32, leg: &Leg, arrival: Arrival<u64>) {
        let shared = &self.setting.prepared.shared[leg.next as usize];
        if !shared.ends.is_empty() {
            self.queue.push(arrival.tail, Kind::Reached, id);
        }
        for next in &shared.next {
            self.follow(*next, arrival);
        }
    }

    /// The next leg of a transfer that has crossed a link.
    #[inline]
    fn follow(&mut self, next: u32, arrival: Arrival<u64>) {
        // Through the queue even if that is now: a chain of such steps could be long.
        let stores = self.setting.prepared.legs[next as usize].starts_segment;
        let (head, tail) = arrival.forwarded(stores);
        self.head_at(next, head, tail.unwrap_or(0));
    }

    fn streamed_in_time(&mut self, leg: &Leg, start: u64) -> Result<u64, SimError> {
        let bytes = u128::from(leg.count) * u128::from(self.setting.chunk);
        let Some(timeline) = &mut self.timeline else { return Ok(u64::MAX) };
        match timeline.finish(leg.link as usize, start, bytes * 8 * PS_PER_S)? {
            End::At(at) => Ok(at),
            End::Never(at) => {
                Err(self.setting.names().never_ends(TransferId(leg.transfer), LinkId(leg.link), at))
            }
        }
    }

    fn too_long(&self, leg: &Leg, start: u64) -> SimError {
        let (transfer, link) = (TransferId(leg.transfer), LinkId(leg.link));
        if self.timeline.is_none() && self.ports[leg.link as usize].rate == 0 {
            self.setting.names().never_ends(transfer, link, start)
        } else {
            self.setting.names().too_long(transfer, link)
        }
    }

    /// The tail has reached the end of a leg that is the last of some transfers.
    #[inline]
    fn reached(&mut self, id: u32) -> Result<(), SimError> {
        let prepared = self.setting.prepared;
        let leg = &prepared.legs[id as usize];
        let now = self.queue.now();
        if leg.is_shared {
            for transfer in &prepared.shared[leg.next as usize].ends {
                self.progress.reached(transfer.0, now, self.observer);
            }
        } else {
            self.progress.reached(leg.transfer, now, self.observer);
        }
        self.send_ready()
    }

    /// The tail has left a link: if it is the first of a transfer, that has been sent.
    fn left(&mut self, id: u32) -> Result<(), SimError> {
        let prepared = self.setting.prepared;
        let leg = &prepared.legs[id as usize];
        let now = self.queue.now();
        if O::ACTIVE {
            self.tell(id, O::finished);
        }
        if leg.is_shared {
            for transfer in &prepared.shared[leg.next as usize].begins {
                self.progress.sent(transfer.0, now, self.observer);
            }
        } else if leg.hop == 0 {
            self.progress.sent(leg.transfer, now, self.observer);
        }
        self.send_ready()
    }

    fn tell_started(&mut self, id: u32) {
        self.tell(id, O::started);
        let leg = &self.setting.prepared.legs[id as usize];
        if leg.count == 0 || self.setting.chunk == 0 {
            self.tell(id, O::streamed);
        }
    }

    fn tell(&mut self, id: u32, what: impl FnOnce(&mut O, Instant, Crossing<'_>)) {
        let at = Instant::from_ps(self.queue.now());
        self.setting.with_crossing(id, |crossing| what(self.observer, at, crossing));
    }

    /// Queues the next change of the network that the observer has not been told of.
    fn expect_change(&mut self) -> Result<(), SimError> {
        if let Some(timeline) = &mut self.timeline
            && let Some((at, _, _)) = timeline.change(self.reported)?
        {
            self.queue.push(at.max(self.queue.now()), Kind::Change, 0);
        }
        Ok(())
    }

    fn tell_changes(&mut self) -> Result<(), SimError> {
        if let Some(timeline) = &mut self.timeline
            && let Some((at, link, rate)) = timeline.change(self.reported)?
        {
            let bandwidth = motet_units::Bandwidth::from_bits_per_s(rate);
            self.observer.changed(Instant::from_ps(at), link, bandwidth);
            self.reported += 1;
        }
        self.expect_change()
    }
}
