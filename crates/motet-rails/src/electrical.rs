//! [`Electrical`]: rails of packet switches, the baseline. Every GPU reaches every other GPU on its rail at the full rate of the NIC
//! at any time; only the NIC and the scale-up links of a rank are shared, by communications that it has at the same time.

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
    /// The rails for the communications of one step.
    pub fn new(job: &Job, iteration: &Iteration, machine: &Machine) -> Result<Self, AloneError> {
        Self::by(job, iteration, machine, &Algorithms::default())
    }

    /// As [`new`](Self::new), with the algorithm of each AllReduce (ring or tree) given by `by`.
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
