//! [`Scenario`]: a job on a network, call by call, with all that happens to it: what a policy is trained on and
//! judged by.
//!
//! It says everything and does nothing: the same scenario gives the same calls, loads and noise however often it is
//! run ([`Environment`](super::Environment)). [`family`](super::family) draws scenarios.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::place::Place;
use super::timeline::Timeline;
use super::trouble::Trouble;
use crate::state::{Role, Scheduler, TrainedModel, Workload};

/// Something for each algorithm and protocol.
pub type PerKernel = [[f64; Protocol::COUNT]; Algorithm::COUNT];

/// A communicator of the job.
#[derive(Clone, Debug)]
pub struct Group {
    pub place: Arc<Place>,
    pub timeline: Timeline,
    /// What calls truly take, as a multiple of what the model says, by algorithm and protocol: the model's
    /// error, which no policy is told.
    pub error: PerKernel,
    /// How strongly load acts on calls, as the power of what the model says: 1 is as it says. No policy is told.
    pub response: PerKernel,
    /// What slows its calls beside load, by laws that no policy assumes.
    pub troubles: Vec<Trouble>,
}

impl Group {
    /// The calls before which something changes abruptly, in order.
    #[must_use]
    pub fn changes(&self, calls: u64) -> Vec<u64> {
        let mut all = self.timeline.changes(calls);
        let troubles = self.troubles.iter().flat_map(Trouble::changes);
        all.extend(troubles.filter(|it| (1..calls).contains(it)));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A call that comes again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The number of its communicator in [`Scenario::groups`].
    pub group: usize,
    pub kind: CollectiveKind,
    /// In nccl-tests' sense of size, after compression.
    pub bytes: Bytes,
    pub role: Role,
    pub workload: Workload,
}

/// How far one measurement lies from another of the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The standard deviation of the logarithm.
    pub spread: f64,
    /// How often a call takes much longer for no reason that anybody knows,
    pub outliers: f64,
    /// and how many times as long at the most.
    pub outlier: f64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// Noise is drawn from it.
    pub seed: Seed,
    pub groups: Vec<Group>,
    pub tasks: Vec<Task>,
    /// The tasks of one training step, in order; steps follow each other.
    pub step: Vec<usize>,
    /// Calls in all.
    pub calls: u64,
    /// What the GPU computes between two calls.
    pub gap: Duration,
    pub noise: Noise,
    /// By how much each kind of kernel differs from task to task beyond the model's error: the standard
    /// deviation of the logarithm.
    pub quirk: f64,
    pub scheduler: Scheduler,
    pub model: TrainedModel,
}

impl Scenario {
    /// The number of the task of a call.
    #[must_use]
    pub fn task(&self, call: u64) -> usize {
        let length = self.step.len().max(1) as u64;
        self.step.get((call % length) as usize).copied().unwrap_or(0)
    }
}
