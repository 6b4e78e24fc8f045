//! [`Iteration`]: how long one step of data-parallel training takes, from compute and the AllReduce
//! of its gradients.
//!
//! Compute is 6 · parameters · tokens operations, a third of them forward and two thirds backward.
//! Gradients get ready evenly over the backward pass and are reduced in buckets, one after the other,
//! each as soon as it is whole; or all after the backward pass, where nothing overlaps.

use motet_units::Bytes;

/// A model as the step sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) parameters: u64,
    /// Of one GPU in one step.
    pub(super) tokens: u64,
    /// What the paper says the plan gains.
    pub(super) published: f64,
}

/// Gradients are fp16.
const GRADIENT_BYTES: u64 = 2;

/// What DDP collects before it reduces (`bucket_cap_mb`).
pub(super) const BUCKET: Bytes = Bytes::mib(25);

impl Model {
    /// The buckets of all gradients; the last may be smaller.
    pub(super) fn buckets(&self) -> Vec<Bytes> {
        let whole = self.parameters.saturating_mul(GRADIENT_BYTES);
        let full = usize::try_from(whole / BUCKET.get()).unwrap_or(usize::MAX);
        let mut buckets = vec![BUCKET; full];
        let rest = whole % BUCKET.get();
        buckets.extend((rest > 0).then_some(Bytes::new(rest)));
        buckets
    }

    /// Seconds of one step on a GPU of so many operations a second, reached.
    pub(super) fn compute(&self, flops: f64) -> f64 {
        6.0 * self.parameters as f64 * self.tokens as f64 / flops
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Iteration {
    /// Seconds without any communication.
    pub(super) compute: f64,
    /// Of each bucket, in the order in which they get ready: its size, and the seconds that its
    /// AllReduce takes.
    pub(super) buckets: Vec<(Bytes, f64)>,
}

impl Iteration {
    /// Seconds of all AllReduces.
    pub(super) fn communication(&self) -> f64 {
        self.buckets.iter().map(|it| it.1).sum()
    }

    /// Seconds of the step where everything is reduced after the backward pass.
    pub(super) fn apart(&self) -> f64 {
        self.compute + self.communication()
    }

    /// Seconds of the step where buckets are reduced during the backward pass.
    pub(super) fn overlapped(&self) -> f64 {
        let (forward, backward) = (self.compute / 3.0, self.compute * 2.0 / 3.0);
        let whole: u64 = self.buckets.iter().map(|it| it.0.get()).sum();
        let (mut ready, mut done) = (0, 0.0f64);
        for (size, seconds) in &self.buckets {
            ready += size.get();
            let at = forward + backward * ready as f64 / whole.max(1) as f64;
            done = done.max(at) + seconds;
        }
        done.max(self.compute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Model = Model { name: "m", parameters: 100_000_000, tokens: 1000, published: 1.0 };

    fn iteration(seconds: f64) -> Iteration {
        let buckets = vec![(BUCKET, seconds); 4];
        Iteration { compute: 3.0, buckets }
    }

    #[test]
    fn buckets_hold_all_gradients() {
        let buckets = MODEL.buckets();
        assert_eq!(buckets.iter().copied().sum::<Bytes>(), Bytes::new(200_000_000));
        assert_eq!((buckets.len(), buckets[6]), (8, BUCKET));
        assert_eq!(buckets[7], Bytes::new(200_000_000 - 7 * BUCKET.get()));
        assert!((MODEL.compute(6e14) - 1e-3).abs() < 1e-15);
    }

    /// Forward is 1 s; four buckets get ready at 1.5, 2, 2.5 and 3 s.
    #[test]
    fn closed_forms() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(iteration(0.0).overlapped(), 3.0);
        // Each is done before the next is ready: only the last is seen.
        close(iteration(0.25).overlapped(), 3.25);
        // Each waits for the one before: all follow on the first.
        close(iteration(1.0).overlapped(), 1.5 + 4.0);
        close(iteration(1.0).apart(), 7.0);
        let none = Iteration { compute: 3.0, buckets: Vec::new() };
        close(none.overlapped(), 3.0);
        close(none.apart(), 3.0);
    }
}
