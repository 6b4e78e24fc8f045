//! What to try: ε-greedy, Thompson sampling, and a prober in the manner of STAR-MPI.

use motet_units::{Seed, Stream};
use rand::RngExt;

use super::Rule;
use super::stats::Arms;

/// ε-greedy: now and then a random candidate.
#[derive(Clone, Debug)]
pub struct EpsilonGreedy {
    seed: Seed,
    dice: Stream,
    drawn: u64,
}

impl EpsilonGreedy {
    /// The share of calls in which a random candidate is tried.
    const EPSILON: f64 = 0.05;

    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { seed, dice: seed.stream("epsilon"), drawn: 0 }
    }
}

impl Rule for EpsilonGreedy {
    fn name(&self) -> &'static str {
        "epsilon"
    }

    fn pick(&mut self, arms: &Arms, best: usize) -> usize {
        self.drawn += 1;
        let (chance, which) =
            (self.dice.random::<f64>(), self.dice.random_range(0..arms.len().max(1)));
        if chance < Self::EPSILON { which } else { best }
    }

    fn reset(&mut self) {
        *self = Self::new(self.seed);
    }

    fn state(&self) -> u64 {
        self.drawn
    }
}

/// Thompson sampling: draws a time from each estimate and takes the candidate with the least.
#[derive(Clone, Debug)]
pub struct Thompson {
    seed: Seed,
    dice: Stream,
    drawn: u64,
}

impl Thompson {
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { seed, dice: seed.stream("thompson"), drawn: 0 }
    }

    fn normal(&mut self) -> f64 {
        self.drawn += 1;
        let (a, b) = (self.dice.random::<f64>(), self.dice.random::<f64>());
        libm::sqrt(-2.0 * libm::log(1.0 - a)) * libm::cos(2.0 * std::f64::consts::PI * b)
    }
}

impl Rule for Thompson {
    fn name(&self) -> &'static str {
        "thompson"
    }

    fn pick(&mut self, arms: &Arms, _best: usize) -> usize {
        let mut least = (0, f64::INFINITY);
        for at in 0..arms.len() {
            let (mean, spread) = arms.estimate(at);
            let drawn = mean + spread * self.normal();
            if drawn < least.1 && !arms.is_dropped(at) {
                least = (at, drawn);
            }
        }
        least.0
    }

    fn reset(&mut self) {
        *self = Self::new(self.seed);
    }

    fn state(&self) -> u64 {
        self.drawn
    }
}

/// STAR-MPI's two phases: measures each candidate in turn, then uses the best until something changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prober;

impl Prober {
    /// How many measurements of each candidate are made.
    const EACH: f64 = 2.0;
}

impl Rule for Prober {
    fn name(&self) -> &'static str {
        "star"
    }

    fn pick(&mut self, arms: &Arms, best: usize) -> usize {
        let open = |at: &usize| !arms.is_dropped(*at) && arms.weight(*at) < Self::EACH * 0.9;
        (0..arms.len()).find(open).unwrap_or(best)
    }

    fn reset(&mut self) {}

    fn state(&self) -> u64 {
        0
    }
}
