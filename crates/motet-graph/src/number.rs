//! Greatest common divisors and least common multiples.

use std::ops::Rem;

/// The greatest common divisor of two whole numbers of one type. `gcd(0, b)` is `b`, so that a
/// fold over many numbers can begin with zero.
#[must_use]
pub fn gcd<T: Copy + Default + PartialEq + Rem<Output = T>>(mut a: T, mut b: T) -> T {
    while b != T::default() {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple; `None` if it does not fit into 64 bits, or both numbers are zero.
#[must_use]
pub fn lcm(a: u64, b: u64) -> Option<u64> {
    a.checked_div(gcd(a, b))?.checked_mul(b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gcd_is_the_greatest_number_that_divides_both(a in 0u32..200, b in 1u32..200) {
            let divides = |it: &u32| a.is_multiple_of(*it) && b.is_multiple_of(*it);
            prop_assert_eq!(Some(gcd(a, b)), (1..=b).rev().find(divides));
            prop_assert_eq!(gcd(a, b), gcd(b, a));
        }

        #[test]
        fn lcm_is_the_least_number_that_both_divide(a in 1u64..60, b in 1u64..60) {
            let multiple = |it: &u64| it.is_multiple_of(a) && it.is_multiple_of(b);
            prop_assert_eq!(lcm(a, b), (1..=a * b).find(multiple));
        }
    }

    #[test]
    fn the_ends_of_the_scale() {
        assert_eq!(gcd(0u128, u128::MAX), u128::MAX);
        assert_eq!(gcd(0u64, 0), 0);
        assert_eq!(lcm(u64::MAX, 2), None);
        assert_eq!(lcm(0, 0), None);
        assert_eq!(lcm(0, 7), Some(0));
    }
}
