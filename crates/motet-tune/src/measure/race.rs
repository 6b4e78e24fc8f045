//! [`Race`]: settings timed in turns, until one is clearly fastest.
//!
//! Machines drift, so a time cannot be compared with one that was taken a minute earlier. In every round NCCL's own
//! choice is timed first and last, and all settings still in the race in between; a setting is judged by its ratio to
//! NCCL's own within the round. The two times of NCCL's own choice in a round show how much is noise.
//!
//! In races of the executor's programs, setting 0 is not NCCL's own choice but the program that is run without a plan.

use motet_units::Duration;

/// (rounds, factor): after so many rounds, settings leave the race whose median ratio is more than this factor times
/// the best one's.
const LEAVES: [(usize, f64); 7] =
    [(1, 2.0), (2, 1.5), (3, 1.25), (4, 1.15), (6, 1.08), (9, 1.05), (12, 1.03)];
/// The least number of rounds before a setting wins because it is the only one left.
const LEAST_ROUNDS: usize = 7;
/// The most rounds of a race.
pub(super) const MOST_ROUNDS: usize = 15;

/// How many times as fast as NCCL's own a setting must be in the median of all rounds, to win.
const LEAST_GAIN: f64 = 1.02;

/// Settings whose ratios are within this factor are as good as one another.
const ALIKE: f64 = 1.02;

/// A race between settings, which are numbered; 0 is NCCL's own choice.
#[derive(Clone, Debug)]
pub struct Race {
    /// By setting and round: its time divided by that of NCCL's own in the round.
    ratios: Vec<Vec<f64>>,
    times: Vec<Vec<Duration>>,
    /// The settings still in the race, without NCCL's own.
    left: Vec<usize>,
    rounds: usize,
}

impl Race {
    #[must_use]
    pub fn new(settings: usize) -> Self {
        let (ratios, times) = (vec![Vec::new(); settings], vec![Vec::new(); settings]);
        Self { ratios, times, left: (1..settings).collect(), rounds: 0 }
    }

    /// The settings to time in the next round, in this order.
    #[must_use]
    pub fn round(&self) -> Vec<usize> {
        let mut order = vec![0];
        // Rotate the order from round to round, so that no setting always follows the same one.
        let turn = self.rounds.checked_rem(self.left.len()).unwrap_or(0);
        order.extend(self.left.iter().cycle().skip(turn).take(self.left.len()));
        order.push(0);
        order
    }

    /// Adds the times of a round, in the order of [`round`](Self::round), and drops settings that are clearly slower.
    pub fn add(&mut self, times: &[Duration]) {
        let order = self.round();
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
        let own = (first.as_us_f64() + last.as_us_f64()) / 2.0;
        for (setting, time) in order.into_iter().zip(times) {
            self.times[setting].push(*time);
            if setting != 0 {
                self.ratios[setting].push(time.as_us_f64() / own.max(1e-6));
            }
        }
        self.rounds += 1;
        let Some(best) = self.best().map(|it| self.ratio(it)) else { return };
        let leaves = LEAVES.iter().rev().find(|it| it.0 <= self.rounds);
        let most = leaves.map_or(f64::INFINITY, |it| it.1) * best.min(1.0);
        let left = std::mem::take(&mut self.left);
        self.left = left.into_iter().filter(|it| self.ratio(*it) <= most).collect();
    }

    /// Whether the race is over: no setting is left, one alone after enough rounds, or the most rounds have been run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
            || self.rounds >= MOST_ROUNDS
            || (self.left.len() == 1 && self.rounds >= LEAST_ROUNDS)
    }

    #[must_use]
    pub const fn rounds(&self) -> usize {
        self.rounds
    }

    /// The median of a setting's ratios.
    fn ratio(&self, setting: usize) -> f64 {
        median(&self.ratios[setting]).unwrap_or(f64::INFINITY)
    }

    fn best(&self) -> Option<usize> {
        let left = self.left.iter().copied();
        left.reduce(|best, it| if self.ratio(it) < self.ratio(best) { it } else { best })
    }

    /// The settings still in the race with their median ratios to NCCL's own, the best first.
    #[must_use]
    pub fn standing(&self) -> Vec<(usize, f64)> {
        let mut all: Vec<_> = self.left.iter().map(|it| (*it, self.ratio(*it))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all
    }

    /// The setting that beats NCCL's own, if any does: by 2% in the median, and in three rounds of four. Of settings
    /// within 2% of the best, the first.
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        let most = self.ratio(self.best()?) * ALIKE;
        let best = self.left.iter().copied().find(|it| self.ratio(*it) <= most)?;
        let mut ratios = self.ratios[best].clone();
        ratios.sort_by(f64::total_cmp);
        let upper = *ratios.get(ratios.len() * 3 / 4)?;
        (self.ratio(best) * LEAST_GAIN <= 1.0 && upper < 1.0).then_some(best)
    }

    /// All times of a setting.
    #[must_use]
    pub fn times(&self, setting: usize) -> &[Duration] {
        &self.times[setting]
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_units::Seed;
    use rand::RngExt as _;

    /// Races settings of these true times, each iteration off by up to `noise` either way, on a machine that
    /// drifts.
    fn race(us: &[u64], noise: f64, seed: u64) -> Race {
        let mut draws = Seed::new(seed).stream("noise");
        let mut race = Race::new(us.len());
        let mut drift = 1.0;
        while !race.is_over() {
            drift *= 1.03;
            let time = |it: &usize| {
                let factor = drift * (1.0 + noise * (2.0 * draws.random::<f64>() - 1.0));
                Duration::from_ps((us[*it] as f64 * 1e6 * factor) as u64)
            };
            let times: Vec<Duration> = race.round().iter().map(time).collect();
            race.add(&times);
        }
        race
    }

    #[test]
    fn the_fastest_wins_though_the_machine_drifts() {
        for seed in 0..100 {
            let race = race(&[100, 180, 70, 90, 400, 72], 0.04, seed);
            let winner = race.winner().unwrap();
            assert!(winner == 2 || winner == 5, "{winner}");
            assert_eq!(race.times(4).len(), 1, "four times as slow, once is enough");
        }
    }

    #[test]
    fn what_does_not_gain_is_not_taken() {
        let wrong = (0..200).filter(|it| race(&[100, 100, 101, 99], 0.05, *it).winner().is_some());
        let wrong = wrong.count();
        assert!(wrong <= 20, "{wrong} of 200");
        assert_eq!(race(&[100, 150, 300], 0.05, 1).winner(), None);
        assert!(race(&[100], 0.05, 1).is_over());
    }

    #[test]
    fn of_equals_the_first_wins() {
        let firsts = (0..100).filter(|it| race(&[100, 70, 70, 70], 0.01, *it).winner() == Some(1));
        assert!(firsts.count() >= 95);
    }

    #[test]
    fn a_round_has_nccl_at_both_ends() {
        let mut race = Race::new(4);
        assert_eq!(race.round(), [0, 1, 2, 3, 0]);
        race.add(&[Duration::from_us(10); 5]);
        assert_eq!(race.round(), [0, 2, 3, 1, 0]);
        assert_eq!((race.rounds(), race.times(0).len(), race.times(1).len()), (1, 2, 1));
    }
}
