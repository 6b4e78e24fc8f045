//! `motet workload`: training jobs and traces of them.
//!
//! [`input`] tells what was given and reads it; each command has its file.

pub(crate) mod convert;
pub(crate) mod input;
pub(crate) mod show;
mod show_job;
mod show_traces;

use motet_units::Rank;

/// Ranks in few characters: `0–7`, `0–12 by 4`, or the list; a long one is cut.
fn who(ranks: &[Rank]) -> String {
    const SHOWN: usize = 8;
    let (Some(first), Some(last)) = (ranks.first(), ranks.last()) else { return String::new() };
    let step = ranks.get(1).map_or(1, |it| it.0.wrapping_sub(first.0));
    let even = ranks.windows(2).all(|it| it[1].0.wrapping_sub(it[0].0) == step);
    match ranks.len() {
        1 => first.0.to_string(),
        2 => format!("{}, {}", first.0, last.0),
        _ if even && step == 1 => format!("{}–{}", first.0, last.0),
        _ if even => format!("{}–{} by {step}", first.0, last.0),
        _ => {
            let shown: Vec<String> = ranks.iter().take(SHOWN).map(|it| it.0.to_string()).collect();
            let more = if ranks.len() > SHOWN { ", …" } else { "" };
            format!("{}{more}", shown.join(", "))
        }
    }
}

/// Bytes to four digits, with decimal units as bandwidths have them.
pub(crate) fn short(bytes: u128) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut place = 0;
    while value >= 999.95 && place + 1 < units.len() {
        value /= 1000.0;
        place += 1;
    }
    if place == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[place]) }
}

/// A time to four digits.
pub(crate) fn time(it: motet_units::Duration) -> String {
    let us = it.as_us_f64();
    match us {
        _ if us >= 1e6 => format!("{:.3} s", us / 1e6),
        _ if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.1} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_units::Duration;

    #[test]
    fn ranks_sizes_and_times_are_short() {
        let of = |ranks: &[u32]| who(&ranks.iter().map(|it| Rank(*it)).collect::<Vec<_>>());
        assert_eq!(of(&[3]), "3");
        assert_eq!(of(&[0, 4]), "0, 4");
        assert_eq!(of(&[0, 1, 2, 3]), "0–3");
        assert_eq!(of(&[1, 5, 9]), "1–9 by 4");
        assert_eq!(of(&[0, 1, 4, 5]), "0, 1, 4, 5");
        assert_eq!(of(&[0, 1, 2, 3, 8, 9, 10, 11, 16]), "0, 1, 2, 3, 8, 9, 10, 11, …");
        assert_eq!((short(999), short(3_829_000_000)), ("999 B".to_owned(), "3.8 GB".to_owned()));
        assert_eq!(short(999_999), "1.0 MB");
        assert_eq!(time(Duration::from_us(1500)), "1.50 ms");
    }
}
