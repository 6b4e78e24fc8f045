//! [`Step`]: a job, one step of it and the machine it runs on; what is asked of the three together.

use motet_workload::windows::{Call, View, Windows};
use motet_workload::{Iteration, Job, Run};

use crate::electrical::Electrical;
use crate::error::RailsError;
use crate::knobs::Algorithms;
use crate::machine::Machine;
use crate::optical::{Fixed, Switched, Switching, best_fixed, even_fixed, switched_by};

/// A job, its step and what it runs on.
#[derive(Clone, Debug)]
pub struct Step {
    pub job: Job,
    pub iteration: Iteration,
    pub machine: Machine,
}

impl Step {
    /// The first step of a job.
    pub fn new(job: Job, machine: Machine) -> Result<Self, RailsError> {
        let iteration = job.iteration(0)?;
        Ok(Self { job, iteration, machine })
    }

    /// On packet-switched rails.
    pub fn electrical(&self) -> Result<Run, RailsError> {
        self.electrical_by(&Algorithms::default())
    }

    /// The same with AllReduces by these algorithms.
    pub fn electrical_by(&self, by: &Algorithms) -> Result<Run, RailsError> {
        let mut fabric = Electrical::by(&self.job, &self.iteration, &self.machine, by)?;
        Ok(self.iteration.simulate(&self.job.draft().gpu, &mut fabric)?)
    }

    /// On optical rails that change circuits.
    pub fn switched(&self, switching: &Switching) -> Result<Switched, RailsError> {
        self.switched_by(switching, &Algorithms::default())
    }

    /// The same with AllReduces by these algorithms, where no circuits carry them.
    pub fn switched_by(
        &self,
        switching: &Switching,
        by: &Algorithms,
    ) -> Result<Switched, RailsError> {
        switched_by(&self.job, &self.iteration, &self.machine, switching, by)
    }

    /// On circuits that stay: ports shared out evenly, and in the best way there is.
    pub fn fixed(&self, ports: u32) -> Result<(Fixed, Fixed), RailsError> {
        let Self { job, iteration, machine } = self;
        Ok((
            even_fixed(job, iteration, machine, ports)?,
            best_fixed(job, iteration, machine, ports)?,
        ))
    }

    /// Its windows in a run.
    #[must_use]
    pub fn windows(&self, run: &Run, view: View) -> Windows {
        Windows::of(&self.calls(run, view))
    }

    /// Its calls on a rail in a run.
    #[must_use]
    pub fn calls(&self, run: &Run, view: View) -> Vec<Call> {
        run.calls(&self.iteration, self.job.layout(), self.machine.placement(), view)
    }
}
