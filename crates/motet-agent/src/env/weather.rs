//! [`draw`]: draws the load on a communicator over a scenario: when congestion comes, how strong, and of which kind.
//!
//! The splits differ by construction: they draw strengths and periods from different values ([`Ranges`]), and
//! training congestion either takes bandwidth or delays hops, never both at once.

use motet_units::Stream;
use rand::RngExt;

use super::atlas::Split;
use super::fresh;
use super::load::{Load, Where};
use super::timeline::{Episode, Pattern, Timeline};
use crate::words::category;

category! {
    /// What kind of load a scenario has.
    Weather {
        Calm = "calm",
        Abrupt = "abrupt",
        Periodic = "periodic",
        Drifting = "drifting",
        Neighbour = "neighbour",
        Faults = "faults",
        /// Bursts of heavy-tailed lengths; see [`fresh`].
        Bursts = "bursts",
        /// One of the others except `Bursts`, drawn at random.
        Any = "any",
    }
}

/// The ranges from which strengths and periods are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranges {
    /// The share of the bandwidth that is left; one of these is drawn.
    pub shares: [f64; 3],
    /// How many times as long a hop takes; one of these is drawn.
    pub delays: [f64; 3],
    /// The least and the greatest period of periodic congestion, in calls.
    pub periods: (u64, u64),
    /// Whether congestion may take bandwidth and delay hops at once.
    pub both: bool,
}

impl Ranges {
    #[must_use]
    pub const fn of(split: Split) -> Self {
        match split {
            Split::Training => Self {
                shares: [0.5, 0.25, 0.125],
                delays: [2.0, 4.0, 10.0],
                periods: (450, 650),
                both: false,
            },
            Split::HeldOut => Self {
                shares: [0.4, 0.2, 0.1],
                delays: [3.0, 6.0, 14.0],
                periods: (700, 1000),
                both: true,
            },
            Split::Fresh => Self {
                shares: [0.6, 0.3, 0.15],
                delays: [2.5, 5.0, 9.0],
                periods: (1100, 1400),
                both: true,
            },
        }
    }
}

/// The timeline of a communicator that lies inside one server or not, for so many calls.
pub fn draw(
    weather: Weather,
    split: Split,
    inside: bool,
    calls: u64,
    dice: &mut Stream,
) -> Timeline {
    let ranges = Ranges::of(split);
    let weather = match weather {
        Weather::Any => {
            let all = [
                Weather::Calm,
                Weather::Abrupt,
                Weather::Periodic,
                Weather::Drifting,
                Weather::Neighbour,
                Weather::Faults,
            ];
            all[dice.random_range(0..all.len())]
        }
        it => it,
    };
    let congestion = congestion(&ranges, inside, dice);
    // Something happens in the second fifth at the earliest, so that there is a before.
    let first = dice.random_range(calls / 5..=calls * 2 / 5);
    let last = dice.random_range(calls * 7 / 10..=calls * 9 / 10);
    let one = |pattern, load| Episode { calls: (first, last), pattern, load };
    let neighbour = Load { neighbour: dice.random_range(0.5..=1.5), ..Load::NONE };
    let (from, to) = ranges.periods;
    let period = dice.random_range(from..=to);
    let episodes = match weather {
        Weather::Calm | Weather::Any => Vec::new(),
        Weather::Abrupt => vec![one(Pattern::Abrupt, congestion)],
        Weather::Periodic => {
            let pattern = Pattern::Periodic { period, on: period / 2 };
            vec![Episode { calls: (first / 2, calls), pattern, load: congestion }]
        }
        Weather::Drifting => {
            vec![Episode { calls: (first, calls), pattern: Pattern::Drifting, load: congestion }]
        }
        Weather::Neighbour => vec![one(Pattern::Abrupt, neighbour)],
        Weather::Faults => faults(&ranges, inside, calls, dice),
        Weather::Bursts => return fresh::bursts(&ranges, inside, calls, dice),
    };
    Timeline { episodes }
}

pub(super) fn congestion(ranges: &Ranges, inside: bool, dice: &mut Stream) -> Load {
    let at = if inside { Where::Inside } else { Where::Between };
    let share = ranges.shares[dice.random_range(0..ranges.shares.len())];
    let delay = ranges.delays[dice.random_range(0..ranges.delays.len())];
    let (bandwidth, waiting) = match dice.random_range(0..if ranges.both { 3 } else { 2 }) {
        0 => (true, false),
        1 => (false, true),
        _ => (true, true),
    };
    Load {
        at,
        share: if bandwidth { share } else { 1.0 },
        delay: if waiting { delay } else { 1.0 },
        ..Load::NONE
    }
}

/// Two or three faults, each of which takes a part of the bandwidth until it is repaired.
fn faults(ranges: &Ranges, inside: bool, calls: u64, dice: &mut Stream) -> Vec<Episode> {
    let at = if inside { Where::Inside } else { Where::Between };
    let count = dice.random_range(2..=3);
    let each = calls / (count + 1);
    (0..count)
        .map(|it| {
            let first = (it + 1) * each + dice.random_range(0..=each / 4);
            let load = Load { at, share: ranges.shares[0], fault: true, ..Load::NONE };
            Episode { calls: (first, first + each / 2), pattern: Pattern::Abrupt, load }
        })
        .collect()
}
