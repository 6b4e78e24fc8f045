//! Division with the rounding said aloud: [`Rounding`] and [`div`].

/// Which way a division that does not come out even is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Towards zero.
    Down,
    /// Away from zero: what a simulator wants for a transfer, which is over only when its last
    /// bit has gone.
    Up,
    /// To the nearest, halves up.
    Nearest,
}

/// `numerator / denominator`, rounded as asked; `None` if the denominator is zero.
#[must_use]
pub fn div(numerator: u128, denominator: u128, rounding: Rounding) -> Option<u128> {
    // Most numbers have 64 bits, which machines divide by themselves.
    let down = match (u64::try_from(numerator), u64::try_from(denominator)) {
        (Ok(numerator), Ok(denominator)) => u128::from(numerator.checked_div(denominator)?),
        _ => numerator.checked_div(denominator)?,
    };
    let rest = numerator - down * denominator;
    let bump = match rounding {
        Rounding::Down => false,
        Rounding::Up => rest > 0,
        // `rest >= denominator - rest` is `2 * rest >= denominator` without overflow.
        Rounding::Nearest => rest > 0 && rest >= denominator - rest,
    };
    Some(down + u128::from(bump))
}

/// The 64-bit value, or the largest there is: for results that saturate by contract.
#[must_use]
pub(crate) fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_asked() {
        assert_eq!(div(7, 2, Rounding::Down), Some(3));
        assert_eq!(div(7, 2, Rounding::Up), Some(4));
        assert_eq!(div(7, 2, Rounding::Nearest), Some(4));
        assert_eq!(div(7, 3, Rounding::Nearest), Some(2));
        assert_eq!(div(6, 3, Rounding::Up), Some(2));
        assert_eq!(div(1, 0, Rounding::Up), None);
        assert_eq!(div(u128::MAX, u128::MAX, Rounding::Nearest), Some(1));
    }
}
