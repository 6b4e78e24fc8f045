//! [`Bandwidth`]: bits per second, and how long bytes take at it.

use crate::rounding::{div, saturate};
use crate::text::{Quantity, Unit, quantity_text};
use crate::{Bytes, Duration, Rounding};

/// A data rate in bits per second. Reads "400 Gbit/s", "400 Gbps", "50 GB/s", "50 GiB/s"; prints
/// bytes per second where that is exact and short, bits otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

const G: u128 = 1_000_000_000;
const QUANTITY: Quantity = Quantity {
    name: "bandwidth",
    base: "bits per second",
    example: "400 Gbit/s",
    units: &[
        Unit::whole(&["TB/s", "TBps"], 8_000 * G),
        Unit::whole(&["GB/s", "GBps"], 8 * G),
        Unit::whole(&["GiB/s", "GiBps"], 8 << 30),
        Unit::whole(&["Tbit/s", "Tbps", "Tb/s"], 1_000 * G),
        Unit::whole(&["Gbit/s", "Gbps", "Gb/s"], G),
        Unit::whole(&["MB/s", "MBps"], 8_000_000),
        Unit::whole(&["MiB/s", "MiBps"], 8 << 20),
        Unit::whole(&["Mbit/s", "Mbps", "Mb/s"], 1_000_000),
        Unit::whole(&["KiB/s", "KiBps"], 8 << 10),
        Unit::whole(&["kB/s", "KB/s", "kBps"], 8_000),
        Unit::whole(&["kbit/s", "kbps", "kb/s", "Kbps"], 1_000),
        Unit::whole(&["B/s", "Bps"], 8),
        Unit::whole(&["bit/s", "bps", "b/s"], 1),
    ],
    bare: false,
    slip,
};

/// `400G` and `400 GB` leave open what is counted, or forget the second.
fn slip(number: &str, unit: &str) -> Option<String> {
    let prefix = unit.chars().next().filter(|it| "kKMGT".contains(*it))?;
    let rest = &unit[prefix.len_utf8()..];
    let shown = if prefix == 'K' { 'k' } else { prefix };
    let (bits, bytes) = (format!("`{number} {shown}bit/s`"), format!("`{number} {shown}B/s`"));
    match rest {
        "" => Some(format!("write {bits} for bits or {bytes} for bytes per second")),
        "b" | "bit" | "bits" => Some(format!("write {bits}")),
        "B" | "byte" | "bytes" => Some(format!("write {bytes}")),
        _ => None,
    }
}

quantity_text!(Bandwidth, QUANTITY, 3);

/// Picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;
const GIGA: u64 = 1_000_000_000;

impl Bandwidth {
    /// No bandwidth: nothing ever arrives.
    pub const ZERO: Self = Self(0);

    /// So many bits per second.
    #[must_use]
    pub const fn from_bits_per_s(bits: u64) -> Self {
        Self(bits)
    }

    /// Gigabits (10⁹) per second.
    #[must_use]
    pub const fn gbit_per_s(gbit: u64) -> Self {
        Self(gbit * 1_000_000_000)
    }

    /// Gigabytes (10⁹) per second.
    #[must_use]
    pub const fn gb_per_s(gb: u64) -> Self {
        Self(gb * 8_000_000_000)
    }

    /// In bits per second.
    #[must_use]
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// Gigabytes (10⁹) per second, for printing and plots only.
    #[must_use]
    pub fn as_gb_per_s_f64(self) -> f64 {
        self.0 as f64 / 8e9
    }

    /// Whether it carries nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// How long `bytes` take at this rate (the β of a transfer); `None` if the rate is zero.
    /// Saturates at [`Duration::MAX`].
    #[must_use]
    pub fn transfer_time(self, bytes: Bytes, rounding: Rounding) -> Option<Duration> {
        // Whole gigabits are the rule, and make the numbers small. u64 bytes × 8 × 10¹² < 2¹⁰⁷, so the product cannot overflow.
        let scale = if self.0.is_multiple_of(GIGA) { GIGA } else { 1 };
        let bits = u128::from(bytes.get()) * 8 * (PS_PER_S / u128::from(scale));
        let ps = div(bits, u128::from(self.0 / scale), rounding)?;
        Some(Duration::from_ps(saturate(ps)))
    }

    /// How many whole bytes pass in `time`.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bits = u128::from(self.0) * u128::from(time.as_ps()) / PS_PER_S;
        Bytes::new(saturate(bits / 8))
    }

    /// Both together; at most the greatest that there is.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// So many times it; at most the greatest that there is.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints() {
        assert_eq!("400 Gbit/s".parse(), Ok(Bandwidth::gbit_per_s(400)));
        assert_eq!("400Gbps".parse(), Ok(Bandwidth::gbit_per_s(400)));
        assert_eq!("50 GB/s".parse(), Ok(Bandwidth::gb_per_s(50)));
        assert_eq!("12.5 GB/s".parse(), Ok(Bandwidth::gbit_per_s(100)));
        assert_eq!("50 GiB/s".parse(), Ok(Bandwidth(50 << 33)));
        assert_eq!(Bandwidth::gbit_per_s(100).to_string(), "12.5 GB/s");
        assert_eq!(Bandwidth(50 << 33).to_string(), "50 GiB/s");
        assert_eq!(Bandwidth(1).to_string(), "1 bit/s");
    }

    #[test]
    fn a_rate_without_its_unit_is_answered_with_what_to_write() {
        let error = |text: &str| text.parse::<Bandwidth>().unwrap_err().to_string();
        let wanted = "write `400 Gbit/s` for bits or `400 GB/s` for bytes per second";
        assert!(error("400G").ends_with(wanted), "{}", error("400G"));
        assert!(error("10 KB").ends_with("write `10 kB/s`"));
        assert!(error("10 Mb").ends_with("write `10 Mbit/s`"));
        assert!(error("3 miles").contains("known units: TB/s"));
        assert!(error(&format!("3 {}", "x".repeat(1 << 20))).len() < 500);
    }

    #[test]
    fn transfer_times_round_as_asked() {
        let link = Bandwidth::gbit_per_s(800);
        assert_eq!(link.transfer_time(Bytes::new(64), Rounding::Up), Some(Duration::from_ps(640)));
        let odd = Bandwidth::from_bits_per_s(3_000_000_000_000);
        assert_eq!(odd.transfer_time(Bytes::new(1), Rounding::Down), Some(Duration::from_ps(2)));
        assert_eq!(odd.transfer_time(Bytes::new(1), Rounding::Up), Some(Duration::from_ps(3)));
        assert_eq!(Bandwidth::ZERO.transfer_time(Bytes::new(1), Rounding::Up), None);
    }

    proptest! {
        #[test]
        fn text_round_trips(bits: u64) {
            prop_assert_eq!(Bandwidth(bits).to_string().parse::<Bandwidth>(), Ok(Bandwidth(bits)));
        }

        /// Rates in whole gigabits give the same times as the formula says.
        #[test]
        fn whole_gigabits_are_no_exception(gbit in 1u64..1 << 30, bytes: u64) {
            let bits = u128::from(bytes) * 8 * PS_PER_S;
            let exact = saturate(bits.div_ceil(u128::from(gbit * GIGA)));
            let time = Bandwidth::gbit_per_s(gbit).transfer_time(Bytes::new(bytes), Rounding::Up);
            prop_assert_eq!(time, Some(Duration::from_ps(exact)));
        }

        /// What passes in the rounded-up time is never less than what was sent.
        #[test]
        fn time_and_bytes_agree(bits in 1u64..1 << 50, bytes in 0u64..1 << 40) {
            let rate = Bandwidth(bits);
            let time = rate.transfer_time(Bytes::new(bytes), Rounding::Up).unwrap();
            prop_assume!(time < Duration::MAX);
            prop_assert!(rate.bytes_in(time) >= Bytes::new(bytes));
        }
    }
}
