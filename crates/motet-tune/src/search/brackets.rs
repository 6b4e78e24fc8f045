//! The arithmetic of Hyperband: how many points a bracket begins with, and how often those that
//! are left are run in each rung.
//!
//! With at most R iterations and ratio η there are ⌊log_η R⌋ + 1 brackets. Bracket s begins with
//! ⌈(s_max + 1) η^s ÷ (s + 1)⌉ points at R η^-s iterations; each rung keeps one in η and runs it
//! η times as often. Wide brackets begin with few iterations: *TuCCL* prints it the other way
//! round, which [`literal`](super::literal) follows.

/// One rung: how many points, and how often each has been run at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    pub points: u32,
    pub iterations: u32,
}

/// The largest s with `ratio`^s ≤ `most`.
#[must_use]
pub const fn most_rungs(most: u32, ratio: u32) -> u32 {
    let (mut rungs, mut left) = (0, most);
    while ratio > 1 && left >= ratio {
        left /= ratio;
        rungs += 1;
    }
    rungs
}

/// The rungs of bracket `s`.
#[must_use]
pub fn bracket(s: u32, most: u32, ratio: u32) -> Vec<Rung> {
    let (most, ratio) = (u64::from(most.max(1)), u64::from(ratio.max(2)));
    let s_max = most_rungs(most as u32, ratio as u32);
    let s = s.min(s_max);
    let first = (u64::from(s_max + 1) * ratio.pow(s)).div_ceil(u64::from(s + 1));
    let rung = |i: u32| Rung {
        points: (first / ratio.pow(i)).max(1) as u32,
        iterations: (most / ratio.pow(s - i)) as u32,
    };
    (0..=s).map(rung).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(s: u32, most: u32, ratio: u32) -> Vec<(u32, u32)> {
        bracket(s, most, ratio).iter().map(|it| (it.points, it.iterations)).collect()
    }

    /// The first rungs as published for R = 81, η = 3, and what follows from them.
    #[test]
    fn eighty_one_and_three() {
        assert_eq!(pairs(4, 81, 3), [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]);
        assert_eq!(pairs(3, 81, 3), [(34, 3), (11, 9), (3, 27), (1, 81)]);
        assert_eq!(pairs(2, 81, 3), [(15, 9), (5, 27), (1, 81)]);
        assert_eq!(pairs(1, 81, 3), [(8, 27), (2, 81)]);
        assert_eq!(pairs(0, 81, 3), [(5, 81)]);
    }

    /// mlr3hyperband's table for R = 8, η = 2.
    #[test]
    fn eight_and_two() {
        assert_eq!(pairs(3, 8, 2), [(8, 1), (4, 2), (2, 4), (1, 8)]);
        assert_eq!(pairs(2, 8, 2), [(6, 2), (3, 4), (1, 8)]);
        assert_eq!(pairs(1, 8, 2), [(4, 4), (2, 8)]);
        assert_eq!(pairs(0, 8, 2), [(4, 8)]);
    }

    proptest! {
        #[test]
        fn every_bracket_ends_at_the_most(most in 1_u32..5000, ratio in 2_u32..6, s in 0_u32..9) {
            let rungs = bracket(s, most, ratio);
            prop_assert_eq!(rungs.last().map(|it| it.iterations), Some(most));
            for pair in rungs.windows(2) {
                prop_assert!(pair[1].points <= pair[0].points && pair[1].iterations > pair[0].iterations);
            }
            prop_assert!(rungs[0].iterations >= 1);
        }
    }
}
