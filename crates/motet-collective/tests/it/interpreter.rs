//! An independent judge of small programs: it tries every order of events.
//!
//! It shares nothing with the verifier but the [`Program`] type: memory is a map from (rank,
//! buffer, offset) to a multiset of inputs, orders are explored one event at a time, deadlock is
//! being stuck. Exponential, so only for programs of a few dozen events.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::collective::InPlace;
use motet_collective::program::LaneKind;
use motet_collective::{Action, Buffer, Event, Expected, Program, Slot};
use motet_units::Rank;

/// A value: how often each input chunk is in it. Empty: undefined.
type Sum = BTreeMap<(Rank, u32), u64>;
type Cell = (Rank, Buffer, u32);

/// Whether the program is right; `None` if it has more than `most_states` states to try.
pub(crate) fn is_right(program: &Program, most_states: usize) -> Option<bool> {
    let events = program.transfers().len() * 2;
    assert!(events <= 128, "the interpreter is for small programs");
    if !is_well_formed(program, events) {
        return Some(false);
    }
    let waits = waits(program, events);
    if !ends(program, &waits, usize::MAX)
        || !fifo_in_order(program)
        || !ends(program, &waits, program.hints().protocol.fifo_depth())
    {
        return Some(false);
    }
    let forms = program.forms();
    if !forms.in_place && !forms.out_of_place {
        return Some(false);
    }
    for in_place in [false, true] {
        let wanted = if in_place { forms.in_place } else { forms.out_of_place };
        if wanted && !Explorer::new(program, in_place, &waits)?.explore(most_states)? {
            return Some(false);
        }
    }
    Some(true)
}

fn is_well_formed(program: &Program, events: usize) -> bool {
    let collective = program.collective();
    let inside = |slot: Slot, count: u32| {
        slot.rank.0 < collective.ranks() && {
            let size = match slot.buffer {
                Buffer::Input => collective.input_chunks(slot.rank),
                Buffer::Output => collective.output_chunks(slot.rank),
                Buffer::Scratch => program.scratch_chunks(slot.rank),
                Buffer::Switch => program.switch_chunks(slot.rank),
            };
            count > 0 && u64::from(slot.offset) + u64::from(count) <= u64::from(size)
        }
    };
    let ranges =
        program.transfers().iter().all(|it| inside(it.src, it.count) && inside(it.dst, it.count));
    // A switch slot serves one rank.
    let apart = program.transfers().iter().all(|it| {
        let buffers = [it.src.buffer, it.dst.buffer];
        buffers != [Buffer::Switch; 2] || it.src.rank == it.dst.rank
    });
    let waits = (0..events)
        .flat_map(|it| program.deps(Event::from_index(it)))
        .all(|awaited| awaited.index() < events);
    let mut seen = BTreeSet::new();
    let lanes = program.lanes().iter().all(|lane| {
        let owner = match lane.kind {
            LaneKind::Block => true,
            LaneKind::Port { block } => program
                .lanes()
                .get(block as usize)
                .is_some_and(|it| it.rank == lane.rank && it.kind == LaneKind::Block),
        };
        owner
            && lane.events.iter().all(|event| {
                event.index() < events && seen.insert(*event) && {
                    let transfer = program.transfer(event.transfer());
                    transfer.src.rank == lane.rank || transfer.dst.rank == lane.rank
                }
            })
    });
    ranges && apart && waits && lanes
}

/// For each event the set of events it waits for.
fn waits(program: &Program, events: usize) -> Vec<u128> {
    let mut waits = vec![0u128; events];
    for (index, set) in waits.iter_mut().enumerate() {
        let event = Event::from_index(index);
        if !event.is_sent() {
            *set |= 1 << event.transfer().sent().index();
        }
        for awaited in program.deps(event) {
            *set |= 1 << awaited.index();
        }
    }
    for lane in program.lanes() {
        for pair in lane.events.windows(2) {
            waits[pair[1].index()] |= 1 << pair[0].index();
        }
    }
    waits
}

/// The transfers between two threadblock lanes, in sending order, for each such pair of lanes.
fn connections(program: &Program) -> BTreeMap<(usize, usize), Vec<Event>> {
    let lane_of = |event: Event| {
        program
            .lanes()
            .iter()
            .position(|it| it.kind == LaneKind::Block && it.events.contains(&event))
    };
    let mut connections: BTreeMap<_, Vec<Event>> = BTreeMap::new();
    for (from, lane) in program.lanes().iter().enumerate() {
        for event in lane.events.iter().filter(|it| it.is_sent()) {
            let sends = lane.kind == LaneKind::Block;
            if let Some(to) = lane_of(event.transfer().arrived()).filter(|to| sends && *to != from)
            {
                connections.entry((from, to)).or_default().push(*event);
            }
        }
    }
    connections
}

fn fifo_in_order(program: &Program) -> bool {
    connections(program).iter().all(|((_, to), sent)| {
        let place = |it: &Event| {
            program.lanes()[*to].events.iter().position(|e| *e == it.transfer().arrived())
        };
        sent.windows(2).all(|it| place(&it[0]) < place(&it[1]))
    })
}

/// Whether every event happens when each connection has `depth` places. Pieces of as many chunks as
/// a place holds go into and out of a connection one by one. What can happen next never disables anything else, so any
/// order will do.
fn ends(program: &Program, waits: &[u128], depth: usize) -> bool {
    let connections = connections(program);
    let transfers = program.transfers().len();
    let connected = |it: usize| {
        let sent = Event::from_index(it * 2);
        connections.values().find(|connection| connection.contains(&sent))
    };
    let (mut put, mut taken) = (vec![0; transfers], vec![0; transfers]);
    let mut done = 0u128;
    loop {
        let mut moved = false;
        for event in (0..waits.len()).map(Event::from_index) {
            let (bit, id) = (event.index(), event.transfer().index());
            let own = if event.is_sent() { 0 } else { 1u128 << (bit - 1) };
            if done >> bit & 1 == 1 {
                continue;
            }
            let Some(connection) = connected(id) else {
                if waits[bit] & !done == 0 {
                    done |= 1 << bit;
                    moved = true;
                }
                continue;
            };
            // A receiver may begin while the sender still sends.
            if waits[bit] & !own & !done != 0 {
                continue;
            }
            let count = program.transfers()[id].count.div_ceil(program.chunks_per_place()) as usize;
            let held: usize = connection
                .iter()
                .map(|it| it.transfer().index())
                .map(|it| put[it] - taken[it])
                .sum();
            let goes = if event.is_sent() { held < depth } else { taken[id] < put[id] };
            if goes {
                let side = if event.is_sent() { &mut put[id] } else { &mut taken[id] };
                *side += 1;
                if *side == count {
                    done |= 1 << bit;
                }
                moved = true;
            }
        }
        if !moved {
            return done.count_ones() as usize == waits.len();
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    done: u128,
    memory: BTreeMap<Cell, Sum>,
    cargo: BTreeMap<u32, Vec<Sum>>,
}

struct Explorer<'a> {
    program: &'a Program,
    in_place: bool,
    waits: &'a [u128],
    /// What each event first read in each cell.
    reads: BTreeMap<(usize, Cell), Sum>,
    seen: BTreeSet<State>,
}

impl<'a> Explorer<'a> {
    fn new(program: &'a Program, in_place: bool, waits: &'a [u128]) -> Option<Self> {
        Some(Self { program, in_place, waits, reads: BTreeMap::new(), seen: BTreeSet::new() })
    }

    /// One name for the memory behind a slot: in place, the smaller buffer is part of the larger.
    fn cell(&self, slot: Slot, index: u32) -> Cell {
        let offset = slot.offset + index;
        let alias =
            if self.in_place { self.program.collective().in_place(slot.rank) } else { None };
        match (slot.buffer, alias) {
            (Buffer::Input, Some(InPlace::InputInOutput { offset: at })) => {
                (slot.rank, Buffer::Output, at + offset)
            }
            (Buffer::Output, Some(InPlace::OutputInInput { offset: at })) => {
                (slot.rank, Buffer::Input, at + offset)
            }
            _ => (slot.rank, slot.buffer, offset),
        }
    }

    fn start(&self) -> State {
        let collective = self.program.collective();
        let mut memory = BTreeMap::new();
        for rank in (0..collective.ranks()).map(Rank) {
            for offset in 0..collective.input_chunks(rank) {
                if collective.input_defined(rank) {
                    let cell = self.cell(Slot::input(rank, 0), offset);
                    memory.insert(cell, Sum::from([((rank, offset), 1)]));
                }
            }
        }
        State { done: 0, memory, cargo: BTreeMap::new() }
    }

    fn explore(&mut self, most_states: usize) -> Option<bool> {
        if self.in_place
            && (0..self.program.collective().ranks()).all(|rank| {
                matches!(
                    self.program.collective().in_place(Rank(rank)),
                    None | Some(InPlace::Apart)
                )
            })
        {
            return Some(false);
        }
        let mut stack = vec![self.start()];
        while let Some(state) = stack.pop() {
            if self.seen.contains(&state) {
                continue;
            }
            let mut at_end = true;
            for event in 0..self.waits.len() {
                if state.done >> event & 1 == 1 || self.waits[event] & !state.done != 0 {
                    continue;
                }
                at_end = false;
                match self.step(&state, event) {
                    Some(next) => stack.push(next),
                    None => return Some(false),
                }
            }
            if at_end && !self.is_as_asked(&state) {
                return Some(false);
            }
            self.seen.insert(state);
            if self.seen.len() > most_states {
                return None;
            }
        }
        Some(true)
    }

    /// What `event` reads in `cell`; `None` if that is nothing, or not what it read in another
    /// order.
    fn read(&mut self, state: &State, event: usize, cell: Cell) -> Option<Sum> {
        let value = state.memory.get(&cell)?.clone();
        let first = self.reads.entry((event, cell)).or_insert_with(|| value.clone());
        (*first == value).then_some(value)
    }

    fn step(&mut self, state: &State, index: usize) -> Option<State> {
        let event = Event::from_index(index);
        let transfer = *self.program.transfer(event.transfer());
        let mut next = state.clone();
        next.done |= 1 << index;
        if event.is_sent() {
            let values = (0..transfer.count)
                .map(|it| self.read(state, index, self.cell(transfer.src, it)))
                .collect::<Option<Vec<Sum>>>()?;
            next.cargo.insert(event.transfer().0, values);
            return Some(next);
        }
        let values = next.cargo.remove(&event.transfer().0)?;
        for (it, value) in (0..transfer.count).zip(values) {
            let cell = self.cell(transfer.dst, it);
            let mut new = value;
            if transfer.action == Action::Reduce {
                for (input, times) in self.read(&next, index, cell)? {
                    *new.entry(input).or_insert(0) += times;
                }
            }
            next.memory.insert(cell, new);
        }
        Some(next)
    }

    fn is_as_asked(&self, state: &State) -> bool {
        let collective = self.program.collective();
        (0..collective.ranks()).map(Rank).all(|rank| {
            (0..collective.output_chunks(rank)).all(|offset| {
                let wanted: Sum = match collective.expected(rank, offset) {
                    Expected::Anything => return true,
                    Expected::Input { rank, offset } => Sum::from([((rank, offset), 1)]),
                    Expected::Sum { offset } => {
                        (0..collective.ranks()).map(|it| ((Rank(it), offset), 1)).collect()
                    }
                };
                state.memory.get(&self.cell(Slot::output(rank, 0), offset)) == Some(&wanted)
            })
        })
    }
}
