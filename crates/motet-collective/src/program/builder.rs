//! [`ProgramBuilder`]: the only way to make a [`Program`].
//!
//! It takes anything, in any order, and promises only that the program is well formed (every
//! dependency sorted and listed once). Whether it is right is the verifier's to say: a reader must
//! be able to build a wrong program so that its every fault can be reported.

use motet_graph::Rows;
use motet_net::signature::Signature;
use motet_units::{LinkId, Rank};

use super::{Event, Forms, Hints, Lane, MadeFor, Program, Transfer, TransferId, Turns};
use crate::collective::Collective;

/// Collects the parts of a program: transfers first, then what each waits for, then lanes, paths and
/// the rest where there are any; [`build`](Self::build) makes the program.
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    name: String,
    collective: Collective,
    forms: Forms,
    hints: Hints,
    scratch: Vec<u32>,
    switch: Vec<u32>,
    transfers: Vec<Transfer>,
    /// (waiting event, awaited event)
    waits: Vec<(Event, Event)>,
    lanes: Vec<Lane>,
    paths: Vec<Vec<LinkId>>,
    turns: Vec<Turns>,
    network: Option<Signature>,
    made_for: Option<MadeFor>,
}

impl ProgramBuilder {
    /// A program for out-of-place calls that does nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, collective: Collective) -> Self {
        let scratch = vec![0; collective.ranks() as usize];
        let switch = scratch.clone();
        Self {
            name: name.into(),
            collective,
            forms: Forms::OUT_OF_PLACE,
            hints: Hints::default(),
            scratch,
            switch,
            transfers: Vec::new(),
            waits: Vec::new(),
            lanes: Vec::new(),
            paths: Vec::new(),
            turns: Vec::new(),
            network: None,
            made_for: None,
        }
    }

    pub(super) fn from_program(program: &Program) -> Self {
        let events = (0..program.transfers.len() * 2).map(Event::from_index);
        let waits = events
            .flat_map(|event| program.deps(event).iter().map(move |dep| (event, *dep)))
            .collect();
        Self {
            name: program.name.clone(),
            collective: program.collective.clone(),
            forms: program.forms,
            hints: program.hints,
            scratch: program.scratch.clone(),
            switch: program.switch.clone(),
            transfers: program.transfers.clone(),
            waits,
            lanes: program.lanes.clone(),
            paths: program.paths.clone(),
            turns: program.turns.clone(),
            network: program.network,
            made_for: program.made_for.clone(),
        }
    }

    /// Gives it another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Which calls it serves; out-of-place calls unless this is said.
    #[must_use]
    pub fn forms(mut self, forms: Forms) -> Self {
        self.forms = forms;
        self
    }

    /// The protocol and sizes it is meant for.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// The network whose links the paths and turns name.
    pub fn set_network(&mut self, signature: Option<Signature>) {
        self.network = signature;
    }

    /// Notes the cluster and size that the program is made for.
    pub fn set_made_for(&mut self, made_for: Option<MadeFor>) {
        self.made_for = made_for;
    }

    /// How many scratch chunks `rank` has. Ranks outside the collective are ignored.
    pub fn set_scratch(&mut self, rank: Rank, chunks: u32) {
        if let Some(slot) = self.scratch.get_mut(rank.index()) {
            *slot = chunks;
        }
    }

    /// How many chunks of switch registers `rank` has. Ranks outside the collective are ignored.
    pub fn set_switch(&mut self, rank: Rank, chunks: u32) {
        if let Some(slot) = self.switch.get_mut(rank.index()) {
            *slot = chunks;
        }
    }

    /// Adds a transfer that waits for nothing yet.
    pub fn add(&mut self, transfer: Transfer) -> TransferId {
        self.transfers.push(transfer);
        TransferId::from_index(self.transfers.len() - 1)
    }

    /// Adds `transfer`, sent only after each of `after` has arrived: the common case of
    /// forwarding what came.
    pub fn add_after(&mut self, transfer: Transfer, after: &[TransferId]) -> TransferId {
        let id = self.add(transfer);
        self.waits.extend(after.iter().map(|it| (id.sent(), it.arrived())));
        id
    }

    /// `event` happens only after `awaited`.
    pub fn wait(&mut self, event: Event, awaited: Event) {
        self.waits.push((event, awaited));
    }

    /// Adds a lane. Without any, only waits order the program's events.
    pub fn add_lane(&mut self, lane: Lane) {
        self.lanes.push(lane);
    }

    /// Replaces all lanes.
    pub fn set_lanes(&mut self, lanes: Vec<Lane>) {
        self.lanes = lanes;
    }

    /// Adds a route, which transfers name by the index that this returns.
    pub fn add_path(&mut self, path: Vec<LinkId>) -> u32 {
        self.paths.push(path);
        u32::try_from(self.paths.len() - 1).unwrap_or(u32::MAX)
    }

    /// The order of transfers on links that do not carry them by number: see [`Program::turns`].
    pub fn set_turns(&mut self, turns: Vec<Turns>) {
        self.turns = turns;
    }

    #[must_use]
    pub const fn collective(&self) -> &Collective {
        &self.collective
    }

    #[must_use]
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// Changes a transfer already added (used by the mutation test and by repair).
    pub fn transfer_mut(&mut self, id: TransferId) -> &mut Transfer {
        &mut self.transfers[id.index()]
    }

    /// Every wait so far, to be changed freely.
    pub fn waits_mut(&mut self) -> &mut Vec<(Event, Event)> {
        &mut self.waits
    }

    /// Every lane so far, to be changed freely.
    pub fn lanes_mut(&mut self) -> &mut Vec<Lane> {
        &mut self.lanes
    }

    /// The same transfers, renumbered in this order, which must name each of them once. Lanes and
    /// waits are renumbered with them; turns are dropped, because the new numbers replace them.
    #[must_use]
    pub fn renumbered(mut self, order: &[TransferId]) -> Self {
        let mut number = vec![0u32; self.transfers.len()];
        for (new, old) in (0..).zip(order) {
            number[old.index()] = new;
        }
        let moved = |event: Event| match number.get(event.transfer().index()) {
            Some(new) if event.is_sent() => TransferId(*new).sent(),
            Some(new) => TransferId(*new).arrived(),
            None => event,
        };
        self.transfers = order.iter().map(|it| self.transfers[it.index()]).collect();
        self.turns.clear();
        for (event, awaited) in &mut self.waits {
            (*event, *awaited) = (moved(*event), moved(*awaited));
        }
        for event in self.lanes.iter_mut().flat_map(|it| &mut it.events) {
            *event = moved(*event);
        }
        self
    }

    /// The program. Waits of events that do not exist are dropped; waits *for* events that do not
    /// exist are kept, for the verifier to report.
    #[must_use]
    pub fn build(mut self) -> Program {
        let events = self.transfers.len() * 2;
        self.waits.retain(|(event, _)| event.index() < events);
        self.waits.sort_unstable();
        self.waits.dedup();
        self.turns.sort_by_key(|it| it.link);
        let waits = self.waits.iter().map(|(event, awaited)| (event.index(), *awaited));
        let deps = Rows::group(events, waits);
        Program {
            name: self.name,
            collective: self.collective,
            forms: self.forms,
            hints: self.hints,
            scratch: self.scratch,
            switch: self.switch,
            transfers: self.transfers,
            deps,
            lanes: self.lanes,
            paths: self.paths,
            turns: self.turns,
            network: self.network,
            made_for: self.made_for,
        }
    }
}
