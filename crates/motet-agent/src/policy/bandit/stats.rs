//! [`Arms`]: a bandit's estimates for the candidates of a task.

/// The noise of a measurement: the standard deviation of its logarithm.
pub const NOISE: f64 = 0.05;
/// The standard deviation of the logarithm of the cost model's error, before anything is measured.
pub const PRIOR: f64 = 0.2;
/// The factor by which older measurements are discounted, so that drift is followed.
const MEMORY: f64 = 0.95;
/// A candidate whose latest measurement is worse than the best by more than this, in the logarithm, is
/// dropped until something changes.
const CLEAR: f64 = 0.15;
/// A candidate must be better than NCCL's default by more than this, in the logarithm, to replace it.
const MARGIN: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Arm {
    action: usize,
    nominal: f64,
    mean: f64,
    /// The discounted number of measurements.
    weight: f64,
    dropped: bool,
}

/// The estimates for all candidates of a task; the first candidate is NCCL's default. Times are logarithms of µs unless a name says
/// otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Arms {
    arms: Vec<Arm>,
    level: f64,
}

impl Arms {
    /// Arms for actions with their nominal times; the default comes first.
    pub fn new(all: impl Iterator<Item = (usize, f64)>) -> Self {
        let arm =
            |(action, nominal)| Arm { action, nominal, mean: 0.0, weight: 0.0, dropped: false };
        Self { arms: all.map(arm).collect(), level: 0.0 }
    }

    /// Sets the level of the communicator's calls relative to the cost model, at which estimates start.
    pub const fn set_level(&mut self, level: f64) {
        self.level = level;
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.arms.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    #[must_use]
    pub fn action(&self, at: usize) -> usize {
        self.arms.get(at).map_or(0, |it| it.action)
    }

    #[must_use]
    pub fn position(&self, action: usize) -> Option<usize> {
        self.arms.iter().position(|it| it.action == action)
    }

    #[must_use]
    pub fn nominal(&self, at: usize) -> f64 {
        self.arms[at].nominal
    }

    /// The estimate, and its standard deviation.
    #[must_use]
    pub fn estimate(&self, at: usize) -> (f64, f64) {
        let arm = &self.arms[at];
        let (prior, noise) = (1.0 / (PRIOR * PRIOR), arm.weight / (NOISE * NOISE));
        let mean = (prior * (arm.nominal + self.level) + noise * arm.mean) / (prior + noise);
        (mean, libm::sqrt(1.0 / (prior + noise)))
    }

    #[must_use]
    pub fn mean(&self, at: usize) -> f64 {
        self.estimate(at).0
    }

    /// The estimate in µs.
    #[must_use]
    pub fn micros(&self, at: usize) -> f64 {
        libm::exp(self.mean(at))
    }

    /// Whether it was measured at least once since the last change.
    #[must_use]
    pub fn is_known(&self, at: usize) -> bool {
        self.arms[at].weight > 0.0
    }

    #[must_use]
    pub fn weight(&self, at: usize) -> f64 {
        self.arms[at].weight
    }

    #[must_use]
    pub fn is_dropped(&self, at: usize) -> bool {
        self.arms[at].dropped
    }

    /// The best of those that were measured; NCCL's default until something better was.
    #[must_use]
    pub fn best(&self) -> usize {
        let mut best = 0;
        for at in 1..self.arms.len() {
            let ahead = if best == 0 { MARGIN } else { 0.0 };
            if self.is_known(at) && self.is_known(0) && self.mean(at) < self.mean(best) - ahead {
                best = at;
            }
        }
        best
    }

    /// The expected cost of trying a candidate, beyond the best's time, in µs.
    #[must_use]
    pub fn cost(&self, at: usize, best: usize) -> f64 {
        let (mean, spread) = self.estimate(at);
        (libm::exp(mean + spread / 2.0) - self.micros(best)).max(0.0)
    }

    pub fn learn(&mut self, at: usize, time: f64) {
        let best = self.best();
        let ahead = time - self.mean(best);
        let arm = &mut self.arms[at];
        arm.weight = arm.weight * MEMORY + 1.0;
        arm.mean += (time - arm.mean) / arm.weight;
        arm.dropped = at != 0 && ahead > CLEAR && at != best;
    }

    /// Discards all measurements, because something has changed.
    pub fn forget(&mut self) {
        for arm in &mut self.arms {
            (arm.mean, arm.weight, arm.dropped) = (0.0, 0.0, false);
        }
    }

    /// The whole state as numbers, for checksums.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let arms =
            self.arms.iter().flat_map(|it| [it.mean, it.weight, f64::from(u8::from(it.dropped))]);
        std::iter::once(self.level).chain(arms)
    }
}
