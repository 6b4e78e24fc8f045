//! [`Run`]: the times of all operations of a simulated step, and figures such as MFU.

use motet_units::{Duration, Instant};

use crate::iteration::Iteration;
use crate::job::Job;

/// The times of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When all operations that it waits for had ended.
    pub ready: Instant,
    /// When it began: later than `ready` if its stream was busy or the fabric did not allow it yet.
    pub start: Instant,
    pub end: Instant,
    /// How long a communication would have taken with the network to itself.
    pub alone: Duration,
}

/// The result of one simulated step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    spans: Vec<Span>,
    time: Duration,
}

impl Run {
    pub(super) fn new(spans: Vec<Span>) -> Self {
        let end = spans.iter().map(|it| it.end).max().unwrap_or(Instant::START);
        Self { spans, time: end.since(Instant::START) }
    }

    /// The times of all operations, by their numbers.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How long the step took.
    #[must_use]
    pub const fn time(&self) -> Duration {
        self.time
    }

    /// Tokens trained on per second, over all ranks. For printing only.
    #[must_use]
    pub fn tokens_per_s(&self, job: &Job) -> f64 {
        let batch = job.draft().batch;
        batch.global as f64 * batch.sequence as f64 / self.seconds()
    }

    /// Model FLOP/s utilization: the operations that the model needs (three times those of the forward pass,
    /// without recomputation) over what all GPUs could do in the time. For printing only.
    #[must_use]
    pub fn mfu(&self, job: &Job) -> f64 {
        let sequence = job.draft().batch.sequence;
        let flops = |it| job.model().flops(it, sequence);
        let forward = job.model().parts().map(flops);
        let forward: f64 = forward.map(|it| (it.projections + it.scores + it.rest) as f64).sum();
        let tokens = job.draft().batch.global as f64 * sequence as f64;
        let possible = self.seconds() * job.draft().gpu.peak as f64 * job.layout().ranks() as f64;
        3.0 * forward * tokens / possible
    }

    fn seconds(&self) -> f64 {
        (self.time.as_ps() as f64 / 1e12).max(f64::MIN_POSITIVE)
    }

    /// How long a stage computed.
    #[must_use]
    pub fn computed(&self, iteration: &Iteration, stage: u32) -> Duration {
        let all = iteration.operations().iter().zip(&self.spans);
        let own = all.filter(|(it, _)| it.stage == stage && it.communication().is_none());
        own.map(|(_, span)| span.end.since(span.start)).sum()
    }
}
