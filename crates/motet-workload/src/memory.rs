//! [`Job::state_bytes`]: the memory that a rank needs for the model, independent of the batch: weights, gradients, and
//! optimizer state.
//!
//! The optimizer is Adam in mixed precision, as Megatron-LM and TorchTitan run it: a copy of the weights and
//! two moments, four bytes each. Activations are not counted; they depend on kernels and on what is kept.

use motet_units::Bytes;

use crate::job::Job;
use crate::layout::{Group, Sharding};

/// Bytes of the optimizer's state per parameter.
const OPTIMIZER: u128 = 12;

impl Job {
    /// The bytes of weights, gradients and optimizer state on a rank of a stage, after sharding.
    #[must_use]
    pub fn state_bytes(&self, stage: u32) -> Bytes {
        let precision = self.draft().precision;
        let (weights, gradients) = (u128::from(precision.compute), u128::from(precision.gradients));
        let mut sum = 0;
        for part in self.stage_parts(stage) {
            for (group, count) in self.shared(part) {
                let count = u128::from(count);
                let shards = u128::from(self.shards(group));
                let (whole, split) = match self.layout().sharding {
                    Sharding::None => (weights + gradients + OPTIMIZER, 0),
                    Sharding::Optimizer => (weights + gradients, OPTIMIZER),
                    Sharding::Gradients => (weights, gradients + OPTIMIZER),
                    Sharding::Parameters { .. } => (0, weights + gradients + OPTIMIZER),
                };
                sum += count * whole + (count * split).div_ceil(shards);
            }
        }
        Bytes::new(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    fn shards(&self, group: Group) -> u32 {
        self.layout().size(group).max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::job_toml;

    #[test]
    fn sharding_divides_what_it_shards() {
        let state = |sharding: &str| {
            let text = format!(
                "model = {{ name = \"m\", layers = 4, parameters = 1_000_000 }}\ngpu = \"h100\"\n[layout]\ndp = 4\n\
                 sharding = \"{sharding}\"\n[batch]\nsequence = 1\nmicro = 1\nglobal = 4\n"
            );
            job_toml::read(&text).unwrap().check().unwrap().state_bytes(0).get()
        };
        assert_eq!(state("none"), 18_000_000);
        assert_eq!(state("optimizer"), 6_000_000 + 12_000_000 / 4);
        assert_eq!(state("gradients"), 2_000_000 + 16_000_000 / 4);
        assert_eq!(state("parameters"), 18_000_000 / 4);
    }
}
