//! The event queue: a radix heap over time, with an exact order of events.
//!
//! Events leave in the order (time, priority, source, sequence). The queue keeps a base time. Events up to
//! the base are *near* and sorted; later ones are in 64 buckets, by the highest bit in which their time
//! differs from the base. When no near event is left, the lowest bucket is opened: the events of a small bucket
//! all become near; of a large one only those of the earliest instant do, and the others are spread over lower
//! buckets. The base moves to the latest near event. So an event moves at most once per bit of its distance from
//! the present, whether event times are all equal or all different.
//!
//! Events that are added at or before the base go to a small heap beside the near ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens; the order of the variants is the priority within an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// The network's state changes.
    Change,
    /// A link has been taken for as long as a transfer's bits need there.
    Streamed,
    /// The tail of a transfer leaves a link.
    Left,
    /// The tail of a transfer leaves a link in the instant in which the transfer started there.
    Passed,
    /// The tail of a transfer reaches the end of its last link.
    Reached,
    /// The head of a transfer is ready for a link.
    Head,
    /// A link begins to carry a transfer.
    Started,
    /// Rates are shared out anew.
    Share,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Change,
        Self::Streamed,
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

/// A bucket of at most this many events is sorted rather than spread: cheaper up to about here.
const FEW: usize = 256;

/// Time above, kind and id below: one number, which compares without a branch.
type Entry = u128;

const fn time_of(entry: Entry) -> u64 {
    (entry >> 64) as u64
}

/// Events to come, and the present.
#[derive(Debug)]
pub(super) struct Queue {
    now: u64,
    /// Near events have times up to this, far ones later times.
    base: u64,
    /// Bit b is set if `buckets[b]` holds anything.
    occupied: u64,
    /// Bucket b: times whose highest bit that differs from `base` is bit b.
    buckets: Vec<Vec<Entry>>,
    /// Near events, the earliest at the end.
    near: Vec<Entry>,
    /// Near events that were added after `near` was sorted.
    fresh: BinaryHeap<Reverse<Entry>>,
}

impl Queue {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now,
            base: now,
            occupied: 0,
            buckets: vec![Vec::new(); 64],
            near: Vec::new(),
            fresh: BinaryHeap::new(),
        }
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, time: u64, kind: Kind, id: u32) {
        debug_assert!(time >= self.now, "an event was set in the past");
        let tie = (u64::from(kind as u8) << ID_BITS) | u64::from(id);
        let entry = (Entry::from(time) << 64) | Entry::from(tie);
        if time <= self.base {
            self.fresh.push(Reverse(entry));
        } else {
            self.put(entry);
        }
    }

    /// Puts an event whose time is after the base into its bucket.
    #[inline]
    fn put(&mut self, entry: Entry) {
        let bucket = 63 - (time_of(entry) ^ self.base).leading_zeros();
        self.buckets[bucket as usize].push(entry);
        self.occupied |= 1 << bucket;
    }

    /// Takes the next event, and moves the present to its time.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Kind, u32)> {
        let entry = match (self.near.last(), self.fresh.peek()) {
            (None, None) => self.advance()?,
            (Some(a), Some(Reverse(b))) if b < a => self.fresh.pop()?.0,
            (Some(_), _) => self.near.pop()?,
            (None, Some(_)) => self.fresh.pop()?.0,
        };
        self.now = time_of(entry);
        Some((Kind::ALL[(entry as u64 >> ID_BITS) as usize], entry as u32))
    }

    /// Makes the events of the lowest bucket near, or only those of its earliest instant if they are many, and
    /// takes the first.
    fn advance(&mut self) -> Option<Entry> {
        if self.occupied == 0 {
            return None;
        }
        let lowest = self.occupied.trailing_zeros();
        self.occupied &= self.occupied - 1;
        let mut bucket = std::mem::take(&mut self.buckets[lowest as usize]);
        if bucket.len() <= FEW {
            self.near.append(&mut bucket);
        } else {
            self.base = bucket.iter().map(|it| time_of(*it)).min()?;
            for entry in bucket.drain(..) {
                if time_of(entry) == self.base {
                    self.near.push(entry);
                } else {
                    self.put(entry);
                }
            }
        }
        // Nothing was put back into it; keep its memory.
        self.buckets[lowest as usize] = bucket;
        self.near.sort_unstable_by(|a, b| b.cmp(a));
        // A time of the bucket: events of higher ones differ from it in the same bit as from the
        // old base.
        self.base = time_of(*self.near.first()?);
        self.near.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against an ordered set, with events added at and after the present in between: few and
        /// many, so that buckets are sorted and spread.
        #[test]
        fn pops_in_order(
            start in prop_oneof![Just(0u64), any::<u64>().prop_map(|it| it >> 1)],
            steps in prop::collection::vec((0u8..5, 0u64..1 << 40, 0u32..64, 0usize..8), 1..1500),
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
