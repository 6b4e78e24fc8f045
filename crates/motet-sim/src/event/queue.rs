//! The event queue: a radix heap over time, with an exact order within an instant.
//!
//! Events leave in the order (time, priority, source, sequence). Time never goes back, so an
//! event's bucket is the highest bit in which its time differs from the present; opening a bucket
//! spreads it over lower ones. An event moves at most once for each bit of the distance it was
//! set ahead, whether the times of events are all equal or all different: nothing degrades.
//!
//! Within an instant, events that were known when it began are sorted once, and those that are
//! added while it lasts (after a delay of zero) wait in a small heap beside them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens; the order of the variants is the priority within an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// The network's state changes.
    Change,
    /// The tail of a transfer leaves a link.
    Left,
    /// The same where it also started at this very instant.
    Passed,
    /// The tail reaches the end of a transfer's last link.
    Reached,
    /// The head is ready for a link.
    Head,
    /// The link begins to carry it.
    Started,
    /// Rates are shared out anew.
    Share,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Change,
        Self::Left,
        Self::Passed,
        Self::Reached,
        Self::Head,
        Self::Started,
        Self::Share,
    ];
}

/// Bits of an event below its kind: the id of a leg, which is source and sequence in one (legs
/// are numbered by program order and then by hop).
const ID_BITS: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    tie: u64,
}

/// Events to come, and the present.
#[derive(Debug)]
pub(super) struct Queue {
    now: u64,
    /// Bit b is set if `buckets[b]` holds anything.
    occupied: u64,
    /// Bucket b: times whose highest bit that differs from `now` is bit b.
    buckets: Vec<Vec<Entry>>,
    /// Of this instant, last first.
    current: Vec<u64>,
    /// Of this instant, added since it began.
    fresh: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now,
            occupied: 0,
            buckets: vec![Vec::new(); 64],
            current: Vec::new(),
            fresh: BinaryHeap::new(),
        }
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event; one in the past would happen now.
    #[inline]
    pub(super) fn push(&mut self, time: u64, kind: Kind, id: u32) {
        debug_assert!(time >= self.now, "an event was set in the past");
        let tie = (u64::from(kind as u8) << ID_BITS) | u64::from(id);
        if time <= self.now {
            self.fresh.push(Reverse(tie));
        } else {
            self.put(Entry { time, tie });
        }
    }

    /// Into its bucket; the time is after now.
    #[inline]
    fn put(&mut self, entry: Entry) {
        let bucket = 63 - (entry.time ^ self.now).leading_zeros();
        self.buckets[bucket as usize].push(entry);
        self.occupied |= 1 << bucket;
    }

    /// The next event; the present becomes its time.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Kind, u32)> {
        let tie = match (self.current.last(), self.fresh.peek()) {
            (None, None) => self.advance()?,
            (Some(a), Some(Reverse(b))) if b < a => self.fresh.pop()?.0,
            (Some(_), _) => self.current.pop()?,
            (None, Some(_)) => self.fresh.pop()?.0,
        };
        Some((Kind::ALL[(tie >> ID_BITS) as usize], tie as u32))
    }

    /// Goes on to the next instant that has an event, and takes its first.
    fn advance(&mut self) -> Option<u64> {
        if self.occupied == 0 {
            return None;
        }
        let lowest = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        if let [only] = self.buckets[lowest][..] {
            self.buckets[lowest].clear();
            self.now = only.time;
            return Some(only.tie);
        }
        let mut bucket = std::mem::take(&mut self.buckets[lowest]);
        self.now = bucket.iter().map(|it| it.time).min()?;
        for entry in bucket.drain(..) {
            if entry.time == self.now {
                self.current.push(entry.tie);
            } else {
                self.put(entry);
            }
        }
        // Nothing went back into it (the new present shares its bit); keep its memory.
        self.buckets[lowest] = bucket;
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.current.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against an ordered set, with events added at and after the present in between.
        #[test]
        fn pops_in_order(
            start in prop_oneof![Just(0u64), any::<u64>().prop_map(|it| it >> 1)],
            steps in prop::collection::vec((0u8..3, 0u64..1 << 40, 0u32..64, 0usize..7), 1..400),
        ) {
            let mut queue = Queue::new(start);
            let mut model: BTreeSet<(u64, u64)> = BTreeSet::new();
            let mut id = 0u32;
            for (what, ahead, shift, kind) in steps {
                if what == 0 {
                    let expected = model.pop_first();
                    let popped = queue.pop().map(|(kind, id)| {
                        (queue.now(), (u64::from(kind as u8) << ID_BITS) | u64::from(id))
                    });
                    prop_assert_eq!(popped, expected);
                } else {
                    // Many ties, and distances of every magnitude.
                    let time = queue.now() + (ahead >> shift.min(40));
                    // Ids count down so that insertion order is not the order wanted.
                    id = id.wrapping_sub(1);
                    queue.push(time, Kind::ALL[kind], id);
                    model.insert((time, (kind as u64) << ID_BITS | u64::from(id)));
                }
            }
            while let Some((kind, id)) = queue.pop() {
                let tie = (u64::from(kind as u8) << ID_BITS) | u64::from(id);
                prop_assert_eq!(Some((queue.now(), tie)), model.pop_first());
            }
            prop_assert!(model.is_empty());
        }
    }
}
