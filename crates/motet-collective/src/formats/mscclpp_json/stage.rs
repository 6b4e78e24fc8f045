//! One-sided pieces from any program.
//!
//! In a program a transfer may be sent long before it may arrive: a two-sided runtime holds it in
//! a buffer meanwhile. Here nothing does, so that a transfer is one step which needs its source
//! ready and its destination free at once. Order is taken anew from the data alone (lanes of a
//! two-sided program order sends against receives, which would be a deadlock here). Where two
//! transfers each need the other to be sent before they arrive, one goes through scratch: a copy
//! to scratch at the destination, and a copy or reduction from there when the place is free. So
//! does a reduction over a port channel, which can only put.

use std::collections::BTreeSet;

use motet_graph::Rows;
use motet_units::Rank;

use super::hazards::{Hazards, tidy};
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::graph::EventGraph;
use crate::program::{Action, Buffer, Event, Program, Slot, Transfer, TransferId};

/// A transfer done in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) transfer: Transfer,
    /// Posted to the proxy rather than done by a threadblock.
    pub(super) posted: bool,
}

impl Piece {
    /// The rank whose threadblock does or posts it: the source, unless it is a reduction, which
    /// is read from afar.
    pub(super) fn rank(&self) -> Rank {
        match self.transfer.action {
            Action::Copy => self.transfer.src.rank,
            Action::Reduce => self.transfer.dst.rank,
        }
    }
}

/// Pieces in an order in which they can be done, and how much scratch each rank now has.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) pieces: Vec<Piece>,
    pub(super) scratch: Vec<u32>,
}

/// The pieces of `program`; `by_port` says whether two ranks are joined by ports.
pub(super) fn stage(
    program: &Program,
    by_port: impl Fn(Rank, Rank) -> bool,
) -> Result<Staged, Box<Diagnostic>> {
    let order = EventGraph::new(program).order().ok_or_else(|| {
        Box::new(Diagnostic::error(Finding::Deadlock, "the program waits for itself"))
    })?;
    let ranks = (0..program.collective().ranks()).map(Rank);
    let scratch = ranks.map(|it| program.scratch_chunks(it)).collect();
    let mut stager = Stager::new(program, &order, Staged { pieces: Vec::new(), scratch });
    stager.run(&order, by_port)?;
    Ok(stager.staged)
}

struct Stager<'a> {
    program: &'a Program,
    staged: Staged,
    /// By event: the events that follow it for the data's sake.
    followers: Rows,
    /// By transfer: how many hazards of its two events are not done.
    waiting: Vec<u32>,
    /// Where each transfer's arrival is in the order.
    place: Vec<u32>,
    /// Transfers that can be done, by place.
    ready: BTreeSet<(u32, u32)>,
    state: Vec<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Sent to scratch, here.
    InScratch(Slot),
    Done,
}

impl<'a> Stager<'a> {
    fn new(program: &'a Program, order: &[u32], staged: Staged) -> Self {
        let transfers = program.transfers().len();
        let in_place = Some(program.collective()).filter(|_| program.forms().in_place);
        let mut hazards = Hazards::new(in_place);
        let mut stager = Self {
            program,
            staged,
            followers: Rows::default(),
            waiting: vec![0; transfers],
            place: vec![0; transfers],
            ready: BTreeSet::new(),
            state: vec![State::Waiting; transfers],
        };
        let (mut after, mut follows) = (Vec::new(), Vec::new());
        for (place, event) in order.iter().enumerate() {
            let at = Event::from_index(*event as usize);
            let transfer = program.transfer(at.transfer());
            after.clear();
            if at.is_sent() {
                hazards.read(*event, transfer, &mut after);
            } else {
                stager.place[at.transfer().index()] = place as u32;
                hazards.write(*event, transfer, &mut after);
            }
            tidy(&mut after, *event);
            for earlier in &after {
                // A reduction into its own source reads before it writes.
                if Event::from_index(*earlier as usize).transfer() != at.transfer() {
                    follows.push((*earlier as usize, *event));
                    stager.waiting[at.transfer().index()] += 1;
                }
            }
        }
        stager.followers = Rows::group(transfers * 2, follows.iter().copied());
        for id in 0..transfers {
            if stager.waiting[id] == 0 {
                stager.ready.insert((stager.place[id], id as u32));
            }
        }
        stager
    }

    fn run(
        &mut self,
        order: &[u32],
        by_port: impl Fn(Rank, Rank) -> bool,
    ) -> Result<(), Box<Diagnostic>> {
        let mut next = 0;
        loop {
            while let Some((_, id)) = self.ready.pop_first() {
                self.finish(TransferId(id), &by_port)?;
            }
            // Nothing is free to be done whole: the first event in order has all it needs before
            // it, and is a sending.
            let pending = |it: &u32| {
                let event = Event::from_index(*it as usize);
                let state = self.state[event.transfer().index()];
                state == State::Waiting || (!event.is_sent() && state != State::Done)
            };
            while next < order.len() && !pending(&order[next]) {
                next += 1;
            }
            let Some(event) = order.get(next) else { return Ok(()) };
            let id = Event::from_index(*event as usize).transfer();
            debug_assert_eq!(
                self.state[id.index()],
                State::Waiting,
                "an arrival is done when it is ready"
            );
            self.send(id, &by_port)?;
            self.done(id.sent());
        }
    }

    /// Puts a transfer's data into fresh scratch at its destination.
    fn send(
        &mut self,
        id: TransferId,
        by_port: &impl Fn(Rank, Rank) -> bool,
    ) -> Result<(), Box<Diagnostic>> {
        let transfer = self.program.transfer(id);
        let rank = transfer.dst.rank;
        let scratch = &mut self.staged.scratch[rank.index()];
        let slot = Slot::new(rank, Buffer::Scratch, *scratch);
        *scratch = scratch.checked_add(transfer.count).ok_or_else(|| {
            Box::new(Diagnostic::error(
                Finding::TooLarge,
                format!("rank {rank} needs too much scratch"),
            ))
        })?;
        let posted = !transfer.is_local() && by_port(transfer.src.rank, rank);
        let transfer = Transfer::copy(transfer.src, slot, transfer.count);
        self.staged.pieces.push(Piece { transfer, posted });
        self.state[id.index()] = State::InScratch(slot);
        Ok(())
    }

    /// Does what is left of a transfer.
    fn finish(
        &mut self,
        id: TransferId,
        by_port: &impl Fn(Rank, Rank) -> bool,
    ) -> Result<(), Box<Diagnostic>> {
        let transfer = *self.program.transfer(id);
        let ports = !transfer.is_local() && by_port(transfer.src.rank, transfer.dst.rank);
        let fresh = self.state[id.index()] == State::Waiting;
        if fresh && ports && transfer.action == Action::Reduce {
            self.send(id, by_port)?;
        }
        let piece = match self.state[id.index()] {
            State::InScratch(src) => {
                Piece { transfer: Transfer { src, path: None, ..transfer }, posted: false }
            }
            _ => Piece { transfer: Transfer { path: None, ..transfer }, posted: ports },
        };
        self.staged.pieces.push(piece);
        self.state[id.index()] = State::Done;
        if fresh {
            self.done(id.sent());
        }
        self.done(id.arrived());
        Ok(())
    }

    fn done(&mut self, event: Event) {
        for follower in self.followers.row(event.index()) {
            let id = Event::from_index(*follower as usize).transfer();
            let waiting = &mut self.waiting[id.index()];
            *waiting -= 1;
            if *waiting == 0 {
                self.ready.insert((self.place[id.index()], id.0));
            }
        }
    }
}
