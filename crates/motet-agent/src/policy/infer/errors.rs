//! [`Errors`]: by how much the model is off, for each algorithm and protocol of a communicator, and for each task beyond
//! that.
//!
//! Both are Gaussian in the logarithm; a measurement is shared out between them by how uncertain each is (a Kalman
//! filter of two states). Under another load a kernel may be off by something else, so that what was learned before
//! counts for less.

use std::collections::BTreeMap;

use super::loads::{Arm, NOISE, RESPONSE};

/// What is held to be so before anything is measured, as standard deviations: of a kernel, and of a task beyond it.
const KERNEL: f64 = 0.2;
const OWN: f64 = 0.07;
/// A surprise of more standard deviations than this is cut down to it.
const CLIP: f64 = 3.0;
/// The variance that is added with every call of the communicator to what was not seen in it: little while nobody else is
/// there, more under load, which may change.
const AGEING: f64 = 1e-5;
const AGEING_LOADED: f64 = 1.5e-4;
/// The most that ageing makes of it, as a standard deviation.
const STALE: f64 = 0.5;
/// What uncertainty grows by at every measurement, for errors that change slowly.
const DRIFT: f64 = 1e-5;

#[derive(Clone, Copy, Debug)]
struct Gauss {
    mean: f64,
    variance: f64,
}

/// The error of one arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Error {
    pub(super) mean: f64,
    pub(super) kernel: f64,
    pub(super) own: f64,
    /// The logarithm of the slowdown under which the kernel was last seen.
    pub(super) seen_under: f64,
}

impl Error {
    /// The variance of it all.
    pub(super) fn all(&self) -> f64 {
        self.kernel + self.own
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    /// With the slowdown under which each was last seen.
    kernels: BTreeMap<usize, (Gauss, f64)>,
    /// By task, kernel and channels; with the age at which each was last seen.
    own: BTreeMap<(usize, usize, u32), (Gauss, f64)>,
    /// What uncertainty has grown by since the first call, for whatever was not seen since.
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

    /// Learns from a call whose time lay `off` above the model's, where load explains `slower` of it with the variance
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

    /// Another call; `calm` is how likely it is that nobody else is there.
    pub(super) fn grow_older(&mut self, calm: f64) {
        self.age += AGEING + AGEING_LOADED * (1.0 - calm);
    }

    /// All of it, for checksums.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let kernels = self.kernels.values().flat_map(|it| [it.0.mean, it.0.variance, it.1]);
        kernels.chain(self.own.values().flat_map(|it| [it.0.mean, it.0.variance, it.1]))
    }
}
