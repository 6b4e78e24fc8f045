//! [`sums_once`]: whether all ranks end an AllReduce with the same bits.
//!
//! Additions of floating point are rounded, so two ranks that each add up the same numbers in an order of their own end with
//! results that differ in the last bits. Replicas of a model that are updated by such results drift apart. Where every chunk is added up at one place and
//! copied from there, all ranks have the same bits, whatever they are.

use std::collections::BTreeMap;

use motet_collective::{Action, Buffer, Event, Program, Slot, TransferId};
use motet_units::Rank;

/// Whether every chunk of an AllReduce's output is, on all ranks, a copy of one and the same sum.
#[must_use]
pub fn sums_once(program: &Program) -> bool {
    let forms = program.forms();
    // In place, input and output are one memory.
    let aliases = [(forms.in_place, true), (forms.out_of_place, false)];
    aliases.into_iter().filter(|it| it.0).all(|(_, alias)| alike(program, alias))
}

/// The memory that a slot is in: in place, input and output are one.
fn place(slot: Slot, alias: bool, more: u32) -> (u32, u8, u32) {
    let buffer = match slot.buffer {
        Buffer::Input if alias => Buffer::Output,
        other => other,
    };
    (slot.rank.0, buffer as u8, slot.offset + more)
}

/// Runs the program in one order, with a fresh value for every addition, and compares the ranks' outputs.
fn alike(program: &Program, alias: bool) -> bool {
    let collective = program.collective();
    let mut fresh = 0_u64;
    let mut next = || {
        fresh += 1;
        fresh
    };
    let mut values: BTreeMap<(u32, u8, u32), u64> = BTreeMap::new();
    for rank in (0..collective.ranks()).map(Rank) {
        for offset in 0..collective.input_chunks(rank) {
            values.insert(place(Slot::input(rank, 0), alias, offset), next());
        }
    }
    let mut carried: Vec<Vec<u64>> = vec![Vec::new(); program.transfers().len()];
    for event in in_order(program) {
        let transfer = program.transfer(event.transfer());
        if event.is_sent() {
            let read = (0..transfer.count).map(|it| place(transfer.src, alias, it));
            // What nobody has written a verified program does not use.
            let read = read.map(|it| values.get(&it).copied().unwrap_or(0)).collect();
            carried[event.transfer().index()] = read;
            continue;
        }
        for (more, value) in (0..).zip(std::mem::take(&mut carried[event.transfer().index()])) {
            let new = if transfer.action == Action::Reduce { next() } else { value };
            values.insert(place(transfer.dst, alias, more), new);
        }
    }
    (0..collective.output_chunks(Rank(0))).all(|offset| {
        let of = |rank: u32| values.get(&place(Slot::output(Rank(rank), 0), alias, offset));
        (1..collective.ranks()).all(|rank| of(rank) == of(0))
    })
}

/// The events, each behind all that it waits for.
fn in_order(program: &Program) -> Vec<Event> {
    let events = program.transfers().len() * 2;
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); events];
    let mut waits = vec![0_u32; events];
    let mut add = |before: Event, event: Event| {
        after[before.index()].push(event.index());
        waits[event.index()] += 1;
    };
    for index in 0..events {
        let event = Event::from_index(index);
        program.deps(event).iter().for_each(|it| add(*it, event));
    }
    for transfer in (0..program.transfers().len()).map(TransferId::from_index) {
        add(transfer.sent(), transfer.arrived());
    }
    for lane in program.lanes() {
        lane.events.windows(2).for_each(|it| add(it[0], it[1]));
    }
    let mut order: Vec<Event> = Vec::with_capacity(events);
    let mut ready: Vec<usize> = (0..events).rev().filter(|it| waits[*it] == 0).collect();
    while let Some(index) = ready.pop() {
        order.push(Event::from_index(index));
        for next in &after[index] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effort, Goal, Method, Task, for_sockets, synthesize, unknown_network};
    use motet_collective::{Collective, CollectiveKind, ProgramBuilder, Transfer, Verified};
    use motet_units::{Bytes, Seed};

    /// Two ranks that each add the other's input to their own.
    #[test]
    fn sums_of_their_own_are_found() {
        let collective = Collective::new(CollectiveKind::AllReduce, 2, 1).unwrap();
        let mut builder = ProgramBuilder::new("each its own", collective);
        let (zero, one) = (Rank(0), Rank(1));
        for (rank, other) in [(zero, one), (one, zero)] {
            let own = builder.add(Transfer::copy(Slot::input(rank, 0), Slot::output(rank, 0), 1));
            let sum =
                builder.add(Transfer::reduce(Slot::input(other, 0), Slot::output(rank, 0), 1));
            builder.wait(sum.arrived(), own.arrived());
        }
        assert!(!sums_once(&builder.build()));
    }

    #[test]
    fn a_ring_adds_once() {
        let network = unknown_network(4).unwrap();
        let goal = Goal::new(CollectiveKind::AllReduce, 4).unwrap();
        let task = Task::new(&network, goal, Bytes::mib(1));
        let ring: Method = "ring".parse().unwrap();
        let effort = Effort::normal(Seed::new(1));
        let ring = synthesize(&task, ring, &effort).unwrap().prove(&task).unwrap();
        assert!(sums_once(&ring.program));
    }

    /// What processes run gives all of them the same bits, at any size.
    #[test]
    fn programs_for_sockets_add_once() {
        for ranks in [2, 3, 5, 8] {
            let network = unknown_network(ranks).unwrap();
            let goal = Goal::new(CollectiveKind::AllReduce, ranks).unwrap();
            for bytes in [4, 1 << 12, 1 << 24] {
                let (size, seed) = (Bytes::new(bytes), Seed::new(1));
                let made = for_sockets(&network, false, &goal, size, Method::Auto, seed).unwrap();
                let program: &Verified<Program> = &made.program;
                assert!(sums_once(program), "{ranks} ranks, {bytes} B, {}", program.name());
            }
        }
    }
}
