//! [`cdf()`]: how windows are distributed, rail by rail, as Opus plots them (Fig. 4).

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::Window;

/// The most points of one curve: more than a screen can tell apart.
const MOST: usize = 200;

/// How the windows of one rail are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Cdf {
    pub rail: u32,
    /// How many windows there are.
    pub count: usize,
    /// Half of them are no longer than this.
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    /// The curve: so many microseconds, and the share of windows that are no longer. The first and the last window are always on it.
    pub points: Vec<(u64, f64)>,
}

/// The distribution on each rail that has windows.
#[must_use]
pub fn cdf(windows: &[Window]) -> Vec<Cdf> {
    let mut rails: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for it in windows {
        rails.entry(it.rail).or_default().push(it.length_us);
    }
    let curve = |(rail, mut all): (u32, Vec<u64>)| {
        all.sort_unstable();
        let count = all.len();
        let most = count.min(MOST);
        let points = (0..most).filter_map(|it| {
            // Evenly from the first to the last.
            let at = if most == 1 { 0 } else { it * (count - 1) / (most - 1) };
            Some((*all.get(at)?, (at + 1) as f64 / count as f64))
        });
        Cdf {
            rail,
            count,
            p50_us: quantile(&all, 50),
            p90_us: quantile(&all, 90),
            p99_us: quantile(&all, 99),
            points: points.collect(),
        }
    };
    rails.into_iter().map(curve).collect()
}

/// The least value that so many percent of all are not above; 0 of none. They must be sorted.
#[must_use]
pub fn quantile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_control::protocol::GroupId;

    fn window(rail: u32, length_us: u64) -> Window {
        let (from_us, to_us, overlap_us) = (0, length_us, 0);
        Window {
            rail,
            before: Vec::new(),
            after: GroupId(0),
            from_us,
            to_us,
            length_us,
            overlap_us,
        }
    }

    #[test]
    fn quantiles_are_values_that_occur() {
        let all: Vec<u64> = (1..=100).collect();
        assert_eq!([50, 90, 99, 100].map(|it| quantile(&all, it)), [50, 90, 99, 100]);
        assert_eq!(quantile(&[7], 50), 7);
        assert_eq!(quantile::<u64>(&[], 50), 0);
    }

    #[test]
    fn curves_end_at_one_and_are_short() {
        let mut all: Vec<Window> = (0..1000).rev().map(|it| window(1, it)).collect();
        all.push(window(0, 5));
        let curves = cdf(&all);
        assert_eq!(curves[0].points, [(5, 1.0)]);
        let long = &curves[1];
        assert_eq!((long.rail, long.count, long.points.len()), (1, 1000, MOST));
        assert_eq!((long.points[0], long.points[MOST - 1]), ((0, 0.001), (999, 1.0)));
        assert_eq!((long.p50_us, long.p90_us, long.p99_us), (499, 899, 989));
        assert!(long.points.windows(2).all(|it| it[0].0 <= it[1].0 && it[0].1 <= it[1].1));
    }
}
