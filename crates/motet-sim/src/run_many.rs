//! Many independent simulations, run on all cores.

use rayon::prelude::*;

use crate::event::{Outcome, SimError, Simulation};

/// Runs every simulation; results are in the order of the simulations and do not depend on how
/// many cores there are.
#[must_use]
pub fn run_many(simulations: Vec<Simulation<'_>>) -> Vec<Result<Outcome, SimError>> {
    simulations.into_par_iter().map(Simulation::run).collect()
}
