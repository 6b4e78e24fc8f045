//! The method `in-switch`: switches copy and reduce (NVLS, SHARP).
//!
//! Where all ranks are connected to switches that serve programs, each rank asks them to add up or copy its
//! share of the data, piece by piece:
//!
//! - a piece of AllReduce is added up in the switch, comes down to the rank that asked, and goes up
//!   again to be copied to everyone (a switch that spreads its sums itself needs no such turn);
//! - ReduceScatter and Reduce are the first half of that, AllGather and Broadcast the second.
//!
//! Links carry transfers by number, so the numbers are the schedule: while piece g is sent up to be added,
//! piece g − s comes down and goes up again, and piece g − 2s is copied to everyone. With s = 1 a step may
//! have to wait for a transfer still in flight; with a large s links are idle for longer at the beginning and
//! the end. The simulator says which s is best, and into how many pieces to cut.

use motet_collective::in_switch::Serving;
use motet_collective::{
    CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::{Duration, Rank};

use crate::lower::Lowered;
use crate::task::{SynthError, Task};

const METHOD: &str = "in-switch";

/// The numbers of steps between the stages of a piece (s above) that are tried.
const STRIDES: [usize; 3] = [1, 2, 4];

/// Most pieces of a rank's share. More gain less than one part in a thousand.
const MOST_PIECES: u32 = 256;

/// Shares are cut into twice as many pieces as long as that gains at least one part in this many.
const WORTH: u64 = 400;

/// Whether some switch serves programs at all.
pub(crate) fn is_possible(task: &Task<'_>) -> bool {
    task.in_switch && task.network.nodes().iter().any(|it| it.in_network.is_any())
}

/// The fastest program of all cuts and strides that are tried.
pub(crate) fn synthesize(task: &Task<'_>, most: u64) -> Result<Lowered, SynthError> {
    if !is_possible(task) {
        let why = "no switch of this network copies or reduces for programs (`in_network` in the \
                   cluster file), or the runtime cannot ask it to";
        return Err(SynthError::not_for(METHOD, why));
    }
    let spreads = task.goal.kind() == CollectiveKind::AllReduce && served(task, true)?;
    if !spreads && !served(task, false)? {
        let why = "no switch that copies and reduces for programs is reached by all ranks";
        return Err(SynthError::not_for(METHOD, why));
    }
    let mut best: Option<Lowered> = None;
    let mut pieces = 1;
    while pieces <= MOST_PIECES {
        let before = best.as_ref().map(|it| it.makespan.as_ps());
        for stride in STRIDES {
            let plan = Plan::new(task, pieces, stride, spreads);
            if best.is_some() && plan.transfers() > most {
                continue;
            }
            let made = plan.lowered()?;
            if best.as_ref().is_none_or(|it| made.makespan < it.makespan) {
                best = Some(made);
            }
        }
        let now = best.as_ref().map(|it| it.makespan.as_ps());
        let worth = |(before, now): (u64, u64)| now + now / WORTH < before;
        if before.zip(now).is_some_and(|it| !worth(it)) || task.watch.out_of_time() {
            break;
        }
        pieces *= 2;
    }
    best.ok_or(SynthError::OutOfTime { method: METHOD })
}

/// Whether switches of the network serve the program in this form, over links that may be used.
fn served(task: &Task<'_>, spreads: bool) -> Result<bool, SynthError> {
    let program = Plan::new(task, 1, 1, spreads).program()?;
    let (_, unserved) = Serving::find(&program, task.network);
    if !unserved.is_empty() {
        return Ok(false);
    }
    let Ok(program) = Verified::new(program, Some(task.network)) else { return Ok(false) };
    let routed = Routed::new(&program, task.network, SwitchForwarding::CutThrough);
    Ok(routed.is_ok_and(|routed| {
        let transfers = 0..program.transfers().len();
        transfers.flat_map(|it| routed.hops(it)).all(|it| task.usable(it.link))
    }))
}

/// How a program is cut and numbered.
struct Plan<'a> {
    task: &'a Task<'a>,
    /// Ranks that ask: all, or the root.
    asking: Vec<Rank>,
    /// Pieces of each asking rank's share.
    pieces: u32,
    /// Steps between the stages of a piece.
    stride: usize,
    /// Whether the switch itself copies a sum to everyone.
    spreads: bool,
}

/// For a piece, the transfers that later stages wait for.
#[derive(Default)]
struct Stages {
    /// The last one into the switch.
    up: Vec<TransferId>,
    /// The one down to the rank that asked and up again; if there is none, the same as `up`.
    again: Vec<TransferId>,
}

impl<'a> Plan<'a> {
    fn new(task: &'a Task<'a>, pieces: u32, stride: usize, spreads: bool) -> Self {
        let asking = match task.goal.root() {
            Some(root) => vec![root],
            None => (0..task.goal.ranks()).map(Rank).collect(),
        };
        Self { task, asking, pieces, stride, spreads }
    }

    fn transfers(&self) -> u64 {
        let ranks = u64::from(self.task.goal.ranks());
        let all = self.asking.len() as u64 * u64::from(self.pieces);
        all * match self.task.goal.kind() {
            CollectiveKind::AllReduce => 2 * ranks + 1,
            _ => ranks + 1,
        }
    }

    /// The program with its simulated time.
    fn lowered(&self) -> Result<Lowered, SynthError> {
        let program = Verified::new(self.program()?, None)
            .map_err(|it| SynthError::Wrong { method: METHOD, report: it.report.to_string() })?;
        let makespan = self.simulated(&program)?;
        Ok(Lowered { program: program.into_inner(), makespan, slices: self.pieces })
    }

    fn simulated(&self, program: &Verified<Program>) -> Result<Duration, SynthError> {
        let wrong = |report: String| SynthError::Wrong { method: METHOD, report };
        let routed = Routed::new(program, self.task.network, SwitchForwarding::CutThrough);
        let routed = routed.map_err(|it| wrong(it.to_string()))?;
        let prepared = Prepared::new(&routed);
        let outcome = Simulation::new(&prepared, self.task.size).state(&self.task.state).run();
        let outcome = outcome.map_err(|why| SynthError::NotTimed { method: METHOD, why })?;
        Ok(outcome.time)
    }

    fn program(&self) -> Result<Program, SynthError> {
        let kind = self.task.goal.kind();
        // An AllReduce has one part, of which every rank asks for its share.
        let shares = match kind {
            CollectiveKind::AllReduce => self.task.goal.ranks(),
            _ => 1,
        };
        let collective = self.task.goal.collective(shares * self.pieces)?;
        let forms = Forms { in_place: true, out_of_place: true };
        let name = format!("in-switch-{}", kind.name());
        let mut builder = ProgramBuilder::new(name, collective).forms(forms);
        let slots = if self.turns() { 2 * self.pieces } else { self.pieces };
        for rank in &self.asking {
            builder.set_switch(*rank, slots);
        }
        let all = self.asking.len() * self.pieces as usize;
        let mut stages: Vec<Stages> = Vec::with_capacity(all);
        for step in 0..all + 2 * self.stride {
            if step < all {
                stages.push(Stages::default());
                stages[step].up = self.up(&mut builder, step);
            }
            if let Some(piece) = step.checked_sub(self.stride).filter(|it| *it < all) {
                let again = self.again(&mut builder, piece, &stages[piece].up);
                stages[piece].again = again;
            }
            if let Some(piece) = step.checked_sub(2 * self.stride).filter(|it| *it < all) {
                self.down(&mut builder, piece, &stages[piece].again);
            }
        }
        Ok(builder.build())
    }

    /// Whether a sum goes down to the rank that asked for it and up again to be copied. That is not needed if
    /// the switch itself copies sums to everyone.
    fn turns(&self) -> bool {
        self.task.goal.kind() == CollectiveKind::AllReduce && !self.spreads
    }

    /// The rank that asks for a piece, and the number of the piece in its share.
    fn place(&self, piece: usize) -> (Rank, u32) {
        let ranks = self.asking.len();
        (self.asking[piece % ranks], (piece / ranks) as u32)
    }

    /// Adds the transfers of a piece into the switch: from everyone to be added up, or from the rank that asks.
    /// Returns the last.
    fn up(&self, builder: &mut ProgramBuilder, piece: usize) -> Vec<TransferId> {
        let (rank, index) = self.place(piece);
        let slot = Slot::switch(rank, index);
        let own = rank.0 * self.pieces + index;
        let offset = match self.task.goal.kind() {
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => own,
            CollectiveKind::Reduce => index,
            _ => return vec![builder.add(Transfer::copy(Slot::input(rank, index), slot, 1))],
        };
        let mut last: Option<TransferId> = None;
        for from in (0..self.task.goal.ranks()).map(|it| Slot::input(Rank(it), offset)) {
            last = Some(match last {
                None => builder.add(Transfer::copy(from, slot, 1)),
                Some(before) => {
                    let next = builder.add(Transfer::reduce(from, slot, 1));
                    builder.wait(next.arrived(), before.arrived());
                    next
                }
            });
        }
        last.into_iter().collect()
    }

    /// Adds the transfers of a sum down to the rank that asked and up again, if they are needed.
    fn again(
        &self,
        builder: &mut ProgramBuilder,
        piece: usize,
        after: &[TransferId],
    ) -> Vec<TransferId> {
        if !self.turns() {
            return after.to_vec();
        }
        let (rank, index) = self.place(piece);
        let (from, to) = (Slot::switch(rank, index), Slot::switch(rank, self.pieces + index));
        vec![builder.add_after(Transfer::copy(from, to, 1), after)]
    }

    /// Adds the transfers of a piece out of the switch: to everyone, or to the rank that asked.
    fn down(&self, builder: &mut ProgramBuilder, piece: usize, after: &[TransferId]) {
        let (rank, index) = self.place(piece);
        let slot = Slot::switch(rank, if self.turns() { self.pieces + index } else { index });
        let own = rank.0 * self.pieces + index;
        let kind = self.task.goal.kind();
        if matches!(kind, CollectiveKind::ReduceScatter | CollectiveKind::Reduce) {
            builder.add_after(Transfer::copy(slot, Slot::output(rank, index), 1), after);
            return;
        }
        let offset = if kind == CollectiveKind::Broadcast { index } else { own };
        // Start with a different rank for each piece, so that not all wait for the same one.
        let ranks = self.task.goal.ranks();
        for to in (0..ranks).map(|it| Rank((rank.0 + 1 + it) % ranks)) {
            builder.add_after(Transfer::copy(slot, Slot::output(to, offset), 1), after);
        }
    }
}
