//! [`Electrical`]: rails of packet switches, the baseline. Everybody reaches everybody on its rail at the full rate of the NIC
//! at any time; only NICs and scale-up links are shared, between what a rank does at once.

use motet_units::Instant;
use motet_workload::simulate::fabric::Call;
use motet_workload::simulate::{Cost, Fabric};
use motet_workload::{Iteration, Job};

use crate::alone::{AloneError, Topology};
use crate::knobs::Algorithms;
use crate::levels::Levels;
use crate::machine::Machine;
use crate::table::Table;

/// Packet-switched rails without oversubscription.
#[derive(Clone, Debug)]
pub struct Electrical {
    costs: Table,
}

impl Electrical {
    /// For the communications of one step.
    pub fn new(job: &Job, iteration: &Iteration, machine: &Machine) -> Result<Self, AloneError> {
        Self::by(job, iteration, machine, &Algorithms::default())
    }

    /// The same with AllReduces by these algorithms.
    pub fn by(
        job: &Job,
        iteration: &Iteration,
        machine: &Machine,
        by: &Algorithms,
    ) -> Result<Self, AloneError> {
        let mut levels = Levels::new(job.layout(), machine).by(by);
        let rail = |_| Topology::Star(machine.rail);
        let costs = Table::new(iteration, |stage, what| levels.cost(stage, what, &rail, 0))?;
        Ok(Self { costs })
    }
}

impl Fabric for Electrical {
    fn cost(&mut self, call: Call<'_>) -> Cost {
        self.costs.get(call.operation).clone()
    }

    fn may_start(&mut self, _call: Call<'_>, _now: Instant) -> bool {
        true
    }
}
