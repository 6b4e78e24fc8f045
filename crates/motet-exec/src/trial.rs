//! [`Trial`]: how a connection that seems slow is found to have become faster.
//!
//! A connection's rate is measured while its socket buffer is full, and a slow one is given too little to fill it, so it would count as
//! slow for ever. So it is given a little data from time to time. A burst that takes one round-trip time says nothing about the path's
//! bandwidth, so trials become longer as long as longer ones take no more time. A trial that was begun because the others had enough to
//! send ends when they no longer have: the call would wait for it.

use motet_units::Duration;

/// Bytes of the first trial: little to wait for, if the connection is as slow as it seems.
pub(crate) const LITTLE: usize = 64 << 10;
/// Bytes of the longest trial.
const LONGEST: usize = 1 << 20;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Bytes of this trial, or of the last one.
    bytes: usize,
    /// What is still to be given of it.
    left: usize,
    /// Whether it began while the others had enough to do: then it ends when they no longer have, as the call would wait for it.
    while_ample: bool,
    /// How long the last trial of the first length, [`LITTLE`], took.
    shortest: Duration,
}

impl Trial {
    pub(crate) const fn new() -> Self {
        Self { bytes: LITTLE, left: 0, while_ample: false, shortest: Duration::ZERO }
    }

    /// Begins another. `before` is the connection's last burst, as its [`pace`](crate::pace) measured it; `ample` says whether the
    /// others have so much to send that the trial does not make the call longer.
    pub(crate) fn begin(&mut self, before: Option<(u64, Duration)>, ample: bool) {
        if let Some((_, time)) = before.filter(|it| it.0 >= self.bytes as u64) {
            if self.bytes == LITTLE {
                self.shortest = time;
            }
            let as_soon = time.as_ps() < self.shortest.as_ps() / 2 * 3;
            self.bytes = if as_soon { (2 * self.bytes).min(LONGEST) } else { LITTLE };
        }
        self.left = self.bytes;
        self.while_ample = ample;
    }

    /// Whether some of it is still to be given.
    pub(crate) const fn goes_on(&self, ample: bool) -> bool {
        self.left > 0 && (ample || !self.while_ample)
    }

    /// The connection has taken so many bytes.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of eight trials over a way of so many bytes per millisecond and a round trip of so many milliseconds.
    fn lengths(rate: u64, round_trip: u64) -> Vec<usize> {
        let mut trial = Trial::new();
        let mut before = None;
        (0..8)
            .map(|_| {
                trial.begin(before, false);
                let bytes = trial.left;
                trial.took(bytes);
                assert!(!trial.goes_on(false));
                let time = Duration::from_ms(round_trip + bytes as u64 / rate);
                before = Some((bytes as u64, time));
                bytes >> 10
            })
            .collect()
    }

    #[test]
    fn trials_become_longer_where_that_takes_no_longer() {
        // 480 Mbit/s, 10 and 100 ms.
        assert_eq!(lengths(60_000, 10), [64, 128, 256, 512, 64, 128, 256, 512]);
        assert_eq!(lengths(60_000, 100), [64, 128, 256, 512, 1024, 1024, 1024, 1024]);
        // 12 Mbit/s: 64 KiB take 53 ms, twice as much 97.
        assert_eq!(lengths(1_500, 10), [64, 128, 64, 128, 64, 128, 64, 128]);
    }

    #[test]
    fn what_was_no_whole_trial_says_nothing() {
        let mut trial = Trial::new();
        trial.begin(Some((1000, Duration::from_ms(10))), false);
        trial.took(1000);
        assert!(trial.goes_on(false));
        trial.begin(Some((1000, Duration::from_ms(10))), false);
        assert_eq!(trial.left, LITTLE);
    }
}
