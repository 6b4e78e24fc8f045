//! Reading and printing "number unit" exactly: the shared half of every unit's `FromStr` and
//! `Display`.
//!
//! A number is a decimal such as `12`, `0.5` or `1.25e2`; underscores may group digits. It is
//! never passed through a float: the value is scaled as an integer, and what does not come out
//! whole is an error rather than a silent rounding.

use std::fmt;

/// Most characters of a wrong text that an error repeats: a file may hold megabytes without a
/// space.
const SHOWN: usize = 60;

/// A wrong text as an error shows it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("`{text}` is not a number followed by a unit; write for example `{example}`")]
    NotANumber { text: String, example: &'static str },
    #[error("`{text}` has no unit; write for example `{example}`")]
    NoUnit { text: String, example: &'static str },
    #[error("`{unit}` in `{text}` is not a unit of {quantity}; {remedy}")]
    UnknownUnit { text: String, unit: String, quantity: &'static str, remedy: String },
    #[error("`{text}` is not a whole number of {base}")]
    NotWhole { text: String, base: &'static str },
    #[error("`{text}` is too large")]
    TooLarge { text: String },
}

/// One unit: its spellings (the first is the one printed) and its size in base units, as a
/// fraction so that "bit" can be an eighth of a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) names: &'static [&'static str],
    pub(crate) numerator: u128,
    pub(crate) denominator: u128,
}

impl Unit {
    pub(crate) const fn whole(names: &'static [&'static str], size: u128) -> Self {
        Self { names, numerator: size, denominator: 1 }
    }
}

/// What a quantity is called and which units it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) base: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [Unit],
    /// Whether a bare number means base units.
    pub(crate) bare: bool,
    /// What to write instead, for a number with an unknown unit that people often mean.
    pub(crate) slip: fn(number: &str, unit: &str) -> Option<String>,
}

impl Quantity {
    pub(crate) fn parse(&self, text: &str) -> Result<u64, ParseError> {
        let trimmed = text.trim();
        let split = number_end(trimmed);
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let not_a_number = || ParseError::NotANumber { text: shown(text), example: self.example };
        let (digits, exponent) = decimal(number).ok_or_else(not_a_number)?;
        let (numerator, denominator) = if unit.is_empty() {
            if !self.bare && digits != 0 {
                return Err(ParseError::NoUnit { text: shown(text), example: self.example });
            }
            (1, 1)
        } else {
            let found = self.units.iter().find(|it| it.names.contains(&unit));
            let found = found.ok_or_else(|| ParseError::UnknownUnit {
                text: shown(text),
                unit: shown(unit),
                quantity: self.name,
                remedy: (self.slip)(number, unit).unwrap_or_else(|| self.known()),
            })?;
            (found.numerator, found.denominator)
        };
        let too_large = || ParseError::TooLarge { text: shown(text) };
        let mut top = digits.checked_mul(numerator).ok_or_else(too_large)?;
        let mut bottom = denominator;
        for _ in 0..exponent.unsigned_abs().min(64) {
            if exponent > 0 {
                top = top.checked_mul(10).ok_or_else(too_large)?;
            } else if top.is_multiple_of(10) {
                top /= 10;
            } else {
                bottom = bottom.checked_mul(10).ok_or_else(too_large)?;
            }
        }
        if !top.is_multiple_of(bottom) {
            return Err(ParseError::NotWhole { text: shown(text), base: self.base });
        }
        u64::try_from(top / bottom).map_err(|_| too_large())
    }

    /// The units, for whoever wrote another.
    fn known(&self) -> String {
        let names: Vec<&str> = self.units.iter().map(|it| it.names[0]).collect();
        format!("known units: {}", names.join(", "))
    }

    /// Prints `value` base units in the largest of `units` (given largest first) that shows it
    /// exactly with at most `max_decimals` decimals, falling back to the base unit.
    pub(crate) fn print(
        &self,
        f: &mut fmt::Formatter<'_>,
        value: u64,
        max_decimals: u32,
    ) -> fmt::Result {
        let value = u128::from(value);
        let scale = 10u128.pow(max_decimals);
        for unit in self.units.iter().filter(|it| it.denominator == 1) {
            if value >= unit.numerator && (value * scale).is_multiple_of(unit.numerator) {
                let scaled = value * scale / unit.numerator;
                let text = decimal_text(scaled, max_decimals);
                return f.pad(&format!("{text} {}", unit.names[0]));
            }
        }
        let base = self.units.iter().rev().find(|it| it.numerator == 1 && it.denominator == 1);
        f.pad(&format!("{value} {}", base.map_or(self.base, |it| it.names[0])))
    }
}

/// `scaled / 10^decimals` without trailing zeros.
fn decimal_text(scaled: u128, decimals: u32) -> String {
    let scale = 10u128.pow(decimals);
    let (whole, rest) = (scaled / scale, scaled % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let rest = format!("{rest:0width$}", width = decimals as usize);
    format!("{whole}.{}", rest.trim_end_matches('0'))
}

/// Where the number at the start of `text` ends.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() && (bytes[end].is_ascii_digit() || matches!(bytes[end], b'.' | b'_')) {
        end += 1;
    }
    // An exponent only counts if digits follow: "1 EB" has a unit, "1e3 B" has an exponent.
    if end < bytes.len() && matches!(bytes[end], b'e' | b'E') {
        let mut after = end + 1;
        if after < bytes.len() && matches!(bytes[after], b'+' | b'-') {
            after += 1;
        }
        if after < bytes.len() && bytes[after].is_ascii_digit() {
            while after < bytes.len() && bytes[after].is_ascii_digit() {
                after += 1;
            }
            return after;
        }
    }
    end
}

/// A decimal as (digits, power of ten); `None` if it is not one or has too many digits.
fn decimal(number: &str) -> Option<(u128, i64)> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits = 0u128;
    for digit in whole.chars().chain(fraction.chars()).filter(|it| *it != '_') {
        digits = digits.checked_mul(10)?.checked_add(u128::from(digit.to_digit(10)?))?;
    }
    if digits == 0 {
        return Some((0, 0));
    }
    let decimals = fraction.chars().filter(|it| *it != '_').count();
    let exponent = exponent.checked_sub(i64::try_from(decimals).ok()?)?;
    (-60..=60).contains(&exponent).then_some((digits, exponent))
}

/// `FromStr` through a [`Quantity`], and with the feature `serde` the same text in files.
macro_rules! quantity_text {
    ($type:ident, $quantity:expr, $decimals:expr) => {
        impl std::str::FromStr for $type {
            type Err = $crate::ParseError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $quantity.parse(text).map($type)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $quantity.print(f, self.0, $decimals)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use quantity_text;
