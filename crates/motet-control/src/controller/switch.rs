//! [`Switch`]: what the controller knows of an optical switch; [`Order`] and [`Answer`]: the messages between the two.
//!
//! **What the controller requires of a driver.** Orders to one switch are carried out one after the other. An
//! order that was given before the switch was lost has no effect any more once a later [`Order::Read`] is
//! answered. Deleting a circuit that is not set and creating one that is are no errors. Circuits that an
//! order does not name are not disturbed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, Port, SwitchId};
use crate::controller::ChangeId;

/// An order of the controller to a switch's driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Report which circuits are set.
    Read,
    /// Check that the switch is reachable and the ports work, without changing anything.
    Prepare { change: ChangeId, delete: Vec<Circuit>, create: Vec<Circuit> },
    /// Delete the one set of circuits, then create the other.
    Apply { change: ChangeId, delete: Vec<Circuit>, create: Vec<Circuit> },
    /// Forget what was prepared.
    Abort { change: ChangeId },
}

/// The answer of a switch's driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// All circuits that are set, each as the numbers of its two ports.
    Circuits(Vec<[u32; 2]>),
    Prepared(ChangeId),
    Applied(ChangeId),
    Rejected(ChangeId),
    /// The switch cannot be reached, or someone else has changed its circuits: what is known of its state is no longer valid.
    Lost,
    PortFailed(u32),
    PortRepaired(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// It was asked for its circuits and has not answered; they are not known.
    Unread,
    Up,
    /// It cannot be reached, and is asked again at intervals.
    Down,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Switch {
    id: SwitchId,
    ports: u32,
    pub(super) status: Status,
    failed: BTreeSet<u32>,
    /// For each port in a circuit, the port at the circuit's other end.
    other: BTreeMap<u32, u32>,
    /// Ports that belong to a change under way.
    locked: BTreeMap<u32, ChangeId>,
}

impl Switch {
    pub(super) const fn new(id: SwitchId, ports: u32) -> Self {
        Self {
            id,
            ports,
            status: Status::Unread,
            failed: BTreeSet::new(),
            other: BTreeMap::new(),
            locked: BTreeMap::new(),
        }
    }

    pub(super) const fn id(&self) -> SwitchId {
        self.id
    }

    pub(super) const fn ports(&self) -> u32 {
        self.ports
    }

    /// How many ports are locked by changes.
    pub(super) fn locked(&self) -> usize {
        self.locked.len()
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = u32> {
        self.failed.iter().copied()
    }

    pub(super) const fn has(&self, number: u32) -> bool {
        number < self.ports
    }

    /// The circuit that uses a port.
    pub(super) fn circuit(&self, number: u32) -> Option<Circuit> {
        Circuit::new(self.id, number, *self.other.get(&number)?)
    }

    pub(super) fn circuits(&self) -> impl Iterator<Item = Circuit> {
        let lower = self.other.iter().filter(|(a, b)| a < b);
        lower.filter_map(|(a, b)| Circuit::new(self.id, *a, *b))
    }

    pub(super) fn is_set(&self, circuit: &Circuit) -> bool {
        let [a, b] = circuit.numbers();
        self.other.get(&a) == Some(&b)
    }

    pub(super) fn is_locked(&self, number: u32) -> bool {
        self.locked.contains_key(&number)
    }

    pub(super) fn lock(&mut self, change: ChangeId, circuits: &[Circuit]) {
        for number in circuits.iter().flat_map(Circuit::numbers) {
            self.locked.insert(number, change);
        }
    }

    pub(super) fn unlock(&mut self, change: ChangeId) {
        self.locked.retain(|_, by| *by != change);
    }

    pub(super) fn apply(&mut self, delete: &[Circuit], create: &[Circuit]) {
        for circuit in delete.iter().filter(|it| self.is_set(it)).copied().collect::<Vec<_>>() {
            for number in circuit.numbers() {
                self.other.remove(&number);
            }
        }
        for circuit in create {
            let [a, b] = circuit.numbers();
            self.other.insert(a, b);
            self.other.insert(b, a);
        }
    }

    /// Takes over the circuits that the switch reports. Returns the ports that it reports in several circuits.
    pub(super) fn read(&mut self, circuits: &[[u32; 2]]) -> Vec<Port> {
        self.status = Status::Up;
        self.other.clear();
        let mut twice = Vec::new();
        for [a, b] in circuits {
            let taken = [a, b].into_iter().find(|it| self.other.contains_key(it) || a == b);
            if let Some(number) = taken {
                twice.push(Port { switch: self.id, number: *number });
                continue;
            }
            self.other.insert(*a, *b);
            self.other.insert(*b, *a);
        }
        twice
    }

    pub(super) fn set_failed(&mut self, number: u32, failed: bool) {
        if failed {
            self.failed.insert(number);
        } else {
            self.failed.remove(&number);
        }
    }

    /// A failed port of the circuit, if there is one.
    pub(super) fn failed(&self, circuit: &Circuit) -> Option<Port> {
        circuit.ends().into_iter().find(|it| self.failed.contains(&it.number))
    }
}
