//! How long the data of a program take: its steps are simulated with their transmission times and with
//! no latency at all (that is in `latency.rs`, and added afterwards).
//!
//! - A step of a thread block **begins** when the block's step before it is over, the steps of other
//!   blocks that it waits for are over, the first bytes of everything it receives have arrived, and the
//!   FIFOs it sends into have a free slot.
//! - From then on its block is **busy** for as long as it takes to move the payload, and what it sends
//!   enters the links of its route.
//! - **Links** are shared packet by packet. So the first bytes of a transfer pass at once, and its last
//!   when the link has carried everything that entered before them, and the transfer itself.
//! - A step is **over** when its block has moved everything, the last bytes of what it receives have
//!   arrived, and the last bytes of what it sends have left. A step that receives and sends on (see
//!   `fuse.rs`) forwards the first bytes at once and the last when they have arrived.
//! - A **FIFO slot** is free again when the step that received from it is over.
//!
//! All simulated iterations run at the same time; events of one instant are handled by kind, iteration
//! and number, so that equal inputs give equal results.

use std::collections::VecDeque;

use motet_graph::LeastFirst;

use super::error::PriceError;
use super::layout::{Laid, NONE};
use super::slicing::Slicing;
use super::terms::{FifoShape, Terms};

const PS_PER_S: u128 = 1_000_000_000_000;

/// How long `bytes` take at a rate, rounded up; `u64::MAX` where that does not fit.
fn time_at(bytes: u64, bits_per_s: u64) -> u64 {
    let time = (u128::from(bytes) * 8 * PS_PER_S).div_ceil(u128::from(bits_per_s.max(1)));
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// Rates and slot counts of one run, worked out before it begins.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes of a chunk in every iteration but the last, and in the last.
    bytes: [u64; 2],
    block: u64,
    gpu: Option<u64>,
    /// By link used: its bandwidth for payload, in bits per second.
    links: Vec<u64>,
    /// By transfer: how many FIFO slots it takes.
    weights: Vec<u32>,
    slots: u32,
    /// By transfer: the bandwidth that its FIFO allows. A slot is in use for a round trip over the
    /// links, so a connection carries at most its buffer in that time.
    windows: Vec<u64>,
}

impl Pace {
    pub(super) fn new(
        laid: &Laid,
        terms: &Terms,
        slicing: &Slicing,
        fifo: Option<FifoShape>,
    ) -> Self {
        let payload = |rate: u64| (rate as f64 * terms.wire) as u64;
        let slots = fifo.map_or(u32::MAX, |it| it.slots);
        // The last slot of a long transfer is in use when the next begins, the others are not.
        let most = u64::from(slots.saturating_sub(1)).max(1);
        let weight = |count: u32| slicing.slots(count).clamp(1, most) as u32;
        let buffer = fifo.map(|it| it.slot.get().saturating_mul(u64::from(it.slots)));
        let window = |latency: u64| match buffer {
            Some(bytes) if latency > 0 => {
                let bits = u128::from(bytes) * 8 * PS_PER_S / (2 * u128::from(latency));
                u64::try_from(bits).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        Self {
            bytes: [slicing.full, slicing.last],
            block: terms.block.bits_per_s(),
            gpu: terms.gpu.map(motet_units::Bandwidth::bits_per_s),
            links: laid.links.iter().map(|it| payload(it.bits_per_s)).collect(),
            weights: laid.routes.iter().map(|it| weight(it.count)).collect(),
            slots,
            windows: laid.routes.iter().map(|it| window(it.latency)).collect(),
        }
    }
}

/// What happens; the order of the variants is the priority within an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// A step is over.
    Over,
    /// The head of a transfer is ready for a link.
    Head,
    /// A step has all it waits for.
    Ready,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Over, Self::Head, Self::Ready];
}

/// The state of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    /// How many things the step still waits for.
    waits: u32,
    /// Transfers of this step that have not left yet: not crossed their first link, or their last if no other step
    /// receives them.
    open: u32,
    /// How many of its sends have got a FIFO slot.
    room: u32,
    /// The step is not over before this: its block has moved its data, and the last bytes of what it receives have
    /// arrived.
    end: u64,
}

/// The state of a transfer: the hop that it is on, and when its last bytes have passed it.
#[derive(Clone, Copy, Debug, Default)]
struct Going {
    hop: u32,
    tail: u64,
}

/// The FIFO of a connection: slots in use, and the steps that wait for one.
#[derive(Clone, Debug, Default)]
struct Fifo {
    taken: u32,
    parked: VecDeque<u32>,
}

pub(super) struct Run<'a> {
    laid: &'a Laid,
    pace: &'a Pace,
    iterations: usize,
    queue: LeastFirst,
    now: u64,
    /// By iteration and step.
    doing: Vec<Doing>,
    /// By iteration and transfer.
    going: Vec<Going>,
    /// When each link has carried all that entered it so far; behind the links, by rank, when each GPU has sent all
    /// that its blocks send.
    free: Vec<u64>,
    fifos: Vec<Fifo>,
    over: usize,
    end: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(laid: &'a Laid, pace: &'a Pace, iterations: usize) -> Self {
        let ranks = laid.collective.ranks() as usize;
        let waits = |op: &super::layout::Op| (op.ins.len() + op.waits.len()) as u32;
        let mut once: Vec<Doing> =
            laid.ops.iter().map(|it| Doing { waits: waits(it), ..Doing::default() }).collect();
        // Every step waits for the one before it in its lane; the first of all has none.
        once.iter_mut().for_each(|it| it.waits += 1);
        let mut doing = Vec::with_capacity(once.len() * iterations);
        for _ in 0..iterations {
            doing.extend_from_slice(&once);
        }
        Self {
            laid,
            pace,
            iterations,
            queue: LeastFirst::new(),
            now: 0,
            doing,
            going: vec![Going::default(); laid.routes.len() * iterations],
            free: vec![0; laid.links.len() + ranks],
            fifos: vec![Fifo::default(); laid.connections.len()],
            over: 0,
            end: 0,
        }
    }

    /// Simulates all iterations, and returns when the last step is over.
    pub(super) fn run(mut self) -> Result<u64, PriceError> {
        for (first, end) in &self.laid.lanes {
            if first < end {
                self.met(*first, 0);
            }
        }
        while let Some((now, number)) = self.queue.pop() {
            self.now = now;
            let id = number as u32;
            match Kind::ALL[(number >> 32) as usize & 3] {
                Kind::Over => self.over(id),
                Kind::Head => self.head(id),
                Kind::Ready => self.begin(id),
            }
        }
        if self.over < self.laid.ops.len() * self.iterations {
            return Err(self.halts());
        }
        Ok(self.end)
    }

    fn push(&mut self, at: u64, kind: Kind, id: u32) {
        self.queue.push(at, u64::from(kind as u8) << 32 | u64::from(id));
    }

    /// The bytes of a chunk in an iteration.
    fn bytes(&self, iteration: usize) -> u64 {
        self.pace.bytes[usize::from(iteration + 1 == self.iterations)]
    }

    /// The iteration of an id, and its number there, where each iteration has `all` of them.
    const fn parts(id: u32, all: usize) -> (usize, usize) {
        (id as usize / all, id as usize % all)
    }

    /// A step has one thing less to wait for, from `at` on.
    fn met(&mut self, id: u32, at: u64) {
        let doing = &mut self.doing[id as usize];
        doing.waits -= 1;
        if doing.waits == 0 {
            self.push(at, Kind::Ready, id);
        }
    }

    /// A step has all it waits for: it begins if the FIFOs that it sends into have free slots, and otherwise queues
    /// for them.
    fn begin(&mut self, id: u32) {
        let laid = self.laid;
        let (iteration, index) = Self::parts(id, laid.ops.len());
        let op = &laid.ops[index];
        while let Some(transfer) = op.outs.get(self.doing[id as usize].room as usize) {
            let connection = laid.routes[*transfer as usize].connection as usize;
            let fifo = &mut self.fifos[connection];
            if fifo.taken >= self.pace.slots {
                fifo.parked.push_back(id);
                return;
            }
            fifo.taken += self.pace.weights[*transfer as usize];
            self.doing[id as usize].room += 1;
        }
        let payload = u64::from(op.count).saturating_mul(self.bytes(iteration));
        let moved = self.now.saturating_add(time_at(payload, self.pace.block));
        let doing = &mut self.doing[id as usize];
        let tails = doing.end;
        doing.end = tails.max(moved);
        doing.open = (op.outs.len() + op.whole.len()) as u32;
        if doing.open == 0 {
            let end = doing.end;
            self.push(end, Kind::Over, id);
            return;
        }
        for transfer in op.outs.iter().chain(&op.whole) {
            let going = iteration * laid.routes.len() + *transfer as usize;
            self.going[going] = Going { hop: 0, tail: tails.max(moved) };
            let route = &laid.routes[*transfer as usize];
            if route.first == route.end {
                // It stays here, and takes the block alone.
                self.settled(id, moved);
            } else {
                self.push(self.now, Kind::Head, going as u32);
            }
        }
    }

    /// One transfer of a step has left; the step is not over before `at`, and is over with the last of them.
    fn settled(&mut self, id: u32, at: u64) {
        let doing = &mut self.doing[id as usize];
        doing.end = doing.end.max(at);
        doing.open -= 1;
        if doing.open == 0 {
            let end = doing.end;
            self.push(end, Kind::Over, id);
        }
    }

    /// The head of a transfer takes its next link.
    fn head(&mut self, id: u32) {
        let laid = self.laid;
        let (iteration, transfer) = Self::parts(id, laid.routes.len());
        let route = laid.routes[transfer];
        let Going { hop, tail } = self.going[id as usize];
        let payload = u64::from(route.count).saturating_mul(self.bytes(iteration));
        let index = (route.first + hop) as usize;
        let leg = laid.legs[index];
        let mut tail = tail;
        if hop == 0 {
            tail = tail.max(self.now.saturating_add(time_at(payload, self.pace.windows[transfer])));
            if let Some(rate) = self.pace.gpu {
                let all = laid.links.len() + route.rank as usize;
                tail = tail.max(self.carried(all, time_at(payload, rate)));
            }
        }
        let time = time_at(payload, self.pace.links[leg.link as usize]);
        tail = tail.max(self.carried(leg.link as usize, time));
        let sender = (iteration * laid.ops.len()) as u32 + route.sender;
        let last = index + 1 == route.end as usize;
        if route.connection != NONE && hop == 0 {
            self.settled(sender, tail);
        }
        if !last {
            self.going[id as usize] = Going { hop: hop + 1, tail };
            let stores = laid.legs[index + 1].starts_segment;
            self.push(if stores { tail } else { self.now }, Kind::Head, id);
        } else if route.connection == NONE {
            self.settled(sender, tail);
        } else {
            let receiver = (iteration * laid.ops.len()) as u32 + route.receiver;
            let doing = &mut self.doing[receiver as usize];
            doing.end = doing.end.max(tail);
            self.met(receiver, self.now);
        }
    }

    /// When a link (or GPU) has carried one more load that takes it `time`, behind all earlier ones.
    fn carried(&mut self, what: usize, time: u64) -> u64 {
        let free = &mut self.free[what];
        *free = self.now.max(*free).saturating_add(time);
        *free
    }

    fn over(&mut self, id: u32) {
        let laid = self.laid;
        let (iteration, index) = Self::parts(id, laid.ops.len());
        let op = &laid.ops[index];
        self.over += 1;
        self.end = self.now;
        let first_of = (iteration * laid.ops.len()) as u32;
        let (first, end) = laid.lanes[op.lane as usize];
        if index as u32 + 1 < end {
            self.met(first_of + index as u32 + 1, self.now);
        } else if iteration + 1 < self.iterations {
            self.met(first_of + laid.ops.len() as u32 + first, self.now);
        }
        for other in laid.followers.row(index) {
            self.met(first_of + other, self.now);
        }
        for transfer in &op.ins {
            let connection = laid.routes[*transfer as usize].connection as usize;
            self.fifos[connection].taken -= self.pace.weights[*transfer as usize];
            // The first in the queue takes what it needs and lets the next one try.
            if let Some(parked) = self.fifos[connection].parked.pop_front() {
                self.push(self.now, Kind::Ready, parked);
            }
        }
    }

    /// The error where nothing happens any more and steps are left: names the first full connection.
    fn halts(&self) -> PriceError {
        let full = self.fifos.iter().position(|it| !it.parked.is_empty());
        // A verified program without full connections comes to its end.
        let (from, to) = full.map_or_else(Default::default, |it| self.laid.connections[it]);
        PriceError::Halts { from, to, slots: self.pace.slots }
    }
}
