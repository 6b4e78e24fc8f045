//! [`Errors`]: estimates the cost model's error, one part per algorithm and protocol (kernel) of a communicator and another per task.
//!
//! Both are Gaussian in the logarithm; each measurement is divided between them by their variances (a Kalman filter of two
//! states). A kernel's error may differ under another load, so what was learned under one load counts for less under another.

use std::collections::BTreeMap;

use super::loads::{Arm, NOISE, RESPONSE};

/// The prior standard deviation of a kernel's error.
const KERNEL: f64 = 0.2;
/// The prior standard deviation of a task's error beyond its kernel's.
const OWN: f64 = 0.07;
/// Surprises are clipped to this many standard deviations.
const CLIP: f64 = 3.0;
/// The variance that every call of the communicator adds to tasks' errors that it did not measure. Under load
/// it is more, because load may change.
const AGEING: f64 = 1e-5;
const AGEING_LOADED: f64 = 1.5e-4;
/// The limit to which ageing can raise the variance of a task's error, as a standard deviation.
const STALE: f64 = 0.5;
/// The variance added at every measurement, to follow errors that change slowly.
const DRIFT: f64 = 1e-5;

#[derive(Clone, Copy, Debug)]
struct Gauss {
    mean: f64,
    variance: f64,
}

/// The estimated error of one arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Error {
    pub(super) mean: f64,
    /// The variance of the kernel's error.
    pub(super) kernel: f64,
    /// The variance of the task's error beyond the kernel's.
    pub(super) own: f64,
    /// The logarithm of the slowdown under which the kernel was last seen.
    pub(super) seen_under: f64,
}

impl Error {
    /// The total variance.
    pub(super) fn all(&self) -> f64 {
        self.kernel + self.own
    }
}

/// The error estimates of one communicator.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    /// By kernel, its error and the slowdown under which it was last measured.
    kernels: BTreeMap<usize, (Gauss, f64)>,
    /// By task, kernel and channels, the error beyond the kernel's and the age at which it was last measured.
    own: BTreeMap<(usize, usize, u32), (Gauss, f64)>,
    /// The variance that ageing has accumulated since the first call.
    age: f64,
}

impl Errors {
    fn kernel(&self, arm: &Arm) -> (Gauss, f64) {
        let unknown = (Gauss { mean: 0.0, variance: KERNEL * KERNEL }, 0.0);
        self.kernels.get(&arm.kernel).copied().unwrap_or(unknown)
    }

    fn own(&self, task: usize, arm: &Arm) -> Gauss {
        let unknown = Gauss { mean: 0.0, variance: OWN * OWN };
        let Some((own, seen)) = self.own.get(&(task, arm.kernel, arm.channels)) else {
            return unknown;
        };
        let variance = (own.variance + self.age - seen).min(STALE * STALE);
        Gauss { variance, ..*own }
    }

    pub(super) fn of(&self, task: usize, arm: &Arm) -> Error {
        let ((kernel, seen_under), own) = (self.kernel(arm), self.own(task, arm));
        Error {
            mean: kernel.mean + own.mean,
            kernel: kernel.variance,
            own: own.variance,
            seen_under,
        }
    }

    /// Learns from a call whose logarithmic time lay `off` above the model's, of which load explains `slower` with variance
    /// `unsure`.
    pub(super) fn update(&mut self, task: usize, arm: &Arm, off: f64, slower: f64, unsure: f64) {
        let ((mut kernel, seen_under), mut own) = (self.kernel(arm), self.own(task, arm));
        let moved = RESPONSE * (slower - seen_under);
        kernel.variance += moved * moved + DRIFT;
        let measured = NOISE * NOISE + unsure;
        let all = kernel.variance + own.variance + measured;
        let most = CLIP * libm::sqrt(all);
        let surprise = (off - slower - kernel.mean - own.mean).clamp(-most, most);
        let (gain, gain_own) = (kernel.variance / all, own.variance / all);
        kernel.mean += gain * surprise;
        own.mean += gain_own * surprise;
        kernel.variance *= 1.0 - gain;
        own.variance *= 1.0 - gain_own;
        self.kernels.insert(arm.kernel, (kernel, slower));
        self.own.insert((task, arm.kernel, arm.channels), (own, self.age));
    }

    /// Ages the estimates by one call; `calm` is the probability that there is no load.
    pub(super) fn grow_older(&mut self, calm: f64) {
        self.age += AGEING + AGEING_LOADED * (1.0 - calm);
    }

    /// The whole state as numbers, for checksums.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let kernels = self.kernels.values().flat_map(|it| [it.0.mean, it.0.variance, it.1]);
        kernels.chain(self.own.values().flat_map(|it| [it.0.mean, it.0.variance, it.1]))
    }
}
