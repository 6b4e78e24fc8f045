//! [`Recent`]: the last completion times of one candidate, on one rank.
//!
//! A ring of the last seven, in one cache line. Their median is what counts: one collective that
//! waited for a straggler or a checkpoint says nothing about the candidate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_units::Duration;

const KEPT: usize = 7;

/// With fewer times than this there is no median: they say too little to act on.
const LEAST: u64 = 3;

/// The last times of one candidate. Written by threads that see collectives complete, read outside the call path;
/// never locks.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Recent {
    count: AtomicU64,
    /// In picoseconds; 0 where none is yet.
    last: [AtomicU64; KEPT],
}

impl Recent {
    pub(crate) fn push(&self, time: Duration) {
        let count = self.count.fetch_add(1, Relaxed);
        // Seven slots, so the remainder fits.
        self.last[(count % KEPT as u64) as usize].store(time.as_ps().max(1), Relaxed);
    }

    /// How many times there were in all, and the median of the last seven; `None` if there are too few.
    pub(crate) fn median(&self) -> Option<(u64, Duration)> {
        let mut last = [0; KEPT];
        let mut known = 0;
        for time in self.last.iter().map(|it| it.load(Relaxed)).filter(|it| *it != 0) {
            last[known] = time;
            known += 1;
        }
        if (known as u64) < LEAST {
            return None;
        }
        last[..known].sort_unstable();
        // A pending `push` has counted, and not yet written.
        Some((self.count.load(Relaxed).max(known as u64), Duration::from_ps(last[known / 2])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: impl IntoIterator<Item = u64>) -> Option<(u64, u64)> {
        let recent = Recent::default();
        times.into_iter().for_each(|it| recent.push(Duration::from_ps(it)));
        recent.median().map(|(count, median)| (count, median.as_ps()))
    }

    #[test]
    fn is_the_median_of_the_last_seven() {
        assert_eq!(after([5, 6]), None);
        assert_eq!(after([5, 900, 6]), Some((3, 6)));
        assert_eq!(after([1000; 50].into_iter().chain(1..=7)), Some((57, 4)));
        assert_eq!(after([0, 0, 0]), Some((3, 1)));
    }

    #[test]
    fn fills_one_cache_line() {
        assert_eq!(size_of::<Recent>(), 64);
    }
}
