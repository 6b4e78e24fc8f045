//! [`Control`]: one step of a job on rails whose circuits the [control plane](super::plane) sets.

use motet_control::shim;
use motet_units::Instant;
use motet_workload::simulate::fabric::Call;
use motet_workload::simulate::{Cost, Fabric};

use super::plane::{ControlPlane, Way};
use crate::table::Table;

/// A period in which a circuit set was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub set: usize,
    /// When the change that set it up began, (`up`) when it could carry data, and (`until`) when it was torn down.
    pub taken: Instant,
    pub up: Instant,
    pub until: Instant,
}

/// A communication over the rails: the circuit set it needs, and the call that shims see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) set: usize,
    pub(super) call: shim::Call,
}

/// Optical rails during one step, as a fabric for the simulation.
#[derive(Debug)]
pub(super) struct Control<'a> {
    /// The costs of communications over the rails or inside servers.
    pub(super) costs: &'a Table,
    /// The costs of communications over the host's network, for those that are refused circuits.
    pub(super) host: &'a Table,
    /// For each operation, its circuit set and call, if it goes over the rails.
    pub(super) wants: &'a [Option<Want>],
    pub(super) plane: &'a mut ControlPlane,
    /// When the step began, by the control plane's clock.
    pub(super) start: Instant,
    /// How many calls had to take the host's network.
    pub(super) refused: u64,
}

impl Control<'_> {
    /// Runs the control plane up to that moment of the step.
    fn at(&mut self, now: Instant) {
        self.plane.until(self.start + now.since(Instant::START));
    }
}

impl Fabric for Control<'_> {
    fn cost(&mut self, call: Call<'_>) -> Cost {
        let table = match self.plane.may_go(call.operation) {
            Some(Way::Host) => self.host,
            Some(Way::Rails) | None => self.costs,
        };
        table.get(call.operation).clone()
    }

    fn requested(&mut self, call: Call<'_>, now: Instant) {
        if let Some(want) = self.wants[call.operation] {
            self.at(now);
            self.plane.call(want.set, call.operation, want.call);
        }
    }

    fn may_start(&mut self, call: Call<'_>, now: Instant) -> bool {
        if self.wants[call.operation].is_none() {
            return true;
        }
        self.at(now);
        self.plane.may_go(call.operation).is_some()
    }

    fn started(&mut self, call: Call<'_>, _now: Instant) {
        self.refused += u64::from(self.plane.may_go(call.operation) == Some(Way::Host));
    }

    fn ended(&mut self, call: Call<'_>, now: Instant) {
        if let Some(want) = self.wants[call.operation] {
            self.at(now);
            self.plane.ended(want.set, call.operation);
        }
    }

    fn wakes(&mut self, now: Instant) -> Option<Instant> {
        let next = self.plane.next()?;
        Some((Instant::START + next.since(self.start)).max(now))
    }
}
