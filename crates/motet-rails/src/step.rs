//! [`TrainingStep`]: one training step of a job on a machine, and how long it takes over each kind of rails.

use motet_workload::windows::{Call, View, Windows};
use motet_workload::{Iteration, Job, Run};

use crate::electrical::Electrical;
use crate::error::RailsError;
use crate::knobs::Algorithms;
use crate::machine::Machine;
use crate::optical::{Fixed, Switched, Switching, best_fixed, even_fixed, switched_by};

/// One training step of a job, as a DAG, and the machine that it runs on.
#[derive(Clone, Debug)]
pub struct TrainingStep {
    pub job: Job,
    pub iteration: Iteration,
    pub machine: Machine,
}

impl TrainingStep {
    /// The first training step of a job.
    pub fn new(job: Job, machine: Machine) -> Result<Self, RailsError> {
        let iteration = job.iteration(0)?;
        Ok(Self { job, iteration, machine })
    }

    /// Runs it on packet-switched rails.
    pub fn electrical(&self) -> Result<Run, RailsError> {
        self.electrical_by(&Algorithms::default())
    }

    /// Runs it on packet-switched rails, with the algorithm of each AllReduce given by `by`.
    pub fn electrical_by(&self, by: &Algorithms) -> Result<Run, RailsError> {
        let mut fabric = Electrical::by(&self.job, &self.iteration, &self.machine, by)?;
        Ok(self.iteration.simulate(&self.job.draft().gpu, &mut fabric)?)
    }

    /// Runs it on optical rails that change circuits during the step.
    pub fn switched(&self, switching: &Switching) -> Result<Switched, RailsError> {
        self.switched_by(switching, &Algorithms::default())
    }

    /// Runs it on optical rails that change circuits, with the algorithm of each AllReduce that no circuits carry given by `by`.
    pub fn switched_by(
        &self,
        switching: &Switching,
        by: &Algorithms,
    ) -> Result<Switched, RailsError> {
        switched_by(&self.job, &self.iteration, &self.machine, switching, by)
    }

    /// Runs it on circuits that stay for the whole job: with the NIC's ports divided evenly, and with the division that is fastest.
    pub fn fixed(&self, ports: u32) -> Result<(Fixed, Fixed), RailsError> {
        let Self { job, iteration, machine } = self;
        Ok((
            even_fixed(job, iteration, machine, ports)?,
            best_fixed(job, iteration, machine, ports)?,
        ))
    }

    /// The windows (idle times on a rail between phases of traffic) of a run.
    #[must_use]
    pub fn windows(&self, run: &Run, view: View) -> Windows {
        Windows::of(&self.calls(run, view))
    }

    /// The calls on a rail in a run.
    #[must_use]
    pub fn calls(&self, run: &Run, view: View) -> Vec<Call> {
        run.calls(&self.iteration, self.job.layout(), self.machine.placement(), view)
    }
}
