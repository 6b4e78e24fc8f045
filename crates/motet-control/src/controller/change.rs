//! Changes of circuits on several switches, by two-phase commit: all switches prepare, then all apply. If one fails to apply, the
//! others undo what they applied.
//!
//! The ports of a change are locked from its beginning to its end, so that nobody is granted circuits over them, and no two
//! changes concern the same port.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangeId, Controller, Key, Order, Output, Phase, Status, Timer};
use crate::circuit::{Circuit, Port, SwitchId};
use crate::journal::{Event, Failure};
use crate::protocol::Refusal;

/// What one switch does in a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Part {
    delete: Vec<Circuit>,
    create: Vec<Circuit>,
    state: State,
}

/// How far a switch is in the current phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    /// It was sent the order of this phase and has not answered.
    #[default]
    Told,
    Done,
    /// It has refused or is lost, and takes no further part in the change.
    Failed,
}

/// A change of circuits that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    /// The groups, all of one job, whose circuits it sets up; empty if it only takes circuits down.
    keys: Vec<Key>,
    phase: Phase,
    parts: BTreeMap<SwitchId, Part>,
    /// Whether a switch has failed to do its part.
    failed: bool,
}

impl Change {
    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_in(&self, phase: Phase) -> bool {
        self.phase == phase
    }
}

impl Controller {
    pub(super) fn begin(
        &mut self,
        keys: Vec<Key>,
        delete: Vec<Circuit>,
        create: Vec<Circuit>,
        out: &mut Vec<Output>,
    ) {
        let id = ChangeId(self.begun);
        self.begun += 1;
        let mut parts: BTreeMap<SwitchId, Part> = BTreeMap::new();
        for circuit in &delete {
            parts.entry(circuit.switch).or_default().delete.push(*circuit);
        }
        for circuit in &create {
            parts.entry(circuit.switch).or_default().create.push(*circuit);
        }
        let (job, groups) = (keys.first().map(|it| it.0), keys.iter().map(|it| it.1).collect());
        out.push(Output::Journal(Event::Begun { change: id, job, groups, delete, create }));
        for (switch, part) in &parts {
            if let Some(it) = self.switches.get_mut(switch) {
                it.lock(id, &part.delete);
                it.lock(id, &part.create);
            }
            let (delete, create) = (part.delete.clone(), part.create.clone());
            out.push(Output::Order(*switch, Order::Prepare { change: id, delete, create }));
        }
        out.push(Output::Timer(Timer::Change(id, Phase::Preparing), self.policy.answer));
        for key in &keys {
            if let Some(group) = self.group_mut(*key) {
                group.change = Some(id);
            }
        }
        let change = Change { keys, phase: Phase::Preparing, parts, failed: false };
        self.changes.insert(id, change);
    }

    /// A switch has carried out its order. To the switch, undoing is just another apply.
    pub(super) fn part_done(
        &mut self,
        id: ChangeId,
        switch: SwitchId,
        did: Phase,
        out: &mut Vec<Output>,
    ) {
        let Some(change) = self.changes.get_mut(&id) else { return };
        let prepared = did == Phase::Preparing;
        if prepared != (change.phase == Phase::Preparing) {
            return;
        }
        let reverting = change.phase == Phase::Reverting;
        let Some(part) = change.parts.get_mut(&switch) else { return };
        if part.state != State::Told {
            return;
        }
        part.state = State::Done;
        if !prepared && let Some(it) = self.switches.get_mut(&switch) {
            if reverting {
                it.apply(&part.create, &part.delete);
            } else {
                it.apply(&part.delete, &part.create);
            }
        }
        self.advance(id, out);
    }

    pub(super) fn part_rejected(&mut self, id: ChangeId, switch: SwitchId, out: &mut Vec<Output>) {
        let Some(change) = self.changes.get(&id) else { return };
        let told = change.parts.get(&switch).is_some_and(|it| it.state == State::Told);
        if !told {
            return;
        }
        let applying = change.phase != Phase::Preparing;
        self.part_failed(id, switch, Failure::Rejected, out);
        if applying {
            // It may have carried out a part of the order: read back which circuits it has.
            if let Some(it) = self.switches.get_mut(&switch) {
                it.status = Status::Unread;
            }
            self.fail_all(switch, Failure::Rejected, out);
            self.read(switch, out);
        }
        self.advance(id, out);
    }

    fn part_failed(&mut self, id: ChangeId, switch: SwitchId, why: Failure, out: &mut Vec<Output>) {
        let Some(change) = self.changes.get_mut(&id) else { return };
        let Some(part) = change.parts.get_mut(&switch) else { return };
        if part.state == State::Failed {
            return;
        }
        part.state = State::Failed;
        change.failed = true;
        out.push(Output::Journal(Event::Failed { change: id, switch, why }));
    }

    /// A switch is lost, and its part in every change under way has failed.
    pub(super) fn lost(&mut self, switch: SwitchId, out: &mut Vec<Output>) {
        let Some(it) = self.switches.get_mut(&switch) else { return };
        if it.status != Status::Down {
            out.push(Output::Journal(Event::SwitchLost { switch }));
        }
        it.status = Status::Down;
        self.fail_all(switch, Failure::Lost, out);
        out.push(Output::Timer(Timer::Reach(switch), self.policy.retry));
        self.work.extend(self.queue.keys());
    }

    /// Marks the part of this switch in every change under way as failed.
    fn fail_all(&mut self, switch: SwitchId, why: Failure, out: &mut Vec<Output>) {
        let with = self.changes.iter().filter(|it| it.1.parts.contains_key(&switch));
        let all: Vec<ChangeId> = with.map(|it| *it.0).collect();
        for id in &all {
            self.part_failed(*id, switch, why, out);
        }
        for id in all {
            self.advance(id, out);
        }
    }

    /// The time for a phase is over: switches that have not answered count as lost.
    pub(super) fn silent(&mut self, id: ChangeId, phase: Phase, out: &mut Vec<Output>) {
        let Some(change) = self.changes.get(&id).filter(|it| it.is_in(phase)) else { return };
        let silent = change.parts.iter().filter(|it| it.1.state == State::Told);
        let silent: Vec<SwitchId> = silent.map(|it| *it.0).collect();
        for switch in silent {
            self.part_failed(id, switch, Failure::Silent, out);
            self.lost(switch, out);
        }
        self.advance(id, out);
    }

    /// Goes on to the next phase when all switches have answered.
    fn advance(&mut self, id: ChangeId, out: &mut Vec<Output>) {
        let Some(change) = self.changes.get_mut(&id) else { return };
        if change.parts.values().any(|it| it.state == State::Told) {
            return;
        }
        match (change.phase, change.failed) {
            (Phase::Preparing, false) => {
                change.phase = Phase::Applying;
                out.push(Output::Journal(Event::Committed { change: id }));
                for (switch, part) in &mut change.parts {
                    part.state = State::Told;
                    let (delete, create) = (part.delete.clone(), part.create.clone());
                    out.push(Output::Order(*switch, Order::Apply { change: id, delete, create }));
                }
                out.push(Output::Timer(Timer::Change(id, Phase::Applying), self.policy.answer));
            }
            (Phase::Preparing, true) => {
                for (switch, part) in &change.parts {
                    if part.state == State::Done {
                        out.push(Output::Order(*switch, Order::Abort { change: id }));
                    }
                }
                self.finish(id, out);
            }
            (Phase::Applying, true) if change.parts.values().any(|it| it.state == State::Done) => {
                change.phase = Phase::Reverting;
                let done = change.parts.iter_mut().filter(|it| it.1.state == State::Done);
                for (switch, part) in done {
                    part.state = State::Told;
                    // Undo: delete what was created and create what was deleted. The ports were locked, so nobody else has taken them.
                    let (delete, create) = (part.create.clone(), part.delete.clone());
                    out.push(Output::Order(*switch, Order::Apply { change: id, delete, create }));
                }
                out.push(Output::Timer(Timer::Change(id, Phase::Reverting), self.policy.answer));
            }
            (Phase::Applying | Phase::Reverting, _) => self.finish(id, out),
        }
    }

    fn finish(&mut self, id: ChangeId, out: &mut Vec<Output>) {
        let Some(change) = self.changes.remove(&id) else { return };
        let event = match (change.failed, change.phase) {
            (false, _) => Some(Event::Done { change: id }),
            (true, Phase::Reverting) => Some(Event::RolledBack { change: id }),
            (true, _) => None,
        };
        out.extend(event.map(Output::Journal));
        let mut ports = Vec::new();
        for (switch, part) in &change.parts {
            if let Some(it) = self.switches.get_mut(switch) {
                it.unlock(id);
            }
            ports.extend(part.delete.iter().chain(&part.create).flat_map(Circuit::ends));
        }
        self.look_at(&ports);
        for key in &change.keys {
            self.settle(*key, change.failed, out);
        }
        // Do not retry a failed clean-up for ever: circuits that are left over are taken down when a group needs their ports.
        if !change.keys.is_empty() || !change.failed {
            self.clean_up(&ports, out);
        }
    }

    /// A group's change has ended.
    fn settle(&mut self, key: Key, failed: bool, out: &mut Vec<Output>) {
        let most = self.policy.attempts;
        let retry = self.policy.retry;
        let Some(group) = self.group_mut(key) else { return };
        group.change = None;
        let ticket = group.ticket;
        if failed {
            group.attempts += 1;
            group.paused = true;
            let attempts = group.attempts;
            out.push(Output::Timer(Timer::Retry(key.0, key.1), retry));
            if let Some(ticket) = ticket.filter(|_| attempts >= most) {
                self.refuse(key, ticket, Refusal::ChangeFailed { attempts }, out);
            }
        } else {
            self.work.extend(ticket);
        }
    }

    /// Takes down circuits over these ports that belong to no job any more.
    pub(super) fn clean_up(&mut self, ports: &[Port], out: &mut Vec<Output>) {
        let mut delete = BTreeSet::new();
        for port in ports.iter().filter(|it| !self.owners.contains_key(it)) {
            let Some(switch) = self.switches.get(&port.switch) else { continue };
            let circuit = switch.circuit(port.number).filter(|it| {
                let free = |number: u32| {
                    let port = Port { switch: port.switch, number };
                    !self.owners.contains_key(&port) && !switch.is_locked(number)
                };
                it.numbers().into_iter().all(free)
            });
            if switch.status == Status::Up
                && let Some(circuit) = circuit
            {
                delete.insert(circuit);
            }
        }
        if !delete.is_empty() {
            self.begin(Vec::new(), delete.into_iter().collect(), Vec::new(), out);
        }
    }
}
