//! The queue of complete groups (those whose members all want the circuits): the order in which they are served, and what
//! each still waits for.

use std::collections::BTreeSet;

use super::{Controller, Key, Output, Status, Timer};
use crate::circuit::{Circuit, Port};
use crate::journal::Event;
use crate::protocol::{GroupId, JobId, Member, Notice, Refusal, Reply, Stance, Word};

/// What a queued group needs before it can be granted its circuits.
enum Need {
    /// Nothing: its circuits are set.
    Nothing,
    /// To wait for something that comes by itself, such as the end of a change or a switch being read.
    Patience,
    /// Its circuits cannot be set, so it must be refused.
    Never(Refusal),
    /// A change that creates its missing circuits and deletes those that are in their way.
    Change { delete: Vec<Circuit>, create: Vec<Circuit> },
}

impl Controller {
    /// Handles a change of a group's state: the group may enter or leave the queue, and others may become able to be served.
    pub(super) fn note(&mut self, key: Key, out: &mut Vec<Output>) {
        let Some(group) = self.group(key) else { return };
        let (ticket, complete) = (group.ticket, group.is_complete());
        let ports = group.ports.clone();
        match ticket {
            None if complete => {
                let ticket = self.tickets;
                self.tickets += 1;
                for port in &ports {
                    self.lines.entry(*port).or_default().insert(ticket);
                }
                self.queue.insert(ticket, key);
                self.work.insert(ticket);
                if let Some(group) = self.group_mut(key) {
                    group.ticket = Some(ticket);
                }
                out.push(Output::Timer(Timer::Patience(ticket), self.policy.patience));
            }
            Some(ticket) if !complete => self.drop_ticket(key, ticket),
            Some(ticket) => {
                self.work.insert(ticket);
            }
            None => {}
        }
        self.look_at(&ports);
    }

    fn drop_ticket(&mut self, key: Key, ticket: u64) {
        let Some(group) = self.group_mut(key) else { return };
        group.ticket = None;
        let ports = group.ports.clone();
        self.dequeue(ticket, &ports);
    }

    pub(super) fn dequeue(&mut self, ticket: u64, ports: &[Port]) {
        self.queue.remove(&ticket);
        for port in ports {
            if let Some(line) = self.lines.get_mut(port) {
                line.remove(&ticket);
                if line.is_empty() {
                    self.lines.remove(port);
                }
            }
        }
        self.look_at(ports);
    }

    /// Marks all groups that wait for one of these ports, to be looked at again.
    pub(super) fn look_at(&mut self, ports: &[Port]) {
        for port in ports {
            if let Some(line) = self.lines.get(port) {
                self.work.extend(line);
            }
        }
    }

    /// Serves all marked groups that can be served.
    pub(super) fn serve(&mut self, out: &mut Vec<Output>) {
        while let Some(ticket) = self.work.pop_first() {
            let Some(key) = self.queue.get(&ticket).copied() else { continue };
            self.examine(key, ticket, out);
        }
    }

    fn examine(&mut self, key: Key, ticket: u64, out: &mut Vec<Output>) {
        let Some(group) = self.group(key) else { return };
        let urgent = group.is_urgent();
        if group.is_elsewhere() {
            // A refusal needs no circuits, so this group need not wait for its turn.
            let call = group.asked().unwrap_or(0);
            self.reply(key, call, Reply::Refuse(Refusal::AsOthers), out);
            self.note(key, out);
            return;
        }
        if group.change.is_some() || group.paused || !(urgent || self.is_first(key, ticket)) {
            return;
        }
        match self.need(key) {
            Need::Patience => {}
            Need::Nothing if self.is_first(key, ticket) => self.grant(key, ticket, out),
            Need::Nothing => self.pass(key, out),
            Need::Never(why) => self.refuse(key, ticket, why, out),
            Need::Change { delete, create } => {
                if self.recall(&delete, out) {
                    out.push(Output::Timer(Timer::Nudge(ticket), self.policy.nudge));
                    if self.is_stuck(key, &delete) {
                        out.push(Output::Timer(Timer::Stuck(ticket), self.policy.stuck));
                    }
                } else if self.group(key).is_some_and(|it| it.attempts > 0) {
                    // A group whose change has failed before is not gathered with others again, so that it cannot make theirs fail.
                    self.begin(vec![key], delete, create, out);
                } else {
                    self.gather(key.0, ticket, out);
                }
            }
        }
    }

    /// Sets a group that is ready aside for [`Policy::gather`](super::Policy::gather), so that other groups
    /// of its job can share its change.
    fn gather(&mut self, job: JobId, ticket: u64, out: &mut Vec<Output>) {
        let gathered = self.gathered.entry(job).or_default();
        if gathered.is_empty() {
            out.push(Output::Timer(Timer::Gather(job), self.policy.gather));
        }
        gathered.insert(ticket);
    }

    /// Begins one change for all gathered groups of a job that are still ready.
    pub(super) fn begin_gathered(&mut self, job: JobId, out: &mut Vec<Output>) {
        let (mut keys, mut all) = (Vec::new(), BTreeSet::new());
        let (mut delete, mut create) = (BTreeSet::new(), Vec::new());
        for ticket in self.gathered.remove(&job).unwrap_or_default() {
            let Some(key) = self.queue.get(&ticket).copied() else { continue };
            let Some(group) = self.group(key) else { continue };
            let may = group.is_urgent() || self.is_first(key, ticket);
            if group.change.is_some() || group.paused || !may {
                continue;
            }
            let Need::Change { delete: goes, create: comes } = self.need(key) else {
                self.work.insert(ticket);
                continue;
            };
            let clashes = comes.iter().flat_map(Circuit::ends).any(|it| all.contains(&it));
            let in_use = goes.iter().any(|it| !self.senders(it).is_empty());
            if clashes || in_use {
                self.work.insert(ticket);
                continue;
            }
            all.extend(comes.iter().flat_map(Circuit::ends));
            keys.push(key);
            delete.extend(goes);
            create.extend(comes);
        }
        if !keys.is_empty() {
            self.begin(keys, delete.into_iter().collect(), create, out);
        }
    }

    /// Whether this group is the first in the queue for each of its ports.
    fn is_first(&self, key: Key, ticket: u64) -> bool {
        let Some(group) = self.group(key) else { return false };
        let lines = group.ports.iter().filter_map(|it| self.lines.get(it));
        lines.into_iter().all(|it| it.first() == Some(&ticket))
    }

    fn need(&self, key: Key) -> Need {
        let Some(group) = self.group(key) else { return Need::Patience };
        let mut create = Vec::new();
        let mut delete = BTreeSet::new();
        for circuit in &group.circuits {
            let Some(switch) = self.switches.get(&circuit.switch) else { return Need::Patience };
            match switch.status {
                Status::Unread => return Need::Patience,
                Status::Down => return Need::Never(Refusal::SwitchDown { switch: circuit.switch }),
                Status::Up => {}
            }
            if let Some(port) = switch.failed(circuit) {
                return Need::Never(Refusal::PortFailed { port });
            }
            if circuit.numbers().into_iter().any(|it| switch.is_locked(it)) {
                return Need::Patience;
            }
            if !switch.is_set(circuit) {
                create.push(*circuit);
                delete.extend(
                    circuit.numbers().into_iter().filter_map(|number| switch.circuit(number)),
                );
            }
        }
        if create.is_empty() {
            return Need::Nothing;
        }
        // The far port of a circuit that must be deleted may be locked by another change.
        let locked = |it: &Circuit| {
            let switch = self.switches.get(&it.switch);
            switch.is_some_and(|switch| it.numbers().into_iter().any(|it| switch.is_locked(it)))
        };
        if delete.iter().any(locked) {
            return Need::Patience;
        }
        Need::Change { delete: delete.into_iter().collect(), create }
    }

    /// Recalls all members that may be sending over these circuits; returns whether there are any.
    fn recall(&self, circuits: &[Circuit], out: &mut Vec<Output>) -> bool {
        let mut told: BTreeSet<(JobId, GroupId, Member)> = BTreeSet::new();
        let mut any = false;
        for (key, member) in circuits.iter().flat_map(|it| self.senders(it)) {
            any = true;
            if told.insert((key.0, key.1, member)) {
                let (job, group) = key;
                out.push(Output::Notice(Notice { job, member, group, what: Word::Recall }));
            }
        }
        any
    }

    /// The members that may be sending over a circuit, each with its group.
    pub(super) fn senders(&self, circuit: &Circuit) -> Vec<(Key, Member)> {
        let mut all = Vec::new();
        for port in circuit.ends() {
            let Some((job, member)) = self.owners.get(&port) else { continue };
            let Some(it) = self.jobs.get(job) else { continue };
            for group in it.users.get(circuit).into_iter().flatten() {
                let view = it.groups.get(group).and_then(|it| it.views.get(member));
                if view.is_some_and(super::job::View::may_send) {
                    all.push(((*job, *group), *member));
                }
            }
        }
        all
    }

    /// Whether this group is in a deadlock: a member in its way is in a call that waits for another member, which itself waits for this
    /// group.
    fn is_stuck(&self, key: Key, circuits: &[Circuit]) -> bool {
        let Some(group) = self.group(key) else { return false };
        let asks = |member: &Member| {
            let view = group.views.get(member);
            view.is_some_and(|it| matches!(it.stance, Stance::Asking { .. }))
        };
        let waits = |(other, member): (Key, Member)| {
            let Some(it) = self.group(other).filter(|_| other.0 == key.0) else { return false };
            let Some(call) = it.views.get(&member).map(|it| it.begun) else { return false };
            let missing = it.views.iter().filter(|it| it.1.begun < call && !it.1.may_send());
            missing.into_iter().any(|it| asks(it.0))
        };
        circuits.iter().flat_map(|it| self.senders(it)).any(waits)
    }

    /// Refuses a group that is still in a deadlock.
    pub(super) fn unstick(&mut self, ticket: u64, out: &mut Vec<Output>) {
        let Some(key) = self.queue.get(&ticket).copied() else { return };
        let changing = self.group(key).is_none_or(|it| it.change.is_some());
        if let (false, Need::Change { delete, .. }) = (changing, self.need(key))
            && self.is_stuck(key, &delete)
        {
            self.refuse(key, ticket, Refusal::Impatient, out);
        }
    }

    /// Gives a group its circuits: until they are recalled if all members go on alike, otherwise for the one
    /// call that they ask for.
    fn grant(&mut self, key: Key, ticket: u64, out: &mut Vec<Output>) {
        let (job, group) = key;
        out.push(Output::Journal(Event::Granted { job, group }));
        let alike = self.group(key).is_some_and(super::job::Group::goes_on_alike);
        let reply = if alike { Reply::Grant } else { Reply::Pass };
        self.reply(key, u64::MAX, reply, out);
        if let Some(it) = self.group_mut(key) {
            it.attempts = 0;
        }
        self.drop_ticket(key, ticket);
    }

    /// Sends a [`Reply::Pass`] to members that ask for calls which others have begun.
    fn pass(&mut self, key: Key, out: &mut Vec<Output>) {
        let Some(group) = self.group(key) else { return };
        let upto = group.foremost();
        self.reply(key, upto, Reply::Pass, out);
        self.note(key, out);
    }

    /// Replies to all members that ask for a call numbered `upto` or less.
    fn reply(&mut self, key: Key, upto: u64, reply: Reply, out: &mut Vec<Output>) {
        let (job, group) = key;
        let Some(it) = self.group_mut(key) else { return };
        for (member, view) in &mut it.views {
            let Stance::Asking { call } = view.stance else { continue };
            if call > upto {
                continue;
            }
            match reply {
                Reply::Grant => view.stance = Stance::Holding,
                Reply::Pass => {
                    view.stance = Stance::Away;
                    view.begun = call;
                }
                Reply::Refuse(_) => {
                    view.stance = Stance::Away;
                    view.begun += 1;
                    view.ended += 1;
                    view.host = call;
                }
            }
            view.reply = Some(reply);
            let what = Word::Reply { version: view.version, reply };
            out.push(Output::Notice(Notice { job, member: *member, group, what }));
        }
    }

    /// Refuses a group, so that its next call takes the packet network, unless a member has begun that call over circuits or may do so.
    /// Members that may are recalled first; a call that was begun over circuits has to wait for circuits.
    pub(super) fn refuse(&mut self, key: Key, ticket: u64, why: Refusal, out: &mut Vec<Output>) {
        let (job, group) = key;
        let Some(it) = self.group(key) else { return };
        if it.is_urgent() {
            return;
        }
        if !it.all_ask() {
            for (member, view) in &it.views {
                if view.stance == Stance::Holding {
                    let member = *member;
                    out.push(Output::Notice(Notice { job, member, group, what: Word::Recall }));
                }
            }
            out.push(Output::Timer(Timer::Nudge(ticket), self.policy.nudge));
            return;
        }
        out.push(Output::Journal(Event::Refused { job, group, why }));
        self.reply(key, u64::MAX, Reply::Refuse(why), out);
        if let Some(it) = self.group_mut(key) {
            it.attempts = 0;
        }
        self.drop_ticket(key, ticket);
    }

    /// A group has waited for [`Policy::patience`](super::Policy::patience): refuses it, or waits once more
    /// if it cannot be refused now.
    pub(super) fn impatient(&mut self, ticket: u64, out: &mut Vec<Output>) {
        let Some(key) = self.queue.get(&ticket).copied() else { return };
        let Some(group) = self.group(key) else { return };
        if group.change.is_some() || group.is_urgent() {
            // Its change is under way, or a call has begun over circuits, so that it cannot be refused: look again later.
            out.push(Output::Timer(Timer::Patience(ticket), self.policy.patience));
            return;
        }
        self.refuse(key, ticket, Refusal::Impatient, out);
        if self.queue.contains_key(&ticket) {
            out.push(Output::Timer(Timer::Patience(ticket), self.policy.patience));
        }
    }
}
