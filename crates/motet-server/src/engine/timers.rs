//! [`Timers`]: the timers that the controller has asked for, by a monotonic clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use motet_control::Timer;

/// The controller's timers. A running number keeps timers of the same instant in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    all: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    count: u64,
}

impl Timers {
    pub(super) fn add(&mut self, at: Instant, timer: Timer) {
        self.all.push(Reverse((at, self.count, timer)));
        self.count += 1;
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.all.peek().map(|it| it.0.0)
    }

    /// Takes out all timers that have expired.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Timer> {
        let mut due = Vec::new();
        while self.next().is_some_and(|it| it <= now) {
            due.extend(self.all.pop().map(|it| it.0.2));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timers_come_in_order_and_once() {
        let mut timers = Timers::default();
        let now = Instant::now();
        timers.add(now + Duration::from_secs(2), Timer::Nudge(2));
        timers.add(now + Duration::from_secs(1), Timer::Nudge(1));
        timers.add(now + Duration::from_secs(1), Timer::Nudge(3));
        assert_eq!(timers.due(now), []);
        assert_eq!(timers.due(now + Duration::from_secs(1)), [Timer::Nudge(1), Timer::Nudge(3)]);
        assert_eq!(timers.due(now + Duration::from_secs(9)), [Timer::Nudge(2)]);
        assert_eq!(timers.next(), None);
    }
}
