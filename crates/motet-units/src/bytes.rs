//! [`Bytes`]: an amount of data.
//!
//! One rule for every size that Motet reads, which agrees with nccl-tests where nccl-tests has the
//! form:
//!
//! | written | counts |
//! | --- | --- |
//! | `64K`, `64M`, `64G`, `64T`, also in lower case | powers of two, as in nccl-tests' `-b 64M` |
//! | `64 KiB`, `64 MiB`, `64 GiB`, `64 TiB` | the same powers of two |
//! | `64 kB`, `64 MB`, `64 GB`, `64 TB` | powers of ten |
//! | `64`, `64 B` | bytes |
//!
//! nccl-tests looks at the first letter of a suffix only, so that its `64MB` is 64 MiB; ours is
//! 64 · 10⁶ bytes, as the unit says.

use crate::text::{Quantity, Unit, quantity_text};

/// An amount of data, in bytes. Reads "64 MiB", "64M" (the same), "8 MB" (10⁶), "1.5 GiB", or a
/// bare number of bytes; prints the largest unit that shows it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

// Largest first within what printing may choose; binary units win over decimal ones.
const QUANTITY: Quantity = Quantity {
    name: "data",
    base: "bytes",
    example: "64 MiB",
    units: &[
        Unit::whole(&["TiB", "Ti", "T", "t"], 1 << 40),
        Unit::whole(&["TB"], 1_000_000_000_000),
        Unit::whole(&["GiB", "Gi", "G", "g"], 1 << 30),
        Unit::whole(&["GB"], 1_000_000_000),
        Unit::whole(&["MiB", "Mi", "M", "m"], 1 << 20),
        Unit::whole(&["MB"], 1_000_000),
        Unit::whole(&["KiB", "Ki", "K", "k"], 1 << 10),
        Unit::whole(&["kB", "KB"], 1_000),
        Unit::whole(&["B", "byte", "bytes"], 1),
    ],
    bare: true,
    slip: |_, _| None,
};

quantity_text!(Bytes, QUANTITY, 0);

impl Bytes {
    /// No data.
    pub const ZERO: Self = Self(0);

    /// So many bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many KiB (2¹⁰ bytes).
    #[must_use]
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// So many MiB (2²⁰ bytes).
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// So many GiB (2³⁰ bytes).
    #[must_use]
    pub const fn gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether there is no data.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Both together; `None` if that is more than 2⁶⁴ − 1 bytes.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// So many times it; `None` if that is more than 2⁶⁴ − 1 bytes.
    #[must_use]
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        self.0.checked_mul(times).map(Self)
    }

    /// The size of one of `parts` equal parts, rounded up so that the parts cover the whole.
    #[must_use]
    pub fn div_ceil(self, parts: u64) -> Self {
        Self(self.0.div_ceil(parts.max(1)))
    }
}

impl std::iter::Sum for Bytes {
    /// Saturates: a sum of sizes is only ever compared or shown.
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        Self(iter.fold(0, |sum, it| sum.saturating_add(it.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseError;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("64 MiB", 64 << 20),
            ("8MB", 8_000_000),
            ("1.5 GiB", 3 << 29),
            ("1024", 1024),
            ("1_000 kB", 1_000_000),
            ("0.5 KiB", 512),
            (" 2e3 B ", 2000),
            ("4G", 4 << 30),
            ("64M", 64 << 20),
            ("64m", 64 << 20),
            ("64MB", 64_000_000),
            ("8k", 8 << 10),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(matches!("0.3 B".parse::<Bytes>(), Err(ParseError::NotWhole { .. })));
        assert!(matches!("ten MB".parse::<Bytes>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("3 miles".parse::<Bytes>(), Err(ParseError::UnknownUnit { .. })));
        assert!(matches!("99999999 TiB".parse::<Bytes>(), Err(ParseError::TooLarge { .. })));
        assert!(matches!("-4 B".parse::<Bytes>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("1e99 B".parse::<Bytes>(), Err(ParseError::NotANumber { .. })));
    }

    #[test]
    fn prints_the_largest_exact_unit() {
        assert_eq!(Bytes(64 << 20).to_string(), "64 MiB");
        assert_eq!(Bytes(8_000_000).to_string(), "8 MB");
        assert_eq!(Bytes(1025).to_string(), "1025 B");
        assert_eq!(Bytes(0).to_string(), "0 B");
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: u64) {
            prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>(), Ok(Bytes(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
