//! The axes of a chart: where values stand on them, and the marks that people read.

use motet_units::Bytes;

use crate::plot::{number, powers, ticks};

/// At most so many marks along sizes: more would touch on a narrow chart.
const MOST_SIZES: usize = 6;

/// A mark of an axis: where it stands, 0 at the low end and 1 at the high one, and what it says.
pub(super) type Mark = (f64, String);

/// Sizes along the bottom, each as far from the next as it is larger.
pub(super) struct Sizes {
    first: u64,
    last: u64,
}

impl Sizes {
    pub(super) fn new(sizes: &[u64]) -> Self {
        let (first, last) = (sizes.iter().min(), sizes.iter().max());
        Self { first: *first.unwrap_or(&1), last: *last.unwrap_or(&1) }
    }

    pub(super) fn at(&self, size: u64) -> f64 {
        let log = |it: u64| (it.max(1) as f64).log2();
        let wide = log(self.last) - log(self.first);
        // One size alone stands in the middle.
        if wide > 0.0 { (log(size) - log(self.first)) / wide } else { 0.5 }
    }

    /// Powers of two, as far apart as they must be to be few; the ends if no two are within.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let within = |step: usize| -> Vec<u64> {
            let all = (0..64).step_by(step).map(|it| 1u64 << it);
            all.filter(|it| (self.first..=self.last).contains(it)).collect()
        };
        let few = [1, 2, 5, 10].into_iter().map(within).find(|it| it.len() <= MOST_SIZES);
        let mut sizes = few.unwrap_or_default();
        if sizes.len() < 2 {
            sizes = vec![self.first, self.last];
            sizes.dedup();
        }
        sizes.into_iter().map(|it| (self.at(it), Bytes::new(it).to_string())).collect()
    }
}

/// Values up the side.
pub(super) struct Values {
    low: f64,
    high: f64,
    log: bool,
}

impl Values {
    /// From zero, so that heights can be compared.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let high = values.fold(0.0, f64::max);
        Self { low: 0.0, high: if high > 0.0 { high * 1.05 } else { 1.0 }, log: false }
    }

    /// Equal distances for equal factors.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let logs = values.filter(|it| *it > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        let (low, high) = if low.is_finite() { (low, high) } else { (0.0, 1.0) };
        // So that no line runs along the frame.
        let room = ((high - low) * 0.04).max(0.05);
        Self { low: low - room, high: high + room, log: true }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    /// Marks at round values, once these are taken `times`.
    pub(super) fn marks(&self, times: f64, say: fn(f64) -> String) -> Vec<Mark> {
        if self.log {
            let at = |it: &f64| (it - self.low) / (self.high - self.low);
            return powers(self.low, self.high)
                .iter()
                .map(|it| (at(it), say(10f64.powf(*it))))
                .collect();
        }
        let all = ticks(self.low * times, self.high * times);
        all.into_iter().map(|it| (self.at(it / times), say(it))).collect()
    }
}

/// Microseconds in a unit that keeps numbers short.
pub(super) fn time(us: f64) -> String {
    match us {
        _ if us >= 1e6 * 0.9995 => format!("{} s", number(us / 1e6)),
        _ if us >= 1e3 * 0.9995 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} µs", number(us)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sizes: &[u64]) -> Vec<String> {
        Sizes::new(sizes).marks().into_iter().map(|it| it.1).collect()
    }

    #[test]
    fn sizes_are_marked_at_few_powers_of_two() {
        assert_eq!(said(&[1 << 10, 1 << 30]), ["1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB"]);
        assert_eq!(said(&[1 << 20, 1 << 23]), ["1 MiB", "2 MiB", "4 MiB", "8 MiB"]);
        assert_eq!(said(&[4096]), ["4 KiB"]);
        assert_eq!(said(&[3000, 3500]), ["3 kB", "3500 B"]);
        for last in 0..64 {
            assert!(said(&[1, 1 << last]).len() <= MOST_SIZES.max(7), "{last}");
        }
    }

    #[test]
    fn times_are_marked_in_short_words() {
        let axis = Values::logarithmic([3.0, 20_000.0].into_iter());
        let said: Vec<String> = axis.marks(1.0, time).into_iter().map(|it| it.1).collect();
        assert_eq!(said, ["10 µs", "100 µs", "1 ms", "10 ms"]);
    }

    #[test]
    fn another_scale_has_its_own_round_marks() {
        let axis = Values::from_zero([100.0].into_iter());
        let said: Vec<String> = axis.marks(1.75, number).into_iter().map(|it| it.1).collect();
        assert_eq!(said, ["0", "50", "100", "150"]);
        let marks = axis.marks(1.75, number);
        assert!((marks[1].0 - axis.at(50.0 / 1.75)).abs() < 1e-12);
    }
}
