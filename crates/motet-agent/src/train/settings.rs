//! [`Settings`]: the hyperparameters of training, and their schedules.

use motet_units::Seed;

use super::loss::{Advice, Weights};
use super::world::Stage;
use crate::lstm::{Shape, Variant};

/// The hyperparameters of a training run. Schedules depend on `updates`, so a run cannot be prolonged afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub seed: u64,
    pub updates: u64,
    /// Lives that an update learns from.
    pub lives: u64,
    pub shape: Shape,
    pub variant: Variant,
    /// Whether stages open one after the other, from easy to hard; otherwise all are open from the beginning.
    pub curriculum: bool,
    /// How many of the first updates imitate what the simulator knows to be best.
    pub imitation: u64,
    /// Whether the actor then learns from the costs of all actions; otherwise only from the drawn one's
    /// advantage.
    pub full: bool,
    /// Adam's initial learning rate, in millionths; it falls to an eighth of that.
    pub rate: u32,
    /// How many lives of each stage the policy is judged on every [`JUDGE_EVERY`] updates; the best policy so
    /// far is kept.
    pub judges: u64,
}

/// Updates from one judgement to the next.
pub const JUDGE_EVERY: u64 = 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            updates: 300,
            lives: 16,
            shape: Shape::default(),
            variant: Variant::FULL,
            curriculum: true,
            imitation: 0,
            full: true,
            rate: 400,
            judges: 8,
        }
    }
}

/// A value that falls from `first` to `last`, geometrically, with the share of training that is done.
fn falling((first, last): (f32, f32), done: f32) -> f32 {
    first * libm::powf(last / first, done)
}

impl Settings {
    /// The seeds of the lives that policies are judged on during training; they are never trained on.
    pub(super) fn judged(&self) -> Vec<Seed> {
        let seed = Seed::new(self.seed).named("judges");
        (0..self.judges).map(|it| seed.numbered(it)).collect()
    }

    /// The share of training that lies before an update.
    fn done(&self, update: u64) -> f32 {
        update as f32 / self.updates.max(1) as f32
    }

    /// Adam's learning rate at an update.
    pub(super) fn rate(&self, update: u64) -> f32 {
        let first = self.rate as f32 * 1e-6;
        falling((first, first / 8.0), self.done(update))
    }

    pub(super) fn weights(&self, update: u64) -> Weights {
        let advice = match (update < self.imitation, self.full) {
            (true, _) => Advice::Imitation,
            (false, true) => Advice::Full,
            (false, false) => Advice::Drawn,
        };
        let entropy = falling((0.0005, 0.0001), self.done(update));
        Weights { advice, entropy, discount: 0.95, trace: 0.9 }
    }

    /// The stage and the seed of one of an update's lives. With a curriculum half of the lives are of the
    /// newest open stage; the other half are spread over all open stages, so that what was learned in earlier
    /// ones is not forgotten.
    pub(super) fn life(&self, update: u64, life: u64) -> (Stage, Seed) {
        let seed = Seed::new(self.seed).named("lives").numbered(update).numbered(life);
        let open = match (self.curriculum, self.done(update)) {
            (true, ..0.15) => 1,
            (true, ..0.35) => 2,
            _ => Stage::ALL.len() as u64,
        };
        let newest = life.is_multiple_of(2) && self.curriculum;
        let at = if newest { open - 1 } else { life / (1 + u64::from(self.curriculum)) % open };
        // Below the number of stages.
        (Stage::ALL[at as usize], seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(settings: &Settings, update: u64) -> [u64; 3] {
        let mut counts = [0; 3];
        (0..24).for_each(|life| counts[settings.life(update, life).0.index()] += 1);
        counts
    }

    #[test]
    fn stages_open_one_after_the_other() {
        let settings = Settings { updates: 100, ..Settings::default() };
        assert_eq!(stages(&settings, 0), [24, 0, 0]);
        assert_eq!(stages(&settings, 20), [6, 18, 0]);
        assert_eq!(stages(&settings, 90), [4, 4, 16]);
        let at_once = Settings { curriculum: false, ..settings };
        assert_eq!(stages(&at_once, 0), [8, 8, 8]);
    }

    #[test]
    fn entropy_and_rate_fall() {
        let settings = Settings { updates: 100, imitation: 10, full: false, ..Settings::default() };
        let weights = |it| settings.weights(it);
        assert!((weights(0).entropy - 0.0005).abs() < 1e-6);
        assert!((weights(100).entropy - 0.0001).abs() < 1e-6);
        assert!(settings.rate(50) < settings.rate(0));
        assert_eq!((weights(9).advice, weights(10).advice), (Advice::Imitation, Advice::Drawn));
        assert_ne!(settings.life(0, 0).1, settings.life(0, 1).1);
        assert_ne!(settings.life(0, 0).1, settings.life(1, 0).1);
    }
}
