//! [`Checksum`]: the CRC-64 by which tables and program files are told apart.
//!
//! CRC-64/XZ (ECMA-182, reflected) rather than a hash: it is certain, not merely likely, to catch
//! any damage within 64 consecutive bits, it is a dozen lines, and common tools compute it too.
//! It guards against damage and mix-ups, not against forgery: who can write the table can write
//! its checksum.

use std::fmt;

/// The CRC-64/XZ of some bytes. Prints as 16 hexadecimal digits, and reads nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub u64);

/// The generator polynomial of ECMA-182, lowest power first.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const STEPS: [u64; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        steps[byte] = rest;
        byte += 1;
    }
    steps
};

impl Checksum {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let step = |crc: u64, byte: &u8| STEPS[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
        Self(!bytes.iter().fold(!0, step))
    }

    /// Exactly what [`Display`](fmt::Display) prints: one checksum, one text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        hex(text, 16).and_then(|it| u64::try_from(it).ok()).map(Self)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A number of exactly `digits` lower-case hexadecimal digits.
pub(crate) fn hex(text: &str, digits: usize) -> Option<u128> {
    let plain = text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    if plain && text.len() == digits { u128::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_published_crc() {
        // The check value that catalogues of CRCs give for this one.
        assert_eq!(Checksum::of(b"123456789"), Checksum(0x995d_c9bb_df19_39fa));
        assert_eq!(Checksum::of(b""), Checksum(0));
    }

    #[test]
    fn has_one_text() {
        let checksum = Checksum(0xab);
        assert_eq!(checksum.to_string(), "00000000000000ab");
        assert_eq!(Checksum::from_text("00000000000000ab"), Some(checksum));
        for wrong in ["ab", "00000000000000AB", "+0000000000000ab", "", "0x000000000000ab"] {
            assert_eq!(Checksum::from_text(wrong), None, "{wrong}");
        }
    }
}
