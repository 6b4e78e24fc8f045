//! [`Line`]: one direction of a WAN link: a rate, a queue before it that drops at its tail, a delay behind it, and loss.
//!
//! Plain data without a clock or a device: whoever has packets offers them and takes them when they have arrived. A packet
//! goes onto the line when all before it have gone, takes as long as its bytes at the present rate, and arrives the delay later.
//! If the rate changes, what is left of the packet on the line goes at the new rate. Packets never overtake each other.

use std::collections::VecDeque;

use motet_units::{Bandwidth, Bytes, Duration, Instant, Rounding};

/// What a line is like at present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// How fast packets are sent. At zero the line is down.
    pub rate: Bandwidth,
    pub delay: Duration,
    /// The size of the queue, as the time that its bytes take at the present rate. A packet that does not fit is dropped, unless
    /// the queue is empty.
    pub queue: Duration,
    /// The share of packets that are lost, 0 to 1.
    pub loss: f64,
}

/// How many bytes were offered so far, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of packets that were offered.
    pub offered: u64,
    /// Bytes that found the queue full or the line down.
    pub dropped: u64,
    /// Bytes that were lost by chance.
    pub lost: u64,
    /// Bytes that have arrived.
    pub arrived: u64,
}

/// What a router knows of a line: the bytes that it has sent, and those that wait to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub sent: u64,
    pub waiting: u64,
}

/// One direction of a link, with packets of type `P` on it.
#[derive(Clone, Debug)]
pub struct Line<P> {
    shape: Shape,
    /// Packets in the queue, each with its bytes; the first is being sent.
    waiting: VecDeque<(u64, P)>,
    /// The bytes of all packets in the queue.
    waiting_bytes: u64,
    /// When the last bit of the first packet in the queue is sent.
    first_ends: Instant,
    /// Packets that were sent and have not arrived, each with its time of arrival and its bytes.
    flying: VecDeque<(Instant, u64, P)>,
    /// When the packet that was sent last arrives. None may arrive earlier after it.
    last_due: Instant,
    counts: Counts,
}

impl<P> Line<P> {
    #[must_use]
    pub const fn new(shape: Shape) -> Self {
        Self {
            shape,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            first_ends: Instant::START,
            flying: VecDeque::new(),
            last_due: Instant::START,
            counts: Counts { offered: 0, dropped: 0, lost: 0, arrived: 0 },
        }
    }

    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that wait to go, the packet on the line included.
    #[must_use]
    pub const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// What was sent by `now`, whether it has arrived or not, and what waits.
    pub fn traffic(&mut self, now: Instant) -> Traffic {
        self.advance(now);
        let (Counts { offered, dropped, lost, .. }, waiting) = (self.counts, self.waiting_bytes);
        Traffic { sent: offered - dropped - lost - waiting, waiting }
    }

    /// Bytes that may wait at the present rate.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.shape.rate.bytes_in(self.shape.queue).get()
    }

    fn takes(&self, bytes: u64) -> Duration {
        let time = self.shape.rate.transfer_time(Bytes::new(bytes), Rounding::Up);
        time.unwrap_or(Duration::from_ps(u64::MAX))
    }

    /// Offers a packet of so many bytes to the line. `draw`, a random number from 0 to 1, decides whether it is lost. False if it
    /// was lost or dropped.
    pub fn offer(&mut self, now: Instant, bytes: u64, packet: P, draw: f64) -> bool {
        self.advance(now);
        self.counts.offered += bytes;
        if draw < self.shape.loss {
            self.counts.lost += bytes;
            return false;
        }
        let full = !self.waiting.is_empty() && self.waiting_bytes + bytes > self.room();
        if full || self.shape.rate.is_zero() {
            self.counts.dropped += bytes;
            return false;
        }
        if self.waiting.is_empty() {
            self.first_ends = now + self.takes(bytes);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back((bytes, packet));
        true
    }

    /// The next packet that has arrived by `now`.
    pub fn take(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        self.flying.front().filter(|it| it.0 <= now)?;
        let (_, bytes, packet) = self.flying.pop_front()?;
        self.counts.arrived += bytes;
        Some(packet)
    }

    /// When a packet arrives next, if nothing is offered and nothing changes before.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let flies = self.flying.front().map(|it| it.0);
        // The packet that is being sent arrives the delay after its last bit, and not before the packet in front of it.
        let goes = self.waiting.front().filter(|_| !self.shape.rate.is_zero());
        flies.or_else(|| goes.map(|_| (self.first_ends + self.shape.delay).max(self.last_due)))
    }

    /// Changes what the line is like. A line that goes down drops its queue.
    pub fn reshape(&mut self, now: Instant, shape: Shape) {
        self.advance(now);
        let before = std::mem::replace(&mut self.shape, shape).rate;
        if self.waiting.is_empty() {
            return;
        }
        if shape.rate.is_zero() {
            self.counts.dropped += self.waiting_bytes;
            self.waiting_bytes = 0;
            self.waiting.clear();
            return;
        }
        let left = u128::from(self.first_ends.since(now).as_ps());
        let left = left * u128::from(before.bits_per_s()) / u128::from(shape.rate.bits_per_s());
        self.first_ends = now + Duration::from_ps(u64::try_from(left).unwrap_or(u64::MAX));
    }

    /// Moves packets that are sent by `now` out of the queue, on their way to arrive.
    fn advance(&mut self, now: Instant) {
        while self.first_ends <= now {
            let Some((bytes, packet)) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= bytes;
            self.last_due = self.last_due.max(self.first_ends + self.shape.delay);
            self.flying.push_back((self.last_due, bytes, packet));
            if let Some(next) = self.waiting.front() {
                self.first_ends += self.takes(next.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(mbit: u64, delay_ms: u64, queue_ms: u64, loss: f64) -> Shape {
        Shape {
            rate: Bandwidth::from_bits_per_s(mbit * 1_000_000),
            delay: Duration::from_ms(delay_ms),
            queue: Duration::from_ms(queue_ms),
            loss,
        }
    }

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_us(us)
    }

    #[test]
    fn a_packet_takes_its_bytes_at_the_rate_and_the_delay() {
        // 12,500 bytes at 100 Mbit/s are 1 ms.
        let mut line = Line::new(shape(100, 5, 20, 0.0));
        assert!(line.offer(at(0), 12_500, 'a', 0.5) && line.offer(at(0), 12_500, 'b', 0.5));
        assert_eq!(line.next(), Some(at(6000)));
        let traffic = |sent, waiting| Traffic { sent, waiting };
        assert_eq!(line.traffic(at(999)), traffic(0, 25_000));
        assert_eq!(line.traffic(at(1000)), traffic(12_500, 12_500));
        assert_eq!((line.take(at(5999)), line.take(at(6000))), (None, Some('a')));
        assert_eq!((line.take(at(6999)), line.take(at(7000))), (None, Some('b')));
        assert_eq!((line.take(at(9000)), line.next()), (None, None));
    }

    #[test]
    fn what_is_left_of_a_packet_goes_at_the_new_rate() {
        let mut line = Line::new(shape(100, 0, 20, 0.0));
        line.offer(at(0), 12_500, 'a', 0.5);
        // Half of it has gone; the other half takes ten times as long.
        line.reshape(at(500), shape(10, 0, 20, 0.0));
        assert_eq!((line.take(at(5499)), line.take(at(5500))), (None, Some('a')));
    }

    #[test]
    fn a_line_that_is_down_passes_nothing_and_loses_what_waits() {
        let mut line = Line::new(shape(100, 1, 20, 0.0));
        line.offer(at(0), 12_500, 'a', 0.5);
        line.offer(at(0), 12_500, 'b', 0.5);
        line.reshape(at(1500), shape(0, 1, 20, 0.0));
        assert!(!line.offer(at(1600), 100, 'c', 0.5));
        assert_eq!((line.take(at(2000)), line.take(at(90_000))), (Some('a'), None));
        line.reshape(at(90_000), shape(100, 1, 20, 0.0));
        assert!(line.offer(at(90_000), 12_500, 'd', 0.5));
        assert_eq!(line.take(at(92_000)), Some('d'));
    }

    /// What is done to a line: some time later, a packet, or another rate.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Packet { after_us: u64, bytes: u64, draw: f64 },
        Rate { after_us: u64, mbit: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let packet = (0..3000u64, 40..65_000u64, 0.0..1.0)
            .prop_map(|(after_us, bytes, draw)| Step::Packet { after_us, bytes, draw });
        let rate =
            (0..3000u64, 0..400u64).prop_map(|(after_us, mbit)| Step::Rate { after_us, mbit });
        proptest::collection::vec(prop_oneof![9 => packet, 1 => rate], 1..200)
    }

    proptest! {
        /// Bytes are conserved, arrive in order, not before the delay and not faster than the rate, and the queue is bounded.
        #[test]
        fn a_line_keeps_its_promises(steps in steps(), delay in 0..20u64, queue in 0..30u64, loss in 0.0..0.3) {
            let mut line = Line::new(shape(100, delay, queue, loss));
            let (mut now, mut biggest, mut sent) = (Instant::START, 0u64, 0usize);
            let mut fastest = 100_000_000u64;
            let mut log: Vec<(Instant, u64)> = Vec::new();
            let mut arrived: Vec<(Instant, usize)> = Vec::new();
            for step in steps {
                let after = match step { Step::Packet { after_us, .. } | Step::Rate { after_us, .. } => after_us };
                let until = now + Duration::from_us(after);
                while let Some(next) = line.next().filter(|it| *it <= until) {
                    now = now.max(next);
                    while let Some(number) = line.take(now) { arrived.push((now, number)); }
                }
                now = until;
                match step {
                    Step::Packet { bytes, draw, .. } => {
                        let taken = line.offer(now, bytes, sent, draw);
                        prop_assert!(!(taken && draw < loss));
                        biggest = biggest.max(bytes);
                        log.push((now, bytes));
                        sent += 1;
                    }
                    Step::Rate { mbit, .. } => {
                        fastest = fastest.max(mbit * 1_000_000);
                        let other = Shape { rate: Bandwidth::from_bits_per_s(mbit * 1_000_000), ..line.shape() };
                        line.reshape(now, other);
                        // A slower line has less room; what waits already stays.
                        biggest = biggest.max(line.waiting_bytes());
                    }
                }
                prop_assert!(line.waiting_bytes() <= line.room().max(biggest));
            }
            while let Some(next) = line.next() {
                now = now.max(next);
                while let Some(number) = line.take(now) { arrived.push((now, number)); }
            }
            let counts = line.counts();
            let total: u64 = log.iter().map(|it| it.1).sum();
            prop_assert_eq!(counts.offered, total);
            prop_assert_eq!(line.waiting_bytes(), 0);
            prop_assert_eq!(counts.arrived + counts.dropped + counts.lost, total);
            prop_assert_eq!(counts.arrived, arrived.iter().map(|it| log[it.1].1).sum::<u64>());
            for pair in arrived.windows(2) {
                prop_assert!(pair[0].1 < pair[1].1 && pair[0].0 <= pair[1].0);
                // Between two arrivals lies at least what the second takes at the fastest rate there was.
                let takes = Bandwidth::from_bits_per_s(fastest)
                    .transfer_time(Bytes::new(log[pair[1].1].1), Rounding::Down).unwrap();
                prop_assert!(pair[1].0.since(pair[0].0).as_ps() + 1_000 >= takes.as_ps());
            }
            for (when, number) in &arrived {
                prop_assert!(when.since(log[*number].0) >= Duration::from_ms(delay));
            }
        }
    }
}
