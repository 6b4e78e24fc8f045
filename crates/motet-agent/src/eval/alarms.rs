//! [`false_alarms`]: what the trigger's alarms cost where nothing ever changes, so that every alarm is false.
//!
//! The same scenarios are run twice: by a policy that acts for a while after each alarm, and by the same policy ignoring alarms. All
//! else is equal, noise included, so the difference is the effect of the alarms: the cost of needless probes, less what they
//! happened to find.

use motet_units::Seed;

use super::run::Pace;
use super::score::Trial;
use crate::env::{Atlas, Family, PlaceError, Scenario};
use crate::policy::guard::Guarded;
use crate::policy::infer::Infer;
use crate::trigger::Gated;

/// The cost of false alarms. Times are sums of true means, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alarms {
    pub heard: f64,
    pub unheard: f64,
    pub alarms: u64,
    pub calls: u64,
}

impl Alarms {
    /// The cost of alarms as a share of all time. Negative where acting again found something better.
    #[must_use]
    pub fn cost(&self) -> f64 {
        if self.unheard > 0.0 { self.heard / self.unheard - 1.0 } else { 0.0 }
    }

    /// Measures one scenario, in which nothing should change.
    pub fn of(scenario: &Scenario) -> Result<Self, PlaceError> {
        let mut hears = Gated::new(Guarded::new(Infer::default()), "hears");
        let mut deaf = Gated::deaf(Guarded::new(Infer::default()), "deaf");
        let heard = Trial::of(&mut hears, scenario.clone(), Pace::default())?;
        let unheard = Trial::of(&mut deaf, scenario.clone(), Pace::default())?;
        let (alarms, calls) = (hears.alarms(), scenario.calls);
        Ok(Self { heard: heard.taken, unheard: unheard.taken, alarms, calls })
    }
}

/// The cost of false alarms in so many quiet scenarios of so many calls, one entry per scenario, to show the spread.
pub fn false_alarms(
    atlas: &Atlas,
    seed: Seed,
    (seeds, calls): (u64, u64),
) -> Result<Vec<Alarms>, PlaceError> {
    (0..seeds).map(|it| Alarms::of(&Family::Quiet.draw(atlas, seed.numbered(it), calls)?)).collect()
}

#[cfg(test)]
mod tests {
    use motet_units::Bytes;

    use super::*;
    use crate::env::testing::scenario;
    use crate::env::{Noise, Timeline};

    /// Less than half a percent, although there are alarms.
    #[test]
    fn false_alarms_cost_less_than_half_a_percent() {
        let sizes = [Bytes::kib(4), Bytes::kib(96), Bytes::kib(768), Bytes::mib(6)];
        let (mut alarms, mut worst) = (0, f64::NEG_INFINITY);
        for seed in 0..6 {
            let mut quiet = scenario(&sizes, 10_000, Timeline::default(), Seed::new(seed));
            // As noisy as scenarios get.
            quiet.noise = Noise { spread: 0.05, outliers: 0.01, outlier: 3.0 };
            let found = Alarms::of(&quiet).unwrap();
            alarms += found.alarms;
            worst = worst.max(found.cost());
        }
        assert!(alarms > 0, "without alarms nothing is tested");
        assert!(worst < 0.005, "{worst}");
    }
}
