//! Numbers as C's printf prints them, for output that tools expect to look so.

/// As nccl-tests prints a figure in `width` columns: two decimals while they fit, then fewer.
pub(crate) fn fixed(value: f64, width: usize) -> String {
    // Digits before the point.
    let digits = if value < 1.0 { 0 } else { format!("{:.0}", value.floor()).len() };
    match digits {
        it if it + 2 < width => format!("{value:.2}"),
        it if it + 1 < width => format!("{value:.1}"),
        it if it <= width => format!("{value:.0}"),
        _ => exponential(value, if width >= 7 { 1 } else { 0 }),
    }
}

/// C's `%g`: six significant digits, no zeros at the end.
pub(crate) fn general(value: f64) -> String {
    let rounded = format!("{value:.5e}");
    let exponent: i32 = rounded.split_once('e').and_then(|it| it.1.parse().ok()).unwrap_or(0);
    if value == 0.0 {
        return "0".to_owned();
    }
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trimmed(&format!("{value:.decimals$}")).to_owned();
    }
    let text = exponential(value, 5);
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
        None => text,
    }
}

fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}

/// C's `%e`: the exponent has a sign and two digits at least.
fn exponential(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_loses_decimals_before_it_grows() {
        let of = |value| fixed(value, 7);
        assert_eq!(of(0.0), "0.00");
        assert_eq!(of(9999.994), "9999.99");
        assert_eq!(of(12_345.67), "12345.7");
        assert_eq!(of(123_456.7), "123457");
        assert_eq!(of(1_234_567.8), "1234568");
        assert_eq!(of(123_456_789.0), "1.2e+08");
        assert_eq!(fixed(123.456, 6), "123.46");
        assert_eq!(fixed(12_345_678.0, 6), "1e+07");
    }

    #[test]
    fn general_is_that_of_c() {
        assert_eq!(general(0.0), "0");
        assert_eq!(general(123.456_789), "123.457");
        assert_eq!(general(100.0), "100");
        assert_eq!(general(0.000_123_456_7), "0.000123457");
        assert_eq!(general(0.000_012_5), "1.25e-05");
        assert_eq!(general(1_234_567.0), "1.23457e+06");
        assert_eq!(general(999_999.7), "1e+06");
    }
}
