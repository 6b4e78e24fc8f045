//! Operations in the switch, written into a plan: `glres` for a sum over a group of GPUs that is stored to a
//! group, `gstore` for a copy to a group. What these are as transfers is told in [`super::switch`].
//!
//! A program whose lanes are such operations already keeps them. Any other that moves everything through
//! switches is taken apart into operations, and those of a rank that lie side by side are put together: an
//! operation goes element by element, so that one long one is as good as many short ones. Each becomes a
//! threadblock of its own; parallel ones come from instances.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::switch::SwitchGroup;
use super::{Options, lower, shape};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Action, Lane, LaneKind, Program, ProgramBuilder, Slot, Transfer, TransferId};
use crate::verify::Verified;

/// One operation: from `sources` (one of them: the rank's own) to `targets`, through the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SwitchOp {
    pub(super) sources: Vec<Slot>,
    pub(super) targets: Vec<Slot>,
    pub(super) count: u32,
    /// Whether the sources are added up in the switch.
    pub(super) sums: bool,
}

impl SwitchOp {
    /// The operation that transfers make which follow each other in a lane from `first` on, and how
    /// many they are.
    pub(super) fn parse(transfer: impl Fn(usize) -> Option<Transfer>) -> Option<(Self, usize)> {
        let first = transfer(0).filter(|it| it.action == Action::Copy && it.dst.is_switch())?;
        let mut op =
            Self { sources: vec![first.src], targets: Vec::new(), count: first.count, sums: false };
        let (mut slot, mut at) = (first.dst, 1);
        let adds = |it: &Transfer| {
            it.action == Action::Reduce && (it.dst, it.count) == (slot, first.count)
        };
        while let Some(next) = transfer(at).filter(adds) {
            op.sources.push(next.src);
            at += 1;
        }
        let out = |it: &Transfer, slot| {
            it.action == Action::Copy && (it.src, it.count) == (slot, first.count)
        };
        if let Some(turn) = transfer(at).filter(|it| out(it, slot) && it.dst.is_switch()) {
            op.sums = true;
            slot = turn.dst;
            at += 1;
        }
        while let Some(next) = transfer(at).filter(|it| out(it, slot) && !it.dst.is_switch()) {
            op.targets.push(next.dst);
            at += 1;
        }
        op.is_sound(first.dst.rank).then_some((op, at))
    }

    /// Whether the executor does it: a sum is stored by the GPU that asked for it, and both ends of
    /// a group are the same place at every GPU.
    fn is_sound(&self, rank: Rank) -> bool {
        let sources = match self.sums {
            true => self.source_group().is_some_and(|it| it.ranks.contains(&rank)),
            false => self.sources.len() == 1 && self.sources[0].rank == rank,
        };
        sources
            && self.target_group().is_some_and(|it| it.ranks.contains(&rank))
            && self.sources.iter().all(|it| !it.is_switch())
    }

    /// The group that a sum is taken over.
    pub(super) fn source_group(&self) -> Option<SwitchGroup> {
        group(&self.sources)
    }

    /// The group that is stored to.
    pub(super) fn target_group(&self) -> Option<SwitchGroup> {
        group(&self.targets)
    }

    /// Whether `next` goes on where this one ends.
    fn goes_on(&self, next: &Self) -> bool {
        let ends = |a: &[Slot], b: &[Slot]| {
            let after = |it: &Slot| Slot { offset: it.offset.saturating_add(self.count), ..*it };
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| after(a) == *b)
        };
        self.sums == next.sums
            && ends(&self.sources, &next.sources)
            && ends(&self.targets, &next.targets)
    }

    /// The transfers of the operation, asked for by `rank`; its slots begin at `slot`.
    fn transfers(&self, rank: Rank, slot: u32) -> Vec<Transfer> {
        let first = Slot::switch(rank, slot);
        let (mut last, mut made) = (first, Vec::new());
        for (index, source) in self.sources.iter().enumerate() {
            let action = if index == 0 { Action::Copy } else { Action::Reduce };
            made.push(Transfer { action, ..Transfer::copy(*source, first, self.count) });
        }
        if self.sums {
            last = Slot::switch(rank, slot + self.count);
            made.push(Transfer::copy(first, last, self.count));
        }
        made.extend(self.targets.iter().map(|it| Transfer::copy(last, *it, self.count)));
        made
    }
}

/// One buffer and offset at several GPUs, in the order of ranks.
fn group(slots: &[Slot]) -> Option<SwitchGroup> {
    let first = slots.first()?;
    let same = |it: &Slot| (it.buffer, it.offset) == (first.buffer, first.offset);
    let rising = slots.windows(2).all(|it| it[0].rank < it[1].rank);
    (rising && slots.iter().all(same)).then(|| SwitchGroup {
        ranks: slots.iter().map(|it| it.rank).collect(),
        buffer: first.buffer,
    })
}

/// All groups of a program in one order, which every GPU keeps: they make the channels together.
pub(super) fn all_groups(program: &Program) -> Vec<SwitchGroup> {
    let mut groups = Vec::new();
    for op in program.lanes().iter().filter_map(|it| operations(program, it)).flatten() {
        let source = op.source_group().filter(|_| op.sums);
        for group in source.into_iter().chain(op.target_group()) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    groups
}

/// The switch operations of a lane; `None` if its transfers in switches are no operations.
fn operations(program: &Program, lane: &Lane) -> Option<Vec<SwitchOp>> {
    let sent: Vec<Transfer> = lane
        .events
        .iter()
        .filter(|it| it.is_sent())
        .map(|it| *program.transfer(it.transfer()))
        .collect();
    let (mut made, mut at) = (Vec::new(), 0);
    while at < sent.len() {
        if !sent[at].is_in_switch() {
            at += 1;
            continue;
        }
        let (op, length) = SwitchOp::parse(|it| sent.get(at + it).copied())?;
        made.push(op);
        at += length;
    }
    Some(made)
}

/// [`lower::lowered`] of a program that uses switches.
pub(super) fn lowered(
    program: &Program,
    options: &Options,
) -> Result<(Verified<Program>, String), Report> {
    let by_port = |a, b| options.channel.by_port(a, b);
    let kept = shape::is_one_sided(program, by_port)
        && program.lanes().iter().all(|it| operations(program, it).is_some());
    let made = laned(program);
    match (kept, made) {
        (true, made) => lower::proved(program, options)
            .or_else(|report| made.map_or(Err(report), |it| lower::proved(&it, options))),
        (false, made) => lower::proved(&made?, options),
    }
}

fn refused(why: &str) -> Report {
    let mut report = Report::default();
    report.push(Diagnostic::error(
        Finding::Limit,
        format!("{why}; MSCCL++'s executor has no such operation"),
    ));
    report
}

/// The program with a threadblock for each run of operations.
fn laned(program: &Program) -> Result<Program, Report> {
    let mut runs: Vec<(Rank, SwitchOp)> = Vec::new();
    for (rank, op) in taken_apart(program)? {
        match runs.last_mut() {
            Some((last, run)) if *last == rank && run.goes_on(&op) => run.count += op.count,
            _ => runs.push((rank, op)),
        }
    }
    let mut builder = program.emptied();
    let mut used: BTreeMap<Rank, u32> = BTreeMap::new();
    for (rank, op) in runs {
        let slot = used.entry(rank).or_insert(0);
        let mut events = Vec::new();
        for transfer in op.transfers(rank, *slot) {
            let id = builder.add(transfer);
            events.extend([id.sent(), id.arrived()]);
        }
        *slot += if op.sums { 2 * op.count } else { op.count };
        builder.add_lane(Lane { rank, kind: LaneKind::Block, channel: 0, events });
    }
    for (rank, chunks) in used {
        builder.set_switch(rank, chunks);
    }
    Ok(builder.build())
}

/// The operations of a program by rank and place, found by the slots that its transfers name.
fn taken_apart(program: &Program) -> Result<Vec<(Rank, SwitchOp)>, Report> {
    let mut into: BTreeMap<Slot, Vec<Transfer>> = BTreeMap::new();
    let mut out: BTreeMap<Slot, Vec<Transfer>> = BTreeMap::new();
    for transfer in program.transfers() {
        if !transfer.is_in_switch() {
            return Err(refused("some data goes through switches and some does not"));
        }
        if transfer.dst.is_switch() {
            into.entry(transfer.dst).or_default().push(*transfer);
        }
        if transfer.src.is_switch() {
            out.entry(transfer.src).or_default().push(*transfer);
        }
    }
    let turned: BTreeSet<Slot> =
        program.transfers().iter().filter(|it| it.src.is_switch()).map(|it| it.dst).collect();
    let mut made: Vec<(Rank, SwitchOp)> = Vec::new();
    for (slot, mut chain) in into {
        if turned.contains(&slot) {
            continue;
        }
        // Sums are the same in whatever order: the lowest rank is copied first.
        chain.sort_by_key(|it| it.src);
        for (index, it) in chain.iter_mut().enumerate() {
            it.action = if index == 0 { Action::Copy } else { Action::Reduce };
        }
        let mut last = out.remove(&slot).unwrap_or_default();
        if let [turn] = last.as_slice()
            && turn.dst.is_switch()
        {
            let turn = *turn;
            chain.push(turn);
            last = out.remove(&turn.dst).unwrap_or_default();
        }
        last.sort_by_key(|it| it.dst);
        chain.extend(last);
        match SwitchOp::parse(|it| chain.get(it).copied()) {
            Some((op, length)) if length == chain.len() => made.push((slot.rank, op)),
            _ => {
                return Err(refused(
                    "a sum in the switch stays with one GPU or is spread by the switch",
                ));
            }
        }
    }
    let place = |(rank, op): &(Rank, SwitchOp)| (*rank, op.targets.clone());
    made.sort_by_key(place);
    Ok(made)
}

/// Numbers switch slots as [`super::read()`] does: in the order of operations, each its own.
#[derive(Debug, Default)]
pub(super) struct SwitchSlots {
    now: BTreeMap<Slot, u32>,
    used: BTreeMap<Rank, u32>,
}

impl SwitchSlots {
    /// Renames the slots of the next transfer.
    pub(super) fn rename(&mut self, transfer: &mut Transfer) {
        if transfer.src.is_switch() {
            transfer.src.offset = self.now.get(&transfer.src).copied().unwrap_or(u32::MAX);
        }
        if !transfer.dst.is_switch() {
            return;
        }
        if transfer.action == Action::Copy {
            let next = self.used.entry(transfer.dst.rank).or_insert(0);
            self.now.insert(transfer.dst, *next);
            *next = next.saturating_add(transfer.count);
        }
        transfer.dst.offset = self.now.get(&transfer.dst).copied().unwrap_or(u32::MAX);
    }

    /// Gives every rank the slots that it uses.
    pub(super) fn settle(self, builder: &mut ProgramBuilder) {
        for (rank, chunks) in self.used {
            builder.set_switch(rank, chunks);
        }
    }
}

/// How many steps from a transfer on are one operation, of the steps of a block.
pub(super) fn length(program: &Program, ids: impl Iterator<Item = TransferId>) -> usize {
    let transfers: Vec<Transfer> = ids.map(|it| *program.transfer(it)).collect();
    SwitchOp::parse(|it| transfers.get(it).copied()).map_or(1, |it| it.1)
}
