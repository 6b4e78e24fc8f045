//! [`Pass`]: one evaluation, event by event, all simulated iterations at once.
//!
//! Events happen in the order (time, kind, iteration, transfer). A head that comes to a link
//! takes it when it is free, for as long as the link needs; the tail leaves not before the thread
//! block, or the link before, has delivered it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::costs::{Costs, trip};
use super::{KnobError, Knobbed, LOCAL, Settled};

/// What happens; the order of the variants is the priority within an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// The block has read all there is to send.
    Sent,
    /// The tail has reached the destination.
    Reached,
    /// The sender learns that places are free.
    Freed,
    /// The head is ready for a link.
    Head,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Sent, Self::Reached, Self::Freed, Self::Head];
}

/// A transfer of one iteration on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// The hop that its head comes to next, of its own.
    hop: u32,
    /// When its tail comes there.
    tail: u64,
}

/// A connection's buffer.
#[derive(Clone, Debug, Default)]
struct Fifo {
    taken: u32,
    parked: VecDeque<u32>,
}

pub(super) struct Pass<'a> {
    knobbed: &'a Knobbed,
    settled: &'a Settled,
    iterations: usize,
    /// Time above, kind and transfer below.
    queue: BinaryHeap<Reverse<u128>>,
    now: u64,
    /// By iteration and event: what it still waits for.
    waits: Vec<u32>,
    ways: Vec<Way>,
    /// By link: when it is free.
    free: Vec<u64>,
    fifos: Vec<Fifo>,
    /// By transfer: places it takes, and how long news of them being free takes.
    weights: Vec<u32>,
    trips: Vec<u64>,
    /// The last arrival so far.
    end: u64,
    arrived: usize,
    /// Events that have happened and whose followers have not been told.
    told: Vec<(u32, u32)>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(knobbed: &'a Knobbed, settled: &'a Settled, iterations: usize) -> Self {
        let (transfers, events) = (knobbed.transfers.len(), knobbed.waits.len());
        let mut waits = Vec::with_capacity(events * iterations);
        waits.extend_from_slice(&knobbed.waits);
        let later = knobbed.waits.iter().zip(&knobbed.again).map(|(a, b)| a + b);
        waits.extend(later.cycle().take(events * (iterations - 1)));
        // The last place of a long transfer is in use when the next begins, the others are not.
        let most = u64::from(settled.terms.places - 1).max(1);
        let weight = |count| settled.slicing.places(count).clamp(1, most) as u32;
        Self {
            knobbed,
            settled,
            iterations,
            queue: BinaryHeap::new(),
            now: 0,
            waits,
            ways: vec![Way::default(); transfers * iterations],
            free: vec![0; knobbed.links.len()],
            fifos: vec![Fifo::default(); knobbed.connections.len()],
            weights: knobbed.transfers.iter().map(|it| weight(it.count)).collect(),
            trips: knobbed.transfers.iter().map(|it| trip(knobbed, &settled.terms, it)).collect(),
            end: 0,
            arrived: 0,
            told: Vec::new(),
        }
    }

    /// When all has arrived, and how many events there were.
    pub(super) fn run(mut self) -> Result<(u64, u64), KnobError> {
        let transfers = self.knobbed.transfers.len();
        for transfer in 0..transfers {
            if self.waits[transfer * 2] == 0 {
                self.push(0, Kind::Head, transfer as u32);
            }
        }
        let mut events = 0;
        while let Some(Reverse(entry)) = self.queue.pop() {
            events += 1;
            self.now = (entry >> 64) as u64;
            let id = entry as u32;
            match Kind::ALL[(entry >> 32) as usize & 3] {
                Kind::Sent => self.happened(id, 0),
                Kind::Reached => self.reached(id),
                Kind::Freed => self.freed(id),
                Kind::Head => self.head(id),
            }
        }
        if self.arrived < transfers * self.iterations {
            return Err(self.halts());
        }
        Ok((self.end, events))
    }

    fn push(&mut self, at: u64, kind: Kind, id: u32) {
        let entry = (u128::from(at) << 64) | (u128::from(kind as u8) << 32) | u128::from(id);
        self.queue.push(Reverse(entry));
    }

    /// The iteration and the transfer of an id.
    fn parts(&self, id: u32) -> (usize, usize) {
        let transfers = self.knobbed.transfers.len();
        (id as usize / transfers, id as usize % transfers)
    }

    fn costs(&self, iteration: usize) -> &'a Costs {
        if iteration + 1 == self.iterations { &self.settled.last } else { &self.settled.full }
    }

    fn head(&mut self, id: u32) {
        let (iteration, transfer) = self.parts(id);
        let moved = self.knobbed.transfers[transfer];
        if moved.connection == LOCAL {
            let end = self.now.saturating_add(self.costs(iteration).blocks[transfer]);
            self.push(end, Kind::Sent, id);
            self.push(end, Kind::Reached, id);
            return;
        }
        if self.ways[id as usize].hop > 0 {
            self.cross(id);
            return;
        }
        let fifo = &mut self.fifos[moved.connection as usize];
        if fifo.taken < self.settled.terms.places && fifo.parked.is_empty() {
            fifo.taken += self.weights[transfer];
            self.cross(id);
        } else {
            fifo.parked.push_back(id);
        }
    }

    /// The head takes its next link.
    fn cross(&mut self, id: u32) {
        let (iteration, transfer) = self.parts(id);
        let (knobbed, costs) = (self.knobbed, self.costs(iteration));
        let moved = knobbed.transfers[transfer];
        let way = self.ways[id as usize];
        let index = (moved.first + way.hop) as usize;
        let hop = knobbed.hops[index];
        let link = knobbed.links[hop.link as usize];
        let free = &mut self.free[hop.link as usize];
        let start = self.now.max(*free);
        *free = start.saturating_add(costs.hops[index]);
        // A block begins at once, beside what the link still carries.
        let block = self.now.saturating_add(costs.blocks[transfer]);
        let tail = (*free).max(if hop.fed { block } else { way.tail });
        if way.hop == 0 {
            self.push(tail, Kind::Sent, id);
        }
        let over = hop.over.map_or(0, |it| self.settled.terms.latency[it as usize].as_ps());
        let whole = tail.saturating_add(link.latency).saturating_add(over);
        if index + 1 == moved.end as usize {
            self.push(whole, Kind::Reached, id);
            return;
        }
        self.ways[id as usize] = Way { hop: way.hop + 1, tail: whole };
        let stores = knobbed.hops[index + 1].starts_segment;
        let head = if stores { whole } else { start.saturating_add(link.latency) };
        self.push(head, Kind::Head, id);
    }

    fn reached(&mut self, id: u32) {
        let event = id as usize * 2 + 1;
        self.waits[event] -= 1;
        if self.waits[event] == 0 {
            self.happened(id, 1);
        }
    }

    fn freed(&mut self, id: u32) {
        let (_, transfer) = self.parts(id);
        let connection = self.knobbed.transfers[transfer].connection as usize;
        self.fifos[connection].taken -= self.weights[transfer];
        while self.fifos[connection].taken < self.settled.terms.places
            && let Some(next) = self.fifos[connection].parked.pop_front()
        {
            let (_, transfer) = self.parts(next);
            self.fifos[connection].taken += self.weights[transfer];
            self.cross(next);
        }
    }

    /// A sending (side 0) or an arrival (side 1) has happened.
    fn happened(&mut self, id: u32, side: u32) {
        self.told.push((id, side));
        while let Some((id, side)) = self.told.pop() {
            let (iteration, transfer) = self.parts(id);
            if side == 1 {
                self.arrived += 1;
                self.end = self.now;
                if self.knobbed.transfers[transfer].connection != LOCAL {
                    let at = self.now.saturating_add(self.trips[transfer]);
                    self.push(at, Kind::Freed, id);
                }
            }
            let (knobbed, event) = (self.knobbed, transfer * 2 + side as usize);
            for next in knobbed.followers.of(event) {
                self.tell(iteration, *next);
            }
            if iteration + 1 < self.iterations {
                for next in knobbed.next_followers.of(event) {
                    self.tell(iteration + 1, *next);
                }
            }
        }
    }

    /// One thing less for an event to wait for.
    fn tell(&mut self, iteration: usize, event: u32) {
        let events = self.knobbed.waits.len();
        let waits = &mut self.waits[iteration * events + event as usize];
        *waits -= 1;
        if *waits > 0 {
            return;
        }
        let id = (iteration * events / 2) as u32 + event / 2;
        if event.is_multiple_of(2) {
            self.push(self.now, Kind::Head, id);
        } else {
            self.told.push((id, 1));
        }
    }

    /// Nothing happens any more and not all has arrived: names the first full connection.
    fn halts(&self) -> KnobError {
        let full = self.fifos.iter().position(|it| !it.parked.is_empty());
        // A verified program without full connections comes to its end.
        let (from, to) = full.map_or_else(Default::default, |it| self.knobbed.connections[it]);
        KnobError::Halts { from, to, places: self.settled.terms.places }
    }
}
