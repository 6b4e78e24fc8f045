//! The link rule: when a link takes a transfer, for how long, and when the transfer's first and
//! last bit reach the other end. [`crate::model`] says it in words and why; this is the one place
//! that says it in code.
//!
//! For one transfer and one link there are four moments:
//!
//! ```text
//!   start     the link takes the transfer: when its head has come, or when the link is free,
//!             whichever is later
//!   streamed  = start + transmission time. The link is free for the next transfer from here on.
//!   left      the last bit is on the link: `streamed`, or later if a slower link upstream still
//!             feeds it (cut-through)
//!   head, tail at the other end: start + latency, left + latency
//! ```
//!
//! A node that cuts through passes a transfer on when its head has come; a node that stores and
//! forwards (every GPU) when its tail has.
//!
//! Both engines call these functions: the event engine with whole picoseconds, the replay kernel
//! with arrays of times, one per network state ([`Time`] is implemented for both). The list schedulers
//! of other crates predict the simulator's times with code of their own; property tests hold them equal
//! to this rule.

/// A moment or a duration in picoseconds; saturates at the largest value.
pub trait Time: Copy {
    const ZERO: Self;
    /// This time plus `span`.
    #[must_use]
    fn plus(self, span: Self) -> Self;
    /// The later of two.
    #[must_use]
    fn later(self, other: Self) -> Self;
}

impl Time for u64 {
    const ZERO: Self = 0;
    #[inline(always)]
    fn plus(self, span: Self) -> Self {
        self.saturating_add(span)
    }
    #[inline(always)]
    fn later(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Integers below 2⁵³ are exact; the replay kernel says why it uses `f64` and what it does about
/// larger times.
impl Time for f64 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn plus(self, span: Self) -> Self {
        self + span
    }
    /// Not `f64::max`, which must also handle NaN.
    #[inline(always)]
    fn later(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
}

/// The same moment in each of `N` network states.
impl<T: Time, const N: usize> Time for [T; N] {
    const ZERO: Self = [T::ZERO; N];
    #[inline(always)]
    fn plus(self, span: Self) -> Self {
        std::array::from_fn(|it| self[it].plus(span[it]))
    }
    #[inline(always)]
    fn later(self, other: Self) -> Self {
        std::array::from_fn(|it| self[it].later(other[it]))
    }
}

/// When a transfer's first bit (head) and last bit (tail) are at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<T> {
    pub head: T,
    pub tail: T,
}

impl<T: Time> Arrival<T> {
    /// Head and tail at the same time, as at the rank that sends.
    #[inline(always)]
    pub const fn whole(at: T) -> Self {
        Self { head: at, tail: at }
    }

    /// What the next link sees: when the head may go on, and, with cut-through, when the tail
    /// arrives.
    #[inline(always)]
    pub const fn forwarded(self, stores_and_forwards: bool) -> (T, Option<T>) {
        if stores_and_forwards { (self.tail, None) } else { (self.head, Some(self.tail)) }
    }
}

/// One transfer on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<T> {
    /// The link starts to transmit it.
    pub start: T,
    /// The transmission time is over, and the link is free for the next transfer.
    pub streamed: T,
    /// The last bit has entered the link.
    pub left: T,
}

impl<T: Time> Passage<T> {
    /// When a link that is free from `free` on starts a transfer whose head is there at `head`.
    #[inline(always)]
    pub fn start(head: T, free: T) -> T {
        head.later(free)
    }

    /// The passage from `start`, if the link alone would have sent all bits at `streamed`. `tail`
    /// is when the last bit reaches the link, for a transfer that is forwarded before it is
    /// complete.
    #[inline(always)]
    pub fn from_start(start: T, streamed: T, tail: Option<T>) -> Self {
        let left = match tail {
            Some(tail) => streamed.later(tail),
            None => streamed,
        };
        Self { start, streamed, left }
    }

    /// The passage over a link of constant bandwidth. The link is free again at [`Self::streamed`].
    #[inline(always)]
    pub fn of((head, tail): (T, Option<T>), free: T, transmission: T) -> Self {
        let start = Self::start(head, free);
        Self::from_start(start, start.plus(transmission), tail)
    }

    /// When head and tail reach the other end.
    #[inline(always)]
    pub fn arrival(self, latency: T) -> Arrival<T> {
        Arrival { head: self.start.plus(latency), tail: self.left.plus(latency) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends transfers one after the other over links of (transmission time, latency, whether the
    /// node before stores and forwards); when each is at the end.
    fn sent(links: &[(u64, u64, bool)], ready: &[u64]) -> Vec<u64> {
        let mut free = vec![0; links.len()];
        let over = |ready: &u64| {
            let mut at = Arrival::whole(*ready);
            for ((time, latency, stores), free) in links.iter().zip(&mut free) {
                let passage = Passage::of(at.forwarded(*stores), *free, *time);
                *free = passage.streamed;
                at = passage.arrival(*latency);
            }
            at.tail
        };
        ready.iter().map(over).collect()
    }

    #[test]
    fn alone_it_takes_all_latencies_and_the_slowest_transmission_of_each_segment() {
        assert_eq!(sent(&[(100, 7, true)], &[3]), [110]);
        // Cut through: Σα + max β.
        assert_eq!(sent(&[(100, 7, true), (40, 5, false)], &[0]), [112]);
        assert_eq!(sent(&[(40, 7, true), (100, 5, false)], &[0]), [112]);
        // Store and forward: the sum.
        assert_eq!(sent(&[(100, 7, true), (40, 5, true)], &[0]), [152]);
    }

    #[test]
    fn a_link_carries_one_transfer_at_a_time() {
        assert_eq!(sent(&[(100, 7, true)], &[0, 0, 250]), [107, 207, 357]);
    }

    #[test]
    fn a_link_that_a_slower_one_feeds_is_taken_for_its_own_time_only() {
        // Two streams over links of their own, then one link twice as fast: both fit.
        let shared = 50;
        let first = Passage::of((0, None), 0, 100).arrival(1);
        let one = Passage::of(first.forwarded(false), 0, shared);
        let other = Passage::of(first.forwarded(false), one.streamed, shared);
        assert_eq!((one.start, one.streamed, one.left), (1, 51, 101));
        assert_eq!((other.start, other.streamed, other.left), (51, 101, 101));
    }

    #[test]
    fn times_that_do_not_count_stay_at_the_last() {
        let passage = Passage::of((1, None), 0, u64::MAX);
        assert_eq!(passage.arrival(5).tail, u64::MAX);
    }

    #[test]
    fn arrays_and_floats_follow_the_same_rule() {
        let heads = [0u64, 10, 60];
        let (free, time, tail) = (20u64, 30, 75);
        let wide = Passage::of((heads, Some([tail; 3])), [free; 3], [time; 3]).arrival([5; 3]);
        for (at, head) in heads.into_iter().enumerate() {
            let one = Passage::of((head, Some(tail)), free, time).arrival(5);
            assert_eq!((wide.head[at], wide.tail[at]), (one.head, one.tail));
            let [head, free, time, tail] = [head, free, time, tail].map(|it| it as f64);
            let float = Passage::of((head, Some(tail)), free, time).arrival(5.0);
            assert_eq!((float.head as u64, float.tail as u64), (one.head, one.tail));
        }
    }
}
