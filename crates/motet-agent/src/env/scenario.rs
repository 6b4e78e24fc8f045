//! [`Scenario`]: the description of a job on a network, its calls and the load on it, on which policies are trained and judged.
//!
//! It is plain data: running it ([`Environment`](super::Environment)) gives the same calls, loads and noise every time.
//! [`family`](super::family) draws scenarios.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::place::Place;
use super::timeline::Timeline;
use super::trouble::Trouble;
use crate::state::{Role, Scheduler, TrainedModel, Workload};

/// A number for each pair of algorithm and protocol.
pub type PerKernel = [[f64; Protocol::COUNT]; Algorithm::COUNT];

/// A communicator of the job.
#[derive(Clone, Debug)]
pub struct Group {
    pub place: Arc<Place>,
    pub timeline: Timeline,
    /// The cost model's error by algorithm and protocol: the true time as a multiple of the modelled one. No policy is told.
    pub error: PerKernel,
    /// How strongly load acts on calls, as an exponent of the modelled slowdown: 1 is as modelled. No policy is told.
    pub response: PerKernel,
    /// Further slowdowns, by laws that no policy assumes.
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

/// A recurring call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The number of its communicator in [`Scenario::groups`].
    pub group: usize,
    pub kind: CollectiveKind,
    /// The size in nccl-tests' sense, after compression.
    pub bytes: Bytes,
    pub role: Role,
    pub workload: Workload,
}

/// The distribution of measurement noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The standard deviation of the logarithm.
    pub spread: f64,
    /// The share of calls that take much longer for an unknown reason.
    pub outliers: f64,
    /// How many times as long such a call takes at the most.
    pub outlier: f64,
}

/// A job, its calls, and the load on it.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// The seed of the noise.
    pub seed: Seed,
    pub groups: Vec<Group>,
    pub tasks: Vec<Task>,
    /// The tasks of one training step, in order; steps follow each other.
    pub step: Vec<usize>,
    /// The number of calls in the whole scenario.
    pub calls: u64,
    /// The time the GPU computes between two calls.
    pub gap: Duration,
    pub noise: Noise,
    /// How much the error of an algorithm and protocol varies further from task to task: the standard deviation of its logarithm.
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
