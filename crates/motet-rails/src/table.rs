//! [`Table`]: the cost of every communication of a step, computed before the step runs. A step has few distinct sizes and groups, so
//! most of the costs are computed once and shared.

use std::collections::BTreeMap;

use motet_workload::simulate::Cost;
use motet_workload::{Communication, Iteration};

use crate::alone::AloneError;

/// Costs by operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    of: Vec<u32>,
    costs: Vec<Cost>,
}

impl Table {
    /// Computes the cost of each distinct communication of each stage once.
    pub(crate) fn new(
        iteration: &Iteration,
        mut cost: impl FnMut(u32, &Communication) -> Result<Cost, AloneError>,
    ) -> Result<Self, AloneError> {
        let mut known = BTreeMap::new();
        // Entry 0 is the cost of operations that do not communicate: nothing.
        let mut table =
            Self { of: vec![0; iteration.operations().len()], costs: vec![Cost::default()] };
        for (index, operation, what) in iteration.communications() {
            let key = (operation.stage, what.kind, what.group, what.parallelism, what.bytes);
            let at = match known.get(&key) {
                Some(at) => *at,
                None => {
                    table.costs.push(cost(operation.stage, what)?);
                    known.insert(key, table.costs.len() as u32 - 1);
                    table.costs.len() as u32 - 1
                }
            };
            table.of[index] = at;
        }
        Ok(table)
    }

    pub(crate) fn get(&self, operation: usize) -> &Cost {
        &self.costs[self.of[operation] as usize]
    }
}
