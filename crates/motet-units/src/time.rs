//! [`Duration`] and [`Instant`]: time in integer picoseconds, which reach 213 days in 64 bits.
//!
//! An instant is a point on a simulation's clock and a duration a length of time; keeping them
//! apart lets the compiler refuse the sum of two instants. Additions saturate at the far end:
//! a simulation that runs past [`Instant::NEVER`] has no event to run there anyway.

use std::ops::{Add, AddAssign, Sub};

use crate::text::{Quantity, Unit, quantity_text};

/// A length of time in picoseconds. Reads "10 µs", "500 ns", "1.5 ms"; prints exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

const QUANTITY: Quantity = Quantity {
    name: "time",
    base: "picoseconds",
    example: "10 µs",
    units: &[
        Unit::whole(&["h", "hour", "hours"], 3_600_000_000_000_000),
        Unit::whole(&["min"], 60_000_000_000_000),
        Unit::whole(&["s", "sec"], 1_000_000_000_000),
        Unit::whole(&["ms"], 1_000_000_000),
        Unit::whole(&["µs", "μs", "us"], 1_000_000),
        Unit::whole(&["ns"], 1_000),
        Unit::whole(&["ps"], 1),
    ],
    bare: false,
    slip: |_, _| None,
};

quantity_text!(Duration, QUANTITY, 3);

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest there is, 2⁶⁴ − 1 ps: what takes longer is too slow for this clock.
    pub const MAX: Self = Self(u64::MAX);

    /// So many picoseconds; of an instant, after the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// So many nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// So many microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// In picoseconds; of an instant, since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// For printing and plots only; nothing is computed from it.
    #[must_use]
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whether it is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// So many times it; at most [`Duration::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    /// Stops at zero: a negative length of time has no meaning here.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// A point in time, in picoseconds since the start of a simulation or a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The moment from which instants are counted.
    pub const START: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many picoseconds; of an instant, after the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// In picoseconds; of an instant, since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseError;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints() {
        assert_eq!("10 µs".parse(), Ok(Duration::from_us(10)));
        assert_eq!("10us".parse(), Ok(Duration::from_us(10)));
        assert_eq!("0.7 us".parse(), Ok(Duration::from_ns(700)));
        assert_eq!("0".parse(), Ok(Duration::ZERO));
        assert_eq!(Duration::from_ns(500).to_string(), "500 ns");
        assert_eq!(Duration::from_ns(2600).to_string(), "2.6 µs");
        assert_eq!(Duration::from_ps(640).to_string(), "640 ps");
        assert!(matches!("10".parse::<Duration>(), Err(ParseError::NoUnit { .. })));
        assert!(matches!("0.1 ps".parse::<Duration>(), Err(ParseError::NotWhole { .. })));
    }

    #[test]
    fn instants_and_durations_saturate() {
        assert_eq!(Instant::NEVER + Duration::from_us(1), Instant::NEVER);
        assert_eq!(Instant::from_ps(3).since(Instant::from_ps(5)), Duration::ZERO);
        assert_eq!(Duration::from_ps(3) - Duration::from_ps(5), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn text_round_trips(ps: u64) {
            prop_assert_eq!(Duration(ps).to_string().parse::<Duration>(), Ok(Duration(ps)));
        }
    }
}
