//! [`Ratio`]: exact non-negative fractions over 128-bit integers.
//!
//! A bound is printed beside measured times and compared with them, so it must not drift: cut
//! bounds are fractions of sums of bandwidths, and this keeps them so until they are printed.
//! Comparison never overflows; products are checked.

use std::cmp::Ordering;
use std::fmt;

use motet_graph::gcd;

/// A fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `None` if the denominator is zero.
    #[must_use]
    pub fn new(numerator: u128, denominator: u128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let common = gcd(numerator, denominator);
        Some(Self { numerator: numerator / common, denominator: denominator / common })
    }

    #[must_use]
    pub const fn numerator(self) -> u128 {
        self.numerator
    }

    #[must_use]
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// One over it; `None` of zero.
    #[must_use]
    pub const fn inverse(self) -> Option<Self> {
        if self.numerator == 0 {
            return None;
        }
        Some(Self { numerator: self.denominator, denominator: self.numerator })
    }

    /// The product, if it fits.
    #[must_use]
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        // Cancelling crosswise first keeps the result in lowest terms and the products small.
        let left = gcd(self.numerator, other.denominator);
        let right = gcd(other.numerator, self.denominator);
        Some(Self {
            numerator: (self.numerator / left).checked_mul(other.numerator / right)?,
            denominator: (self.denominator / right).checked_mul(other.denominator / left)?,
        })
    }

    /// The product with a whole number, if it fits.
    #[must_use]
    pub fn times(self, whole: u128) -> Option<Self> {
        self.checked_mul(Self { numerator: whole, denominator: 1 })
    }

    /// The largest whole number not above it.
    #[must_use]
    pub const fn floor(self) -> u128 {
        self.numerator / self.denominator
    }

    /// The nearest float, for printing and plots only.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        // The conversion of a 128-bit integer rounds once, the division once more.
        self.numerator as f64 / self.denominator as f64
    }
}

impl Ord for Ratio {
    /// Compares the continued fractions, whose terms never exceed the numbers themselves.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.numerator, self.denominator);
        let (mut c, mut d) = (other.numerator, other.denominator);
        loop {
            match (a / b).cmp(&(c / d)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            (a, c) = (a % b, c % d);
            if a == 0 || c == 0 {
                return a.cmp(&c);
            }
            // a/b < c/d exactly when d/c < b/a.
            (a, b, c, d) = (d, c, b, a);
        }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            return write!(f, "{}", self.numerator);
        }
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(a: u128, b: u128) -> Ratio {
        Ratio::new(a, b).unwrap()
    }

    #[test]
    fn reduces_and_prints() {
        assert_eq!(ratio(6, 4).to_string(), "3/2");
        assert_eq!(ratio(8, 4).to_string(), "2");
        assert_eq!(ratio(0, 9), Ratio::ZERO);
        assert_eq!(Ratio::new(1, 0), None);
        assert_eq!(ratio(3, 2).inverse(), Some(ratio(2, 3)));
        assert_eq!(Ratio::ZERO.inverse(), None);
        assert_eq!(ratio(7, 2).floor(), 3);
    }

    #[test]
    fn the_largest_numbers_compare_and_overflow_is_seen() {
        let most = ratio(u128::MAX, 1);
        let near = ratio(u128::MAX, u128::MAX - 1);
        assert!(near < most && ratio(1, 1) < near && near > ratio(u128::MAX - 1, u128::MAX));
        assert_eq!(most.times(2), None);
        assert_eq!(most.checked_mul(ratio(5, u128::MAX)), Some(ratio(5, 1)));
    }

    proptest! {
        #[test]
        fn order_and_product_agree_with_cross_multiplication(
            a in 0u128..1 << 60, b in 1u128..1 << 60, c in 0u128..1 << 60, d in 1u128..1 << 60,
        ) {
            let (left, right) = (ratio(a, b), ratio(c, d));
            prop_assert_eq!(left.cmp(&right), (a * d).cmp(&(c * b)));
            prop_assert_eq!(left.checked_mul(right), Some(ratio(a * c, b * d)));
        }
    }
}
