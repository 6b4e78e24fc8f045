//! [`Refusal`]: why a job cannot be run as asked, and the nearest choice that can.

use std::fmt;

/// One inconsistency in a job's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, as a phrase.
    pub problem: String,
    /// The nearest choice that is feasible in this respect.
    pub nearest: String,
}

/// All inconsistencies; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusals(pub Vec<Refusal>);

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, it) in self.0.iter().enumerate() {
            let lead = if index == 0 { "" } else { "; " };
            write!(f, "{lead}{}: {}", it.problem, it.nearest)?;
        }
        Ok(())
    }
}

/// The divisors of `whole` next to `wanted`, as text: "4 or 8".
pub(crate) fn nearest_divisors(whole: u64, wanted: u64) -> String {
    let fits = |it: &u64| whole.is_multiple_of(*it);
    let below = (1..wanted.min(whole + 1)).rev().find(fits);
    // No divisor lies between half of a number and itself.
    let above = (wanted + 1..=whole / 2).find(fits).or(Some(whole)).filter(|it| *it > wanted);
    match (below, above) {
        (Some(below), Some(above)) => format!("{below} or {above}"),
        (Some(one), None) | (None, Some(one)) => one.to_string(),
        (None, None) => "1".to_owned(),
    }
}

/// The multiples of `step` next to `wanted`, as text.
pub(crate) fn nearest_multiples(step: u64, wanted: u64) -> String {
    let below = wanted / step * step;
    if below == 0 { step.to_string() } else { format!("{below} or {}", below + step) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_choices_do_divide() {
        assert_eq!(nearest_divisors(126, 16), "14 or 18");
        assert_eq!(nearest_divisors(32, 3), "2 or 4");
        assert_eq!(nearest_divisors(7, 5), "1 or 7");
        assert_eq!(nearest_divisors(8, 9), "8");
        assert_eq!(nearest_multiples(12, 30), "24 or 36");
        assert_eq!(nearest_multiples(12, 5), "12");
    }
}
