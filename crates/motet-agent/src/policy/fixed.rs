//! Policies that learn nothing: NCCL's default, the plan's table, and the oracle.

use motet_runtime::Checksum;

use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;

/// What NCCL does by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NcclDefault;

impl Policy for NcclDefault {
    fn name(&self) -> &'static str {
        "nccl"
    }

    fn choose(&mut self, _seen: &Observation) -> Choice {
        Choice::DEFAULT
    }

    fn learn(&mut self, _seen: &Observation, _choice: &Choice, _outcome: &Outcome) {}

    fn reset(&mut self) {}

    fn checksum(&self) -> Checksum {
        Checksum::of(b"nccl")
    }
}

/// What a plan's table says: the best by the model, nobody else being there.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanTable;

impl Policy for PlanTable {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        Choice::best(least(&seen.brief.nominal))
    }

    fn learn(&mut self, _seen: &Observation, _choice: &Choice, _outcome: &Outcome) {}

    fn reset(&mut self) {}

    fn checksum(&self) -> Checksum {
        Checksum::of(b"plan")
    }
}

/// Knows the true means: the ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle {
    best: usize,
}

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn choose(&mut self, _seen: &Observation) -> Choice {
        Choice::best(self.best)
    }

    fn learn(&mut self, _seen: &Observation, _choice: &Choice, _outcome: &Outcome) {}

    fn reset(&mut self) {
        self.best = 0;
    }

    fn checksum(&self) -> Checksum {
        Checksum::of(&self.best.to_le_bytes())
    }

    fn told(&mut self, means: &[f64]) {
        self.best = least(means);
    }
}

/// The first of the least.
pub(crate) fn least(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value < values[best] {
            best = at;
        }
    }
    best
}
