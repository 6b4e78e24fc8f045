//! [`Cusum`]: has the mean of a series moved? Two one-sided cumulative sums of what each value lies above or below
//! what was expected, in standard deviations.

/// A two-sided CUSUM change detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cusum {
    /// How far a value may deviate without counting: half of the shift that is to be detected.
    pub slack: f64,
    /// The sum at which there is an alarm.
    pub threshold: f64,
    up: f64,
    down: f64,
}

/// Values are clipped to this many standard deviations, so that one outlier does not raise an alarm.
const MOST: f64 = 4.0;

impl Cusum {
    #[must_use]
    pub const fn new(slack: f64, threshold: f64) -> Self {
        Self { slack, threshold, up: 0.0, down: 0.0 }
    }

    /// Counts a value; `true` is an alarm, after which the sums start anew.
    pub fn step(&mut self, off: f64) -> bool {
        let off = if off.is_nan() { 0.0 } else { off.clamp(-MOST, MOST) };
        self.up = (self.up + off - self.slack).max(0.0);
        self.down = (self.down - off - self.slack).max(0.0);
        let alarm = self.score() > self.threshold;
        if alarm {
            (self.up, self.down) = (0.0, 0.0);
        }
        alarm
    }

    /// The larger of the sums.
    #[must_use]
    pub const fn score(&self) -> f64 {
        self.up.max(self.down)
    }
}

impl Default for Cusum {
    /// For shifts of two standard deviations and more; two far values and a third make an alarm.
    fn default() -> Self {
        Self::new(1.0, 7.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_found_and_one_outlier_is_none() {
        for sign in [1.0, -1.0] {
            let mut cusum = Cusum::default();
            assert!(!cusum.step(100.0 * sign), "one value is no alarm");
            assert!((0..20).all(|_| !cusum.step(0.0)), "and fades");
            assert_eq!(cusum.score(), 0.0);
            let found = (1..).find(|_| cusum.step(3.0 * sign)).unwrap();
            assert_eq!(found, 4);
            assert_eq!(cusum.score(), 0.0, "sums start anew");
        }
        assert!(!Cusum::default().step(f64::NAN));
    }
}
