//! Policies that learn nothing: NCCL's default, the plan's table, and the oracle.

use motet_runtime::Checksum;

use super::{Choice, Policy};
use crate::env::Observation;
use crate::reward::Outcome;

/// Always NCCL's default.
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

/// Always the plan's table: the best action by the cost model without load.
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

/// Chooses by the true mean times: the upper limit for every policy.
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

/// The index of the minimum; the first one on a tie.
pub(crate) fn least(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value < values[best] {
            best = at;
        }
    }
    best
}
